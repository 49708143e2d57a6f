"""What to label next: items that represent many others about which little is known yet.

With few labels, the items that a model is least sure of are poor choices: they are outliers, similar to each other, and
say little about the rest, while items of a class that has no label yet are classified wrongly with confidence. So
covering the items comes first, doubt later. An item i covers its neighbors on the graph and theirs::

    K = min(1, c (W + W^2)),    K_ii = 1

with W the normalized affinity and c such that the median edge alone has ``K = reach``. What item j still needs is::

    need_j = (floor + (1 - floor) (1 - max_c p_jc)) prod_{i labeled or chosen} (1 - K_ij)
    floor = max(0.02, 0.5 min(1, 3 q)),    q the share of the classes that have only one label

(the more classes were met only once, the more are still to be met), and the next suggestion is the item that covers the
most need, ``argmax_i sum_j K_ij need_j``: the greedy maximum of a monotone submodular function, so within 1 - 1/e of
the best choice of the same number of items.
"""

from __future__ import annotations

import math

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from laplacianshot.inference.affinity import knn_affinity, normalize
from laplacianshot.runtime.threads import row_blocks
from laplacianshot.runtime.types import Floats, Ints

# K of the median edge.
REACH = 0.3
# Need of a certain item relative to an uncertain one: at first, at last, and how fast it falls with q.
_FIRST_FLOOR, _LAST_FLOOR = 0.5, 0.02
_FLOOR_SLOPE = 3.0
# Limits of the number of neighbors, where the caller gives no graph.
_MIN_NEIGHBORS, _MAX_NEIGHBORS = 6, 15
# Limit of the pairs of adjacent edges, which are the memory and time of W^2; above it a random share is used.
MAX_PAIRS = 40_000_000
# Rows per block of edges.
_BLOCK_ROWS = 16384
# Covered items keep this share of their need, so that items covered once still rank before those covered twice.
_MIN_LEFT = 1e-6


def suggest(
    probabilities: Floats,
    codes: Ints,
    n_suggestions: int,
    *,
    affinity: sp.csr_array | None = None,
    kernel: sp.csr_array | None = None,
) -> Ints:
    """Return the unlabeled items to label next, the most useful first.

    Without any label these are the items to label first: typical of many others and unlike one another. To start, ask
    for the number of classes or a few times that.

    Parameters
    ----------
    probabilities : array of shape (n, C)
        Probability of each class; rows of labeled items are not used.
    codes : int array of shape (n,)
        Class of each labeled item, -1 for the others.
    n_suggestions : int
        Number of items; all unlabeled ones if there are fewer.
    affinity, kernel : csr_array of shape (n, n)
        ``model.affinity_`` or :func:`cover_affinity`, symmetric and normalized; or its :func:`cover_kernel`.
    """
    free = codes < 0
    n_chosen = min(n_suggestions, int(free.sum()))
    if n_chosen <= 0:
        return np.zeros(0, dtype=np.int64)
    unsure = 1 - probabilities.max(axis=1, initial=0).astype(np.float64)
    floor = _floor(codes[~free])
    need = np.where(free, floor + (1 - floor) * unsure, 0)
    return _cover(cover_kernel(affinity) if kernel is None else kernel, need, free, n_chosen)


def _floor(labels: Ints) -> float:
    """Return the need of a certain item, from the class numbers of the labeled ones."""
    counts = np.bincount(labels)
    once = float(np.mean(counts[counts > 0] == 1)) if len(labels) else 1.0
    return max(_LAST_FLOOR, _FIRST_FLOOR * min(1.0, _FLOOR_SLOPE * once))


def cover_affinity(rows: Floats, n_suggestions: int) -> sp.csr_array:
    """Return W of rows (n, D) of the default recipe as if each suggestion were a class; neighbors are exact."""
    return normalize(knn_affinity(rows, neighbors_to_cover(len(rows), n_suggestions)))


def neighbors_to_cover(n: int, n_suggestions: int) -> int:
    """Return the number of neighbors for n items without a graph: that of the default recipe, within limits."""
    k = round(math.sqrt(max(0.0, n / max(1, n_suggestions) - 1)))
    return min(max(k, _MIN_NEIGHBORS), _MAX_NEIGHBORS)


def cover_kernel(affinity: sp.csr_array) -> sp.csr_array:
    """Return K (n, n) of an affinity: symmetric, with ones on the diagonal."""
    W = _thinned(affinity.astype(np.float32, copy=False))
    kernel = sp.csr_array(W @ W + W)
    typical = float(np.median(W.data)) if W.nnz else 1.0
    kernel.data = np.minimum(kernel.data * np.float32(REACH / (typical or 1.0)), np.float32(1))
    kernel.setdiag(1)
    return kernel


def _thinned(W: sp.csr_array) -> sp.csr_array:
    """Return W with a random share of its edges if W^2 would be too large; always the same edges."""
    share = (MAX_PAIRS * max(1, W.shape[0])) ** 0.5 / max(1, W.nnz)
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


def _cover(kernel: sp.csr_array, need: Floats, free: NDArray[np.bool_], n_chosen: int) -> Ints:
    """Choose ``n_chosen`` free items greedily by the need they cover, after the labeled items have covered theirs."""
    taken = np.flatnonzero(~free)
    if len(taken):
        covered = kernel[taken].tocoo()
        left = np.log(np.maximum(1 - covered.data.astype(np.float64), _MIN_LEFT))
        need = need * np.exp(np.bincount(covered.col, left, minlength=len(need)))
    free = free.copy()
    gain = kernel @ need
    chosen = np.empty(n_chosen, dtype=np.int64)
    for rank in range(n_chosen):
        best = int(np.argmax(np.where(free, gain, -np.inf)))
        chosen[rank] = best
        free[best] = False
        near = slice(kernel.indptr[best], kernel.indptr[best + 1])
        items = kernel.indices[near]
        met = need[items] * np.minimum(kernel.data[near], 1 - _MIN_LEFT)
        need[items] -= met
        gain -= kernel[items].T @ met
    return chosen
