"""Items that fit none of the classes.

Distances to prototypes and probabilities tell such items poorly: the fit has moved prototypes and labels to them. What
is left is the graph. Labels spread over its edges, and little of them comes to items of a class that nobody labeled::

    V = D^-1/2 (W o (leak + P P^T)) D^-1/2
    mass = (1 - a) sum_{t = 0..T} a^t V^t g,    g_i = 1 for labeled items, 0 for others
    strangeness = -log mass

with W the affinity of the fit, P the probabilities, o the product entry by entry and D the row sums: an edge between
items that are thought to be of different classes conducts little.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import scipy.sparse as sp

from laplacianshot.labeling.errors import LabelingError
from laplacianshot.runtime.compilation import kernel
from laplacianshot.runtime.threads import Workers, row_blocks
from laplacianshot.runtime.types import Floats, Ints

# What an edge conducts between items of different classes, against one between items surely of the same.
LEAK = 0.1
# Share of the mass that goes on at each step (a), and steps (T).
SPREAD = 0.9
STEPS = 20

# Rows of a task for a thread, and about how much work an edge is.
_BLOCK_ROWS = 4096
_EDGE_WORK = 20


def novelty_scores(probabilities: Any, codes: Ints, affinity: sp.csr_array) -> Floats:
    """How little each item fits any class: larger is stranger.

    Parameters
    ----------
    probabilities : array or csr_array of shape (n, C)
        Of each class.
    codes : int array of shape (n,)
        Class of each labeled item, -1 for the others.
    affinity : csr_array of shape (n, n)
        Symmetric, of weights >= 0: ``model.affinity_``.

    Returns
    -------
    float64 array of shape (n,)
        ``-log mass``; about 708 for items that no label reaches.
    """
    given, nothing = (codes >= 0).astype(np.float64), np.zeros(len(codes))
    with Workers(affinity.nnz * _EDGE_WORK) as workers:
        edges = _conductances(workers, probabilities, affinity)
        sums = _spread(workers, affinity, edges, np.ones(len(codes)), nothing, np.ones(len(codes)))
        roots = np.divide(1.0, np.sqrt(sums), out=nothing, where=sums > 0)
        mass: Floats = given
        for _ in range(STEPS):
            # Horner's rule for the sum of powers.
            mass = _spread(workers, affinity, edges, SPREAD * roots, given, roots * mass)
    strange: Floats = -np.log(np.maximum((1 - SPREAD) * mass, np.finfo(np.float64).tiny))
    return strange


def _conductances(workers: Workers, probabilities: Any, W: sp.csr_array) -> Floats:
    """The affinity where probabilities agree, for each edge (nnz,)."""
    edges: Floats = np.empty_like(W.data)
    graph = (W.indptr, W.indices, W.data, LEAK, edges)

    def fill(_: int, start: int, stop: int) -> None:
        if sp.issparse(probabilities):
            P = probabilities
            conduct_sparse(P.indptr, P.indices, P.data, P.shape[1], *graph, start, stop)
        else:
            conduct(probabilities, *graph, start, stop)

    workers.run(fill, row_blocks(W.shape[0], _BLOCK_ROWS))
    return edges


def _spread(workers: Workers, W: sp.csr_array, edges: Floats, scale: Floats, given: Floats, mass: Floats) -> Floats:
    """``given + scale (E mass)`` with E (n, n) the edges."""
    out = np.empty(len(mass))

    def step(_: int, start: int, stop: int) -> None:
        spread_rows(W.indptr, W.indices, edges, scale, given, mass, out, start, stop)

    workers.run(step, row_blocks(len(mass), _BLOCK_ROWS))
    return out


def rejected(strange: Floats, codes: Ints, rate: float) -> Ints:
    """Positions of the ``rate`` of unlabeled items that are strangest, ascending.

    Of N unlabeled items ``floor(rate N + 1/2)`` are rejected; of equally strange ones those that come first.

    Parameters
    ----------
    strange : array of shape (n,)
        :func:`novelty_scores`.
    codes : int array of shape (n,)
        -1 for unlabeled items; labeled ones are never rejected.
    rate : float
        From 0 to 1.
    """
    if not 0 <= rate <= 1:
        raise LabelingError(f"reject is {rate}; give the share of the unlabeled items to leave out, from 0 to 1.")
    free = np.flatnonzero(codes < 0)
    count = math.floor(rate * len(free) + 0.5)
    return np.sort(free[np.argsort(-strange[free], kind="stable")[:count]])


# --- Kernels of strangeness: what an edge conducts, and mass that spreads over edges


@kernel
def conduct(
    probabilities: Floats, indptr: Ints, indices: Ints, weights: Floats, leak: float, out: Floats, start: int, stop: int
) -> None:
    """``out_ij = w_ij (leak + p_i . p_j)`` for the edges of rows ``start..stop``, 0 for loops; probabilities (n, C)."""
    for i in range(start, stop):
        own = probabilities[i]
        for e in range(indptr[i], indptr[i + 1]):
            other = probabilities[indices[e]]
            agreement = probabilities.dtype.type(0)
            for c in range(own.shape[0]):
                agreement += own[c] * other[c]
            out[e] = weights[e] * (leak + agreement) if indices[e] != i else 0


@kernel
def conduct_sparse(
    firsts: Ints,
    classes: Ints,
    values: Floats,
    n_classes: int,
    indptr: Ints,
    indices: Ints,
    weights: Floats,
    leak: float,
    out: Floats,
    start: int,
    stop: int,
) -> None:
    """The same for sparse probabilities, as the arrays ``firsts``, ``classes`` and ``values`` of a CSR matrix."""
    own = np.zeros(n_classes, dtype=values.dtype)
    for i in range(start, stop):
        for at in range(firsts[i], firsts[i + 1]):
            own[classes[at]] = values[at]
        for e in range(indptr[i], indptr[i + 1]):
            j = indices[e]
            agreement = values.dtype.type(0)
            for at in range(firsts[j], firsts[j + 1]):
                agreement += own[classes[at]] * values[at]
            out[e] = weights[e] * (leak + agreement) if j != i else 0
        for at in range(firsts[i], firsts[i + 1]):
            own[classes[at]] = 0


@kernel
def spread_rows(
    indptr: Ints,
    indices: Ints,
    weights: Floats,
    scale: Floats,
    given: Floats,
    mass: Floats,
    out: Floats,
    start: int,
    stop: int,
) -> None:
    """``out_i = given_i + scale_i sum_j w_ij mass_j`` over rows ``start..stop``, in float64."""
    for i in range(start, stop):
        total = 0.0
        for e in range(indptr[i], indptr[i + 1]):
            total += np.float64(weights[e]) * mass[indices[e]]
        out[i] = given[i] + scale[i] * total
