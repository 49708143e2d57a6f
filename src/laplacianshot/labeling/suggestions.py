"""What to label next: items that stand for many others about which little is known yet.

Where labels are few, the items a model is least sure of are poor choices: they are odd ones, alike, and tell little of
the rest, while whole classes nobody has labeled yet are taken for others with confidence. Covering the items comes
first, doubt later. An item i covers its neighbors on the graph and theirs::

    K = min(1, c (W + W^2)),    K_ii = 1

with W the normalized affinity and c such that the median edge alone has ``K = reach``. What item j still needs is::

    need_j = (floor + (1 - floor) (1 - max_c p_jc)) prod_{i labeled or chosen} (1 - K_ij)
    floor = max(0.02, 0.5 min(1, 3 q)),    q the share of the classes that have only one label

(the more classes were met only once, the more are still to be met), and the next suggestion is the item that covers the
most need, ``argmax_i sum_j K_ij need_j``: the greedy maximum of a monotone submodular function, so within 1 - 1/e of
the best choice of as many items.
"""

from __future__ import annotations

import math

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from laplacianshot.inference.affinity import knn_affinity, normalize
from laplacianshot.runtime.threads import row_blocks
from laplacianshot.runtime.types import Floats, Ints

# Cover that the median edge gives.
REACH = 0.3
# What an item that is certain needs against one in full doubt: at first, at last, and how soon it falls with q.
FIRST_FLOOR, LAST_FLOOR = 0.5, 0.02
FLOOR_SLOPE = 3.0
# Neighbors of an item at least and at most, where the caller has no graph.
_LEAST_NEIGHBORS, _MOST_NEIGHBORS = 6, 15
# Pairs of edges that meet, at most: memory and time of W^2. Above it a random share of the edges stands for all.
MOST_PAIRS = 40_000_000
# Rows whose edges are looked at together.
_BLOCK_ROWS = 16384
# Covered items keep this share of their need, so that those covered once stand behind those covered twice.
_LEAST_LEFT = 1e-6


def suggest(
    rows: Floats | None,
    probabilities: Floats,
    codes: Ints,
    n_suggestions: int,
    *,
    affinity: sp.csr_array | None = None,
    kernel: sp.csr_array | None = None,
) -> Ints:
    """Unlabeled items that a person should label next, the most useful first.

    Parameters
    ----------
    rows : array of shape (n, D), or None with a graph
        Items in the space of the fit: ``transform_features(X, "cl2", model.center_)``.
    probabilities : array of shape (n, C)
        Of each class; rows of labeled items are not read.
    codes : int array of shape (n,)
        Class of each labeled item, -1 for the others.
    n_suggestions : int
        How many; at most as many as there are unlabeled items.
    affinity : csr_array of shape (n, n), optional
        Symmetric, normalized: ``model.affinity_``. Nearest neighbors are sought if it is not given.
    kernel : csr_array of shape (n, n), optional
        :func:`cover_kernel` of the affinity, for whoever keeps it.

    Returns
    -------
    int array of shape (min(n_suggestions, unlabeled),)
        Positions in ``codes``.
    """
    free = codes < 0
    wanted = min(n_suggestions, int(free.sum()))
    if wanted <= 0:
        return np.zeros(0, dtype=np.int64)
    unsure = 1 - probabilities.max(axis=1, initial=0).astype(np.float64)
    floor = _floor(codes[~free])
    need = np.where(free, floor + (1 - floor) * unsure, 0)
    if kernel is None:
        kernel = cover_kernel(_graph(rows, wanted) if affinity is None else affinity)
    return _cover(kernel, need, free, wanted)


def suggest_first(rows: Floats | None, n_suggestions: int, *, affinity: sp.csr_array | None = None) -> Ints:
    """Items to label first when nothing is labeled yet: typical of many others and unlike one another.

    Parameters
    ----------
    rows : array of shape (n, D), or None with a graph
        Items as ``transform_features(X, "cl2", base_mean(X))``.
    n_suggestions : int
        How many; the number of classes, or a few times as many, is a good start.
    affinity : csr_array of shape (n, n), optional
        Symmetric, normalized.

    Returns
    -------
    int array of shape (min(n_suggestions, n),)
        Positions in ``rows``, the most useful first.
    """
    n = affinity.shape[0] if rows is None and affinity is not None else 0 if rows is None else len(rows)
    wanted = min(n_suggestions, n)
    if wanted <= 0:
        return np.zeros(0, dtype=np.int64)
    graph = _graph(rows, wanted) if affinity is None else affinity
    return _cover(cover_kernel(graph), np.ones(n), np.ones(n, dtype=bool), wanted)


