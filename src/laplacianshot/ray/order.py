"""Move rows into the shards of their neighbors, so that few assignments travel between shards.

In rows without order nearly every shard has a neighbor of nearly every row. Here a few coarse cells per shard are
found from a sample; each shard takes consecutive cells and reads its rows from wherever they are.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np

from laplacianshot.neighbors.cells import SAMPLE_ROWS, nearest_centroids, train_centroids
from laplacianshot.neighbors.rows import Rows
from laplacianshot.ray.cluster import Cluster
from laplacianshot.ray.job import Job, originals_name
from laplacianshot.ray.neighbors import formed
from laplacianshot.ray.shards import Shard
from laplacianshot.runtime.types import Floats, Ints

CELLS_PER_SHARD = 16
MIN_CELLS = 64
_ORDERED = "ordered.npz"


def ordered_job(cluster: Cluster, job: Job, seed: int, *, progress: Callable[[int, int], object] | None = None) -> Job:
    """The same set in as many shards, in files of its folder, near rows together; unless it exists already."""
    count, width = len(job.shards), job.shards[0].width
    if not job.folder.has(_ORDERED):
        shared = cluster.share(job)
        centroids = cluster.share(_centroids(cluster, job, shared, seed))
        counts = cluster.map(assign_cells, [(shared, number, centroids) for number in range(count)])
        shard_of = _dealt(np.sum(counts, axis=0), count)
        calls = [(shared, number, shard_of) for number in range(count)]
        sizes = cluster.map(gather_rows, calls, progress=progress)
        job.folder.put_arrays(_ORDERED, {"sizes": np.array([size for size, _, _ in sizes])} | _support(job, sizes))
    kept = job.folder.arrays(_ORDERED)
    sizes, support, labels = kept["sizes"].tolist(), kept["support"], kept["labels"]
    firsts = np.concatenate([[0], np.cumsum(sizes)]).tolist()
    shards = tuple(
        Shard(job.folder.path(_rows_file(number)), 0, size, firsts[number], width)
        for number, size in enumerate(sizes)
        if size
    )
    return replace(job, shards=shards, support=support, labels=labels, ordered=True)


def assign_cells(job: Job, number: int, centroids: Floats) -> Ints:
    """The coarse cell of each row of a shard into ``coarse-*.npz``; how many rows each cell has, (G,)."""
    cells = nearest_centroids(job.rows(number), centroids, 1)[:, 0]
    job.folder.put_arrays(_cells_file(number), {"cells": cells})
    return np.bincount(cells, minlength=len(centroids))


def gather_rows(job: Job, number: int, shard_of: Ints) -> tuple[int, Ints, Ints]:
    """The rows of the cells that a new shard takes, as they are given, into a file; and where each of them was.

    Gives how many there are, and for labeled ones among them the positions there and their rows of the whole set.
    """
    rows, originals, kinds = [], [], []
    for step in range(len(job.shards)):
        # Each begins elsewhere: workers read different shards at the same time.
        source = (number + step) % len(job.shards)
        cells = job.folder.arrays(_cells_file(source))["cells"]
        here = np.flatnonzero(shard_of[cells] == number)
        rows.append(job.shards[source].read()[here])
        originals.append(here + job.shards[source].first)
        kinds.append(cells[here])
    places = np.concatenate(originals)
    # In the order of the cells, so that neighbors are near one another in memory as well.
    order = np.lexsort((places, np.concatenate(kinds)))
    places = places[order]
    job.folder.put(_rows_file(number), lambda file: np.save(file, np.concatenate(rows)[order]))
    job.folder.put_arrays(originals_name(_rows_file(number)), {"rows": places})
    positions = np.flatnonzero(job.is_support(places))
    return len(places), positions, places[positions]


def _centroids(cluster: Cluster, job: Job, shared: Any, seed: int) -> Floats:
    """Coarse cells (G, D), near ones with near numbers, from a sample of the rows."""
    n_cells = min(job.n, max(MIN_CELLS, CELLS_PER_SHARD * len(job.shards)))
    rng = np.random.default_rng([seed, 3])
    sample = np.sort(rng.choice(job.n, min(job.n, SAMPLE_ROWS * n_cells), replace=False))
    return train_centroids(Rows.transformed(formed(cluster, job, shared, sample)), n_cells, seed)


def _dealt(counts: Ints, shards: int) -> Ints:
    """The shard of each cell (G,): cells that follow one another, shards of about as many rows."""
    before = np.cumsum(counts) - counts / 2
    dealt: Ints = np.minimum(before * shards / max(1, counts.sum()), shards - 1).astype(np.int64)
    return dealt


def _support(job: Job, sizes: list[tuple[int, Ints, Ints]]) -> dict[str, Any]:
    """Labeled rows in the new numbers, and their classes."""
    firsts = np.cumsum([0, *(size for size, _, _ in sizes)])
    support = np.concatenate([first + positions for first, (_, positions, _) in zip(firsts, sizes, strict=False)])
    rows = np.concatenate([rows for _, _, rows in sizes])
    return {"support": support, "labels": job.labels[np.searchsorted(job.support, rows)]}


def _rows_file(number: int) -> str:
    return f"ordered-{number:05}.npy"


def _cells_file(number: int) -> str:
    return f"coarse-{number:05}.npz"
