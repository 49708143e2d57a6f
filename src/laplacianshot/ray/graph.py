"""Neighbors and the normalized graph of a set in shards.

Cells belong to a shard, but the nearest cells of all shards are searched for a row. Where rows lie in order these are
in few shards, and the others are not read.

Each shard holds the edges of its own rows. It numbers nodes in an order of its own: its own rows as they come, then the
*halo* (unlabeled rows of other shards that its edges lead to, by shard and row), then labeled rows of other shards.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import asdict, fields
from functools import reduce

import numpy as np

from laplacianshot.engine.graph import NodeGraph, inverse_roots, union_edges
from laplacianshot.engine.plan import GraphChoice
from laplacianshot.inference.spreading import MAX_LISTED
from laplacianshot.neighbors.cells import (
    QUERY_ROWS,
    CellIndex,
    CentroidSearch,
    ExactSample,
    n_cells_of,
    probes_for,
    sample_rows,
    shares_near,
    train_centroids,
)
from laplacianshot.neighbors.exact import Heaps
from laplacianshot.neighbors.knn import chosen_method, point_index
from laplacianshot.neighbors.types import GraphReport, Neighbors, index_dtype
from laplacianshot.ray.cluster import Cluster
from laplacianshot.ray.job import Job, fetch, formed_rows
from laplacianshot.runtime.progress import Progress
from laplacianshot.runtime.threads import Workers, row_blocks
from laplacianshot.runtime.types import Floats, Ints

_REPORT = "neighbors.json"
_MERGED_ROWS = 65536
# Cells to be searched that are held at a time, over all rows.
_HELD_PROBES = 2**26
_RANKED_ROWS = 64


def find_neighbors(
    cluster: Cluster, job: Job, k: int, choice: GraphChoice, *, progress: Progress | None = None
) -> GraphReport:
    """Search the neighbors of all rows, exactly or by cells as on one machine, unless the run's folder has them."""
    if job.folder.has(_REPORT):
        return GraphReport(**job.folder.json(_REPORT))
    start = time.perf_counter()
    shared = cluster.share(job)
    exact = chosen_method(choice.method, job.n, choice.target_recall) == "exact"
    n_probes = None if exact else _choose_probes(cluster, job, k, choice)
    sample = sample_rows(job.n, choice.seed, 1)
    calls = [(shared, number, k, n_probes, sample) for number in job.missing("neighbors")]
    cluster.map(search_shard, calls, progress=progress)
    recall, parameters = 1.0, {"shards": len(job.shards)}
    if n_probes is not None:
        _, true = _exact_sample(cluster, job, sample, k)
        found = np.concatenate([job.load("neighbors", number)["sampled"] for number in job.numbers])
        recall = float(shares_near(found, true.reach).mean())
        parameters |= {"probes": n_probes, "seed": choice.seed}
    report = GraphReport(recall, "exact" if exact else "cells", parameters, time.perf_counter() - start)
    job.folder.put_json(_REPORT, asdict(report))
    return report


def _choose_probes(cluster: Cluster, job: Job, k: int, choice: GraphChoice) -> int:
    """Make the cells of every shard, and choose how many of all cells are searched for a row."""
    shared = cluster.share(job)
    cluster.map(index_shard, [(shared, number, choice.seed) for number in job.missing("cells")])
    queries, true = _exact_sample(cluster, job, sample_rows(job.n, choice.seed, 0), k)
    order = np.argsort(true.neighbors.ravel(), kind="stable")
    rows, of_query = true.neighbors.ravel()[order], order // k
    held = cluster.share(queries)
    calls = [
        (shared, number, held, of_query[part], rows[part])
        for number, part in enumerate(job.split(rows))
        if part.stop > part.start
    ]
    ranks = np.empty(len(rows), dtype=np.int64)
    ranks[order] = np.concatenate(cluster.map(cell_ranks, calls))
    return probes_for(ranks.reshape(-1, k), choice.target_recall)


