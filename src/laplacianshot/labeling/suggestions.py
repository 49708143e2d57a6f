"""What to label next: items that stand for many others about which little is known yet."""

from __future__ import annotations

import numpy as np
import scipy.sparse as sp

from laplacianshot.inference._types import Floats, Ints
from laplacianshot.inference.affinity import knn_affinity

# Neighbours of an item where the caller has no graph.
_NEIGHBORS = 10


def suggest(
    rows: Floats, probabilities: Floats, codes: Ints, n_suggestions: int, *, affinity: sp.csr_array | None = None
) -> Ints:
    """Unlabelled items that a person should label next, the most useful first.

    Parameters
    ----------
    rows : array of shape (n, D)
        Items in the space of the fit: ``transform_features(X, "cl2", model.center_)``.
    probabilities : array of shape (n, C)
        Of each class; rows of labelled items are not read.
    codes : int array of shape (n,)
        Class of each labelled item, -1 for the others.
    n_suggestions : int
        How many; at most as many as there are unlabelled items.
    affinity : csr_array of shape (n, n), optional
        Graph between the items, such as ``model.affinity_``; neighbours are sought if it is not given.

    Returns
    -------
    int array of shape (min(n_suggestions, unlabelled),)
        Positions in ``rows``.
    """
    need = 1 - np.asarray(probabilities, dtype=np.float64).max(axis=1)
    need[codes >= 0] = 0
    return _cover(_kernel(rows, affinity), need, codes, n_suggestions)


def suggest_first(rows: Floats, n_suggestions: int, *, affinity: sp.csr_array | None = None) -> Ints:
    """Items to label first when nothing is labelled yet: typical of many others and unlike one another.

    Parameters
    ----------
    rows : array of shape (n, D)
        Items as ``transform_features(X, "cl2", base_mean(X))``.
    n_suggestions : int
    affinity : csr_array of shape (n, n), optional

    Returns
    -------
    int array of shape (min(n_suggestions, n),)
        Positions in ``rows``, the most useful first.
    """
    n = len(rows)
    return _cover(_kernel(rows, affinity), np.ones(n), np.full(n, -1), n_suggestions)


def _kernel(rows: Floats, affinity: sp.csr_array | None) -> sp.csr_array:
    graph = knn_affinity(rows, min(_NEIGHBORS, max(0, len(rows) - 1))) if affinity is None else affinity
    graph = sp.csr_array(graph + sp.identity(len(rows), format="csr"))
    scale = np.asarray(graph.sum(axis=1)).ravel()
    return sp.csr_array(graph / scale[:, None])


def _cover(kernel: sp.csr_array, need: Floats, codes: Ints, n_suggestions: int) -> Ints:
    """Greedily the items whose neighbours need a label most, each choice lowering the need around it."""
    need = need.copy()
    free = codes < 0
    columns = kernel.T.tocsr()
    chosen: list[int] = []
    for _ in range(min(n_suggestions, int(free.sum()))):
        gain = np.where(free, columns @ need, -np.inf)
        best = int(gain.argmax())
        chosen.append(best)
        free[best] = False
        need[best] = 0
        near = slice(columns.indptr[best], columns.indptr[best + 1])
        need[columns.indices[near]] *= 1 - columns.data[near] / columns.data[near].max()
    return np.array(chosen, dtype=np.int64)
