"""Items that fit none of the classes."""

from __future__ import annotations

import math

import numpy as np
import scipy.sparse as sp

from laplacianshot.inference._types import Floats, Ints
from laplacianshot.inference.prototypes import squared_distances
from laplacianshot.labeling.errors import LabelingError


def strangeness(rows: Floats, codes: Ints, prototypes: Floats, affinity: sp.csr_array) -> Floats:
    """How little each item fits any class, (n,): larger is stranger; only the order means something.

    Parameters
    ----------
    rows : array of shape (n, D)
        Items in the space of the fit: ``transform_features(X, "cl2", model.center_)``.
    codes : int array of shape (n,)
        Class of each labelled item, -1 for the others.
    prototypes : array of shape (C, D)
        ``model.prototypes_``.
    affinity : csr_array of shape (n, n)
        ``model.affinity_``.

    Returns
    -------
    float64 array of shape (n,)
    """
    nearest: Floats = squared_distances(rows, prototypes).min(axis=1).astype(np.float64)
    degrees = affinity.sum(axis=1)
    around = np.divide(affinity @ nearest, degrees, out=nearest.copy(), where=degrees > 0)
    strange: Floats = (nearest + around) / 2
    return strange


def rejected(strange: Floats, codes: Ints, rate: float) -> Ints:
    """Positions of the ``rate`` of unlabelled items that are strangest, ascending.

    Of N unlabelled items ``floor(rate N + 1/2)`` are rejected; of equally strange ones those that come first.

    Parameters
    ----------
    strange : array of shape (n,)
        :func:`strangeness`.
    codes : int array of shape (n,)
        -1 for unlabelled items; labelled ones are never rejected.
    rate : float
        From 0 to 1.
    """
    if not 0 <= rate <= 1:
        raise LabelingError(f"reject is {rate}; give the share of the unlabelled items to leave out, from 0 to 1.")
    free = np.flatnonzero(codes < 0)
    count = math.floor(rate * len(free) + 0.5)
    return np.sort(free[np.argsort(-strange[free], kind="stable")[:count]])
