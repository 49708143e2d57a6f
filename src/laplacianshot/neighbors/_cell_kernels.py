"""Kernels of the search by cells: bounded max-heaps as in ``inference/_neighbor_kernels.py``, for scattered queries."""

from __future__ import annotations

import numpy as np

from laplacianshot.runtime.compilation import kernel
from laplacianshot.runtime.kernel_parts import replace_root
from laplacianshot.runtime.types import Floats, Ints

# Columns tested together: a loop without a branch, which the compiler vectorizes.
_LANE = 64


@kernel
def offer_cell(
    products: Floats, column_halves: Floats, heaps: Ints, first_column: int, first_row: int, keys: Floats, ids: Ints
) -> None:
    """Offer the points of a cell to the heaps of the queries that look there.

    Row r of ``products`` (m, w) holds the inner products of query ``heaps[r]`` with points ``first_column + j``. Keys
    are ``|p|^2/2 - q.p``: half the squared distance less what depends on the query alone. Query h is point
    ``first_row + h`` itself, which is no neighbor of its own.
    """
    width = products.shape[1]
    for r in range(products.shape[0]):
        heap = heaps[r]
        own = first_row + heap - first_column
        for left in range(0, width, _LANE):
            lane = products[r, left : left + _LANE]
            halves = column_halves[left : left + _LANE]
            limit = keys[heap, 0]
            hits = np.int32(0)
            for j in range(lane.shape[0]):
                hits += np.int32(halves[j] - lane[j] < limit)
            if hits == 0:
                continue
            for j in range(lane.shape[0]):
                key = halves[j] - lane[j]
                if key < keys[heap, 0] and left + j != own:
                    replace_root(keys[heap], ids[heap], key, first_column + left + j)


@kernel
def sort_heaps(keys: Floats, ids: Ints) -> None:
    """Turn each max-heap into a list by key, then by id."""
    for h in range(keys.shape[0]):
        key = keys[h]
        index = ids[h]
        for last in range(key.shape[0] - 1, 0, -1):
            top_key, top_id = key[0], index[0]
            end_key, end_id = key[last], index[last]
            replace_root(key[:last], index[:last], end_key, end_id)
            key[last] = top_key
            index[last] = top_id
        for i in range(1, key.shape[0]):
            j = i
            while j > 0 and key[j - 1] == key[j] and index[j - 1] > index[j]:
                index[j - 1], index[j] = index[j], index[j - 1]
                j -= 1