def _exact_sample(cluster: Cluster, job: Job, sample: Ints, k: int) -> tuple[Floats, ExactSample]:
    """Transformed rows at the positions ``sample`` (m,), and their true neighbors."""
    queries = fetch(cluster, job, formed_rows, sample)
    shared, held = cluster.share(job), cluster.share(queries)
    # One more: each row finds itself.
    found = cluster.map(nearest_in_shard, [(shared, number, held, k + 1) for number in job.numbers])
    return queries, ExactSample.of(sample, reduce(_nearest_of, found))


def index_shard(job: Job, number: int, seed: int) -> None:
    """Cells of a shard, into ``centroids-*.npz`` and ``cells-*.npz``."""
    rows = job.rows(number)
    index, _ = CellIndex.build(rows, train_centroids(rows, n_cells_of(len(rows)), seed), 1)
    job.save("centroids", number, {"centroids": index.centroids})
    job.save("cells", number, {"starts": index.starts, "parts": index.parts, "order": index.order})


def search_shard(job: Job, number: int, k: int, n_probes: int | None, sample: Ints) -> None:
    """The k nearest other rows of every row of a shard, in all shards, into ``neighbors-*.npz``.

    ``ids`` (m, k) are rows of the whole set, nearest first, -1 where fewer were seen, and ``near`` the first squared
    distances to them; ``sampled`` are those of the rows of the shard that are in ``sample``. Of all cells the
    ``n_probes`` nearest to a row are searched; None searches exactly.
    """
    found = _exact(job, number, k) if n_probes is None else _by_cells(job, number, k, n_probes)
    here = sample[job.split(sample)[number]] - job.shards[number].first
    ids = found.indices.astype(index_dtype(job.n))
    near = found.distances[:, :MAX_LISTED].astype(np.float32)
    job.save("neighbors", number, {"ids": ids, "near": near, "sampled": found.distances[here]})


def neighbor_lists(job: Job, number: int) -> Ints:
    """Neighbors (m, k) of the rows of a shard, as :func:`search_shard` found them."""
    ids: Ints = job.load("neighbors", number)["ids"]
    return ids


def first_neighbors(job: Job, number: int) -> tuple[Ints, Floats]:
    """The first neighbors of the rows of a shard, and their squared distances, (m, 10) each."""
    kept = job.load("neighbors", number)
    return kept["ids"][:, :MAX_LISTED], kept["near"]


def nearest_in_shard(job: Job, number: int, queries: Floats, k: int) -> Neighbors:
    """The k nearest rows of a shard to each of ``queries`` (m, D), a row equal to it included."""
    return _of_all_rows(job, number, point_index(job.rows(number)[:]).neighbors_of(queries, k), k)


