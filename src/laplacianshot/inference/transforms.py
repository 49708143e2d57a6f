"""Feature transforms: none, L2, centered L2 of rows (CL2) or roots (power), standard columns; and their centers."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TypeVar

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import softmax

from laplacianshot.inference.prototypes import class_means, squared_distances
from laplacianshot.inference.recipes import DefaultConstants
from laplacianshot.inference.temperature import choose_tau, divergence, mean_squared_distance
from laplacianshot.neighbors.knn import knn
from laplacianshot.runtime.arrays import mean_of_rows
from laplacianshot.runtime.types import CENTERED, Floats, Ints, Transform, working_dtype

# KL divergence of the first class shares at which the center has moved by 1 - 1/e from the mean of all rows to that of
# the support: a minimum, and a multiple of (C - 1) / N.
MIN_FADE = 0.2
CHANCE_FADE = 3.75

# Queries that the first class shares are estimated from, evenly spaced among all of them.
_SAMPLE_ROWS = 4096

# Columns up to which rows are taken for a table, and up to which they are if they have neither few different values nor
# lengths that differ by less than a hundredth; and how much more one column may vary than most in other rows.
TABLE_COLUMNS = 40
WIDE_TABLE_COLUMNS = 100
_EQUAL_LENGTH = 0.01
MIXED_SCALES = 30.0
# Different values up to which rows are taken for gray levels or counts; how many of them are asked for their neighbors,
# for how many, and how often these must choose one another.
MAX_LEVELS = 257
_ASKED_ROWS = 1024
_ASKED_NEIGHBORS = 10
_AS_OFTEN = 0.95
# A row that is this much farther from the middle than half of the rows is left out of means and standard deviations.
_FAR = 1000.0
# Largest standard value: what is farther out counts as this far.
MAX_STANDARD = 10.0

# How much longer than one a mean of rows of length one may be, as it was written and read.
_ROUNDED = 1e-3

# Row numbers.
Rows = TypeVar("Rows", Ints, range)


def transform_features(
    X: Floats,
    transform: Transform,
    center: Floats | None = None,
    *,
    scale: Floats | None = None,
    rows: Ints | None = None,
) -> Floats:
    """Bring features into the space in which prototypes and neighbors are compared.

    ============  =======================================================================
    ``none``      ``x``
    ``l2``        ``x / |x|``
    ``cl2``       ``(x - center) / |x - center|``
    ``power``     ``(z - center) / |z - center|``, with ``z`` the :func:`unit_roots` of x
    ``standard``  ``(x - center) * scale``, from -10 to 10
    ============  =======================================================================

    A row of norm zero stays zero. The result is a new C-contiguous array.

    Parameters
    ----------
    X : array of shape (n, D)
    transform : {"none", "l2", "cl2", "power", "standard"}
    center : array of shape (D,), for ``cl2``, ``power`` and ``standard``
    scale : array of shape (D,), for ``standard``
    rows : int array of shape (m,), optional
        Which rows, in which order; default: all of them as they are.

    Returns
    -------
    array of shape (n, D) or (m, D), float32 or float64
    """
    if transform in CENTERED and center is None:
        raise ValueError(f"transform={transform!r} needs a center of shape (D,).")
    if transform == "standard":
        if center is None or scale is None:
            raise ValueError("transform='standard' needs a center and a scale of shape (D,).")
        chosen = X if rows is None else X[rows]
        standard: Floats = np.empty(chosen.shape, working_dtype(X))
        for part, block in _blocks(chosen):
            standard[part] = np.clip((block - center) * scale, -MAX_STANDARD, MAX_STANDARD)
        return standard
    dtype = working_dtype(X)
    if transform == "power":
        out = unit_roots(X if rows is None else X[rows])
    else:
        out = np.array(X, dtype, order="C") if rows is None else np.ascontiguousarray(X[rows], dtype)
    negligible = 0.0
    if transform in CENTERED and center is not None:
        out -= center.astype(dtype)
        # What is left of a row equal to the center is rounding, not a direction.
        negligible = 8 * float(np.finfo(dtype).eps) * float(np.linalg.norm(center))
    if transform != "none":
        _normalize(out, negligible)
    return out


def _normalize(rows: Floats, negligible: float) -> None:
    """Divide each row by its norm, in place; rows of a norm up to ``negligible`` become zero."""
    squares = np.einsum("nd,nd->n", rows, rows)
    info = np.finfo(rows.dtype)
    extreme = (squares < info.tiny / info.eps) | ~np.isfinite(squares)
    if extreme.any():
        # Squares of huge and of tiny rows leave the range of the type: scale those rows by their largest entry first.
        scaled = rows[extreme]
        largest = np.abs(scaled).max(axis=1, initial=0.0)
        scaled /= np.where(largest > negligible, largest, np.inf)[:, None]
        rows[extreme] = scaled
        squares[extreme] = np.einsum("nd,nd->n", scaled, scaled)
    norms = np.sqrt(squares)
    rows[~extreme & (norms <= negligible)] = 0
    rows /= np.where(norms > 0, norms, 1)[:, None]


def signed_roots(X: Floats, offset: float = 0.0) -> Floats:
    """``sign(x) sqrt(|x| + offset)`` of every entry of X (n, D): a new array, float32 or float64."""
    values = np.asarray(X, working_dtype(X))
    roots: Floats = np.abs(values)
    roots += roots.dtype.type(offset)
    np.sqrt(roots, out=roots)
    np.copysign(roots, values, out=roots)
    return roots


def unit_roots(X: Floats) -> Floats:
    """Rows ``z = r / |r|`` with ``r_d = sign(x_d) sqrt(|x_d|)``: ``z_d^2`` is the share of ``|x_d|`` in the row's sum.

    Large entries count less than in ``x / |x|``: activations after a ReLU have few large ones and many small ones.
    X (n, D) to (n, D), float32 or float64; a row of zeros stays zero.
    """
    rows = np.ascontiguousarray(signed_roots(X))
    _normalize(rows, 0.0)
    return rows


def before_center(X: Floats, transform: str) -> Floats:
    """What a transform takes its center from: the :func:`unit_roots` of X (n, D) for ``power``, else X itself."""
    return unit_roots(X) if transform == "power" else X


def base_mean(features: ArrayLike, transform: str = "cl2") -> Floats:
    """Mean of a base set, ``(1/n_base) sum_i x_i``: the center that CL2 takes away; of its unit roots for ``power``.

    Parameters
    ----------
    features : array of shape (n_base, D)
        Features of the base classes, in memory or memory-mapped.
    transform : str
        What the center is for: ``(1/n_base) sum_i z_i`` with z the :func:`unit_roots` of x for ``"power"``.

    Returns
    -------
    array of shape (D,), float64
    """
    rows = np.asanyarray(features)
    if rows.ndim != 2 or rows.shape[0] == 0:
        raise ValueError(f"features must be a non-empty array of shape (n_base, D), got shape {rows.shape}.")
    return mean_of_rows(_UnitRoots(rows) if transform == "power" else rows)


class _UnitRoots:
    """The :func:`unit_roots` of rows (n, D), formed when they are asked for."""

    def __init__(self, rows: Floats) -> None:
        self._rows = rows
        self.shape, self.size = rows.shape, rows.size

    def __len__(self) -> int:
        return len(self._rows)

    def __getitem__(self, part: slice) -> Floats:
        return unit_roots(self._rows[part])


def choose_transform(X: Floats, lowest: float | None = None) -> Transform:
    """The transform that suits rows (n, D).

    ``standard`` for a table. Rows of few different values, which are gray levels or counts, stay as they are (``none``)
    or take ``cl2`` (:func:`are_levels`). All others are vectors of an encoder: ``power`` if no entry is negative, as
    after a ReLU, else ``cl2``. ``lowest`` is the smallest entry, where X has only some of the rows.
    """
    if is_table(X):
        return "standard"
    if has_levels(X):
        return "none" if are_levels(X) else "cl2"
    return "power" if (float(X.min()) if lowest is None else lowest) >= 0 else "cl2"


def choose_centered(X: Floats) -> Transform:
    """``power`` where :func:`choose_transform` takes it for rows (n, D), else ``cl2``: for work that needs a center."""
    return "power" if choose_transform(X) == "power" else "cl2"


def is_table(X: Floats) -> bool:
    """Whether rows (n, D) look like a table of measurements rather than vectors whose direction counts.

    They have at most 40 columns; or at most 100, with more different values than gray levels have and lengths that
    differ, unlike those of many encoders; or one column that varies 30 times as much as half of them.
    """
    if X.shape[1] <= TABLE_COLUMNS:
        return True
    if X.shape[1] <= WIDE_TABLE_COLUMNS and not has_levels(X) and not _have_one_length(X):
        return True
    spread = _some_rows(X).std(axis=0)
    spread = spread[spread > 0]
    return len(spread) > 0 and bool(spread.max() > MIXED_SCALES * np.median(spread))


def _have_one_length(X: Floats) -> bool:
    """Whether rows (n, D) have all the same length, as those of many encoders do."""
    lengths = np.linalg.norm(_asked_rows(X).astype(np.float64), axis=1)
    return float(np.ptp(lengths)) <= _EQUAL_LENGTH * float(lengths.max())


def are_levels(X: Floats) -> bool:
    """Whether rows (n, D) are gray levels or counts that are best compared as they are.

    They :func:`have few different values <has_levels>`, and rows choose one another as neighbors about as often as they
    do when they are centered and brought to length one: of the 10 nearest rows at least 0.95 times as many.
    """
    if len(X) <= _ASKED_NEIGHBORS or not has_levels(X):
        return False
    few = _asked_rows(X).astype(np.float64)
    as_they_are, directions = few - few.mean(axis=0), transform_features(few, "cl2", few.mean(axis=0))
    return _mutual_neighbors(as_they_are) >= _AS_OFTEN * _mutual_neighbors(directions)


def has_levels(X: Floats) -> bool:
    """Whether rows (n, D) have at most 257 different values."""
    few = _asked_rows(X)
    return all(len(np.unique(part)) <= MAX_LEVELS for part in (few[:64], few))


def _asked_rows(X: Floats) -> Floats:
    """At most 1,024 rows, evenly spaced."""
    seen = first_seen(np.arange(len(X)))
    return X[seen[:: -(-len(seen) // _ASKED_ROWS)]]


def _mutual_neighbors(rows: Floats) -> float:
    """Share of the 10 nearest rows of each row (m, D) that have it among their own."""
    near = knn(rows, _ASKED_NEIGHBORS, method="exact", distances=False).indices
    pairs = np.repeat(np.arange(len(near)), near.shape[1]) * len(near) + near.ravel()
    back = near.ravel() * len(near) + np.repeat(np.arange(len(near)), near.shape[1])
    return float(np.isin(pairs, back).mean())


def standard_columns(X: Floats) -> tuple[Floats, Floats]:
    """Mean and inverse standard deviation of each column (D,), the latter 0 where a column is constant.

    Rows that are far from all others are left out (:func:`ordinary_range`).
    """
    middle, limit = ordinary_range(X[first_seen(np.arange(len(X)))])
    found = standard_of(middle, column_sums(X, middle, limit), len(X))
    if found is None:
        found = standard_of(middle, column_sums(X, middle, np.full_like(limit, np.inf)), len(X))
        assert found is not None
    return found


def column_sums(X: Floats, middle: Floats, limit: Floats) -> Floats:
    """Over the rows (n, D) within a limit (D,) of the middle (D,): their number, gaps and squared gaps, (3, D)."""
    sums = np.zeros((3, X.shape[1]))
    for _, block in _blocks(X):
        gaps = block - middle
        gaps = gaps[np.all(np.abs(gaps) <= limit, axis=1)]
        sums += [np.full(X.shape[1], len(gaps)), gaps.sum(axis=0), np.square(gaps).sum(axis=0)]
    return sums


def standard_of(middle: Floats, sums: Floats, n: int) -> tuple[Floats, Floats] | None:
    """Mean and inverse standard deviation (D,) from :func:`column_sums`; None if not half of the n rows counted."""
    counts, gaps, squares = sums
    if np.any(2 * counts <= n):
        return None
    center = middle + gaps / counts
    spread = np.sqrt(np.maximum(squares / counts - np.square(gaps / counts), 0))
    # What is left of a constant column is rounding.
    constant = spread <= 1e-12 * (np.abs(center) + spread)
    return center, np.divide(1.0, spread, out=np.zeros_like(spread), where=~constant)


def ordinary_range(some: Floats) -> tuple[Floats, Floats]:
    """The middle (D,) of some rows (m, D), and how far from it rows are ordinary, in every column (D,).

    The middle is the median of each column. A row is ordinary that is less than 1,000 times as far from it as half of
    the rows.
    """
    some = np.asarray(some, np.float64)
    middle = np.median(some, axis=0)
    gaps = np.abs(some - middle)
    typical = np.median(gaps, axis=0)
    # A column that is mostly constant has no typical gap: take the mean of those there are, without the largest.
    rare = np.sort(gaps, axis=0)[: max(1, len(gaps) - 1 - len(gaps) // 100)]
    typical = np.where(typical > 0, typical, rare.mean(axis=0))
    return middle, _FAR * np.where(typical > 0, typical, np.inf)


def ordinary_mean(X: Floats) -> Floats:
    """The mean of rows (n, D), without rows that lie 1,000 times as far from the middle as half of them: (D,), float64.

    One such row would move the mean by more than all others together.
    """
    mean = base_mean(X)
    some = _some_rows(X)
    middle = np.median(some, axis=0)
    reach = float(np.median(np.linalg.norm(some - middle, axis=1)))
    if not 0 < reach < 2 * float(np.linalg.norm(mean - middle)):
        return mean
    total, count = np.zeros_like(mean), 0
    for _, block in _blocks(X):
        near = block[np.linalg.norm(block - middle, axis=1) <= _FAR * reach]
        total, count = total + near.sum(axis=0), count + len(near)
    return mean if count == len(X) else total / count


def _some_rows(X: Floats) -> Floats:
    """Rows to look at, evenly spaced, in float64."""
    return np.asarray(X[first_seen(np.arange(len(X)))], np.float64)


def _blocks(X: Floats) -> Iterator[tuple[slice, Floats]]:
    """Blocks of rows (m, D) in float64, and where they are."""
    for start in range(0, len(X), _SAMPLE_ROWS):
        part = slice(start, start + _SAMPLE_ROWS)
        yield part, np.asarray(X[part], np.float64)


def given_center(given: ArrayLike, n_features: int, transform: str = "cl2") -> Floats:
    """A base mean, or the :func:`base_mean` of a base set, as (D,) float64, or an error that says what is wrong."""
    try:
        center = np.asarray(given)
    except ValueError as error:
        raise ValueError(f"base_mean must be an array of shape (D,) or (n_base, D): {error}") from None
    if center.dtype.kind not in "fiu":
        raise TypeError(f"base_mean must hold numbers, got dtype {center.dtype}.")
    shape = center.shape
    if center.ndim == 2 and len(center) > 0:
        center = base_mean(center, transform)
    if center.shape != (n_features,):
        raise ValueError(
            f"base_mean has shape {shape}, expected ({n_features},), or (n_base, {n_features}) for a base set: a value "
            "for each feature of X."
        )
    if not np.all(np.isfinite(center)):
        raise ValueError("base_mean has NaN or infinite entries.")
    if transform == "power" and (length := float(np.linalg.norm(center.astype(np.float64)))) > 1 + _ROUNDED:
        raise ValueError(
            f"base_mean has length {length:.3g}; with transform='power' it must be a mean of rows of length one: give "
            "the base set itself, of shape (n_base, D)."
        )
    return center.astype(np.float64)


def blended_center(
    X: Floats, codes: Ints, n_classes: int, *, balanced: bool = False, transform: Transform = "cl2"
) -> Floats:
    """The center when no base mean is given: between the mean of all rows and that of the support.

    The mean of all rows b is the best center while classes are about equally frequent. When few of them are present it
    lies inside one of them, and centering removes what distinguishes that class: there s, the mean of the support's
    class means, is better. With p the class shares that the first prototypes give about s::

        center = s + w (b - s),    w = exp(-KL(p|u) / max(0.2, 3.75 (C - 1) / N)),    w = 1 if balanced

    The shares are estimated from at most 4,096 queries. Rows are x for ``cl2``, its :func:`unit_roots` for ``power``.

    Parameters
    ----------
    X : array of shape (n, D)
        Rows before any transform.
    codes : int array of shape (n,)
        Classes in ``0..C-1``, each at least once, -1 for queries.
    n_classes : int
    balanced : bool
        Whether the queries are known to hold equally many rows of each class.
    transform : {"cl2", "power"}

    Returns
    -------
    array of shape (D,), float64
    """
    # No row of length one lies far from the others.
    pooled = base_mean(X, transform) if transform == "power" else ordinary_mean(X)
    labeled, queries = np.flatnonzero(codes >= 0), np.flatnonzero(codes < 0)
    if balanced or len(queries) == 0:
        return pooled
    support, sample = (before_center(X[rows], transform) for rows in (labeled, first_seen(queries)))
    return center_between(pooled, support, codes[labeled], sample, len(queries), n_classes)


def first_seen(queries: Rows) -> Rows:
    """The sample of the queries (N,) that the first class shares are estimated from."""
    return queries[:: -(-len(queries) // _SAMPLE_ROWS)]


def center_between(
    pooled: Floats, support: Floats, labels: Ints, sample: Floats, n_query: int, n_classes: int
) -> Floats:
    """The center of :func:`blended_center` from the mean of all rows (D,) and the few rows that it reads.

    Parameters
    ----------
    pooled : array of shape (D,)
        b.
    support : array of shape (n_s, D)
        Labeled rows that the center is taken from (:func:`before_center`).
    labels : int array of shape (n_s,)
    sample : array of shape (m, D)
        Queries at :func:`first_seen`, like the support.
    n_query, n_classes : int
    """
    s = class_means(support.astype(np.float64), labels, n_classes).mean(axis=0)
    p = _first_shares(support, labels, sample, n_query, s, n_classes)
    w = np.exp(-divergence(p) / max(MIN_FADE, CHANCE_FADE * (n_classes - 1) / n_query))
    center: Floats = s + w * (pooled - s)
    return center


def _first_shares(
    support: Floats, labels: Ints, sample: Floats, n_query: int, center: Floats, n_classes: int
) -> Floats:
    """Class shares (C,) of ``softmax(-tau a)`` at the first prototypes, rows centered on ``center``."""
    constants = DefaultConstants.for_task(len(support), n_query, n_classes)
    support, rows = (transform_features(X, "cl2", center) for X in (support, sample))
    mass = constants.beta * np.bincount(labels, minlength=n_classes)[:, None]
    prototypes = class_means(support, labels, n_classes) * (mass / (mass + constants.kappa))
    a = squared_distances(rows, prototypes, wide=False)
    tau = choose_tau(a, mean_squared_distance(rows), constants.pair_spread)
    shares: Floats = softmax(a * -a.dtype.type(tau), axis=1).mean(axis=0, dtype=np.float64)
    return shares
