"""The neighbour graph of a large set: exact while that is cheap, approximate above, with its recall measured."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Literal, TypeAlias, get_args

import numpy as np

from laplacianshot.inference._threads import available_threads, row_blocks
from laplacianshot.inference._types import Floats, Ints
from laplacianshot.inference.neighbors import Neighbors, nearest_neighbors
from laplacianshot.inference.recipes import LARGE_ROWS
from laplacianshot.scale.budget import MemoryPlan, parse_bytes
from laplacianshot.scale.cells import QUERY_ROWS, CellIndex
from laplacianshot.scale.kmeans import SAMPLE_ROWS, nearest_centroids, train_centroids
from laplacianshot.scale.recall import ExactSample
from laplacianshot.scale.rows import Rows

Method: TypeAlias = Literal["auto", "exact", "cells", "ivf", "hnsw"]
# Called with (done, total) on the way.
Progress: TypeAlias = Callable[[int, int], object]

TARGET_RECALL = 0.95
# Rows searched exactly to choose the parameters, and as many others to measure the recall of the result.
SAMPLE = 512
# Searching more than this share of all cells costs more than the exact search, which forms each product once for two.
_LARGEST_SHARE = 0.35
# Cells are this many times the square root of the number of rows.
_CELLS = 4
# Probes that memory is planned for, and links of a row in HNSW.
_USUAL_PROBES = 64
_LINKS = 32
_BLOCK_ROWS = 65536


@dataclass(frozen=True)
class GraphReport:
    """How the neighbours of a large set were found.

    Attributes
    ----------
    recall : float
        Share of the true neighbours that were found, of a sample of rows searched exactly; 1 for an exact search.
    method : str
        ``exact``, ``cells``, ``ivf`` or ``hnsw``.
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
        Share of true neighbours that an approximate search shall find.
    method : {"auto", "exact", "cells", "ivf", "hnsw"}
        ``auto`` is ``exact`` up to 50,000 rows and ``cells`` above, or ``exact`` again where cells would not be
        faster. ``ivf`` and ``hnsw`` are those of faiss (extra ``scale``); they hold a copy of the rows.
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
    >>> from laplacianshot.scale import scaled_neighbors
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
    """Neighbours of rows that were put in a new order, near rows near one another.

    Attributes
    ----------
    order : int array of shape (n,)
        Where each row was in the rows that were given.
    indices : int array of shape (n, k)
        Neighbours, by their new positions; -1 where fewer were seen.
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
    reduced: Rows | None = None,
    progress: Progress | None = None,
    distances: bool = False,
) -> OrderedNeighbors:
    """What :func:`scaled_neighbors` does, left in the order in which the rows were searched.

    ``reduced`` (n, d) stands in for the rows in the search; recall is still that of the rows themselves.
    """
    start = time.perf_counter()
    if method not in get_args(Method):
        raise ValueError(f"method must be one of {', '.join(get_args(Method))}, got {method!r}.")
    if not 0 < target_recall <= 1:
        raise ValueError(f"target_recall must be above 0 and at most 1, got {target_recall!r}.")
    n, k = len(rows), min(n_neighbors, len(rows) - 1)
    searched = (rows if reduced is None else reduced).centered()
    if k <= 0:
        method = "exact"
    if method == "auto":
        method = "exact" if n <= LARGE_ROWS or target_recall == 1 else "cells"
    memory_plan(method, n, searched.shape[1], k, distances=distances).check(
        memory, advice="a smaller n_neighbors or reduce=d needs less"
    )
    search = {"exact": _exact, "cells": _by_cells}.get(method, _by_faiss)
    found = search(rows, searched, k, _Wish(method, target_recall, seed, memory, distances, progress))
    report = replace(found.report, seconds=time.perf_counter() - start)
    return replace(found, report=report)


@dataclass(frozen=True)
class _Wish:
    """How the neighbours are wanted."""

    method: str
    target_recall: float
    seed: int
    memory: int | None
    distances: bool
    progress: Progress | None


def memory_plan(method: str, n: int, width: int, k: int, *, distances: bool = False) -> MemoryPlan:
    """What a search of n rows of ``width`` numbers for k neighbours holds beside the rows themselves."""
    threads = available_threads()
    rows = 4.0 * n * width
    parts = {"neighbours": n * k * (8.0 if distances else 4.0)}
    if method == "cells":
        n_cells = _n_cells(n)
        parts["cells"] = 2 * 4 * n * _USUAL_PROBES + 20 * n
        parts["sample"] = 3.0 * 4 * width * min(n, SAMPLE_ROWS * n_cells)
        parts["blocks"] = threads * QUERY_ROWS * (4.0 * width + 8 * k + 16 * _USUAL_PROBES)
    elif method == "exact":
        parts["neighbours"] = n * (k + 6) * 8.0 + n * k * 12.0
        parts["rows"] = 2 * rows
        parts["blocks"] = 40e6
    else:
        parts["index"] = rows + (n * _LINKS * 8.0 if method == "hnsw" else 8.0 * n)
        parts["neighbours"] = n * (k + 1) * 24.0
        parts["rows"] = rows
    return MemoryPlan(parts)


def _n_cells(n: int) -> int:
    return max(1, round(_CELLS * math.sqrt(n)))


def _exact(rows: Rows, searched: Rows, k: int, wish: _Wish) -> OrderedNeighbors:
    found = nearest_neighbors(searched[:], k)
    recall = 1.0
    if searched.source is not rows.source and k > 0:
        recall = _measured(rows, np.arange(len(rows)), found.indices, k, wish.seed)
    report = GraphReport(recall, "exact")
    return OrderedNeighbors(np.arange(len(rows)), found.indices, found.distances, report)


def _by_cells(rows: Rows, searched: Rows, k: int, wish: _Wish) -> OrderedNeighbors:
    n = len(rows)
    centroids = train_centroids(searched, _n_cells(n), wish.seed)
    sample = ExactSample.search(rows, _sampled(n, wish.seed, 0), k)
    n_probes = choose_probes(searched, centroids, sample, wish.target_recall)
    plan = memory_plan("exact", n, searched.shape[1], k)
    if n_probes > _LARGEST_SHARE * len(centroids) and (wish.memory is None or plan.total <= wish.memory):
        return _exact(rows, searched, k, wish)
    index, probes = CellIndex.build(searched, centroids, n_probes)
    found = index.neighbors(k, probes, distances=wish.distances, progress=wish.progress)
    del probes
    recall = _measured(rows, index.order, found.indices, k, wish.seed)
    parameters = {"cells": len(centroids), "probes": n_probes, "seed": wish.seed}
    if searched.source is not rows.source:
        parameters["reduced_to"] = searched.shape[1]
    report = GraphReport(recall, "cells", parameters)
    return OrderedNeighbors(index.order, found.indices, found.distances, report, index)


def choose_probes(rows: Rows, centroids: Floats, sample: ExactSample, target_recall: float) -> int:
    """Fewest cells to search for the target: the sample's mean recall, less twice its standard error, reaches it.

    A true neighbour is found if its cell is among the nearest ones of the row: no search is needed to know that.
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