def cell_ranks(job: Job, number: int, queries: Floats, of_query: Ints, rows: Ints) -> Ints:
    """For pairs of a query and a row: how many cells of all shards are nearer to the query than the row's own, (p,).

    ``rows`` (p,) of the whole set lie in shard ``number``; their queries are ``queries[of_query]``.
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
        own = keys[of_query[pairs] - start, cell[pairs]]
        keys.sort(axis=1)
        ranks[pairs] = [np.searchsorted(keys[q], key) for q, key in zip(of_query[pairs] - start, own, strict=True)]
    return ranks


def _exact(job: Job, number: int, k: int) -> Neighbors:
    """True neighbors of the rows of a shard."""
    own, *others = _from(number, len(job.shards))
    queries = job.rows(number)[:]
    found = _of_all_rows(job, own, point_index(queries).neighbors(k), k)
    for other in others:
        found = _nearest_of(found, nearest_in_shard(job, other, queries, k))
    return found


def _by_cells(job: Job, number: int, k: int, n_probes: int) -> Neighbors:
    """Neighbors of the rows of a shard among those of the cells nearest to each."""
    centroids, firsts = _all_centroids(job)
    nearest_of = CentroidSearch.of(centroids, n_probes)
    # It has a copy, in another order: there may be a gigabyte of them.
    del centroids
    mine, shard = _index(job, number), job.shards[number]
    # Points are counted shard after shard, cell after cell.
    keys, ids = np.full((len(shard), k), np.inf, dtype=np.float32), np.full((len(shard), k), -1)
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
                heaps = Heaps(keys[here], ids[here])
                index.offer(mine.rows[here], who, parts, heaps, first_row=own, first_point=first_point)
    squares = np.empty_like(keys)
    for start, stop in row_blocks(len(shard), QUERY_ROWS):
        some = ids[start:stop]
        squares[start:stop] = Heaps(keys[start:stop], some).sorted(mine.rows[start:stop]).distances
        for other, order in orders.items():
            first = job.shards[other].first
            there = (some >= first) & (some < first + len(order))
            some[there] = first + order[some[there] - first]
    place = np.argsort(mine.order, kind="stable")
    return Neighbors(ids[place], squares[place])


def _from(number: int, count: int) -> Iterator[int]:
    """All shards, a shard's own first, then the following ones: workers read different shards at the same time."""
    return ((number + step) % count for step in range(count))


def _index(job: Job, number: int) -> CellIndex:
    """Cells of a shard, as :func:`index_shard` left them."""
    cells = job.load("cells", number)
    order, starts, parts = (cells[name] for name in ("order", "starts", "parts"))
    centroids = job.load("centroids", number)["centroids"]
    return CellIndex(job.rows(number).ordered(order), order, centroids, starts, parts, 1)


def _all_centroids(job: Job) -> tuple[Floats, Ints]:
    """Centroids of all shards (n_cells, D), and the first of each shard, (S + 1,)."""
    parts = [job.load("centroids", number)["centroids"] for number in job.numbers]
    return np.concatenate(parts), np.cumsum([0, *map(len, parts)])


def _of_all_rows(job: Job, number: int, found: Neighbors, k: int) -> Neighbors:
    """Neighbors in a shard by their numbers in the whole set; k columns, -1 at infinity where there are fewer."""
    wide = ((0, 0), (0, k - found.indices.shape[1]))
    ids = np.pad(found.indices.astype(np.int64) + job.shards[number].first, wide, constant_values=-1)
    return Neighbors(ids, np.pad(found.distances, wide, constant_values=np.inf))


def _nearest_of(one: Neighbors, other: Neighbors) -> Neighbors:
    """The k nearest of both for the same queries, by distance, then by row; each of them has k."""
    # Where rows lie in order, most find nothing nearer in most other shards.
    changed = np.flatnonzero(other.distances[:, 0] <= one.distances[:, -1])
    indices, distances = one.indices.copy(), one.distances.copy()
    for start, stop in row_blocks(len(changed), _MERGED_ROWS):
        some = changed[start:stop]
        ids = np.concatenate([one.indices[some], other.indices[some]], axis=1)
        gaps = np.concatenate([one.distances[some], other.distances[some]], axis=1)
        order = np.lexsort((ids, gaps), axis=1)[:, : indices.shape[1]]
        indices[some] = np.take_along_axis(ids, order, axis=1)
        distances[some] = np.take_along_axis(gaps, order, axis=1)
    return Neighbors(indices, distances)


def link_shards(cluster: Cluster, job: Job, *, progress: Progress | None = None) -> None:
    """The graph of every shard, unless the run's folder has it."""
    shared = cluster.share(job)
    missing = job.missing("incoming")
    if missing:
        parts = cluster.scatter(split_edges, [(shared, number) for number in job.numbers], len(job.shards))
        calls = [(shared, number, *(refs[number] for refs in parts)) for number in missing]
        cluster.map(join_edges, calls, progress=progress)
    cluster.map(build_graph, [(shared, number) for number in job.missing("graph")], progress=progress)


