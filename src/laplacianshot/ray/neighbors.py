"""Neighbors of a set in shards: each shard's rows against every shard's cells, the nearest of all of them kept.

Cells belong to a shard, but the nearest cells of all shards are searched for a row. Where rows lie in order these are
in few shards, and the others are not read.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping
from dataclasses import asdict
from typing import Any

import numpy as np

from laplacianshot.engine.plan import GraphChoice
from laplacianshot.neighbors.cells import (
    QUERY_ROWS,
    CellIndex,
    CentroidSearch,
    n_cells_of,
    probes_for,
    sample_rows,
    shares_near,
    train_centroids,
)
from laplacianshot.neighbors.kernels import sort_heaps
from laplacianshot.neighbors.knn import point_index
from laplacianshot.neighbors.types import GraphReport, Neighbors, index_dtype
from laplacianshot.ray.cluster import Cluster
from laplacianshot.ray.job import Job
from laplacianshot.ray.survey import formed_rows
from laplacianshot.runtime.limits import LARGE_ROWS
from laplacianshot.runtime.progress import Progress
from laplacianshot.runtime.threads import row_blocks
from laplacianshot.runtime.types import Floats, Ints

_REPORT = "neighbors.json"
_MERGED_ROWS = 65536
# Cells to be searched that are held at a time, over all rows.
_HELD_PROBES = 2**26
_RANKED_ROWS = 64


def find_neighbors(
    cluster: Cluster,
    job: Job,
    k: int,
    choice: GraphChoice,
    *,
    progress: Progress | None = None,
) -> GraphReport:
    """Neighbors of all rows into the run's folder, unless they are there.

    Exact up to 50,000 rows, by cells above, as on one machine; ``choice.method`` may ask for either.
    """
    if job.folder.has(_REPORT):
        return GraphReport(**job.folder.json(_REPORT))
    start = time.perf_counter()
    shared = cluster.share(job)
    exact = choice.method == "exact" or (choice.method == "auto" and (job.n <= LARGE_ROWS or choice.target_recall == 1))
    n_probes = None if exact else _probes(cluster, job, shared, k, choice)
    sample = sample_rows(job.n, choice.seed, 1)
    numbers = range(len(job.shards))
    calls = [(shared, number, k, n_probes, sample) for number in numbers if not is_searched(job, number)]
    cluster.map(search_shard, calls, progress=progress)
    recall, parameters = 1.0, {"shards": len(job.shards)}
    if n_probes is not None:
        _, true = _truth(cluster, job, shared, sample, k)
        found = np.concatenate([sampled_distances(job, number) for number in numbers])
        recall = float(shares_near(found, true.distances[:, -1]).mean())
        parameters |= {"probes": n_probes, "seed": choice.seed}
    seconds = time.perf_counter() - start
    report = GraphReport(recall, "exact" if exact else "cells", parameters, seconds)
    job.folder.put_json(_REPORT, asdict(report))
    return report


def take_rows(cluster: Cluster, function: Any, first: list[tuple[Any, ...]], parts: list[Ints]) -> Floats:
    """Rows of all shards that ``function(*first, positions)`` gives, one below the other."""
    calls = [(*arguments, positions) for arguments, positions in zip(first, parts, strict=True) if len(positions)]
    return np.concatenate(cluster.map(function, calls))


def formed(cluster: Cluster, job: Job, shared: Any, rows: Ints) -> Floats:
    """Transformed rows, ascending numbers of the whole set."""
    parts = [rows[part] - shard.first for shard, part in zip(job.shards, job.split(rows), strict=True)]
    return take_rows(cluster, formed_rows, [(shared, number) for number in range(len(parts))], parts)


def _probes(cluster: Cluster, job: Job, shared: Any, k: int, choice: GraphChoice) -> int:
    """Make the cells of every shard, and choose how many of all cells are searched for a row."""
    numbers = range(len(job.shards))
    missing = [number for number in numbers if not is_indexed(job, number)]
    cluster.map(index_shard, [(shared, number, choice.seed) for number in missing])
    sample = sample_rows(job.n, choice.seed, 0)
    queries, true = _truth(cluster, job, shared, sample, k)
    of_query = np.repeat(np.arange(len(sample)), k)
    order = np.argsort(true.indices.ravel(), kind="stable")
    rows, of_query = true.indices.ravel()[order], of_query[order]
    held = cluster.share(queries)
    calls = [
        (shared, number, held, of_query[part], rows[part])
        for number, part in enumerate(job.split(rows))
        if part.stop > part.start
    ]
    ranks = np.empty(len(rows), dtype=np.int64)
    ranks[order] = np.concatenate(cluster.map(cell_ranks, calls))
    return probes_for(ranks.reshape(len(sample), k), choice.target_recall)


def _truth(cluster: Cluster, job: Job, shared: Any, sample: Ints, k: int) -> tuple[Floats, Neighbors]:
    """Sampled rows and their true neighbors."""
    queries = formed(cluster, job, shared, sample)
    held = cluster.share(queries)
    calls = [(shared, number, held, sample, k) for number in range(len(job.shards))]
    return queries, nearest_of_all(cluster.map(exact_neighbors, calls), k)


def index_shard(job: Job, number: int, seed: int) -> None:
    """Cells of a shard, into ``centroids-*.npz`` and ``cells-*.npz``."""
    rows = job.rows(number)
    index, _ = CellIndex.build(rows, train_centroids(rows, n_cells_of(len(rows)), seed), 1)
    job.folder.put_arrays(_centroids_name(number), {"centroids": index.centroids})
    names = ("starts", "parts", "order")
    job.folder.put_arrays(_cells_name(number), {name: getattr(index, name) for name in names})


def is_indexed(job: Job, number: int) -> bool:
    """Whether the cells of a shard are there."""
    return job.folder.has(_cells_name(number))


def search_shard(job: Job, number: int, k: int, n_probes: int | None, sample: Ints) -> None:
    """The k nearest other rows of every row of a shard, in all shards, into ``neighbors-*.npz``.

    ``ids`` (m, k) are rows of the whole set, nearest first, -1 where fewer were seen; ``sampled`` are squared distances
    of those rows of the shard that are in ``sample``. Of all cells the ``n_probes`` nearest to a row are searched;
    without that the search is exact.
    """
    found = _exact(job, number, k) if n_probes is None else _by_cells(job, number, k, n_probes)
    shard = job.shards[number]
    here = sample[(sample >= shard.first) & (sample < shard.first + len(shard))] - shard.first
    ids = found.indices.astype(index_dtype(job.n))
    job.folder.put_arrays(_name(number), {"ids": ids, "sampled": found.distances[here]})


def neighbor_lists(job: Job, number: int) -> Ints:
    """Neighbors (m, k) of the rows of a shard, as :func:`search_shard` found them."""
    ids: Ints = job.folder.arrays(_name(number))["ids"]
    return ids


def sampled_distances(job: Job, number: int) -> Floats:
    """Squared distances (m, k) to the neighbors of sampled rows of a shard, as :func:`search_shard` found them."""
    distances: Floats = job.folder.arrays(_name(number))["sampled"]
    return distances


def is_searched(job: Job, number: int) -> bool:
    """Whether the neighbors of a shard are there."""
    return job.folder.has(_name(number))


def exact_neighbors(job: Job, number: int, queries: Floats, rows: Ints, k: int) -> Neighbors:
    """The k nearest rows of one shard to each of ``queries`` (m, D), which are ``rows`` of the whole set."""
    found = _padded(point_index(job.rows(number)[:]).neighbors_of(queries, k + 1), k + 1)
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
    """How many cells, of all shards, are nearer to a query than that of a row: for pairs of them, (p,).

    ``rows`` of the whole set lie in shard ``number``; row i is asked for by ``queries[of_query[i]]``.
    """
    centroids, firsts = _all_centroids(job)
    index = _index(job, number)
    place = np.argsort(index.order, kind="stable")[rows - job.shards[number].first]
    part = np.searchsorted(index.starts, place, side="right") - 1
    cell = firsts[number] + np.searchsorted(index.parts, part, side="right") - 1
    halves = np.einsum("cd,cd->c", centroids, centroids) / 2
    ranks = np.empty(len(rows), dtype=np.int64)
    order = np.argsort(of_query, kind="stable")
    for start, stop in row_blocks(len(queries), _RANKED_ROWS):
        keys = halves - queries[start:stop] @ centroids.T
        pairs = order[slice(*np.searchsorted(of_query, (start, stop), sorter=order))]
        mine = keys[of_query[pairs] - start, cell[pairs]]
        keys.sort(axis=1)
        ranks[pairs] = [np.searchsorted(keys[q], key) for q, key in zip(of_query[pairs] - start, mine, strict=True)]
    return ranks


def _name(number: int) -> str:
    return f"neighbors-{number:05}.npz"


def _cells_name(number: int) -> str:
    return f"cells-{number:05}.npz"


def _centroids_name(number: int) -> str:
    return f"centroids-{number:05}.npz"


def _exact(job: Job, number: int, k: int) -> Neighbors:
    """True neighbors of the rows of a shard, by their numbers in the whole set."""
    queries = job.rows(number)[:]
    found: Neighbors | None = None
    for other in _from(number, len(job.shards)):
        points = point_index(queries if other == number else job.rows(other)[:])
        more = _padded(points.neighbors(k) if other == number else points.neighbors_of(queries, k), k)
        ids = np.where(more.indices < 0, -1, more.indices.astype(np.int64) + job.shards[other].first)
        more = Neighbors(ids, more.distances)
        found = more if found is None else _nearest_of(found, more, k)
    assert found is not None
    return found


def _by_cells(job: Job, number: int, k: int, n_probes: int) -> Neighbors:
    """Neighbors of the rows of a shard among those of the cells nearest to each."""
    centroids, firsts = _all_centroids(job)
    nearest_of = CentroidSearch.of(centroids, n_probes)
    # It has a copy, in another order: there may be a gigabyte of them.
    del centroids
    mine, shard = _index(job, number), job.shards[number]
    keys = np.full((len(shard), k), np.inf, dtype=np.float32)
    # Points are counted shard after shard, cell after cell.
    ids = np.full((len(shard), k), -1, dtype=np.int64)
    orders: dict[int, Ints] = {}
    for top, bottom in row_blocks(len(shard), max(QUERY_ROWS, _HELD_PROBES // n_probes)):
        probes = nearest_of.of_rows(mine.rows.ordered(np.arange(top, bottom)))
        shard_of = np.searchsorted(firsts, probes, side="right").astype(np.int32) - 1
        held = np.bincount(shard_of.ravel(), minlength=len(job.shards)) > 0
        for other in filter(held.__getitem__, _from(number, len(job.shards))):
            index, first_point = _index(job, other), job.shards[other].first
            orders[other] = index.order
            for start, stop in row_blocks(bottom - top, QUERY_ROWS):
                who, slot = np.nonzero(shard_of[start:stop] == other)
                here = slice(top + start, top + stop)
                cells = probes[start:stop][who, slot] - firsts[other]
                parts = index.parts_of(cells, here.start + who, own=other == number)
                own = shard.first + here.start
                index.offer(mine.rows[here], who, parts, keys[here], ids[here], first_row=own, first_point=first_point)
    sort_heaps(keys, ids)
    squares = np.empty_like(keys)
    for start, stop in row_blocks(len(shard), QUERY_ROWS):
        rows = mine.rows[start:stop]
        halves = np.einsum("nd,nd->n", rows, rows)[:, None] / 2
        np.maximum(2 * (keys[start:stop] + halves), 0, out=squares[start:stop])
        _to_rows(job, ids[start:stop], orders)
    place = np.argsort(mine.order, kind="stable")
    return Neighbors(ids[place], squares[place])


def _to_rows(job: Job, ids: Ints, orders: Mapping[int, Ints]) -> None:
    """Points counted cell after cell, in place, as rows of the whole set; ``orders`` are those of their shards."""
    for number, order in orders.items():
        first = job.shards[number].first
        here = (ids >= first) & (ids < first + len(order))
        ids[here] = first + order[ids[here] - first]


def _from(number: int, count: int) -> Iterator[int]:
    """All shards, a shard's own first, then each its neighbor: workers read different ones at the same time."""
    return ((number + step) % count for step in range(count))


def _index(job: Job, number: int) -> CellIndex:
    """Cells of a shard, as :func:`index_shard` left them."""
    cells = job.folder.arrays(_cells_name(number))
    order, starts, parts = (cells[name] for name in ("order", "starts", "parts"))
    return CellIndex(job.rows(number).ordered(order), order, _centroids(job, number), starts, parts, 1)


def _centroids(job: Job, number: int) -> Floats:
    centroids: Floats = job.folder.arrays(_centroids_name(number))["centroids"]
    return centroids


def _all_centroids(job: Job) -> tuple[Floats, Ints]:
    """Centroids of all shards (n_cells, D), and the first of each shard, (S + 1,)."""
    parts = [_centroids(job, number) for number in range(len(job.shards))]
    return np.concatenate(parts), np.concatenate([[0], np.cumsum([len(part) for part in parts])])


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
