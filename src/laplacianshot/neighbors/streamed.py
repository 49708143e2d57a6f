"""Exact neighbors among rows that are formed block by block: the whole matrix is never in memory."""

from __future__ import annotations

import numpy as np

from laplacianshot.neighbors._cell_kernels import offer_cell, sort_heaps
from laplacianshot.neighbors.rows import Rows
from laplacianshot.neighbors.types import Neighbors
from laplacianshot.runtime.threads import Workers, row_blocks
from laplacianshot.runtime.types import Floats, Ints

# No point is any of the queries: the first of them has a number below all points.
ELSEWHERE = -(2**40)
_POINT_ROWS = 1024
_QUERY_ROWS = 256


def nearest_rows(rows: Rows, queries: Floats, n_neighbors: int, *, first_row: int = ELSEWHERE) -> Neighbors:
    """The rows nearest to each query, (m, k), nearest first, of all rows.

    Parameters
    ----------
    rows : Rows of shape (n, D)
    queries : array of shape (m, D), float32
        In the same coordinates.
    n_neighbors : int
        k, at most n.
    first_row : int
        Query i is row ``first_row + i`` itself, which is then no neighbor of its own.
    """
    m, k = len(queries), n_neighbors
    keys = np.full((m, k), np.inf, dtype=np.float32)
    ids = np.full((m, k), -1, dtype=np.int32 if len(rows) < 2**31 else np.int64)
    with Workers(m * rows.size) as workers:
        for first in range(0, len(rows), _POINT_ROWS * workers.threads):
            last = min(first + _POINT_ROWS * workers.threads, len(rows))
            points = np.empty((last - first, rows.shape[1]), dtype=np.float32)

            def form(_: int, start: int, stop: int, points: Floats = points, first: int = first) -> None:
                points[start:stop] = rows[first + start : first + stop]

            workers.run(form, workers.share(last - first))
            halves = np.einsum("nd,nd->n", points, points) / 2

            def offer(
                _: int, start: int, stop: int, points: Floats = points, halves: Floats = halves, first: int = first
            ) -> None:
                own = slice(start, stop)
                heaps: Ints = np.arange(stop - start)
                offer_cell(queries[own] @ points.T, halves, heaps, first, first_row + start, keys[own], ids[own])

            workers.run(offer, row_blocks(m, _QUERY_ROWS))
    sort_heaps(keys, ids)
    keys += np.einsum("nd,nd->n", queries, queries)[:, None] / 2
    return Neighbors(ids, np.maximum(2 * keys, 0))
