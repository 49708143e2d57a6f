"""Exact neighbors of a sample of rows, and what share of them an approximate search finds."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from laplacianshot.neighbors.kmeans import nearest_centroids
from laplacianshot.neighbors.rows import Rows
from laplacianshot.neighbors.streamed import nearest_rows
from laplacianshot.runtime.types import Floats, Ints

# Two squared distances of rows of length one that differ by less are equal as far as float32 products can tell.
_EQUAL = 1e-5


@dataclass(frozen=True, repr=False)
class ExactSample:
    """Some rows with their true neighbors.

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
        """Search all rows for the neighbors of those at the positions ``sample`` (m,)."""
        k = min(n_neighbors, len(rows) - 1)
        # One more: each row finds itself.
        found = nearest_rows(rows, rows.take(sample), k + 1)
        # Where duplicates push a row out of its own list, the last of them makes room instead.
        itself = found.indices == sample[:, None]
        itself[~itself.any(axis=1), -1] = True
        others = found.indices[~itself].reshape(len(sample), k)
        squares = found.distances[~itself].reshape(len(sample), k)
        return cls(sample, others, squares[:, -1] if k else np.zeros(len(sample), np.float32))

    def shares_found(self, rows: Rows, found: Ints) -> Floats:
        """Share of the neighbors of each sampled row that ``found`` (m, k) holds, (m,).

        A row as near as the last true neighbor counts as one: among duplicates any will do. -1 is no row.
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


def choose_probes(rows: Rows, centroids: Floats, sample: ExactSample, target_recall: float) -> int:
    """Fewest cells to search for the target: the sample's mean recall, less twice its standard error, reaches it.

    A true neighbor is found if its cell is among the nearest ones of the row: no search is needed to know that.
    """
    m, k = sample.neighbors.shape
    n_cells = len(centroids)
    nearest = nearest_centroids(rows.take(sample.rows), centroids, n_cells)
    rank = np.empty_like(nearest)
    rank[np.arange(m)[:, None], nearest] = np.arange(n_cells, dtype=nearest.dtype)
    cells = nearest_centroids(rows.ordered(sample.neighbors.ravel()), centroids, 1).reshape(m, k)
    ranks = rank[np.arange(m)[:, None], cells]
    counts = np.bincount((ranks + n_cells * np.arange(m)[:, None]).ravel(), minlength=m * n_cells)
    shares = counts.reshape(m, n_cells).cumsum(axis=1) / k
    sure = shares.mean(axis=0) - 2 * shares.std(axis=0) / m**0.5
    return int(np.argmax(sure >= min(target_recall, sure[-1]))) + 1
