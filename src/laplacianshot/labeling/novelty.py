"""Novelty: how little an item fits any of the classes.

Distances to prototypes and probabilities are poor measures of it: the fit has moved prototypes and labels toward such
items. The graph is a better one. Labels spread over its edges, and few reach items of a class that nobody labeled::

    V = D^-1/2 (W o (LEAK + P P^T)) D^-1/2
    mass = (1 - a) sum_{t = 0..T} a^t V^t s,    s_i = 1 for labeled items, 0 for others
    novelty = -log mass

with W the affinity of the fit, P the class probabilities, o the product entry by entry and D the row sums: an edge
between items of different classes conducts little.
"""

from __future__ import annotations

import math
from functools import partial
from typing import Any

import numpy as np
import scipy.sparse as sp

from laplacianshot.labeling.evidence import ClassRows
from laplacianshot.runtime.compilation import kernel
from laplacianshot.runtime.limits import SMALL_ROWS
from laplacianshot.runtime.threads import Workers, row_blocks
from laplacianshot.runtime.types import Floats, Ints

# What an edge conducts between items of different classes; 1 + LEAK between items that are surely of the same class.
LEAK = 0.1
# a, the share of the mass that goes on at each step, and T, the number of steps.
SPREAD = 0.9
STEPS = 20

# One in this many items of a class without labels stands for a labeled one.
_SEED_SHARE = 20

# Rows per task of a thread, and about how many operations an edge takes.
_BLOCK_ROWS = 4096
_EDGE_WORK = 20


def novelty_scores(probabilities: Any, codes: Ints, affinity: sp.csr_array) -> Floats:
    """Return the novelty (n,) of each item in float64: ``-log mass``, about 708 for items that no label reaches.

    From P (n, C), dense or sparse, the class numbers (n,) of the labeled items, -1 for the others, and W (n, n),
    symmetric with weights >= 0: ``model.affinity_``.
    """
    labeled = (codes >= 0).astype(np.float64)
    edges = _conductances(probabilities, affinity)
    sums = edges @ np.ones(len(codes))
    roots = np.divide(1.0, np.sqrt(sums), out=np.zeros(len(codes)), where=sums > 0)
    mass: Floats = labeled
    for _ in range(STEPS):
        # Horner's rule for the sum of powers.
        mass = labeled + SPREAD * roots * (edges @ (roots * mass))
    novelty: Floats = -np.log(np.maximum((1 - SPREAD) * mass, np.finfo(np.float64).tiny))
    return novelty


def seeds(probabilities: Any, codes: Ints, n_classes: int) -> Ints:
    """Return class numbers (n,) with labels for classes that have none: of their surest items, one in twenty.

    ``probabilities`` are (n, C); labeled items keep their labels.
    """
    found = codes.copy()
    free = np.flatnonzero(codes < 0)
    of_rows = ClassRows(probabilities, free)
    labels, sure = np.empty(len(free), np.int64), np.empty(len(free))
    for start, stop in of_rows.blocks():
        block = of_rows[start:stop]
        labels[start:stop], sure[start:stop] = block.argmax(axis=1), block.max(axis=1)
    for c in np.setdiff1d(np.arange(n_classes), codes):
        own = np.flatnonzero(labels == c)
        found[free[own[np.argsort(-sure[own], kind="stable")[: -(-len(own) // _SEED_SHARE)]]]] = c
    return found


def rejected(novelty: Floats, codes: Ints, rate: float) -> Ints:
    """Return the ``floor(rate N + 1/2)`` of N unlabeled items with the highest novelty, ascending.

    Novelty and codes have shape (n,); codes are -1 for unlabeled items. Among equals the first are rejected.
    """
    free = np.flatnonzero(codes < 0)
    count = math.floor(rate * len(free) + 0.5)
    return np.sort(free[np.argsort(-novelty[free], kind="stable")[:count]])


def _conductances(P: Any, W: sp.csr_array) -> sp.csr_array:
    """Return ``W o (LEAK + P P^T)`` (n, n) without loops."""
    n = W.shape[0]
    if n <= SMALL_ROWS:
        heads, tails = np.repeat(np.arange(n), np.diff(W.indptr)), W.indices
        edges = W.data * (LEAK + _agreement(P, heads, tails)) * (heads != tails)
    else:
        edges = np.empty(W.nnz)
        graph = (W.indptr, W.indices, W.data, edges)
        if sp.issparse(P):
            fill: Any = partial(_conduct_sparse, P.indptr, P.indices, P.data, P.shape[1], *graph)
        else:
            fill = partial(_conduct, P, *graph)
        with Workers(W.nnz * _EDGE_WORK) as workers:
            workers.run(lambda _, start, stop: fill(start, stop), row_blocks(n, _BLOCK_ROWS))
    return sp.csr_array((edges, W.indices, W.indptr), shape=W.shape)


def _agreement(P: Any, heads: Ints, tails: Ints) -> Floats:
    """Return ``p_i . p_j`` of each edge (nnz,), in float64."""
    if sp.issparse(P):
        P = P.astype(np.float64)
        products: Floats = np.asarray((P[heads] * P[tails]).sum(axis=1)).ravel()
        return products
    out = np.empty(len(heads))
    # Two gathered blocks of about 16 MB each.
    for start, stop in row_blocks(len(heads), max(1, 2**21 // P.shape[1])):
        block = slice(start, stop)
        np.einsum("ec,ec->e", P[heads[block]], P[tails[block]], out=out[block], dtype=np.float64)
    return out


@kernel
def _conduct(P: Floats, indptr: Ints, indices: Ints, W: Floats, out: Floats, start: int, stop: int) -> None:
    """``out_ij = W_ij (LEAK + p_i . p_j)`` for the edges of rows ``start`` to ``stop``, 0 for loops."""
    for i in range(start, stop):
        own = P[i]
        for e in range(indptr[i], indptr[i + 1]):
            other = P[indices[e]]
            agreement = P.dtype.type(0)
            for c in range(own.shape[0]):
                agreement += own[c] * other[c]
            out[e] = W[e] * (LEAK + agreement) if indices[e] != i else 0


@kernel
def _conduct_sparse(
    firsts: Ints,
    classes: Ints,
    values: Floats,
    n_classes: int,
    indptr: Ints,
    indices: Ints,
    W: Floats,
    out: Floats,
    start: int,
    stop: int,
) -> None:
    """The same for a sparse P, given by the arrays ``firsts``, ``classes`` and ``values`` of its CSR form."""
    own = np.zeros(n_classes, dtype=values.dtype)
    for i in range(start, stop):
        for at in range(firsts[i], firsts[i + 1]):
            own[classes[at]] = values[at]
        for e in range(indptr[i], indptr[i + 1]):
            j = indices[e]
            agreement = values.dtype.type(0)
            for at in range(firsts[j], firsts[j + 1]):
                agreement += own[classes[at]] * values[at]
            out[e] = W[e] * (LEAK + agreement) if j != i else 0
        for at in range(firsts[i], firsts[i + 1]):
            own[classes[at]] = 0
