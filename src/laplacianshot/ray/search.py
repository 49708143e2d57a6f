"""The stage that finds neighbors, as the driver sees it."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import asdict
from typing import Any

import numpy as np

from laplacianshot.engine.plan import GraphChoice
from laplacianshot.neighbors.cells import SAMPLE
from laplacianshot.neighbors.types import GraphReport, Neighbors
from laplacianshot.ray.cluster import Cluster
from laplacianshot.ray.job import Job
from laplacianshot.ray.neighbors import (
    cell_ranks,
    choose_probes,
    exact_neighbors,
    index_shard,
    is_indexed,
    is_searched,
    nearest_of_all,
    recall_of,
    sampled_distances,
    search_shard,
)
from laplacianshot.ray.survey import formed_rows
from laplacianshot.runtime.limits import LARGE_ROWS
from laplacianshot.runtime.types import Floats, Ints

_REPORT = "neighbors.json"


def find_neighbors(
    cluster: Cluster,
    job: Job,
    k: int,
    choice: GraphChoice,
    *,
    progress: Callable[[int, int], object] | None = None,
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
    sample = _sample(job.n, choice.seed, 1)
    numbers = range(len(job.shards))
    calls = [(shared, number, k, n_probes, sample) for number in numbers if not is_searched(job, number)]
    cluster.map(search_shard, calls, progress=progress)
    recall, parameters = 1.0, {"shards": len(job.shards)}
    if n_probes is not None:
        _, true = _truth(cluster, job, shared, sample, k)
        found = np.concatenate([sampled_distances(job, number) for number in numbers])
        recall = recall_of(found, true.distances[:, -1])
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
    """Make the cells of every shard: how many of all of them are searched."""
    numbers = range(len(job.shards))
    missing = [number for number in numbers if not is_indexed(job, number)]
    cluster.map(index_shard, [(shared, number, choice.seed) for number in missing])
    sample = _sample(job.n, choice.seed, 0)
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
    ranks = np.concatenate(cluster.map(cell_ranks, calls))
    return choose_probes(ranks, of_query, len(sample), k, choice.target_recall)


def _truth(cluster: Cluster, job: Job, shared: Any, sample: Ints, k: int) -> tuple[Floats, Neighbors]:
    """Sampled rows and their true neighbors."""
    queries = formed(cluster, job, shared, sample)
    held = cluster.share(queries)
    calls = [(shared, number, held, sample, k) for number in range(len(job.shards))]
    return queries, nearest_of_all(cluster.map(exact_neighbors, calls), k)


def _sample(n: int, seed: int, number: int) -> Ints:
    """Rows to search exactly, ascending; samples of different numbers are independent."""
    rng = np.random.default_rng([seed, number])
    return np.sort(rng.choice(n, min(n, SAMPLE), replace=False))
