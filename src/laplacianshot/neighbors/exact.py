"""Exact k nearest neighbors by blocked matrix products, of sets too large for :mod:`~.small`.

Candidates are found in float32 from ``|x|^2 + |y|^2 - 2 x.y``, one block at a time, then ordered by their exact
distance, so that rounding in the products cannot swap two neighbors. Searching a set against itself forms each block
once and reads it both ways: half the products. No n x n matrix is ever held, and a point is recognized by its index,
never by a zero distance: duplicates are neighbors of one another, and no point is its own.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

import numpy as np

from laplacianshot.neighbors import accel
from laplacianshot.neighbors.accel import byte_search
from laplacianshot.neighbors.accel.directions import Projection, taken
from laplacianshot.neighbors.kernels import choose_nearest, offer_pairs, offer_points, rank_candidates, sort_heaps
from laplacianshot.neighbors.rows import Rows
from laplacianshot.neighbors.small import SmallIndex
from laplacianshot.neighbors.types import ELSEWHERE, SPARE, Neighbors, index_dtype, no_neighbors
from laplacianshot.runtime.arrays import mean_of_rows
from laplacianshot.runtime.threads import Workers, disjoint_pairs, even_blocks, row_blocks
from laplacianshot.runtime.types import Floats, Ints

# Points that meet others at a time; fewer where products are bounds, as a block meets itself in full.
_BLOCK_ROWS = 1024
_BOUNDED_BLOCK_ROWS = 448
_MIN_ROWS = 128
_RANKED_ROWS = 512
# Queries from elsewhere made ready and multiplied at a time, and points that they are compared with at a time.
_PREPARED_QUERIES = 8192
_QUERY_ROWS = 256
_BLOCK_COLUMNS = 4096
# Rows formed at a time by each thread.
_FORMED_ROWS = 1024


class ExactIndex(SmallIndex):
    """Many points (n, D), finite and C-contiguous, made ready once for any number of searches."""

    def __init__(self, points: Floats) -> None:
        self.points = points
        self._center, self._scale = np.zeros(points.shape[1], points.dtype), 1.0
        if points.dtype == np.float32 and len(points):
            self._rows, self._halves = points, self._half_squares(points)
            if self._as_they_are():
                return
        if len(points):
            self._set_center(mean_of_rows(points).astype(points.dtype))
        self._rows, self._halves = self._prepare(points)

    def _as_they_are(self) -> bool:
        """Whether the points are near zero, and neither too small nor too large for products in float32."""
        center = mean_of_rows(self.points)
        mean = float(np.mean(self._halves, dtype=np.float64))
        return bool(center @ center <= mean / 2 and mean > 1e-12 and float(self._halves.max()) < 1e12)

    def neighbors_of(self, X: Floats, n_neighbors: int) -> Neighbors:
        """The nearest points of each row of ``X`` (m, D), a point equal to it included, (m, min(n_neighbors, n))."""
        k = max(0, min(n_neighbors, len(self.points)))
        found = no_neighbors(len(X), k, len(self.points))
        for start, stop in row_blocks(len(X), _PREPARED_QUERIES):
            some = super().neighbors_of(X[start:stop], k)
            found.indices[start:stop], found.distances[start:stop] = some.indices, some.distances
        return found

    def _search(self, X: Floats, rows: Floats, halves: Floats, k: int, *, itself: bool, ranked: bool) -> Neighbors:
        n = len(self.points)
        with Workers(len(X) * n) as workers:
            if itself:
                heaps = self._candidates(workers, k)
            else:
                heaps = Heaps.empty(len(X), min(k + SPARE, n), n)
                for left, right in row_blocks(n, _BLOCK_COLUMNS):
                    heaps.offer_points(workers, self._rows[left:right], self._halves[left:right], left, rows, ELSEWHERE)
            if ranked:
                return heaps.ranked(workers, X, self.points, k)
            return Neighbors(heaps.nearest(workers, self.points, k, self._margins(halves)), np.empty((len(X), 0)))

    def _candidates(self, workers: Workers, k: int) -> Heaps:
        """The k nearest other points of each point and a few more, by distances in float32."""
        n = len(self.points)
        heaps = Heaps.empty(n, min(k + SPARE, n - 1), n)
        way = accel.choose(workers, self._rows, self._halves, heaps.keys.shape[1])
        if way == "bytes":
            byte_search.search_by_bytes(workers, self._rows, self._halves, heaps.keys, heaps.ids)
            return heaps
        if not isinstance(way, Projection):
            _search_itself(workers, _Points(self._rows, self._halves), heaps, _BLOCK_ROWS)
            return heaps
        points = _Points(taken(workers, self._rows, way.order), self._halves[way.order], way.coordinates)
        _search_itself(workers, points, heaps, _BOUNDED_BLOCK_ROWS)
        return heaps.put_back(way.order)

    def _half_squares(self, rows: Floats) -> Floats:
        halves = np.empty(len(rows), dtype=np.float32)

        def fill(_: int, start: int, stop: int) -> None:
            np.einsum("nd,nd->n", rows[start:stop], rows[start:stop], out=halves[start:stop])

        with Workers(rows.size) as workers:
            workers.run(fill, workers.share(len(rows)))
        halves /= 2
        return halves


@dataclass(frozen=True)
class _Points:
    """Consecutive points: their features (n, D), half squared lengths (n,) and the number of the first.

    ``coordinates`` (n, d + 1), where there are any, have inner products that are never below those of the features.
    """

    features: Floats
    halves: Floats
    coordinates: Floats | None = None
    first: int = 0

    def part(self, start: int, stop: int) -> _Points:
        coordinates = None if self.coordinates is None else self.coordinates[start:stop]
        return _Points(self.features[start:stop], self.halves[start:stop], coordinates, self.first + start)


@dataclass(frozen=True)
class Heaps:
    """The nearest candidates so far, one max-heap per query: keys (n, m) and numbers (n, m) of points.

    Keys are half squared distances, or these less half the squared length of the query.
    """

    keys: Floats
    ids: Ints

    @classmethod
    def empty(cls, n_queries: int, size: int, n_points: int) -> Heaps:
        """Heaps without candidates."""
        ids = np.full((n_queries, size), -1, dtype=index_dtype(n_points))
        return cls(np.full((n_queries, size), np.inf, dtype=np.float32), ids)

    def offer(self, products: Floats, halves: Floats, queries: Ints, first: int, first_row: int) -> None:
        """:func:`~.kernels.offer_points` with keys less half the squared length of the query."""
        none = np.zeros(len(queries), dtype=self.keys.dtype)
        offer_points(products, halves, none, queries, first, first_row, self.keys, self.ids)

    def offer_points(
        self, workers: Workers, points: Floats, halves: Floats, first: int, queries: Floats, first_row: int
    ) -> None:
        """Offer points (p, D), numbered from ``first`` on, to the heaps of the queries (n, D)."""

        def offer(_: int, start: int, stop: int) -> None:
            self.offer(queries[start:stop] @ points.T, halves, np.arange(start, stop), first, first_row)

        workers.run(offer, row_blocks(len(queries), _QUERY_ROWS))

    def sorted(self, queries: Floats) -> Neighbors:
        """The candidates of the queries (n, D), nearest first, by what was offered with :meth:`offer`."""
        sort_heaps(self.keys, self.ids)
        halves = np.einsum("nd,nd->n", queries, queries)[:, None] / 2
        return Neighbors(self.ids, np.maximum(2 * (self.keys + halves), 0))

    def put_back(self, order: Ints) -> Heaps:
        """The same with the numbers that points had before they were put in this order."""
        keys, ids = np.empty_like(self.keys), np.empty_like(self.ids)
        keys[order] = self.keys
        ids[order] = np.where(self.ids >= 0, order.astype(ids.dtype)[self.ids], -1)
        return Heaps(keys, ids)

    def ranked(self, workers: Workers, queries: Floats, points: Floats, k: int) -> Neighbors:
        """The k nearest candidates of each query by exact distance, then by index."""
        indices = np.empty((len(queries), k), dtype=self.ids.dtype)
        distances = np.empty((len(queries), k), dtype=np.float64)

        def rank(_: int, start: int, stop: int) -> None:
            rank_candidates(queries, points, self.ids, indices, distances, start, stop)

        workers.run(rank, row_blocks(len(queries), _RANKED_ROWS))
        return Neighbors(indices, distances)

    def nearest(self, workers: Workers, points: Floats, k: int, margins: Floats) -> Ints:
        """The k nearest candidates of each point in no order, if keys are off by at most ``margins`` (n,)."""
        indices = np.empty((len(points), k), dtype=self.ids.dtype)

        def choose(_: int, start: int, stop: int) -> None:
            choose_nearest(points, self.keys, self.ids, margins, indices, start, stop)

        workers.run(choose, row_blocks(len(points), _RANKED_ROWS))
        return indices


def _search_itself(workers: Workers, points: _Points, heaps: Heaps, block_rows: int) -> None:
    """Offer all points to one another, each block of products formed once and read both ways.

    Blocks that meet at the same time have no point in common, so that no two threads change a heap.
    """
    n = len(points.halves)
    # Few points make smaller blocks, so that several meet at a time.
    blocks = even_blocks(n, min(block_rows, max(_MIN_ROWS, n // 8)), n)
    spare: list[Floats] = []
    tallest = max(stop - start for start, stop in blocks)

    def products_of(rows: Floats, columns: Floats, buffer: Floats) -> Floats:
        return np.matmul(rows, columns.T, out=buffer[: len(rows) * len(columns)].reshape(len(rows), len(columns)))

    @contextmanager
    def buffer() -> Iterator[Floats]:
        mine = spare.pop() if spare else np.empty(tallest**2, dtype=np.float32)
        yield mine
        spare.append(mine)

    def within(_: int, start: int, stop: int) -> None:
        own = points.part(start, stop)
        with buffer() as memory:
            products = products_of(own.features, own.features, memory)
            numbers = np.arange(start, stop)
            offer_points(products, own.halves, own.halves, numbers, start, 0, heaps.keys, heaps.ids)

    def meet(_: int, one: int, other: int) -> None:
        rows, columns = points.part(*blocks[one]), points.part(*blocks[other])
        with buffer() as memory:
            done = 0
            if rows.coordinates is not None and columns.coordinates is not None:
                products = products_of(rows.coordinates, columns.coordinates, memory)
                done = _offer_pairs(products, rows, columns, heaps, bounds=True)
            if done < len(rows.halves):
                rows = rows.part(done, len(rows.halves))
                products = products_of(rows.features, columns.features, memory)
                _offer_pairs(products, rows, columns, heaps, bounds=False)

    workers.run(within, blocks)
    for pairs in disjoint_pairs(len(blocks)):
        workers.run(meet, pairs)


def _offer_pairs(products: Floats, rows: _Points, columns: _Points, heaps: Heaps, *, bounds: bool) -> int:
    """The kernel of that name for two blocks of points."""
    sides = (rows.halves, columns.halves, rows.first, columns.first)
    return offer_pairs(products, *sides, heaps.keys, heaps.ids, rows.features, columns.features, bounds)


def nearest_rows(rows: Rows, queries: Floats, n_neighbors: int, *, first_row: int = ELSEWHERE) -> Neighbors:
    """The n_neighbors <= n nearest of rows (n, D), which are formed block by block: never all of them are in memory.

    ``queries`` (m, D) are float32 in the same coordinates. Query i is row ``first_row + i`` itself, which then is not
    its own neighbor. Neighbors are in the order of distances in float32.
    """
    heaps = Heaps.empty(len(queries), n_neighbors, len(rows))
    with Workers(len(queries) * rows.size) as workers:
        for first, last in row_blocks(len(rows), _FORMED_ROWS * workers.threads):
            points = np.empty((last - first, rows.shape[1]), dtype=np.float32)

            def form(_: int, start: int, stop: int, points: Floats = points, first: int = first) -> None:
                points[start:stop] = rows[first + start : first + stop]

            workers.run(form, workers.share(last - first))
            halves = np.einsum("nd,nd->n", points, points) / 2
            heaps.offer_points(workers, points, halves, first, queries, first_row)
    return heaps.sorted(queries)
