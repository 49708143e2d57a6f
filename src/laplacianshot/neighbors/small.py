"""Exact neighbors of small sets, in numpy: nothing is compiled, so that a first fit answers at once.

Candidates come from blocked products in float32, ``|y|^2/2 - x.y``. Where the rounding of the products leaves open who
is among the nearest, exact distances in float64 decide, and between equal distances the smaller number.
"""

from __future__ import annotations

from functools import cached_property

import numpy as np

from laplacianshot.neighbors.types import Neighbors, no_neighbors
from laplacianshot.runtime.threads import Workers, row_blocks
from laplacianshot.runtime.types import Floats, Ints

# Products of one block and rows of one: small enough for the cache, large enough for BLAS.
_BLOCK_PRODUCTS = 2**20
_MIN_ROWS = 64
# Rows multiplied with all that follow.
_MULTIPLIED_ROWS = 256
_PREPARED_ROWS = 1024
# Float64 differences formed at a time.
_BLOCK_GAPS = 2**18
# Candidates per neighbor from which on equal points are compared only once.
_MANY_CANDIDATES = 4
# Scaled coordinates beyond this would overflow when squared.
_MAX_COORDINATE = 1e15


class SmallIndex:
    """Points (n, D), finite, made ready once for any number of searches.

    They are moved to their mean and scaled into the range of float32. Neither changes which points are neighbors; both
    keep the products as accurate as float32 can be.
    """

    def __init__(self, points: Floats) -> None:
        self.points = points
        dtype = np.float64 if points.dtype == np.float64 else np.float32
        self._center: Floats = np.zeros(points.shape[1], dtype)
        self._scale = 1.0
        if points.size:
            self._set_center(points.mean(axis=0, dtype=dtype))
        self._rows, self._halves = self._prepare(points)

    def _set_center(self, center: Floats) -> None:
        """Move the points to ``center`` (D,), and scale them by their largest coordinate about it."""
        self._center = center
        spread = np.maximum(self.points.max(axis=0) - center, center - self.points.min(axis=0))
        self._scale = float(np.max(spread, initial=0.0)) or 1.0

    def neighbors(self, n_neighbors: int) -> Neighbors:
        """The nearest other points of each point, (n, min(n_neighbors, n - 1)), nearest first."""
        return self._of_points(n_neighbors, ranked=True)

    def neighbor_sets(self, n_neighbors: int) -> Ints:
        """The numbers of the nearest other points of each point, (n, min(n_neighbors, n - 1)), in any order."""
        return self._of_points(n_neighbors, ranked=False).indices

    def neighbors_of(self, X: Floats, n_neighbors: int) -> Neighbors:
        """The nearest points of each row of ``X`` (m, D), a point equal to it included, (m, min(n_neighbors, n))."""
        n, k = len(self.points), min(n_neighbors, len(self.points))
        if k <= 0 or not len(X):
            return no_neighbors(len(X), max(k, 0), n)
        return self._search(X, *self._prepare(X), k, itself=False, ranked=True)

    def _of_points(self, n_neighbors: int, *, ranked: bool) -> Neighbors:
        k = min(n_neighbors, len(self.points) - 1)
        if k <= 0:
            return no_neighbors(len(self.points))
        return self._search(self.points, self._rows, self._halves, k, itself=True, ranked=ranked)

    def _prepare(self, X: Floats) -> tuple[Floats, Floats]:
        """Rows in the index's float32 coordinates, and half their squared norms."""
        rows = np.empty(X.shape, dtype=np.float32)
        for start, stop in row_blocks(len(X), _PREPARED_ROWS):
            block = X[start:stop] - self._center
            block /= block.dtype.type(self._scale)
            np.clip(block, -_MAX_COORDINATE, _MAX_COORDINATE, out=rows[start:stop], casting="same_kind")
        return rows, self._half_squares(rows)

    def _half_squares(self, rows: Floats) -> Floats:
        """``|x|^2 / 2`` of rows (n, D)."""
        halves: Floats = np.einsum("nd,nd->n", rows, rows) / 2
        return halves

    def _margins(self, halves: Floats) -> Floats:
        """How far off the keys ``|y|^2/2 - x.y`` of queries with these half squared norms are at most, (m,).

        Sums of D products in float32, in any order, and what centering, scaling and conversion lost of each factor.
        """
        rounding = (self._rows.shape[1] + 8) * float(np.finfo(np.float32).eps) / 2
        margins: Floats = (halves + 2 * self._halves.max()) * np.float32(rounding)
        return margins

    def _search(self, X: Floats, rows: Floats, halves: Floats, k: int, *, itself: bool, ranked: bool) -> Neighbors:
        """Nearest points of the rows X (m, D), prepared as ``rows`` and ``halves``; with ``itself``, X are the points.

        Nobody whose key is two margins above the k-th smallest one can be among the k nearest. If not ``ranked``,
        neighbors come in any order and without distances.
        """
        n, m = len(self.points), len(X)
        margins = self._margins(halves)
        indices = np.empty((m, k), dtype=np.int32)
        distances = np.empty((m, k if ranked else 0))
        # x.y is y.x: each pair of points is multiplied once.
        products = np.empty((n if itself else 0, n), np.float32)

        def multiply(_: int, start: int, stop: int) -> None:
            np.matmul(rows[start:stop], rows[start:].T, out=products[start:stop, start:])
            products[stop:, start:stop] = products[start:stop, stop:].T

        def search(_: int, start: int, stop: int) -> None:
            keys: Floats = products[start:stop] if itself else rows[start:stop] @ self._rows.T
            np.subtract(self._halves, keys, out=keys)
            if itself:
                keys[np.arange(stop - start), np.arange(start, stop)] = np.inf
            limits = np.partition(keys, k - 1, axis=1)[:, k - 1] + 2 * margins[start:stop]
            near = keys <= limits[:, None]
            counts = near.sum(axis=1)
            row, candidate = np.divmod(np.flatnonzero(near), n)
            if not ranked:
                closed = counts == k
                settled = closed[row]
                indices[start:stop][closed] = candidate[settled].reshape(-1, k)
                row, candidate, counts = row[~settled], candidate[~settled], np.where(closed, 0, counts)
            squares = self._squares(X, start + row, candidate, k)
            order = np.lexsort((candidate, squares, row))
            open_rows = np.flatnonzero(counts)
            first = np.cumsum(counts)[open_rows] - counts[open_rows]
            chosen = order[first[:, None] + np.arange(k)]
            indices[start + open_rows] = candidate[chosen]
            if ranked:
                distances[start + open_rows] = squares[chosen]

        with Workers(m * n) as workers:
            if itself:
                workers.run(multiply, row_blocks(n, _MULTIPLIED_ROWS))
            workers.run(search, row_blocks(m, max(_MIN_ROWS, min(_BLOCK_PRODUCTS // n, -(-m // 4)))))
        return Neighbors(indices, distances)

    def _squares(self, X: Floats, rows: Ints, candidates: Ints, k: int) -> Floats:
        """``|x - y|^2`` in float64 for pairs of a row of X and a point, (p,) each."""
        place = None
        if len(rows) > _MANY_CANDIDATES * k * len(np.unique(rows)):
            # Piles of equal points: all of them may be candidates of all.
            pairs = rows.astype(np.int64) * len(self.points) + self._first_equal[candidates]
            pairs, place = np.unique(pairs, return_inverse=True)
            rows, candidates = np.divmod(pairs, len(self.points))
        squares = np.empty(len(rows))
        for start, stop in row_blocks(len(rows), max(1, _BLOCK_GAPS // max(1, X.shape[1]))):
            x, y = X[rows[start:stop]], self.points[candidates[start:stop]]
            gaps = np.subtract(x, y, dtype=np.float64)
            np.einsum("nd,nd->n", gaps, gaps, out=squares[start:stop])
        return squares if place is None else squares[place]

    @cached_property
    def _first_equal(self) -> Ints:
        """The first point that is equal to each point, (n,)."""
        _, first, group = np.unique(self.points, axis=0, return_index=True, return_inverse=True)
        equal: Ints = first[group.ravel()]
        return equal
