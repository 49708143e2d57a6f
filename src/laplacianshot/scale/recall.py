"""Exact neighbours of a sample of rows, and what share of them an approximate search finds."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from laplacianshot.inference._threads import Workers, row_blocks
from laplacianshot.inference._types import Floats, Ints
from laplacianshot.scale._cell_kernels import offer_cell, sort_heaps
from laplacianshot.scale.rows import Rows

_POINT_ROWS = 1024
_QUERY_ROWS = 256
# Two squared distances of rows of length one that differ by less are equal as far as float32 products can tell.
_EQUAL = 1e-5


@dataclass(frozen=True, repr=False)
class ExactSample:
    """Some rows with their true neighbours.

    Attributes
    ----------
    rows : int array of shape (m,)
        Their positions.
    neighbors : int array of shape (m, k)
        Positions of the nearest other rows, nearest first.
    reach : array of shape (m,)
        Squared distance to the last of them.
    """

    rows: Ints
    neighbors: Ints
    reach: Floats

    @classmethod
    def search(cls, rows: Rows, sample: Ints, n_neighbors: int) -> ExactSample:
        """Search all rows for the neighbours of those at the positions ``sample`` (m,)."""
        queries = rows.take(sample)
        k = min(n_neighbors, len(rows) - 1)
        # One more: each row finds itself.
        keys = np.full((len(sample), k + 1), np.inf, dtype=np.float32)
        ids = np.full((len(sample), k + 1), -1, dtype=np.int64)
        with Workers(len(sample) * rows.size) as workers:
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
                    some = np.arange(stop - start)
                    offer_cell(queries[own] @ points.T, halves, some, first, -(2**40), keys[own], ids[own])

                workers.run(offer, row_blocks(len(sample), _QUERY_ROWS))
        sort_heaps(keys, ids)
        # Where duplicates push a row out of its own list, the last of them makes room instead.
        itself = ids == sample[:, None]
        itself[~itself.any(axis=1), -1] = True
        others = ids[~itself].reshape(len(sample), k)
        squares = (2 * keys[~itself]).reshape(len(sample), k) + np.einsum("nd,nd->n", queries, queries)[:, None]
        return cls(sample, others, squares[:, -1] if k else np.zeros(len(sample), np.float32))

    def shares_found(self, rows: Rows, found: Ints) -> Floats:
        """Share of the neighbours of each sampled row that ``found`` (m, k) holds, (m,).

        A row as near as the last true neighbour counts as one: among duplicates any will do. -1 is no row.
        """
        shares = np.empty(len(self.rows))
        k = found.shape[1]
        for i, own in enumerate(self.rows):
            seen = np.unique(found[i][found[i] >= 0])
            gaps = rows.take(seen) - rows.take(own[None])
            squares = np.einsum("nd,nd->n", gaps, gaps)
            near = squares <= self.reach[i] + _EQUAL * (1 + self.reach[i])
            shares[i] = near.sum() / k if k else 1.0
        return shares
