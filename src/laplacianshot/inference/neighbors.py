"""Exact k nearest neighbours by blocked matrix products.

Candidates are found in float32 from ``|x|^2 + |y|^2 - 2 x.y`` a block at a time, then ordered by their exact distance,
so that rounding in the products cannot swap two neighbours. Searching a set against itself forms each block once and
reads it both ways: half the products. No n x n matrix is ever held, and a point is recognised by its index, never by a
zero distance: duplicates are neighbours of one another, and no point is its own.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial

import numpy as np

from laplacianshot.inference._neighbor_kernels import offer_columns, offer_rows, rank_candidates
from laplacianshot.inference._threads import Workers, row_blocks
from laplacianshot.inference._types import Floats, Ints

# A block of products is at most _BLOCK_ROWS x _BLOCK_COLUMNS float32: 16 MB.
_BLOCK_ROWS = 1024
_BLOCK_COLUMNS = 4096
# Candidates kept beyond k while distances are only known to float32 rounding.
_SPARE = 6


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


def nearest_neighbors(X: Floats, n_neighbors: int) -> Neighbors:
    """The nearest other rows of each row of ``X``.

    Parameters
    ----------
    X : array of shape (n, D)
        Finite, C-contiguous.
    n_neighbors : int
        At least 1; at most n - 1 are returned.

    Returns
    -------
    Neighbors of shape (n, min(n_neighbors, n - 1))
    """
    n = X.shape[0]
    k = min(n_neighbors, n - 1)
    points, halves = _for_products(X)
    keys, ids = _empty_heaps(n, min(k + _SPARE, max(n - 1, 0)))
    if k <= 0:
        return Neighbors(np.empty((n, 0), ids.dtype), np.empty((n, 0), np.float64))
    with Workers(n * n) as workers:
        limits = np.empty(_BLOCK_COLUMNS, dtype=np.float32)
        for top, bottom in row_blocks(n, _BLOCK_ROWS):
            rows, row_halves = points[top:bottom], halves[top:bottom]
            # On the diagonal a block holds both orientations of its pairs; right of it each pair is seen once.
            _offer(workers, rows, row_halves, rows, row_halves, top, top, True, keys, ids)
            for left in range(bottom, n, _BLOCK_COLUMNS):
                columns, column_halves = points[left : left + _BLOCK_COLUMNS], halves[left : left + _BLOCK_COLUMNS]
                products = _offer(workers, rows, row_halves, columns, column_halves, top, left, False, keys, ids)
                offer = partial(_offer_back, products, row_halves, column_halves, top, left, keys, ids, limits)
                workers.run(offer, workers.share(len(columns)))
    return _ranked(X, X, ids, k)


def cross_neighbors(X: Floats, points: Floats, n_neighbors: int) -> Neighbors:
    """The nearest rows of ``points`` (n, D) for each row of ``X`` (m, D), a row equal to a point included.

    Returns
    -------
    Neighbors of shape (m, min(n_neighbors, n))
    """
    k = min(n_neighbors, points.shape[0])
    both, halves = _for_products(points, X)
    found, sought = both[: points.shape[0]], both[points.shape[0] :]
    found_halves, sought_halves = halves[: points.shape[0]], halves[points.shape[0] :]
    keys, ids = _empty_heaps(X.shape[0], min(k + _SPARE, points.shape[0]))
    if k <= 0:
        return Neighbors(np.empty((X.shape[0], 0), ids.dtype), np.empty((X.shape[0], 0), np.float64))
    with Workers(X.shape[0] * points.shape[0]) as workers:
        for top, bottom in row_blocks(X.shape[0], _BLOCK_ROWS):
            rows, row_halves = sought[top:bottom], sought_halves[top:bottom]
            for left, right in row_blocks(points.shape[0], _BLOCK_COLUMNS):
                columns, column_halves = found[left:right], found_halves[left:right]
                _offer(workers, rows, row_halves, columns, column_halves, top, left, False, keys, ids)
    return _ranked(X, points, ids, k)


def _for_products(*parts: Floats) -> tuple[Floats, Floats]:
    """Rows stacked, moved to their mean and scaled into float32's range, and half their squared norms.

    Neither changes who is whose neighbour; both keep the float32 products as sharp as they can be.
    """
    rows = np.concatenate(parts, dtype=np.float32) if parts[0].dtype == np.float32 else np.concatenate(parts)
    if rows.size:
        rows -= rows.mean(axis=0, dtype=np.float64).astype(rows.dtype)
        largest = max(float(rows.max()), -float(rows.min()))
        if largest > 0:
            rows /= rows.dtype.type(largest)
    rows = np.ascontiguousarray(rows, dtype=np.float32)
    return rows, np.einsum("nd,nd->n", rows, rows) / 2


def _empty_heaps(n: int, size: int) -> tuple[Floats, Ints]:
    keys = np.full((n, size), np.inf, dtype=np.float32)
    ids = np.full((n, size), -1, dtype=np.int32 if n < 2**31 else np.int64)
    return keys, ids


def _offer(
    workers: Workers,
    rows: Floats,
    row_halves: Floats,
    columns: Floats,
    column_halves: Floats,
    first_row: int,
    first_column: int,
    skip_self: bool,
    keys: Floats,
    ids: Ints,
) -> Floats:
    """Offer ``columns`` to the heaps of ``rows``, and return the block of products (rows, columns)."""
    products = np.empty((len(rows), len(columns)), dtype=np.float32)
    args = (products, row_halves, column_halves, first_row, first_column, skip_self, keys, ids)

    def slab(_: int, start: int, stop: int) -> None:
        np.matmul(rows[start:stop], columns.T, out=products[start:stop])
        offer_columns(*args, start, stop)

    workers.run(slab, workers.share(len(rows)))
    return products


def _offer_back(
    products: Floats,
    row_halves: Floats,
    column_halves: Floats,
    first_row: int,
    first_column: int,
    keys: Floats,
    ids: Ints,
    limits: Floats,
    _: int,
    start: int,
    stop: int,
) -> None:
    """Offer the rows of a block to the heaps of its columns ``start..stop``."""
    offer_rows(products, row_halves, column_halves, first_row, first_column, keys, ids, limits, start, stop)


def _ranked(queries: Floats, points: Floats, ids: Ints, k: int) -> Neighbors:
    n, m = ids.shape
    indices = np.empty((n, k), dtype=ids.dtype)
    distances = np.empty((n, k), dtype=np.float64)
    with Workers(n * m * points.shape[1]) as workers:
        workers.run(lambda _, a, b: rank_candidates(queries, points, ids, indices, distances, a, b), row_blocks(n, 512))
    return Neighbors(indices, distances)
