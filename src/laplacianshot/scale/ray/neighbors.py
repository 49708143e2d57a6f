"""Neighbours by shards: each shard's rows against every shard's index, the nearest of all of them kept."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from laplacianshot.inference._threads import row_blocks
from laplacianshot.inference._types import Floats, Ints
from laplacianshot.inference.neighbors import Neighbors, PointIndex
from laplacianshot.scale.cells import CellIndex
from laplacianshot.scale.kmeans import nearest_centroids, train_centroids
from laplacianshot.scale.neighbors import _n_cells
from laplacianshot.scale.ray.job import Job

_MERGED_ROWS = 65536
# Two squared distances of rows of length one that differ by less are equal as far as float32 products can tell.
_EQUAL = 1e-5


def index_shard(job: Job, number: int, seed: int) -> None:
    """Cells of a shard, into ``cells-*.npz``."""
    rows = job.rows(number)
    index, _ = CellIndex.build(rows, train_centroids(rows, _n_cells(len(rows)), seed), 1)
    names = ("centroids", "starts", "parts", "order")
    job.folder.put_arrays(f"cells-{number:05}.npz", {name: getattr(index, name) for name in names})


def search_shard(job: Job, number: int, k: int, n_probes: int | None, sample: Ints) -> None:
    """The k nearest other rows of every row of a shard, in all shards, into ``neighbors-*.npz``.

    ``ids`` (m, k) are rows of the whole set, nearest first, -1 where fewer were seen; ``sampled`` are squared distances
    of those rows of the shard that are in ``sample``. Without ``n_probes`` the search is exact.
    """
    queries = job.rows(number)[:]
    found: Neighbors | None = None
    # Its own shard first, then each its neighbour: workers read different shards at the same time.
    for step in range(len(job.shards)):
        other = (number + step) % len(job.shards)
        more = _in_shard(job, number, other, queries, k, n_probes)
        found = more if found is None else _nearest_of(found, more, k)
    assert found is not None
    shard = job.shards[number]
    here = sample[(sample >= shard.first) & (sample < shard.first + len(shard))] - shard.first
    ids = found.indices.astype(np.int32 if job.n < 2**31 else np.int64)
    job.folder.put_arrays(_name(number), {"ids": ids, "sampled": found.distances[here]})


def neighbor_lists(job: Job, number: int) -> Ints:
    """Neighbours (m, k) of the rows of a shard, as :func:`search_shard` found them."""
    ids: Ints = job.folder.arrays(_name(number))["ids"]
    return ids


def sampled_distances(job: Job, number: int) -> Floats:
    """Squared distances (m, k) to the neighbours of sampled rows of a shard, as :func:`search_shard` found them."""
    distances: Floats = job.folder.arrays(_name(number))["sampled"]
    return distances


def is_searched(job: Job, number: int) -> bool:
    """Whether the neighbours of a shard are there."""
    return job.folder.has(_name(number))


def exact_neighbors(job: Job, number: int, queries: Floats, rows: Ints, k: int) -> Neighbors:
    """The k nearest rows of one shard to each of ``queries`` (m, D), which are ``rows`` of the whole set."""
    found = _padded(PointIndex(job.rows(number)[:]).neighbors_of(queries, k + 1), k + 1)
    ids = np.where(found.indices < 0, -1, found.indices + job.shards[number].first)
    distances = np.where(ids == rows[:, None], np.inf, found.distances)
    order = np.argsort(distances, axis=1, kind="stable")[:, :k]
    near = np.take_along_axis(distances, order, axis=1)
    return Neighbors(np.where(np.isinf(near), -1, np.take_along_axis(ids, order, axis=1)), near)


def nearest_of_all(found: list[Neighbors], k: int) -> Neighbors:
    """The k nearest of what several shards found for the same queries."""
    nearest = found[0]
    for more in found[1:]:
        nearest = _nearest_of(nearest, more, k)
    return nearest


def cell_ranks(job: Job, number: int, queries: Floats, of_query: Ints, rows: Ints) -> Ints:
    """How many cells of a shard are nearer to a query than that of a row: for pairs of them, (p,).

    ``rows`` of the whole set lie in the shard; row i is asked for by ``queries[of_query[i]]``.
    """
    cells = job.folder.arrays(f"cells-{number:05}.npz")
    centroids, starts, parts, order = (cells[name] for name in ("centroids", "starts", "parts", "order"))
    place = np.empty(len(order), dtype=np.int64)
    place[order] = np.arange(len(order))
    part = np.searchsorted(starts, place[rows - job.shards[number].first], side="right") - 1
    own = np.searchsorted(parts, part, side="right") - 1
    nearest = nearest_centroids(queries, centroids, len(centroids))
    rank = np.empty_like(nearest)
    rank[np.arange(len(queries))[:, None], nearest] = np.arange(len(centroids), dtype=nearest.dtype)
    ranks: Ints = rank[of_query, own]
    return ranks


def choose_probes(ranks: Ints, of_query: Ints, m: int, k: int, target_recall: float) -> int:
    """Fewest cells of every shard to search: the mean recall of m queries, less twice its error, reaches the target."""
    most = int(ranks.max()) + 1
    for n_probes in range(1, most + 1):
        shares = np.bincount(of_query[ranks < n_probes], minlength=m) / k
        if shares.mean() - 2 * shares.std() / m**0.5 >= target_recall:
            return n_probes
    return most


def recall_of(distances: Floats, reach: Floats) -> float:
    """Share of neighbours found (m, k) that are as near as the true ones, of which the last are at ``reach`` (m,)."""
    near = distances <= (reach + _EQUAL * (1 + reach))[:, None]
    return float(near.mean()) if near.size else 1.0


def _name(number: int) -> str:
    return f"neighbors-{number:05}.npz"


def _in_shard(job: Job, number: int, other: int, queries: Floats, k: int, n_probes: int | None) -> Neighbors:
    """Nearest rows of shard ``other`` to those of shard ``number``, by their numbers in the whole set."""
    rows = job.rows(other)
    if n_probes is None or len(rows) == 1:
        points = PointIndex(queries if other == number else rows[:])
        found = points.neighbors(k) if other == number else points.neighbors_of(queries, k)
        ids = found.indices
    else:
        cells = job.folder.arrays(f"cells-{other:05}.npz")
        order = cells["order"]
        index = CellIndex(rows.ordered(order), order, cells["centroids"], cells["starts"], cells["parts"], n_probes)
        index = replace(index, n_probes=min(n_probes, len(index.centroids)))
        if other == number:
            own = nearest_centroids(index.rows, index.centroids, index.n_probes)
            by_cell = index.neighbors(min(k, len(rows) - 1), own)
            place = np.argsort(order, kind="stable")
            found = Neighbors(by_cell.indices[place], by_cell.distances[place])
        else:
            found = index.neighbors_of(queries, k)
        ids = np.where(found.indices < 0, -1, order[found.indices])
        found = Neighbors(ids, np.where(ids < 0, np.inf, found.distances))
    found = _padded(Neighbors(ids, found.distances), k)
    first = job.shards[other].first
    return Neighbors(np.where(found.indices < 0, -1, found.indices.astype(np.int64) + first), found.distances)


def _padded(found: Neighbors, k: int) -> Neighbors:
    """The same with k columns, -1 at infinity where there are fewer."""
    missing = k - found.indices.shape[1]
    if missing <= 0:
        return found
    wide = ((0, 0), (0, missing))
    distances = np.pad(found.distances, wide, constant_values=np.inf)
    return Neighbors(np.pad(found.indices, wide, constant_values=-1), distances)


def _nearest_of(one: Neighbors, other: Neighbors, k: int) -> Neighbors:
    """The k nearest of both, by distance, then by row."""
    # Where rows lie in order, most find nothing nearer in most other shards.
    changed = np.flatnonzero(other.distances[:, 0] <= one.distances[:, -1])
    indices, distances = one.indices.copy(), one.distances.astype(np.float64)
    for start, stop in row_blocks(len(changed), _MERGED_ROWS):
        some = changed[start:stop]
        ids = np.concatenate([one.indices[some], other.indices[some]], axis=1)
        gaps = np.concatenate([one.distances[some], other.distances[some]], axis=1)
        order = np.lexsort((ids, gaps), axis=1)[:, :k]
        indices[some] = np.take_along_axis(ids, order, axis=1)
        distances[some] = np.take_along_axis(gaps, order, axis=1)
    return Neighbors(indices, distances)
