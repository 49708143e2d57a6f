"""Kernels of the exact neighbor search: bounded max-heaps fed from blocks of inner products.

Each row of ``keys`` (n, m) and ``ids`` (n, m) is a binary max-heap of the m nearest candidates seen so far, its root
the farthest of them. ``products`` is a block ``X_i X_j^T``. Keys are half squared distances, ``h_i + h_j - x_i.x_j``
with ``h = |x|^2 / 2``: no constant in the inner loops, where an integer literal would turn float32 into float64.
"""

from __future__ import annotations

import numpy as np

from laplacianshot.runtime.compilation import inlined_kernel, kernel
from laplacianshot.runtime.kernel_parts import form_products, replace_root, sift
from laplacianshot.runtime.types import Floats, Ints

# Columns tested together. The loop over a lane has no branch and counts from zero, so that the compiler vectorizes it.
_LANE = 64
# A pair formed by itself costs as much as this many of a matrix product, and so many rows are waited for before that
# is held against the others.
_PAIR_COST = 8
_PATIENCE = 16


@kernel
def offer_columns(
    products: Floats,
    row_halves: Floats,
    column_halves: Floats,
    first_row: int,
    first_column: int,
    skip_self: bool,
    keys: Floats,
    ids: Ints,
    start: int,
    stop: int,
) -> None:
    """Offer the columns of a block to the heaps of its rows ``start..stop``.

    Block row r belongs to heap ``first_row + r``; block column j is candidate ``first_column + j``.
    """
    width = products.shape[1]
    for r in range(start, stop):
        heap = first_row + r
        half = row_halves[r]
        for left in range(0, width, _LANE):
            lane = products[r, left : left + _LANE]
            halves = column_halves[left : left + _LANE]
            limit = keys[heap, 0] - half
            hits = np.int32(0)
            for j in range(lane.shape[0]):
                hits += np.int32(halves[j] - lane[j] < limit)
            if hits == 0:
                continue
            for j in range(lane.shape[0]):
                key = half + (halves[j] - lane[j])
                candidate = first_column + left + j
                if key < keys[heap, 0] and not (skip_self and candidate == heap):
                    replace_root(keys[heap], ids[heap], key, candidate)


@kernel
def offer_pairs(
    products: Floats,
    row_halves: Floats,
    column_halves: Floats,
    first_row: int,
    first_column: int,
    keys: Floats,
    ids: Ints,
    rows: Floats,
    columns: Floats,
    bounds: bool,
) -> int:
    """Offer the columns of a block to the heaps of its rows and the rows to the heaps of its columns.

    With ``bounds``, ``products`` (m, n) are not ``rows columns^T`` but never below it, and what may enter a heap is
    formed first. Returns the number of rows done: fewer than m where so many pairs had to be formed that the rest of
    the block is better multiplied.
    """
    height: int = products.shape[0]
    width = products.shape[1]
    limits = np.empty(width, dtype=products.dtype)
    hits = np.empty(width + 1, dtype=np.int64)
    exact = np.empty(width, dtype=products.dtype)
    for j in range(width):
        limits[j] = keys[first_column + j, 0] - column_halves[j]
    formed = 0
    for r in range(height):
        row = products[r]
        half = row_halves[r]
        row_heap = first_row + r
        count = _in_question(row, half, column_halves, keys[row_heap, 0] - half, limits, hits)
        if bounds:
            form_products(rows[r], columns, hits[:count], exact[:count])
            for hit in range(count):
                row[hits[hit]] = exact[hit]
            formed += count
        for hit in range(count):
            j = hits[hit]
            column_heap = first_column + j
            key = half + (column_halves[j] - row[j])
            if key < keys[row_heap, 0]:
                replace_root(keys[row_heap], ids[row_heap], key, column_heap)
            if key < keys[column_heap, 0]:
                replace_root(keys[column_heap], ids[column_heap], key, row_heap)
                limits[j] = keys[column_heap, 0] - column_halves[j]
        if bounds and formed * _PAIR_COST > (r + _PATIENCE) * width:
            return r + 1
    return height


@inlined_kernel
def _in_question(row: Floats, half: float, column_halves: Floats, row_limit: float, limits: Floats, hits: Ints) -> int:
    """The columns (into ``hits``) that may enter the heap of the row or whose own heap the row may enter: how many."""
    count = 0
    for left in range(0, len(row), _LANE):
        lane = row[left : left + _LANE]
        halves = column_halves[left : left + _LANE]
        limit = limits[left : left + _LANE]
        any_hits = np.int32(0)
        for j in range(lane.shape[0]):
            any_hits += np.int32((halves[j] - lane[j] < row_limit) | (half - lane[j] < limit[j]))
        if any_hits == 0:
            continue
        for j in range(lane.shape[0]):
            # Written in any case and kept if it counts: no branch to guess wrong.
            hits[count] = left + j
            count += (halves[j] - lane[j] < row_limit) | (half - lane[j] < limit[j])
    return count


@kernel
def choose_nearest(
    points: Floats, keys: Floats, ids: Ints, margins: Floats, indices: Ints, start: int, stop: int
) -> None:
    """The k nearest candidates of points ``start..stop``, in no order.

    The farthest are taken off the heaps (n, m), whose keys are off by at most ``margins`` (n,): where the last of them
    could be nearer than one that stays, all candidates are ranked by their exact distance. indices (n, k) receive the
    result; the heaps are used up.
    """
    m = ids.shape[1]
    k = indices.shape[1]
    exact = np.empty(m, dtype=np.float64)
    for q in range(start, stop):
        kept = ids[q].copy()
        taken_off = keys.dtype.type(np.inf)
        for size in range(m - 1, k - 1, -1):
            taken_off = keys[q, 0]
            farthest = ids[q, 0]
            sift(keys[q, :size], ids[q, :size], 0, keys[q, size], ids[q, size])
            ids[q, size] = farthest
        if m == k or taken_off - keys[q, 0] > margins[q] + margins[q]:
            indices[q] = ids[q, :k]
        else:
            _rank(points[q], points, kept, exact, k)
            indices[q] = kept[:k]


@kernel
def rank_candidates(
    queries: Floats, points: Floats, ids: Ints, indices: Ints, distances: Floats, start: int, stop: int
) -> None:
    """Order the candidates of queries ``start..stop`` by exact squared distance, then by index, and keep the first k.

    ids (n, m) holds the candidates, -1 where there is none; indices and distances (n, k) receive the result.
    """
    k = indices.shape[1]
    exact = np.empty(ids.shape[1], dtype=np.float64)
    for q in range(start, stop):
        _rank(queries[q], points, ids[q], exact, k)
        indices[q] = ids[q, :k]
        distances[q] = exact[:k]


@kernel
def _rank(query: Floats, points: Floats, ids: Ints, exact: Floats, k: int) -> None:
    """Bring the k nearest candidates ``ids`` (m,) to the front, nearest first, their distances into ``exact`` (m,)."""
    m = len(ids)
    for c in range(m):
        if ids[c] < 0:
            exact[c] = np.inf
            continue
        point = points[ids[c]]
        total = 0.0
        for d in range(len(query)):
            gap = np.float64(query[d]) - np.float64(point[d])
            total += gap * gap
        exact[c] = total
    for slot in range(k):
        best = slot
        for c in range(slot + 1, m):
            if exact[c] < exact[best] or (exact[c] == exact[best] and ids[c] < ids[best]):
                best = c
        exact[slot], exact[best] = exact[best], exact[slot]
        ids[slot], ids[best] = ids[best], ids[slot]
