"""The neighbor graph of a large set: exact while that is cheap, approximate above, with its recall measured."""

from __future__ import annotations

import math
import time
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Literal, TypeAlias, get_args

import numpy as np

from laplacianshot.neighbors.accel import byte_search
from laplacianshot.neighbors.cells import MOST_KEPT, QUERY_ROWS, CellIndex
from laplacianshot.neighbors.completion import complete
from laplacianshot.neighbors.kmeans import SAMPLE_ROWS, train_centroids
from laplacianshot.neighbors.knn import nearest_neighbors
from laplacianshot.neighbors.recall import ExactSample, choose_probes
from laplacianshot.neighbors.rows import Rows
from laplacianshot.neighbors.streamed import nearest_rows
from laplacianshot.neighbors.types import SPARE, Neighbors
from laplacianshot.runtime.budget import MemoryPlan, larger, parse_bytes
from laplacianshot.runtime.limits import LARGE_ROWS, TARGET_RECALL
from laplacianshot.runtime.progress import Progress, Shares
from laplacianshot.runtime.threads import available_threads, row_blocks
from laplacianshot.runtime.types import Floats, Ints

Method: TypeAlias = Literal["auto", "exact", "cells"]

# Rows searched exactly to choose the parameters, and as many others to measure the recall of the result.
SAMPLE = 512
# Searching more than this share of all cells costs as much as the exact search; half of it where that is of few rows,
# and forms each product once for two.
_LARGEST_SHARE = 0.7
# Cells are this many times the square root of the number of rows.
_CELLS = 4
_BLOCK_ROWS = 65536


@dataclass(frozen=True)
class GraphReport:
    """How the neighbors of a large set were found.

    Attributes
    ----------
    recall : float
        Share of the true neighbors that were found, of a sample of rows searched exactly; 1 for an exact search.
    method : str
        ``exact`` or ``cells``.
    parameters : mapping of str to number
        What the method was run with.
    seconds : float
    """

    recall: float
    method: str
    parameters: Mapping[str, float] = field(default_factory=dict)
    seconds: float = 0.0


def scaled_neighbors(
    X: Floats | Rows,
    n_neighbors: int,
    *,
    target_recall: float = TARGET_RECALL,
    method: Method = "auto",
    seed: int = 0,
    memory: int | str | None = None,
    progress: Progress | None = None,
) -> tuple[Neighbors, GraphReport]:
    """The nearest other rows of each row.

    Parameters
    ----------
    X : array or Rows of shape (n, D)
        Finite; in memory or memory-mapped. Never copied whole by a search by cells.
    n_neighbors : int
        k, the row itself not counted; more than n - 1 means all the others.
    target_recall : float
        Share of true neighbors that an approximate search shall find.
    method : {"auto", "exact", "cells"}
        ``auto`` is ``exact`` up to 50,000 rows and ``cells`` above, or ``exact`` again where cells would not be
        faster.
    seed : int
        The result depends on it and on nothing else: not on the number of threads.
    memory : int or str, optional
        Most bytes to take beyond X, such as ``"2GB"``; MemoryError before the work if that is too little.
    progress : callable, optional
        Called with ``(done, total)``.

    Returns
    -------
    Neighbors
        indices (n, k) int32 (int64 above 2^31 rows) and squared distances (n, k), nearest first.
    GraphReport

    Examples
    --------
    >>> import numpy as np
    >>> from laplacianshot.neighbors.search import scaled_neighbors
    >>> X = np.random.default_rng(0).standard_normal((3000, 16), dtype=np.float32)
    >>> neighbors, report = scaled_neighbors(X, 5, method="cells")
    >>> neighbors.indices.shape, report.recall > 0.9
    ((3000, 5), True)
    """
    rows = X if isinstance(X, Rows) else Rows.transformed(X)
    found = search_neighbors(
        rows,
        n_neighbors,
        target_recall=target_recall,
        method=method,
        seed=seed,
        memory=None if memory is None else parse_bytes(memory),
        progress=progress,
        distances=True,
    )
    indices, distances = np.empty_like(found.indices), np.empty_like(found.distances)
    for start, stop in row_blocks(len(rows), _BLOCK_ROWS):
        ids = found.indices[start:stop]
        indices[found.order[start:stop]] = np.where(ids < 0, -1, found.order[ids])
        distances[found.order[start:stop]] = found.distances[start:stop]
    return Neighbors(indices, distances), found.report


@dataclass(frozen=True, repr=False)
class OrderedNeighbors:
    """Neighbors of rows that were put in a new order, near rows near one another.

    Attributes
    ----------
    order : int array of shape (n,)
        Where each row was in the rows that were given.
    indices : int array of shape (n, k)
        Neighbors, by their new positions; -1 where fewer were seen.
    distances : array of shape (n, k), or (n, 0) if not wanted
    report : GraphReport
    index : CellIndex, optional
        What was searched, for more queries.
    """

    order: Ints
    indices: Ints
    distances: Floats
    report: GraphReport
    index: CellIndex | None = None


def search_neighbors(
    rows: Rows,
    n_neighbors: int,
    *,
    target_recall: float = TARGET_RECALL,
    method: Method = "auto",
    seed: int = 0,
    memory: int | None = None,
    progress: Progress | None = None,
    distances: bool = False,
) -> OrderedNeighbors:
    """What :func:`scaled_neighbors` does, left in the order in which the rows were searched."""
    start = time.perf_counter()
    if method not in get_args(Method):
        raise ValueError(f"method must be one of {', '.join(get_args(Method))}, got {method!r}.")
    if not 0 < target_recall <= 1:
        raise ValueError(f"target_recall must be above 0 and at most 1, got {target_recall!r}.")
    n, k = len(rows), min(n_neighbors, len(rows) - 1)
    searched = rows.centered()
    if method == "auto":
        method = "exact" if n <= LARGE_ROWS or target_recall == 1 else "cells"
    if k <= 0:
        method = "exact"
    memory_plan(method, n, searched.shape[1], k, distances=distances).check(
        memory, advice="a smaller n_neighbors needs less"
    )
    search = _exact if method == "exact" else _by_cells
    found = search(rows, searched, k, _Wish(method, target_recall, seed, memory, distances, progress))
    report = found.report
    if report.method != "exact":
        report = _measured(rows, found, seed)
    return replace(found, report=replace(report, seconds=time.perf_counter() - start))