def _by_faiss(rows: Rows, searched: Rows, k: int, wish: _Wish) -> OrderedNeighbors:
    # Here, as faiss is an extra.
    from laplacianshot.scale.faiss_search import search_faiss

    sample = ExactSample.search(rows, _sampled(len(rows), wish.seed, 0), k)
    found, parameters = search_faiss(wish.method, searched, k, sample, wish.target_recall, wish.seed)
    recall = _measured(rows, np.arange(len(rows)), found.indices, k, wish.seed)
    report = GraphReport(recall, wish.method, parameters)
    return OrderedNeighbors(np.arange(len(rows)), found.indices, found.distances, report)


def _sampled(n: int, seed: int, number: int) -> Ints:
    """Positions of rows to search exactly; samples of different numbers are independent."""
    rng = np.random.default_rng([seed, number])
    return np.sort(rng.choice(n, min(n, SAMPLE), replace=False))


def _measured(rows: Rows, order: Ints, indices: Ints, k: int, seed: int) -> float:
    """Recall of ``indices`` (n, k), of and among the rows in another ``order``, on rows that chose nothing."""
    sample = ExactSample.search(rows, _sampled(len(rows), seed, 1), k)
    place = np.empty(len(order), dtype=np.int64)
    place[order] = np.arange(len(order))
    ids = indices[place[sample.rows]]
    return float(sample.shares_found(rows, np.where(ids < 0, -1, order[ids])).mean())