def split_edges(job: Job, number: int) -> list[tuple[Ints, Ints]]:
    """The directed edges of a shard by the shard that they lead to: row there, and row of the whole set they are of."""
    lists = neighbor_lists(job, number)
    targets = lists.ravel()
    sources = np.repeat(np.arange(len(lists), dtype=lists.dtype) + job.shards[number].first, lists.shape[1])
    held = targets >= 0
    targets, sources = targets[held], sources[held]
    order = np.argsort(targets, kind="stable")
    targets, sources = targets[order], sources[order]
    return [
        (targets[part] - shard.first, sources[part]) for shard, part in zip(job.shards, job.split(targets), strict=True)
    ]


def join_edges(job: Job, number: int, *parts: tuple[Ints, Ints]) -> None:
    """Who has each row of a shard among its neighbors, and degrees ``(k_out + k_in) / 2``, into ``incoming-*.npz``."""
    targets, sources = (np.concatenate(side) for side in zip(*parts, strict=True))
    order = np.argsort(targets, kind="stable")
    counts = np.bincount(targets, minlength=len(job.shards[number]))
    degrees = ((neighbor_lists(job, number) >= 0).sum(axis=1) + counts) / 2
    job.save("incoming", number, {"counts": counts, "sources": sources[order], "degrees": degrees})


def build_graph(job: Job, number: int) -> None:
    """Rows of ``D^-1/2 ((A + A^T)/2) D^-1/2`` of a shard into ``graph-*.npz``, its halo into ``halo-*.npz``."""
    lists, incoming = neighbor_lists(job, number), job.load("incoming", number)
    own = np.arange(len(lists)) + job.shards[number].first
    sources, counts = incoming["sources"], incoming["counts"]
    known = np.unique(np.concatenate([lists[lists >= 0], sources]))
    others = known[(known < own[0]) | (known > own[-1])]
    given = job.classes(others) >= 0
    halo = others[~given]
    nodes = np.concatenate([own, halo, others[given]])
    by_row = np.argsort(nodes, kind="stable")
    scale = np.empty(len(nodes), dtype=np.float32)
    scale[by_row] = inverse_roots(_degrees(job, nodes[by_row]))

    def node_of(rows: Ints) -> Ints:
        return by_row[np.searchsorted(nodes[by_row], rows)].astype(np.int32)

    first = np.concatenate([[0], np.cumsum(counts)])
    lists = np.where(lists < 0, np.int32(-1), node_of(lists))
    sources = node_of(sources)
    # By row, then by node: ascending as the union expects it.
    sources = sources[np.lexsort((sources, np.repeat(np.arange(len(own)), counts)))]
    with Workers(lists.size) as workers:
        edges = union_edges(workers, lists, first, sources, scale)
    needed = {str(other): halo[part] - job.shards[other].first for other, part in enumerate(job.split(halo))}
    job.save("halo", number, needed)
    job.save("graph", number, vars(NodeGraph(nodes, *edges, incoming["degrees"])))


def load_graph(job: Job, number: int) -> tuple[NodeGraph, list[slice]]:
    """The graph that :func:`build_graph` made, and where the rows of each other shard lie in the halo.

    Edges are of the shard's own rows, to nodes by the shard's own numbers; ``nodes`` are rows of the whole set.
    """
    kept = job.load("graph", number)
    graph = NodeGraph(**{field.name: kept[field.name] for field in fields(NodeGraph)})
    others = graph.nodes[len(job.shards[number]) :]
    return graph, job.split(others[job.classes(others) < 0])


def _degrees(job: Job, rows: Ints) -> Floats:
    """Degrees of ascending rows of the whole set."""
    found = np.zeros(len(rows))
    for number, part in enumerate(job.split(rows)):
        if part.stop > part.start:
            found[part] = job.load("incoming", number)["degrees"][rows[part] - job.shards[number].first]
    return found
