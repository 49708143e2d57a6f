"""k-means centroids of a large set, from a sample of it; the same for any number of threads."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from laplacianshot.neighbors.kernels import offer_cell, sort_heaps
from laplacianshot.neighbors.rows import Rows
from laplacianshot.neighbors.types import ELSEWHERE
from laplacianshot.runtime.progress import Progress, RowCounter
from laplacianshot.runtime.threads import Workers, row_blocks
from laplacianshot.runtime.types import Floats, Ints

# Sampled rows per centroid, and rounds of k-means over groups, inside groups and over all centroids.
SAMPLE_ROWS = 24
_GROUP_ROUNDS = 6
_ROUNDS = 2
# Rows and centroids of one product: at most 64 MB.
_BLOCK_ROWS = 1024
_BLOCK_COLUMNS = 16384


def train_centroids(rows: Rows, n_cells: int, seed: int = 0, *, progress: Progress | None = None) -> Floats:
    """Centroids (at most n_cells, D) of k-means cells, those of near cells with near numbers.

    A sample is first cut into sqrt(n_cells) groups, each group then into cells in proportion to its size, and all
    centroids are moved together at the end: a fraction of the work of k-means from scratch.

    Parameters
    ----------
    rows : Rows of shape (n, D)
    n_cells : int
        At most n.
    seed : int
    progress : callable, optional
        Called with groups done and their number.
    """
    rng = np.random.default_rng(seed)
    n_cells = min(n_cells, len(rows))
    n_sample = min(len(rows), SAMPLE_ROWS * n_cells)
    sample = rows.take(np.sort(rng.choice(len(rows), n_sample, replace=False)))
    n_groups = max(1, round(n_cells**0.5))
    groups = _lloyd(sample, _first_points(sample, n_groups, rng), _GROUP_ROUNDS)
    group_of = nearest_centroids(sample, groups, 1)[:, 0]
    centroids = []
    for g in range(len(groups)):
        members = sample[group_of == g]
        cells = min(len(members), max(1, round(n_cells * len(members) / n_sample)))
        if cells:
            centroids.append(_lloyd(members, _first_points(members, cells, rng), _GROUP_ROUNDS))
        if progress is not None:
            progress(g + 1, len(groups))
    return _lloyd(sample, np.concatenate(centroids), _ROUNDS)


def nearest_centroids(
    rows: Rows | Floats, centroids: Floats, n_nearest: int, *, progress: Progress | None = None
) -> Ints:
    """The nearest centroids of each row, (n, min(n_nearest, n_cells)), nearest first."""
    return CentroidSearch.of(centroids, n_nearest).of_rows(rows, progress=progress)


@dataclass(frozen=True, repr=False)
class CentroidSearch:
    """The ``count`` nearest of centroids, given as columns (D, n_cells) and halves of their squares (n_cells,)."""

    columns: Floats
    halves: Floats
    count: int

    @classmethod
    def of(cls, centroids: Floats, count: int) -> CentroidSearch:
        """Of centroids (n_cells, D), or of all of them if they are fewer."""
        halves = np.einsum("cd,cd->c", centroids, centroids) / 2
        return cls(np.ascontiguousarray(centroids.T), halves, min(count, len(centroids)))

    def __call__(self, rows: Floats) -> Ints:
        """Of each row (m, D): (m, count), nearest first."""
        n_cells = len(self.halves)
        if self.count == 1 and n_cells <= _BLOCK_COLUMNS:
            products = rows @ self.columns
            products -= self.halves
            nearest: Ints = products.argmax(axis=1)[:, None]
            return nearest
        keys = np.full((len(rows), self.count), np.inf, dtype=np.float32)
        ids = np.full((len(rows), self.count), -1, dtype=np.int32)
        for left, right in row_blocks(n_cells, _BLOCK_COLUMNS):
            products = rows @ self.columns[:, left:right]
            offer_cell(products, self.halves[left:right], np.arange(len(rows)), left, ELSEWHERE, keys, ids)
        sort_heaps(keys, ids)
        return ids

    def of_rows(self, rows: Rows | Floats, *, progress: Progress | None = None) -> Ints:
        """Of any number of rows (n, D): (n, count), nearest first."""
        n = len(rows)
        nearest = np.empty((n, self.count), dtype=np.int32)
        tell = RowCounter(n, progress)

        def find(_: int, start: int, stop: int) -> None:
            nearest[start:stop] = self(rows[start:stop])
            tell.add(stop - start)

        with Workers(n * self.columns.size) as workers:
            workers.run(find, row_blocks(n, _BLOCK_ROWS))
        return nearest


def _first_points(X: Floats, count: int, rng: np.random.Generator) -> Floats:
    """Different rows of X, drawn at random."""
    chosen: Floats = X[np.sort(rng.choice(len(X), count, replace=False))]
    return chosen


def _lloyd(X: Floats, centroids: Floats, rounds: int) -> Floats:
    """Rounds of k-means; a centroid that loses all its rows goes to one of the rows farthest from theirs."""
    centroids = centroids.copy()
    for _ in range(rounds):
        own = nearest_centroids(X, centroids, 1)[:, 0]
        counts = np.bincount(own, minlength=len(centroids))
        order = np.argsort(own, kind="stable")
        present = np.flatnonzero(counts)
        firsts = (np.cumsum(counts) - counts)[present]
        centroids[present] = np.add.reduceat(X[order], firsts, axis=0) / counts[present, None].astype(np.float32)
        empty = np.flatnonzero(counts == 0)
        if len(empty):
            gaps = X - centroids[own]
            centroids[empty] = X[np.argsort(-np.einsum("nd,nd->n", gaps, gaps), kind="stable")[: len(empty)]]
    return centroids
