"""Kernels of the neighbor search: bounded max-heaps that are offered candidates, and rows formed for it.

Each row of ``keys`` (n, m) and ``ids`` (n, m) is a binary max-heap of the m nearest candidates seen so far, its root
the farthest of them. ``products`` is a block ``X_i X_j^T``. Keys are half squared distances, ``h_i + h_j - x_i.x_j``
with ``h = |x|^2 / 2``: no constant in the inner loops, where an integer literal would turn float32 into float64.
"""

from __future__ import annotations

import numpy as np

from laplacianshot.runtime.compilation import inlined_kernel, kernel
from laplacianshot.runtime.kernel_parts import LANE, form_products, sift
from laplacianshot.runtime.types import Floats, Ints

# A pair formed by itself costs as much as this many of a matrix product; it is held against the product only after
# this many rows.
_PAIR_COST = 8
_PATIENCE = 16
# Moves the exponent of a half, read as a float32's, to where it belongs: also of subnormal halves.
_REBIAS = np.float32(2.0**112)


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
    formed first. Returns the number of rows done: fewer than m where multiplying the rest of
    the block is cheaper than forming its pairs one by one.
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
                sift(keys[row_heap], ids[row_heap], 0, key, column_heap)
            if key < keys[column_heap, 0]:
                sift(keys[column_heap], ids[column_heap], 0, key, row_heap)
                limits[j] = keys[column_heap, 0] - column_halves[j]
        if bounds and formed * _PAIR_COST > (r + _PATIENCE) * width:
            return r + 1
    return height


@inlined_kernel
def _in_question(row: Floats, half: float, column_halves: Floats, row_limit: float, limits: Floats, hits: Ints) -> int:
    """The columns (into ``hits``) that may enter the heap of the row or whose own heap the row may enter: how many."""
    count = 0
    for left in range(0, len(row), LANE):
        lane = row[left : left + LANE]
        halves = column_halves[left : left + LANE]
        limit = limits[left : left + LANE]
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


@kernel
def offer_points(
    products: Floats,
    halves: Floats,
    query_halves: Floats,
    heaps: Ints,
    first_point: int,
    first_query: int,
    keys: Floats,
    ids: Ints,
) -> None:
    """Offer consecutive points to the heaps of queries.

    Row r of ``products`` (m, w) holds the inner products of query ``heaps[r]`` with points ``first_point + j``, whose
    half squared lengths are ``halves`` (w,). With zeros for those of the queries, ``query_halves`` (m,), keys are less
    what depends on the query alone. Query h is point ``first_query + h`` itself, which is not its own neighbor.
    """
    for r in range(products.shape[0]):
        heap, half = heaps[r], query_halves[r]
        own = first_query + heap - first_point
        for left in range(0, products.shape[1], LANE):
            lane = products[r, left : left + LANE]
            others = halves[left : left + LANE]
            limit = keys[heap, 0] - half
            hits = np.int32(0)
            for j in range(lane.shape[0]):
                hits += np.int32(others[j] - lane[j] < limit)
            if hits == 0:
                continue
            for j in range(lane.shape[0]):
                key = half + (others[j] - lane[j])
                if key < keys[heap, 0] and left + j != own:
                    sift(keys[heap], ids[heap], 0, key, first_point + left + j)


@kernel
def sort_heaps(keys: Floats, ids: Ints) -> None:
    """Turn each max-heap into a list by key, then by id."""
    for h in range(keys.shape[0]):
        key = keys[h]
        index = ids[h]
        for last in range(key.shape[0] - 1, 0, -1):
            top_key, top_id = key[0], index[0]
            end_key, end_id = key[last], index[last]
            sift(key[:last], index[:last], 0, end_key, end_id)
            key[last] = top_key
            index[last] = top_id
        for i in range(1, key.shape[0]):
            j = i
            while j > 0 and key[j - 1] == key[j] and index[j - 1] > index[j]:
                index[j - 1], index[j] = index[j], index[j - 1]
                j -= 1