@dataclass(frozen=True)
class _Wish:
    """How the neighbors are wanted."""

    method: str
    target_recall: float
    seed: int
    memory: int | None
    distances: bool
    progress: Progress | None


def memory_plan(method: str, n: int, width: int, k: int, *, distances: bool = False) -> MemoryPlan:
    """What a search of n rows of ``width`` numbers for k neighbors holds beside the rows themselves."""
    threads = available_threads()
    parts = {"neighbors": n * k * (8.0 if distances else 4.0)}
    if method == "cells":
        train = {"sample": 3.0 * 4 * width * min(n, SAMPLE_ROWS * _n_cells(n))}
        search = {
            "neighbors": 8.0 * n * k,
            "cells": 2 * 4.0 * n * MOST_KEPT + 20 * n,
            "blocks": threads * QUERY_ROWS * (4.0 * width + 8 * k + 40 * MOST_KEPT),
        }
        return larger(*map(MemoryPlan, (train, search, {"neighbors": 16.0 * n * k, "cells": 20.0 * n})))
    if n <= LARGE_ROWS:
        return in_memory_plan(n, width, k)
    parts["blocks"] = QUERY_ROWS * (4.0 * width + 16 * k) + 4096.0 * threads * (width + 256 * threads)
    return MemoryPlan(parts)


def in_memory_plan(n: int, width: int, k: int) -> MemoryPlan:
    """The same of the exact search that holds all rows at once."""
    rows = 4.0 * n * width
    by_bytes = byte_search.memory(n, width, k + SPARE) if byte_search.applies(width) else 0.0
    return MemoryPlan(
        {
            "neighbors": n * (k + SPARE) * 8.0 + n * k * 12.0,
            # In float32 and in the order of the search, and few coordinates of them twice; or in float32 and in bytes.
            "rows": max(2.6 * rows, rows + by_bytes),
            "blocks": 20e6 + 10e6 * available_threads(),
        }
    )


def _n_cells(n: int) -> int:
    return max(1, round(_CELLS * math.sqrt(n)))


def _exact(rows: Rows, searched: Rows, k: int, wish: _Wish) -> OrderedNeighbors:
    n = len(rows)
    order, report = np.arange(n), GraphReport(1.0, "exact")
    if n <= LARGE_ROWS:
        found = nearest_neighbors(searched[:], k)
        return OrderedNeighbors(order, found.indices, found.distances, report)
    indices = np.empty((n, k), dtype=np.int32 if n < 2**31 else np.int64)
    distances = np.empty((n, k if wish.distances else 0), dtype=np.float32)
    for start, stop in row_blocks(n, QUERY_ROWS):
        found = nearest_rows(searched, searched[start:stop], k, first_row=start)
        indices[start:stop] = found.indices
        if wish.distances:
            distances[start:stop] = found.distances
        if wish.progress is not None:
            wish.progress(stop, n)
    return OrderedNeighbors(order, indices, distances, report)


def _by_cells(rows: Rows, searched: Rows, k: int, wish: _Wish) -> OrderedNeighbors:
    n, tell = len(rows), Shares(wish.progress, len(rows)).part
    centroids = train_centroids(searched, _n_cells(n), wish.seed, progress=tell(0.0, 0.2))
    sample = ExactSample.search(rows, _sampled(n, wish.seed, 0), k)
    n_probes = choose_probes(searched, centroids, sample, wish.target_recall)
    plan = memory_plan("exact", n, searched.shape[1], k, distances=wish.distances)
    most = _LARGEST_SHARE * len(centroids) / (2 if n <= LARGE_ROWS else 1)
    if n_probes > most and (wish.memory is None or plan.total <= wish.memory):
        return _exact(rows, searched, k, wish)
    index, probes = CellIndex.build(searched, centroids, n_probes, progress=tell(0.25, 0.4))
    found = index.neighbors(k, probes, progress=tell(0.4, 1.0))
    del probes
    complete(found)
    distances = found.distances if wish.distances else np.empty((n, 0), np.float32)
    report = GraphReport(np.nan, "cells", {"cells": len(centroids), "probes": n_probes, "seed": wish.seed})
    return OrderedNeighbors(index.order, found.indices, distances, report, index)


def _sampled(n: int, seed: int, number: int) -> Ints:
    """Positions of rows to search exactly; samples of different numbers are independent."""
    rng = np.random.default_rng([seed, number])
    return np.sort(rng.choice(n, min(n, SAMPLE), replace=False))


def _measured(rows: Rows, found: OrderedNeighbors, seed: int) -> GraphReport:
    """The report with the recall of what was found, on rows that chose nothing."""
    indices, order = found.indices, found.order
    sample = ExactSample.search(rows, _sampled(len(rows), seed, 1), indices.shape[1])
    place = np.empty(len(order), dtype=np.int64)
    place[order] = np.arange(len(order))
    ids = indices[place[sample.rows]]
    recall = float(sample.shares_found(rows, np.where(ids < 0, -1, order[ids])).mean())
    return replace(found.report, recall=recall)
