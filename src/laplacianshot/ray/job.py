"""What every worker knows of a run on Ray: its shards and labels, its files, and the order of its rows.

In rows without order nearly every shard has a neighbor of nearly every row. :func:`ordered_job` moves rows into the
shards of their neighbors, so that few assignments travel between shards: a few coarse cells per shard are found from a
sample, and each shard takes consecutive cells and reads its rows from wherever they are.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Any

import numpy as np

from laplacianshot.inference.transforms import transform_features
from laplacianshot.neighbors.cells import SAMPLE_ROWS, nearest_centroids, train_centroids
from laplacianshot.neighbors.rows import Rows
from laplacianshot.ray.cluster import Cluster
from laplacianshot.ray.shards import Shard
from laplacianshot.runtime.keyed_folder import KeyedFolder
from laplacianshot.runtime.progress import Progress
from laplacianshot.runtime.types import Floats, Ints, Transform

# Folder of a run inside a folder of labels: readers of Parquet skip names that begin with an underscore.
RUN_FOLDER = "_run"
_CELLS_PER_SHARD = 16
_MIN_CELLS = 64
_ORDERED = "ordered.npz"
# Transformed shards that a worker keeps in memory: its own and the one it searches.
_MAX_KEPT_SHARDS = 2
_rows: dict[tuple[str, Shard], Rows] = {}


@dataclass(frozen=True, repr=False)
class Job:
    """A set in shards with its few labels."""

    folder: KeyedFolder  # finished stages: files by their kind and the number of their shard
    shards: tuple[Shard, ...]
    support: Ints  # (n_s,): rows that have a label, ascending
    labels: Ints  # (n_s,): their classes in 0..C-1
    n_classes: int
    transform: Transform = "cl2"
    center: Floats | None = None  # (D,), for cl2, power and standard
    scale: Floats | None = None  # (D,), for standard
    shift: Floats | None = None  # (D,): mean of the transformed rows, subtracted where they are not of length one
    ordered: bool = False  # whether rows were put where their neighbors are

    @property
    def n(self) -> int:
        """Number of rows."""
        return self.shards[-1].first + len(self.shards[-1])

    @property
    def numbers(self) -> range:
        """Numbers of the shards."""
        return range(len(self.shards))

    def save(self, kind: str, number: int, arrays: Mapping[str, Any]) -> None:
        """Put arrays of a shard into the folder."""
        self.folder.put_arrays(_file(kind, number), arrays)

    def load(self, kind: str, number: int) -> Mapping[str, Any]:
        """Open arrays of a shard."""
        return self.folder.arrays(_file(kind, number))

    def missing(self, kind: str) -> list[int]:
        """Numbers of the shards that have no file of this kind."""
        return [number for number in self.numbers if not self.folder.has(_file(kind, number))]

    def drop(self, kind: str) -> None:
        """Remove the files of this kind."""
        for number in self.numbers:
            self.folder.remove(_file(kind, number))

    def rows(self, number: int) -> Rows:
        """Transformed rows of a shard, near zero."""
        key = (self.folder.url, self.shards[number])
        if key not in _rows:
            while len(_rows) >= _MAX_KEPT_SHARDS:
                del _rows[next(iter(_rows))]
            if self.transform == "standard":
                # A table is small.
                held = transform_features(self.shards[number].read(), "standard", self.center, scale=self.scale)
                formed = Rows.transformed(held)
            else:
                formed = Rows.transformed(self.shards[number].read(), self.transform, self.center)
            if self.shift is not None:
                formed = replace(formed, origin=formed.origin + self.shift)
            _rows[key] = formed
        return _rows[key]

    def originals(self, number: int) -> Ints:
        """Row numbers of a shard before the rows were put in order."""
        shard = self.shards[number]
        if not self.ordered:
            return np.arange(shard.first, shard.first + len(shard))
        # The file beside that of the rows: empty shards have left the numbering.
        name = shard.path.rsplit("/", 1)[-1].replace("ordered", "rows").replace(".npy", ".npz")
        rows: Ints = self.folder.arrays(name)["rows"]
        return rows

    def given(self, number: int) -> tuple[Ints, Ints]:
        """Positions in a shard of its labeled rows, and their classes."""
        shard = self.shards[number]
        start, stop = np.searchsorted(self.support, [shard.first, shard.first + len(shard)])
        return self.support[start:stop] - shard.first, self.labels[start:stop]

    def queries(self, number: int) -> Ints:
        """Positions in a shard of its unlabeled rows, ascending."""
        return np.delete(np.arange(len(self.shards[number])), self.given(number)[0])

    def classes(self, rows: Ints) -> Ints:
        """Classes of rows of the whole set, -1 where they have no label."""
        if len(self.support) == 0:
            return np.full(len(rows), -1)
        at = np.minimum(np.searchsorted(self.support, rows), len(self.support) - 1)
        return np.where(self.support[at] == rows, self.labels[at], -1)

    def query_rows(self, numbers: range | Ints) -> Ints:
        """Rows of the whole set that are the queries of these numbers among all queries."""
        # The q-th query comes after as many labeled rows as have at most q queries before them.
        before = self.support - np.arange(len(self.support))
        queries = np.array(numbers)
        rows: Ints = queries + np.searchsorted(before, queries, side="right")
        return rows

    def split(self, rows: Ints) -> list[slice]:
        """Where the ascending ``rows`` of the whole set lie in each shard."""
        bounds = np.searchsorted(rows, [*(shard.first for shard in self.shards), self.n])
        return [slice(a, b) for a, b in pairwise(bounds.tolist())]


def _file(kind: str, number: int) -> str:
    return f"{kind}-{number:05}.npz"


def fetch(cluster: Cluster, job: Job, function: Callable[[Job, int, Ints], Floats], rows: Ints) -> Floats:
    """Rows of the whole set by ascending numbers, read by :func:`given_rows` or :func:`formed_rows`."""
    if len(rows) == 0:
        return np.zeros((0, job.shards[0].width), np.float32)
    shared = cluster.share(job)
    calls = [
        (shared, number, rows[part] - job.shards[number].first)
        for number, part in enumerate(job.split(rows))
        if part.stop > part.start
    ]
    return np.concatenate(cluster.map(function, calls))


def given_rows(job: Job, number: int, positions: Ints) -> Floats:
    """Rows of a shard as the user has them, by their positions in it."""
    rows: Floats = job.shards[number].read()[positions]
    return rows


def formed_rows(job: Job, number: int, positions: Ints) -> Floats:
    """Transformed rows of a shard by their positions in it."""
    return job.rows(number)[positions]


def ordered_job(cluster: Cluster, job: Job, seed: int, *, progress: Progress | None = None) -> Job:
    """The same set with near rows in the same shard, in files of its folder; made unless it exists already."""
    if not job.folder.has(_ORDERED):
        shared = cluster.share(job)
        centroids = cluster.share(_coarse_centroids(cluster, job, seed))
        counts = cluster.map(assign_cells, [(shared, number, centroids) for number in job.numbers])
        shard_of = _shard_of_cells(np.sum(counts, axis=0), len(job.shards))
        parts = cluster.map(gather_rows, [(shared, number, shard_of) for number in job.numbers], progress=progress)
        sizes, positions, rows = zip(*parts, strict=True)
        firsts = np.cumsum([0, *sizes[:-1]])
        support = np.concatenate([first + own for first, own in zip(firsts, positions, strict=True)])
        labels = job.labels[np.searchsorted(job.support, np.concatenate(rows))]
        job.folder.put_arrays(_ORDERED, {"sizes": np.array(sizes), "support": support, "labels": labels})
    kept = job.folder.arrays(_ORDERED)
    sizes = kept["sizes"].tolist()
    firsts = np.cumsum([0, *sizes])
    shards = tuple(
        Shard(job.folder.path(f"ordered-{number:05}.npy"), 0, size, int(firsts[number]), job.shards[0].width)
        for number, size in enumerate(sizes)
        if size
    )
    return replace(job, shards=shards, support=kept["support"], labels=kept["labels"], ordered=True)


def assign_cells(job: Job, number: int, centroids: Floats) -> Ints:
    """The coarse cell of each row of a shard into ``coarse-*.npz``; returns the number of rows of each cell, (G,)."""
    cells = nearest_centroids(job.rows(number), centroids, 1)[:, 0]
    job.save("coarse", number, {"cells": cells})
    return np.bincount(cells, minlength=len(centroids))


def gather_rows(job: Job, number: int, shard_of: Ints) -> tuple[int, Ints, Ints]:
    """Rows of the cells that a new shard takes into ``ordered-*.npy``, and where they were into ``rows-*.npz``.

    Returns their number and, of the labeled ones, the positions there and the rows of the whole set.
    """
    rows, originals, cells_of = [], [], []
    for step in job.numbers:
        # Each begins elsewhere: workers read different shards at the same time.
        source = (number + step) % len(job.shards)
        cells = job.load("coarse", source)["cells"]
        here = np.flatnonzero(shard_of[cells] == number)
        rows.append(job.shards[source].read()[here])
        originals.append(here + job.shards[source].first)
        cells_of.append(cells[here])
    places = np.concatenate(originals)
    # In the order of the cells, so that neighbors are near one another in memory as well.
    order = np.lexsort((places, np.concatenate(cells_of)))
    places = places[order]
    job.folder.put(f"ordered-{number:05}.npy", lambda file: np.save(file, np.concatenate(rows)[order]))
    job.save("rows", number, {"rows": places})
    positions = np.flatnonzero(job.classes(places) >= 0)
    return len(places), positions, places[positions]


def _coarse_centroids(cluster: Cluster, job: Job, seed: int) -> Floats:
    """Centroids of coarse cells (G, D), near ones with near numbers, from a sample of the rows."""
    n_cells = min(job.n, max(_MIN_CELLS, _CELLS_PER_SHARD * len(job.shards)))
    rng = np.random.default_rng([seed, 3])
    sample = np.sort(rng.choice(job.n, min(job.n, SAMPLE_ROWS * n_cells), replace=False))
    return train_centroids(Rows.transformed(fetch(cluster, job, formed_rows, sample)), n_cells, seed)


def _shard_of_cells(counts: Ints, shards: int) -> Ints:
    """The shard of each cell (G,): consecutive cells, about the same number of rows per shard."""
    before = np.cumsum(counts) - counts / 2
    shard_of: Ints = np.minimum(before * shards / max(1, counts.sum()), shards - 1).astype(np.int64)
    return shard_of