@kernel
def turn_lists(lists: Ints, squares: Floats, first: Ints, sources: Ints, turned: Floats, start: int, stop: int) -> None:
    """The nodes whose lists (n, k) hold each of the nodes ``start..stop``, ascending, with their squared distances.

    Those of node j come into ``sources[first_j : first_{j+1}]`` and ``turned``, from ``squares`` (n, k). ``first`` (n,)
    is used up: it ends one node further. With no room for sources or squared distances these are left out; from zeros,
    ``first`` then ends as the number of lists that hold each node.
    """
    with_sources, with_squares = len(sources) > 0, len(turned) > 0
    for i in range(lists.shape[0]):
        for e in range(lists.shape[1]):
            j = lists[i, e]
            if start <= j < stop:
                if with_sources:
                    sources[first[j]] = i
                if with_squares:
                    turned[first[j]] = squares[i, e]
                first[j] += 1


@kernel
def take_sources(
    lists: Ints, squares: Floats, first: Ints, sources: Ints, turned: Floats, start: int, stop: int
) -> None:
    """Put into the lists ``start..stop``, nearest first, what is nearer than their last and has them in its own.

    Those of node j are ``sources[first_j : first_{j+1}]``, at squared distances ``turned``. -1 is none, and comes last.
    """
    k = lists.shape[1]
    seen = np.full(first.shape[0] - 1, -1, dtype=lists.dtype)
    for j in range(start, stop):
        row, square = lists[j], squares[j]
        for e in range(k):
            if row[e] >= 0:
                seen[row[e]] = j
        for s in range(first[j], first[j + 1]):
            gap = turned[s]
            if (row[k - 1] >= 0 and gap >= square[k - 1]) or seen[sources[s]] == j:
                continue
            at = k - 1
            while at > 0 and (row[at - 1] < 0 or gap < square[at - 1]):
                row[at] = row[at - 1]
                square[at] = square[at - 1]
                at -= 1
            row[at] = sources[s]
            square[at] = gap


@kernel
def form_rows(X: Floats, rows: Ints, origin: Floats, scale: Floats, out: Floats) -> None:
    """``out_i = (x_r - origin) scale_r`` with ``r = rows_i``, over the rows of out (m, D)."""
    for i in range(out.shape[0]):
        source = X[rows[i]]
        factor = scale[rows[i]]
        target = out[i]
        for d in range(out.shape[1]):
            target[d] = np.float32(source[d] - origin[d]) * factor


@kernel
def form_roots(X: Floats, rows: Ints, norms: Floats, origin: Floats, scale: Floats, out: Floats) -> None:
    """``out_i = (sign(x_r) sqrt(|x_r|) norms_r - origin) scale_r`` with ``r = rows_i``, over the rows of out (m, D)."""
    for i in range(out.shape[0]):
        source = X[rows[i]]
        norm = norms[rows[i]]
        factor = scale[rows[i]]
        target = out[i]
        for d in range(out.shape[1]):
            root = np.sqrt(abs(source[d])) * norm
            target[d] = (np.float32(root if source[d] >= 0 else -root) - origin[d]) * factor


@kernel
def halves_to_single(bits: Ints, out: Floats) -> None:
    """Finite float16 numbers, given by their bits as uint16 (m, D), as float32. No branch, so that it is vectorized."""
    for i in range(out.shape[0]):
        source = bits[i]
        target = out[i]
        for d in range(out.shape[1]):
            half = np.uint32(source[d])
            size = np.uint32((half & np.uint32(0x7FFF)) << np.uint32(13)).view(np.float32) * _REBIAS
            sign = np.uint32((half & np.uint32(0x8000)) << np.uint32(16))
            target[d] = np.uint32(np.float32(size).view(np.uint32) | sign).view(np.float32)
