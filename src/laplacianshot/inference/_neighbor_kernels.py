"""Kernels of the exact neighbour search: bounded max-heaps fed from blocks of inner products.

Each row of ``keys`` (n, m) and ``ids`` (n, m) is a binary max-heap of the m nearest candidates seen so far, its root
the farthest of them. ``products`` is a block ``X_i X_j^T``. Keys are half squared distances, ``h_i + h_j - x_i.x_j``
with ``h = |x|^2 / 2``: no constant in the inner loops, where an integer literal would turn float32 into float64.
"""

from __future__ import annotations

import numpy as np

from laplacianshot.inference._compile import kernel
from laplacianshot.inference._kernel_parts import replace_root
from laplacianshot.inference._types import Floats, Ints

# Columns tested together. The loop over a lane has no branch and counts from zero, so that the compiler vectorises it.
_LANE = 64


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
def offer_rows(
    products: Floats,
    row_halves: Floats,
    column_halves: Floats,
    first_row: int,
    first_column: int,
    keys: Floats,
    ids: Ints,
    limits: Floats,
    start: int,
    stop: int,
) -> None:
    """Offer the rows of a block to the heaps of its columns ``start..stop`` (the block read as its transpose).

    ``limits`` (width,) is scratch: the largest ``h_i - x_i.x_j`` that still enters the heap of column j.
    """
    for j in range(start, stop):
        limits[j] = keys[first_column + j, 0] - column_halves[j]
    for r in range(products.shape[0]):
        half = row_halves[r]
        for left in range(start, stop, _LANE):
            right = min(left + _LANE, stop)
            lane = products[r, left:right]
            limit = limits[left:right]
            hits = np.int32(0)
            for j in range(lane.shape[0]):
                hits += np.int32(half - lane[j] < limit[j])
            if hits == 0:
                continue
            for j in range(lane.shape[0]):
                if half - lane[j] < limit[j]:
                    heap = first_column + left + j
                    column_half = column_halves[left + j]
                    replace_root(keys[heap], ids[heap], (half - lane[j]) + column_half, first_row + r)
                    limit[j] = keys[heap, 0] - column_half


@kernel
def rank_candidates(
    queries: Floats, points: Floats, ids: Ints, indices: Ints, distances: Floats, start: int, stop: int
) -> None:
    """Order the candidates of queries ``start..stop`` by exact squared distance, then by index, and keep the first k.

    ids (n, m) holds the candidates, -1 where there is none; indices and distances (n, k) receive the result.
    """
    m = ids.shape[1]
    k = indices.shape[1]
    exact = np.empty(m, dtype=np.float64)
    for q in range(start, stop):
        for c in range(m):
            p = ids[q, c]
            if p < 0:
                exact[c] = np.inf
                continue
            total = 0.0
            for d in range(points.shape[1]):
                gap = np.float64(queries[q, d]) - np.float64(points[p, d])
                total += gap * gap
            exact[c] = total
        for slot in range(k):
            best = slot
            for c in range(slot + 1, m):
                nearer = exact[c] < exact[best]
                tie = exact[c] == exact[best] and ids[q, c] < ids[q, best]
                if nearer or tie:
                    best = c
            exact[slot], exact[best] = exact[best], exact[slot]
            ids[q, slot], ids[q, best] = ids[q, best], ids[q, slot]
            indices[q, slot] = ids[q, slot]
            distances[q, slot] = exact[slot]
