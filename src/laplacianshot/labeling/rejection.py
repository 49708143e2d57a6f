"""Items that fit none of the classes.

Distances to prototypes and probabilities tell such items poorly: the fit has moved prototypes and labels to them. What
is left is the graph. Labels spread over its edges, and little of them comes to items of a class that nobody labelled::

    V = D^-1/2 (W o (leak + P P^T)) D^-1/2
    mass = (1 - a) sum_{t = 0..T} a^t V^t g,    g_i = 1 for labelled items, 0 for others
    strangeness = -log mass

with W the affinity of the fit, P the probabilities, o the product entry by entry and D the row sums: an edge between
items that are thought to be of different classes conducts little.
"""

from __future__ import annotations

import math

import numpy as np
import scipy.sparse as sp

from laplacianshot.inference._threads import row_blocks
from laplacianshot.inference._types import Floats, Ints
from laplacianshot.inference.affinity import normalize
from laplacianshot.inference.prototypes import squared_distances
from laplacianshot.labeling.errors import LabelingError

# What an edge conducts between items of different classes, against one between items surely of the same.
LEAK = 0.1
# Share of the mass that goes on at each step (a), and steps (T).
SPREAD = 0.9
STEPS = 20

# Edges whose probabilities are multiplied at a time.
_BLOCK_EDGES = 8192


def how_strange(probabilities: Floats, codes: Ints, affinity: sp.csr_array) -> Floats:
    """How little each item fits any class: larger is stranger.

    Parameters
    ----------
    probabilities : array of shape (n, C)
        Of each class.
    codes : int array of shape (n,)
        Class of each labelled item, -1 for the others.
    affinity : csr_array of shape (n, n)
        Symmetric, of weights >= 0: ``model.affinity_``.

    Returns
    -------
    float64 array of shape (n,)
        ``-log mass``; about 708 for items that no label reaches.
    """
    V = _conductance(probabilities, affinity)
    given = (codes >= 0).astype(np.float64)
    mass = given
    for _ in range(STEPS):
        # Horner's rule for the sum of powers.
        mass = given + SPREAD * (V @ mass)
    strange: Floats = -np.log(np.maximum((1 - SPREAD) * mass, np.finfo(np.float64).tiny))
    return strange


def _conductance(probabilities: Floats, affinity: sp.csr_array) -> sp.csr_array:
    """V (n, n): the affinity where probabilities agree, normalised."""
    edges = sp.triu(affinity, k=1, format="coo")
    agreement = np.empty(edges.nnz)
    for start, stop in row_blocks(edges.nnz, _BLOCK_EDGES):
        heads, tails = edges.row[start:stop], edges.col[start:stop]
        agreement[start:stop] = np.einsum("ec,ec->e", probabilities[heads], probabilities[tails])
    half = sp.csr_array((edges.data * (LEAK + agreement), (edges.row, edges.col)), shape=affinity.shape)
    return normalize(sp.csr_array(half + half.T))


def strangeness(rows: Floats, codes: Ints, prototypes: Floats, affinity: sp.csr_array) -> Floats:
    """The first version, by distances to prototypes: to be replaced by :func:`how_strange` where it is called.

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
        :func:`how_strange`.
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
