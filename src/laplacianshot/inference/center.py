"""The center of CL2 when no base mean is given.

The mean of all rows is the best center while classes are about equally frequent. When few of them are present it lies
inside one of them, and what tells that class apart is centered away; there the mean of the support is better. Which of
the two it is can be seen from a first look at the queries.
"""

from __future__ import annotations

from typing import TypeVar

import numpy as np
from numpy.typing import ArrayLike

from laplacianshot.inference.prototypes import class_means, squared_distances
from laplacianshot.inference.recipes import DefaultConstants
from laplacianshot.inference.temperature import choose_tau, divergence, mean_squared_distance
from laplacianshot.inference.transforms import base_mean, transform_features
from laplacianshot.runtime.softmax import softmax
from laplacianshot.runtime.types import Floats, Ints

# Divergence of the class shares at first look at which the center has moved by 1 - 1/e from all rows to the support: at
# least, and as a multiple of (C - 1) / N.
LEAST_FADE = 0.2
CHANCE_FADE = 3.75

# Numbers of rows.
Rows = TypeVar("Rows", Ints, range)

# Queries looked at, evenly spaced among all of them.
_FIRST_LOOK = 4096


def blended_center(X: Floats, codes: Ints, n_classes: int, *, balanced: bool = False) -> Floats:
    """A center between the mean of all rows and that of the support.

    With b the mean of all rows, s the mean of the support's class means, and p the class shares that the first
    prototypes find about s::

        center = s + w (b - s),    w = exp(-KL(p|u) / max(0.2, 3.75 (C - 1) / N)),    w = 1 if balanced

    The first look is at 4,096 queries, or at all if there are fewer.

    Parameters
    ----------
    X : array of shape (n, D)
        Rows as they are given.
    codes : int array of shape (n,)
        Classes in ``0..C-1``, each at least once, -1 for queries.
    n_classes : int
    balanced : bool
        The queries are known to hold as many of each class.

    Returns
    -------
    array of shape (D,), float64
    """
    pooled = base_mean(X)
    labeled, queries = np.flatnonzero(codes >= 0), np.flatnonzero(codes < 0)
    if balanced or len(queries) == 0:
        return pooled
    seen = X[first_seen(queries)]
    return center_between(pooled, X[labeled], codes[labeled], seen, len(queries), n_classes)


def first_seen(queries: Rows) -> Rows:
    """Those of the queries (N,) that the first look is at."""
    return queries[:: -(-len(queries) // _FIRST_LOOK)]


def center_between(pooled: Floats, support: Floats, labels: Ints, seen: Floats, n_query: int, n_classes: int) -> Floats:
    """What :func:`blended_center` gives, from the mean of all rows (D,) and the few rows that it reads.

    Parameters
    ----------
    pooled : array of shape (D,)
        b.
    support : array of shape (n_s, D)
        Labeled rows as they are given.
    labels : int array of shape (n_s,)
    seen : array of shape (m, D)
        Queries at :func:`first_seen`, as they are given.
    n_query, n_classes : int
    """
    support_center = class_means(support.astype(np.float64), labels, n_classes).mean(axis=0)
    shares = _first_shares(support, labels, seen, n_query, support_center, n_classes)
    weight = np.exp(-divergence(shares) / max(LEAST_FADE, CHANCE_FADE * (n_classes - 1) / n_query))
    center: Floats = support_center + weight * (pooled - support_center)
    return center


def _first_shares(support: Floats, labels: Ints, seen: Floats, n_query: int, center: Floats, n_classes: int) -> Floats:
    """Class shares (C,) of ``softmax(-tau a)`` at the first prototypes, rows centered on ``center``."""
    constants = DefaultConstants.for_task(len(support), n_query, n_classes)
    support = transform_features(support, "cl2", center)
    counts = np.bincount(labels, minlength=n_classes)[:, None]
    shrink = constants.beta * counts / (constants.beta * counts + constants.kappa)
    prototypes = (class_means(support, labels, n_classes) * shrink).astype(support.dtype)
    rows = transform_features(seen, "cl2", center)
    unary = squared_distances(rows, prototypes, wide=False)
    tau = choose_tau(unary, mean_squared_distance(rows), constants.pair_spread)
    shares: Floats = softmax(unary * -unary.dtype.type(tau)).mean(axis=0, dtype=np.float64)
    return shares


def given_center(given: ArrayLike, n_features: int) -> Floats:
    """A base mean, or the mean of a base set, as (D,) float64, or an error that says what is wrong with it."""
    try:
        center = np.asarray(given)
    except ValueError as error:
        raise ValueError(f"base_mean must be an array of shape (D,) or (n_base, D): {error}") from None
    if center.dtype.kind not in "fiu":
        raise TypeError(f"base_mean must hold numbers, got dtype {center.dtype}.")
    shape = center.shape
    if center.ndim == 2 and len(center) > 0:
        center = base_mean(center)
    if center.shape != (n_features,):
        raise ValueError(
            f"base_mean has shape {shape}, expected ({n_features},), or (n_base, {n_features}) for a base set: a value "
            "for each feature of X."
        )
    if not np.all(np.isfinite(center)):
        raise ValueError("base_mean has NaN or infinite entries.")
    return center.astype(np.float64)