def _floor(labels: Ints) -> float:
    """What an item that is certain needs, from the class numbers of the labeled ones."""
    counts = np.bincount(labels)
    once = float(np.mean(counts[counts > 0] == 1)) if len(labels) else 1.0
    return max(LAST_FLOOR, FIRST_FLOOR * min(1.0, FLOOR_SLOPE * once))


def _graph(rows: Floats | None, n_suggestions: int) -> sp.csr_array:
    """W of the default recipe, were each suggestion of a class of its own; neighbors are searched exactly."""
    if rows is None:
        raise ValueError("rows are needed to seek neighbors in; give rows or affinity.")
    return normalize(knn_affinity(rows, neighbors_to_cover(len(rows), n_suggestions)))


def neighbors_to_cover(n: int, n_suggestions: int) -> int:
    """Neighbors of an item, of n, where there is no graph yet: those of the default recipe within limits."""
    k = round(math.sqrt(max(0.0, n / max(1, n_suggestions) - 1)))
    return min(max(k, _LEAST_NEIGHBORS), _MOST_NEIGHBORS)


def cover_kernel(affinity: sp.csr_array) -> sp.csr_array:
    """K (n, n) of an affinity, symmetric, with ones on the diagonal."""
    W = _thinned(affinity.astype(np.float32, copy=False))
    kernel = sp.csr_array(W @ W + W)
    typical = float(np.median(W.data)) if W.nnz else 1.0
    kernel.data = np.minimum(kernel.data * np.float32(REACH / (typical or 1.0)), np.float32(1))
    kernel.setdiag(1)
    return kernel


def _thinned(W: sp.csr_array) -> sp.csr_array:
    """W with as many of its edges as keep W^2 affordable, always the same ones."""
    share = (MOST_PAIRS * max(1, W.shape[0])) ** 0.5 / max(1, W.nnz)
    if share >= 1:
        return W
    rng = np.random.default_rng(0)
    parts = []
    for start, stop in row_blocks(W.shape[0], _BLOCK_ROWS):
        held = slice(W.indptr[start], W.indptr[stop])
        rows = np.repeat(np.arange(start, stop), np.diff(W.indptr[start : stop + 1]))
        above = np.flatnonzero(W.indices[held] > rows)
        kept = above[rng.random(len(above)) < share]
        parts.append((W.data[held][kept], rows[kept], W.indices[held][kept]))
    weights, heads, tails = (np.concatenate(columns) for columns in zip(*parts, strict=True))
    half = sp.csr_array((weights, (heads, tails)), shape=W.shape)
    return sp.csr_array(half + half.T)


def _cover(kernel: sp.csr_array, need: Floats, free: NDArray[np.bool_], wanted: int) -> Ints:
    """Greedily the ``wanted`` free items that cover the most need, after what is not free has covered its part."""
    taken = np.flatnonzero(~free)
    if len(taken):
        covered = kernel[taken].tocoo()
        left = np.log(np.maximum(1 - covered.data.astype(np.float64), _LEAST_LEFT))
        need = need * np.exp(np.bincount(covered.col, left, minlength=len(need)))
    free = free.copy()
    gain = kernel @ need
    chosen = np.empty(wanted, dtype=np.int64)
    for rank in range(wanted):
        best = int(np.argmax(np.where(free, gain, -np.inf)))
        chosen[rank] = best
        free[best] = False
        near = slice(kernel.indptr[best], kernel.indptr[best + 1])
        items = kernel.indices[near]
        met = need[items] * np.minimum(kernel.data[near], 1 - _LEAST_LEFT)
        need[items] -= met
        gain -= kernel[items].T @ met
    return chosen
