"""Approximate neighbors by cells: k-means cells, and each row's search in the cells nearest to it.

An inverted-list search asks for one query at a time and reads its lists from memory. Here all rows are queries at once,
so the queries that look into a cell are put together and multiplied with its points as one dense product, which runs
at the speed of BLAS. Rows are visited in the order of their cells: queries that follow one another look into the same
cells, and the graph that comes out has its edges near the diagonal.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from itertools import pairwise

import numpy as np

from laplacianshot.neighbors.exact import Heaps, nearest_rows
from laplacianshot.neighbors.kernels import sort_heaps, take_sources, turn_lists
from laplacianshot.neighbors.rows import Rows
from laplacianshot.neighbors.types import ELSEWHERE, Neighbors, index_dtype
from laplacianshot.runtime.progress import Progress, RowCounter
from laplacianshot.runtime.threads import Workers, row_blocks
from laplacianshot.runtime.types import Floats, Ints

# Queries searched together, and rows of one product.
QUERY_ROWS = 8192
_PRODUCT_ROWS = 1024
# Cells to be searched that are kept of every row, from one pass over the rows to the next.
MAX_KEPT = 64
# A cell of more than this many times the mean is cut, and only one part of it searched: its rows are all alike.
_MAX_CELL = 16
# Cells are this many times the square root of the number of rows.
_CELLS = 4
# Rows searched exactly to choose the number of cells to search, and as many others to measure the recall.
SAMPLE = 512
# Squared distances of rows of length one that differ by less are equal as far as float32 products can tell.
_EQUAL = 1e-5
_COMPLETED_ROWS = 8192
# Sampled rows per centroid, and rounds of k-means over groups, inside groups and over all centroids.
SAMPLE_ROWS = 24
_GROUP_ROUNDS = 6
_ROUNDS = 2
# Rows and centroids of one product: at most 64 MB.
_CENTROID_ROWS = 1024
_CENTROID_COLUMNS = 16384


@dataclass(frozen=True, repr=False)
class CellIndex:
    """Rows sorted by the cell they lie in."""

    rows: Rows  # all rows, cell after cell
    order: Ints  # (n,): where each of them was before
    centroids: Floats  # (n_cells, D); near ones have near numbers
    starts: Ints  # (n_parts + 1,): first row of each part, which is a cell, or a piece of a cell that is too large
    parts: Ints  # (n_cells + 1,): first part of each cell
    n_probes: int  # number of nearest cells that are searched for each row

    @classmethod
    def build(
        cls, rows: Rows, centroids: Floats, n_probes: int, *, progress: Progress | None = None
    ) -> tuple[CellIndex, Ints]:
        """Sort rows into the cells of ``centroids`` (n_cells, D).

        Also returns the cells nearest to each row of the index, (n, n_probes), the nearest first: its own. That one
        alone, (n, 1), if there are more than MAX_KEPT, which would take more memory than anything else: they are found
        again in the search.
        """
        n_probes = min(n_probes, len(centroids))
        kept = n_probes if n_probes <= MAX_KEPT else 1
        probes = nearest_centroids(rows, centroids, kept, progress=progress)
        n_cells = len(centroids)
        own = probes[:, 0]
        order = np.argsort(own, kind="stable")
        counts = np.bincount(own, minlength=n_cells)
        largest = max(1, _MAX_CELL * -(-len(rows) // n_cells))
        pieces = np.maximum(1, -(-counts // largest))
        parts = np.concatenate([[0], np.cumsum(pieces)])
        within = np.arange(parts[-1]) - np.repeat(parts[:-1], pieces)
        firsts = np.repeat(np.cumsum(counts) - counts, pieces)
        starts = firsts + within * np.repeat(counts, pieces) // np.repeat(pieces, pieces)
        starts = np.concatenate([starts, [len(rows)]])
        return cls(rows.ordered(order), order, centroids, starts, parts, n_probes), probes[order]

    def neighbors(self, n_neighbors: int, probes: Ints, *, progress: Progress | None = None) -> Neighbors:
        """Neighbors (n, k) of each row in its cells ``probes`` (see :meth:`build`), by their positions in ``rows``."""
        return self._search(self.rows, n_neighbors, probes, itself=True, progress=progress)

    def neighbors_of(self, X: Floats, n_neighbors: int) -> Neighbors:
        """Rows nearest to each row of ``X`` (m, D), in the same coordinates; by their positions in ``rows``."""
        probes = nearest_centroids(X, self.centroids, self.n_probes)
        return self._search(X, min(n_neighbors, len(self.rows)), probes, itself=False)

    def _search(
        self, X: Floats | Rows, k: int, probes: Ints, *, itself: bool, progress: Progress | None = None
    ) -> Neighbors:
        """Nearest rows of each row of X (m, D) in its cells, (m, k), -1 where fewer were seen; or X are the rows."""
        n, n_rows = len(X), len(self.rows)
        found = Neighbors(np.empty((n, k), dtype=index_dtype(n_rows)), np.empty((n, k), dtype=np.float32))
        counter = RowCounter(n, progress)
        nearest_of = CentroidSearch.of(self.centroids, self.n_probes)
        kept = probes.shape[1] == self.n_probes

        def search(_: int, start: int, stop: int) -> None:
            queries = X[start:stop]
            cells = probes[start:stop] if kept else nearest_of(queries)
            part_of = self.parts_of(cells, np.arange(start, stop)[:, None], own=itself)
            heaps = Heaps.empty(stop - start, k, n_rows)
            who = np.repeat(np.arange(stop - start), part_of.shape[1])
            self.offer(queries, who, part_of.ravel(), heaps, first_row=start if itself else ELSEWHERE)
            some = heaps.sorted(queries)
            found.indices[start:stop], found.distances[start:stop] = some.indices, some.distances
            counter.add(stop - start)

        with Workers(n * n_rows) as workers:
            workers.run(search, row_blocks(n, max(1, QUERY_ROWS * MAX_KEPT // max(MAX_KEPT, self.n_probes))))
        return found

    def parts_of(self, cells: Ints, positions: Ints, *, own: bool) -> Ints:
        """The part of each of ``cells`` that the query at ``positions`` searches, which broadcast with them.

        Of a cell in which it lies itself, if these are its own positions among ``rows``, the part in which it lies.
        """
        first, count = self.parts[cells], self.parts[cells + 1] - self.parts[cells]
        chosen: Ints = first + positions % count
        if own and len(self.starts) - 1 > len(self.centroids):
            lies = np.searchsorted(self.starts, positions, side="right") - 1
            chosen = np.where((lies >= first) & (lies < first + count), lies, chosen)
        return chosen

    def offer(
        self, queries: Floats, who: Ints, parts: Ints, heaps: Heaps, *, first_row: int, first_point: int = 0
    ) -> None:
        """Offer the points of part ``parts[i]`` to the heap of query ``who[i]``, by :func:`~.kernels.offer_points`.

        ``heaps`` are those of queries (m, D). The points have the numbers from ``first_point`` on, and query h is point
        ``first_row + h`` itself.
        """
        by_part = np.argsort(parts, kind="stable")
        bounds = np.append(np.flatnonzero(np.diff(parts[by_part], prepend=-1)), len(parts))
        for first, last in pairwise(bounds):
            part = parts[by_part[first]]
            start, stop = self.starts[part], self.starts[part + 1]
            if start == stop:
                continue
            points = self.rows[start:stop]
            halves = np.einsum("nd,nd->n", points, points) / 2
            members = who[by_part[first:last]]
            for top in range(0, len(members), _PRODUCT_ROWS):
                some = members[top : top + _PRODUCT_ROWS]
                products = queries[some] @ points.T
                heaps.offer(products, halves, some, first_point + start, first_row)


def n_cells_of(n: int) -> int:
    """Number of cells for n rows."""
    return max(1, round(_CELLS * math.sqrt(n)))


def sample_rows(n: int, seed: int, number: int) -> Ints:
    """Rows to search exactly, (min(n, SAMPLE),), ascending; samples of different ``number`` are independent."""
    rng = np.random.default_rng([seed, number])
    return np.sort(rng.choice(n, min(n, SAMPLE), replace=False))


@dataclass(frozen=True, repr=False)
class ExactSample:
    """Some rows with their true neighbors."""

    rows: Ints  # (m,): their positions
    neighbors: Ints  # (m, k): positions of the nearest other rows, nearest first
    reach: Floats  # (m,): squared distance to the last of them

    @classmethod
    def search(cls, rows: Rows, sample: Ints, n_neighbors: int) -> ExactSample:
        """Search all rows for the neighbors of those at the positions ``sample`` (m,)."""
        # One more: each row finds itself.
        return cls.of(sample, nearest_rows(rows, rows[sample], min(n_neighbors, len(rows) - 1) + 1))

    @classmethod
    def of(cls, sample: Ints, found: Neighbors) -> ExactSample:
        """From the k + 1 rows nearest to each of those at the positions ``sample`` (m,), the row itself among them."""
        # Where duplicates push a row out of its own list, the last of them makes room instead.
        itself = found.indices == sample[:, None]
        itself[~itself.any(axis=1), -1] = True
        m, k = len(sample), found.indices.shape[1] - 1
        others, squares = (part[~itself].reshape(m, k) for part in (found.indices, found.distances))
        return cls(sample, others, squares[:, -1] if k else np.zeros(m, np.float32))

    def shares_found(self, rows: Rows, found: Ints) -> Floats:
        """Share of the neighbors of each sampled row that ``found`` (m, k) holds, (m,); -1 stands for no row."""
        squares = np.full(found.shape, np.inf)
        for i, own in enumerate(self.rows):
            seen = np.unique(found[i][found[i] >= 0])
            gaps = rows[seen] - rows[own[None]]
            squares[i, : len(seen)] = np.einsum("nd,nd->n", gaps, gaps)
        return shares_near(squares, self.reach)


def shares_near(distances: Floats, reach: Floats) -> Floats:
    """Share of squared distances (m, k) that are as near as the true neighbors, the last of them at ``reach`` (m,).

    A row as near as the last true neighbor counts as one: among duplicates any will do.
    """
    near = distances <= (reach + _EQUAL * (1 + reach))[:, None]
    shares: Floats = near.mean(axis=1) if near.shape[1] else np.ones(len(near))
    return shares


def choose_probes(rows: Rows, centroids: Floats, sample: ExactSample, target_recall: float) -> int:
    """The smallest number of cells to search for the target.

    A true neighbor is found if its cell is among the nearest ones of the row: no search is needed to know that.
    """
    m, k = sample.neighbors.shape
    nearest = nearest_centroids(rows[sample.rows], centroids, len(centroids))
    rank = np.empty_like(nearest)
    rank[np.arange(m)[:, None], nearest] = np.arange(len(centroids), dtype=nearest.dtype)
    cells = nearest_centroids(rows.ordered(sample.neighbors.ravel()), centroids, 1).reshape(m, k)
    return probes_for(rank[np.arange(m)[:, None], cells], target_recall)


def probes_for(ranks: Ints, target_recall: float) -> int:
    """The smallest number of cells for which the mean recall of m rows, less twice its standard error, is enough.

    ``ranks`` (m, k): how many cells are nearer to a row than the cell of each of its true neighbors.
    """
    m, k = ranks.shape
    counts = np.unique(ranks) + 1

    def recall(probes: int) -> float:
        shares = np.count_nonzero(ranks < probes, axis=1) / k
        return float(shares.mean() - 2 * shares.std() / m**0.5)

    most = recall(int(counts[-1]))
    return next(int(count) for count in counts if recall(int(count)) >= min(target_recall, most))


def complete(found: Neighbors) -> None:
    """Add to the neighbors of each row, in place, rows that have it as a neighbor and are nearer than its own last one.

    An approximate search misses neighbors that lie just beyond what was searched, often on one side only: the other
    row has found this one. Their distance is known, so that nothing has to be searched again.
    """
    lists, squares = found.indices, found.distances
    with Workers(lists.size * 4) as workers:
        incoming = incoming_edges(workers, lists, squares)
        workers.run(
            lambda _, start, stop: take_sources(lists, squares, *incoming, start, stop),
            row_blocks(len(lists), _COMPLETED_ROWS),
        )


def incoming_edges(workers: Workers, lists: Ints, squares: Floats | None = None) -> tuple[Ints, Ints, Floats]:
    """Neighbor lists (n, k) turned around: who has node j is ``sources[first_j : first_{j+1}]``, ascending.

    Returns ``first`` (n + 1,), the sources and, where ``squares`` (n, k) are given, the squared distances to them.
    """
    n = len(lists)
    first = np.zeros(n + 1, dtype=np.int64)
    distances = np.empty((0, 0), np.float32) if squares is None else squares

    def turn(at: Ints, sources: Ints, turned: Floats) -> None:
        # Each thread reads all lists and writes of some nodes.
        work = (lists, distances, at, sources, turned)
        workers.run(lambda _, start, stop: turn_lists(*work, start, stop), workers.share(n))

    turn(first[1:], np.empty(0, lists.dtype), np.empty(0, distances.dtype))
    np.cumsum(first, out=first)
    sources = np.empty(first[-1], dtype=lists.dtype)
    turned = np.empty(first[-1] if distances.size else 0, dtype=distances.dtype)
    turn(first[:-1].copy(), sources, turned)
    return first, sources, turned


def train_centroids(rows: Rows, n_cells: int, seed: int = 0, *, progress: Progress | None = None) -> Floats:
    """Centroids (at most n_cells, D) of k-means cells, those of near cells with near numbers.

    A sample is first cut into sqrt(n_cells) groups, each group then into cells in proportion to its size, and all
    centroids are moved together at the end: a fraction of the work of k-means from scratch.
    """
    rng = np.random.default_rng(seed)
    n_cells = min(n_cells, len(rows))
    n_sample = min(len(rows), SAMPLE_ROWS * n_cells)
    sample = rows[np.sort(rng.choice(len(rows), n_sample, replace=False))]
    n_groups = max(1, round(n_cells**0.5))
    groups = _k_means(sample, n_groups, rng)
    group_of = nearest_centroids(sample, groups, 1)[:, 0]
    centroids = []
    for g in range(len(groups)):
        members = sample[group_of == g]
        cells = min(len(members), max(1, round(n_cells * len(members) / n_sample)))
        if cells:
            centroids.append(_k_means(members, cells, rng))
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
        if self.count == 1 and n_cells <= _CENTROID_COLUMNS:
            products = rows @ self.columns
            products -= self.halves
            nearest: Ints = products.argmax(axis=1)[:, None]
            return nearest
        heaps = Heaps.empty(len(rows), self.count, n_cells)
        each = np.arange(len(rows))
        for left, right in row_blocks(n_cells, _CENTROID_COLUMNS):
            products = rows @ self.columns[:, left:right]
            heaps.offer(products, self.halves[left:right], each, left, ELSEWHERE)
        sort_heaps(heaps.keys, heaps.ids)
        return heaps.ids

    def of_rows(self, rows: Rows | Floats, *, progress: Progress | None = None) -> Ints:
        """Of any number of rows (n, D): (n, count), nearest first."""
        n = len(rows)
        nearest = np.empty((n, self.count), dtype=np.int32)
        counter = RowCounter(n, progress)

        def find(_: int, start: int, stop: int) -> None:
            nearest[start:stop] = self(rows[start:stop])
            counter.add(stop - start)

        with Workers(n * self.columns.size) as workers:
            workers.run(find, row_blocks(n, _CENTROID_ROWS))
        return nearest


def _k_means(X: Floats, count: int, rng: np.random.Generator) -> Floats:
    """Centroids (count, D) of rows X (n, D), from different rows drawn at random."""
    return _lloyd(X, X[np.sort(rng.choice(len(X), count, replace=False))], _GROUP_ROUNDS)


def _lloyd(X: Floats, centroids: Floats, rounds: int) -> Floats:
    """Rounds of k-means, in place; a centroid that loses all its rows goes to one of the rows farthest from theirs."""
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
