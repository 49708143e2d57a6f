"""Exact k nearest neighbours by blocked matrix products.

Candidates are found in float32 from ``|x|^2 + |y|^2 - 2 x.y`` a block at a time, then ordered by their exact distance,
so that rounding in the products cannot swap two neighbours. Searching a set against itself forms each block once and
reads it both ways: half the products. No n x n matrix is ever held, and a point is recognised by its index, never by a
zero distance: duplicates are neighbours of one another, and no point is its own.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from laplacianshot.inference._neighbor_kernels import offer_columns, offer_rows, rank_candidates
from laplacianshot.inference._threads import Workers, row_blocks
from laplacianshot.inference._types import Floats, Ints
from laplacianshot.inference.transforms import base_mean

# A block of products is at most _BLOCK_ROWS x _BLOCK_COLUMNS float32: 16 MB.
_BLOCK_ROWS = 1024
_BLOCK_COLUMNS = 4096
# Candidates kept beyond k while distances are only known to float32 rounding.
_SPARE = 6
# Scaled coordinates beyond this would overflow when squared.
_FARTHEST = 1e15


@dataclass(frozen=True)
class Neighbors:
    """The k nearest points of each query, nearest first.

    Attributes
    ----------
    indices : array of shape (n, k)
        Rows of the searched points.
    distances : array of shape (n, k)
        Their squared Euclidean distances.
    """

    indices: Ints
    distances: Floats


class PointIndex:
    """Points made ready to be searched, once for any number of searches.

    They are moved to their mean and scaled into float32's range. Neither changes who is whose neighbour; both keep the
    products as sharp as float32 can be.

    Parameters
    ----------
    points : array of shape (n, D)
        Finite, C-contiguous.
    """

    def __init__(self, points: Floats) -> None:
        self.points = points
        self._center = (
            base_mean(points).astype(points.dtype) if len(points) else np.zeros(points.shape[1], points.dtype)
        )
        spread = np.maximum(points.max(axis=0) - self._center, self._center - points.min(axis=0)) if len(points) else []
        self._scale = float(np.max(spread, initial=0.0)) or 1.0
        self._rows, self._halves = self._prepare(points)

    def neighbors(self, n_neighbors: int) -> Neighbors:
        """The nearest other points of each point, (n, min(n_neighbors, n - 1))."""
        n = len(self.points)
        k = min(n_neighbors, n - 1)
        if k <= 0:
            return _no_neighbors(n)
        with Workers(n * n) as workers:
            search = _Search(workers, n, min(k + _SPARE, n - 1), n)
            for top, bottom in row_blocks(n, _BLOCK_ROWS):
                rows, row_halves = self._rows[top:bottom], self._halves[top:bottom]
                # On the diagonal a block holds both orientations of its pairs; right of it each pair is seen once.
                search.offer(rows, row_halves, top, rows, row_halves, top, skip_self=True)
                for left in range(bottom, n, _BLOCK_COLUMNS):
                    columns = slice(left, left + _BLOCK_COLUMNS)
                    search.offer(
                        rows, row_halves, top, self._rows[columns], self._halves[columns], left, both_ways=True
                    )
            return search.ranked(self.points, self.points, k)

    def neighbors_of(self, X: Floats, n_neighbors: int) -> Neighbors:
        """The nearest points of each row of ``X`` (m, D), a point equal to it included, (m, min(n_neighbors, n))."""
        n, k = len(self.points), min(n_neighbors, len(self.points))
        if k <= 0:
            return _no_neighbors(len(X))
        with Workers(len(X) * n) as workers:
            search = _Search(workers, len(X), min(k + _SPARE, n), n)
            for top, bottom in row_blocks(len(X), _BLOCK_ROWS):
                rows, row_halves = self._prepare(X[top:bottom])
                for left, right in row_blocks(n, _BLOCK_COLUMNS):
                    search.offer(rows, row_halves, top, self._rows[left:right], self._halves[left:right], left)
            return search.ranked(X, self.points, k)

    def _prepare(self, X: Floats) -> tuple[Floats, Floats]:
        """Rows in the index's float32 coordinates, and half their squared norms."""
        rows = np.empty(X.shape, dtype=np.float32)
        for start, stop in row_blocks(len(X), _BLOCK_ROWS):
            block = X[start:stop] - self._center
            block /= block.dtype.type(self._scale)
            np.clip(block, -_FARTHEST, _FARTHEST, out=rows[start:stop], casting="same_kind")
        return rows, np.einsum("nd,nd->n", rows, rows) / 2


def nearest_neighbors(X: Floats, n_neighbors: int) -> Neighbors:
    """The nearest other rows of each row of ``X`` (n, D), finite and C-contiguous: (n, min(n_neighbors, n - 1))."""
    return PointIndex(X).neighbors(n_neighbors)


def cross_neighbors(X: Floats, points: Floats, n_neighbors: int) -> Neighbors:
    """The nearest rows of ``points`` (n, D) to each row of ``X`` (m, D), equal ones too: (m, min(n_neighbors, n))."""
    return PointIndex(points).neighbors_of(X, n_neighbors)


class _Search:
    """Heaps of the nearest candidates so far, one a query, and the buffer that blocks of products are formed in."""

    def __init__(self, workers: Workers, n_queries: int, size: int, n_points: int) -> None:
        self._workers = workers
        self._keys = np.full((n_queries, size), np.inf, dtype=np.float32)
        self._ids = np.full((n_queries, size), -1, dtype=np.int32 if n_points < 2**31 else np.int64)
        shape = (min(n_queries, _BLOCK_ROWS), min(n_points, _BLOCK_COLUMNS))
        self._products = np.empty(shape, dtype=np.float32)
        self._limits = np.empty(shape[1], dtype=np.float32)

    def offer(
        self,
        rows: Floats,
        row_halves: Floats,
        first_row: int,
        columns: Floats,
        column_halves: Floats,
        first_column: int,
        *,
        skip_self: bool = False,
        both_ways: bool = False,
    ) -> None:
        """Offer ``columns`` as candidates to the heaps of ``rows`` and, ``both_ways``, rows to the heaps of columns."""
        products = self._products[: len(rows), : len(columns)]
        sides = (row_halves, column_halves, first_row, first_column)

        def multiply(_: int, start: int, stop: int) -> None:
            np.matmul(rows, columns[start:stop].T, out=products[:, start:stop])
            if both_ways:
                offer_rows(products, *sides, self._keys, self._ids, self._limits, start, stop)

        def offer(_: int, start: int, stop: int) -> None:
            offer_columns(products, *sides, skip_self, self._keys, self._ids, start, stop)

        self._workers.run(multiply, self._workers.share(len(columns)))
        self._workers.run(offer, self._workers.share(len(rows)))

    def ranked(self, queries: Floats, points: Floats, k: int) -> Neighbors:
        """The k nearest candidates of each query by exact distance, then by index."""
        indices = np.empty((len(queries), k), dtype=self._ids.dtype)
        distances = np.empty((len(queries), k), dtype=np.float64)

        def rank(_: int, start: int, stop: int) -> None:
            rank_candidates(queries, points, self._ids, indices, distances, start, stop)

        self._workers.run(rank, row_blocks(len(queries), 512))
        return Neighbors(indices, distances)


def _no_neighbors(n: int) -> Neighbors:
    return Neighbors(np.empty((n, 0), dtype=np.int32), np.empty((n, 0), dtype=np.float64))
