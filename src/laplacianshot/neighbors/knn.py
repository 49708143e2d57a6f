"""Nearest neighbors of rows: one door to the exact search of small and of large sets and to the search by cells."""

from __future__ import annotations

import time
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Literal, TypeAlias, get_args

import numpy as np

from laplacianshot.neighbors.small import SmallIndex
from laplacianshot.neighbors.types import SPARE, GraphReport, Neighbors, index_dtype, no_neighbors
from laplacianshot.runtime.limits import LARGE_ROWS, SMALL_ROWS, TARGET_RECALL, MemoryPlan, larger, parse_bytes
from laplacianshot.runtime.progress import Progress
from laplacianshot.runtime.threads import available_threads, row_blocks
from laplacianshot.runtime.types import Floats, Ints

# Imports inside the functions of this module: they need numba, which small sets must not wait for.
if TYPE_CHECKING:
    from laplacianshot.neighbors.rows import Rows

Method: TypeAlias = Literal["auto", "exact", "cells"]

# Bytes that an exact search holds at most where no budget is given; beyond, rows are formed block by block.
_MAX_HELD = 4e9
# Searching more than this share of all cells costs as much as an exact search that forms rows block by block; half of
# it where those are held, and each product is formed once for two rows.
_MAX_SHARE = 0.7
_BLOCK_ROWS = 65536
_STREAMED_ROWS = 8192


def knn(
    X: Floats | Rows,
    n_neighbors: int,
    *,
    queries: Floats | None = None,
    method: Method = "auto",
    target_recall: float = TARGET_RECALL,
    seed: int = 0,
    memory: int | float | str | None = None,
    progress: Progress | None = None,
    distances: bool = True,
    reorder: bool = False,
) -> Neighbors:
    """Find the nearest other rows of each row, or the nearest rows of each query.

    Parameters
    ----------
    X : array or Rows of shape (n, D)
        Finite; in memory or memory-mapped. Never copied whole by a search by cells.
    n_neighbors : int
        k, the row itself not counted; more than n - 1 means all the others.
    queries : array of shape (m, D), optional
        Rows from elsewhere, searched exactly; a row equal to a query counts. Default: the rows of X.
    method : {"auto", "exact", "cells"}
        ``auto`` is ``exact`` up to 50,000 rows and ``cells`` above, or ``exact`` again where cells would not be
        faster.
    target_recall : float
        Share of true neighbors that an approximate search must find.
    seed : int
        The result depends on it and on nothing else: not on the number of threads.
    memory : int, float or str, optional
        Maximum number of bytes to use beyond X, such as ``"2GB"``; MemoryError before the work if that is too little.
    progress : callable, optional
        Called with ``(done, total)``.
    distances : bool
        Whether squared distances are needed. Without them neighbors may come in any order, and sooner.
    reorder : bool
        Leave the rows in the order in which they were searched, near rows near one another; ``order`` then says which
        row is at which position.

    Returns
    -------
    Neighbors
        indices (n, k) int32 (int64 above 2^31 rows) and squared distances (n, k), nearest first; ``report`` says how
        they were found.

    Examples
    --------
    >>> import numpy as np
    >>> from laplacianshot.neighbors.knn import knn
    >>> X = np.random.default_rng(0).standard_normal((3000, 16), dtype=np.float32)
    >>> knn(X, 5).indices.shape
    (3000, 5)
    >>> found = knn(X, 5, method="cells")
    >>> found.report.method, found.report.recall > 0.9
    ('cells', True)
    """
    start = time.perf_counter()
    if method not in get_args(Method):
        raise ValueError(f"method must be one of {', '.join(get_args(Method))}, got {method!r}.")
    if not 0 < target_recall <= 1:
        raise ValueError(f"target_recall must be above 0 and at most 1, got {target_recall!r}.")
    if queries is not None:
        return _of_queries(X, queries, n_neighbors)
    n, k = len(X), max(0, min(n_neighbors, len(X) - 1))
    method = "exact" if k == 0 else chosen_method(method, n, target_recall)
    budget = None if memory is None else parse_bytes(memory)
    plan = memory_plan(method, n, X.shape[1], k, distances=distances)
    plan.check(budget, advice="a smaller n_neighbors needs less")
    if method == "exact":
        found = _exact(X, k, budget, progress, distances=distances)
    else:
        found = _by_cells(_as_rows(X), k, target_recall, seed, budget, progress, distances=distances)
    if len(found.order) and not reorder:
        found = _put_back(found)
    elif reorder and not len(found.order):
        found = replace(found, order=np.arange(n))
    return replace(found, report=replace(found.report, seconds=time.perf_counter() - start))


def chosen_method(method: Method, n: int, target_recall: float) -> Method:
    """The search that ``auto`` stands for with n rows: exact up to 50,000 rows, by cells above."""
    if method != "auto":
        return method
    return "exact" if n <= LARGE_ROWS or target_recall == 1 else "cells"


def point_index(points: Floats) -> SmallIndex:
    """Points (n, D), finite, made ready for any number of searches; few of them without a compiler."""
    points = _contiguous(points)
    if len(points) <= SMALL_ROWS:
        return SmallIndex(points)
    from laplacianshot.neighbors.exact import ExactIndex

    return ExactIndex(points)


def _contiguous(X: Floats) -> Floats:
    """The same rows in C order; float16, which kernels do not support, as float32."""
    return np.ascontiguousarray(X, np.float32 if X.dtype == np.float16 else None)


def memory_plan(method: str, n: int, width: int, k: int, *, distances: bool = False) -> MemoryPlan:
    """What a search of n rows of ``width`` numbers for k neighbors holds beside the rows themselves, at least."""
    threads = available_threads()
    if method == "cells":
        from laplacianshot.neighbors.cells import MAX_KEPT, QUERY_ROWS, SAMPLE_ROWS, n_cells_of

        train = {"sample": 3.0 * 4 * width * min(n, SAMPLE_ROWS * n_cells_of(n))}
        search = {
            "neighbors": 8.0 * n * k,
            "cells": 2 * 4.0 * n * MAX_KEPT + 20 * n,
            "blocks": threads * QUERY_ROWS * (4.0 * width + 8 * k + 40 * MAX_KEPT),
        }
        return larger(*map(MemoryPlan, (train, search, {"neighbors": 16.0 * n * k, "cells": 20.0 * n})))
    if n <= LARGE_ROWS:
        return in_memory_plan(n, width, k)
    return MemoryPlan(
        {
            "neighbors": n * k * (8.0 if distances else 4.0),
            "blocks": _STREAMED_ROWS * (4.0 * width + 16 * k) + 4096.0 * threads * (width + 256 * threads),
        }
    )


def in_memory_plan(n: int, width: int, k: int) -> MemoryPlan:
    """What the exact search that holds all rows at once holds."""
    rows, by_bytes = 4.0 * n * width, 0.0
    if n > SMALL_ROWS:
        from laplacianshot.neighbors.accel import byte_search

        by_bytes = byte_search.memory(n, width, k + SPARE) if byte_search.applies(width) else 0.0
    return MemoryPlan(
        {
            "neighbors": n * (k + SPARE) * 8.0 + n * k * 12.0,
            # In float32 and in the order of the search, and few coordinates of them twice; or in float32 and in bytes.
            "rows": max(2.6 * rows, rows + by_bytes),
            "blocks": 20e6 + 10e6 * available_threads(),
        }
    )


def _as_rows(X: Floats | Rows) -> Rows:
    from laplacianshot.neighbors.rows import Rows

    return X if isinstance(X, Rows) else Rows.transformed(X)


def _of_queries(X: Floats | Rows, queries: Floats, n_neighbors: int) -> Neighbors:
    """The nearest rows of X to queries (m, D), exactly."""
    if isinstance(X, np.ndarray):
        return point_index(X).neighbors_of(_contiguous(queries), n_neighbors)
    from laplacianshot.neighbors.exact import nearest_rows

    return nearest_rows(X, queries, min(n_neighbors, len(X)))


def _is_held(n: int, width: int, k: int, memory: int | None) -> bool:
    """Whether the exact search of rows that may be memory-mapped has room for all of them."""
    # Beside the search the caller may hold an order of the rows.
    return n <= LARGE_ROWS or in_memory_plan(n, width, k).total + 40 * n <= (_MAX_HELD if memory is None else memory)


def _exact(X: Floats | Rows, k: int, memory: int | None, progress: Progress | None, *, distances: bool) -> Neighbors:
    """True neighbors of all rows, held together or, if there is no room, formed block by block."""
    n = len(X)
    if k == 0:
        return no_neighbors(n)
    plain = isinstance(X, np.ndarray) and not isinstance(X, np.memmap)
    if (plain and memory is None) or _is_held(n, X.shape[1], k, memory):
        points: Any = X if plain else _as_rows(X).centered()[:]
        index = point_index(points)
        found = index.neighbors(k) if distances else Neighbors(index.neighbor_sets(k), np.empty((n, 0)))
        if progress is not None:
            progress(n, n)
        return found
    from laplacianshot.neighbors.exact import nearest_rows

    rows = _as_rows(X).centered()
    found = Neighbors(np.empty((n, k), index_dtype(n)), np.empty((n, k if distances else 0), np.float32))
    for start, stop in row_blocks(n, _STREAMED_ROWS):
        some = nearest_rows(rows, rows[start:stop], k, first_row=start)
        found.indices[start:stop] = some.indices
        if distances:
            found.distances[start:stop] = some.distances
        if progress is not None:
            progress(stop, n)
    return found


def _by_cells(
    rows: Rows,
    k: int,
    target_recall: float,
    seed: int,
    memory: int | None,
    progress: Progress | None,
    *,
    distances: bool,
) -> Neighbors:
    """Neighbors of the rows by cells, in the order of the cells; exact ones where cells would not be faster."""
    from laplacianshot.neighbors import cells

    n, width = rows.shape

    def part(start: float, stop: float) -> Progress | None:
        """The callback of the part that covers these shares (0 to 1) of the whole search."""
        if progress is None:
            return None
        return lambda done, total: progress(round(n * (start + (stop - start) * done / max(1, total))), n)

    searched = rows.centered()
    centroids = cells.train_centroids(searched, cells.n_cells_of(n), seed, progress=part(0.0, 0.2))
    sample = cells.ExactSample.search(rows, cells.sample_rows(n, seed, 0), k)
    n_probes = cells.choose_probes(searched, centroids, sample, target_recall)
    plan = memory_plan("exact", n, width, k, distances=distances)
    max_probes = _MAX_SHARE * len(centroids) / (2 if _is_held(n, width, k, memory) else 1)
    if n_probes > max_probes and (memory is None or plan.total <= memory):
        return _exact(rows, k, memory, progress, distances=distances)
    index, probes = cells.CellIndex.build(searched, centroids, n_probes, progress=part(0.25, 0.4))
    found = index.neighbors(k, probes, progress=part(0.4, 1.0))
    del probes
    cells.complete(found)
    parameters = {"cells": len(centroids), "probes": n_probes, "seed": seed}
    report = GraphReport(_recall(rows, found.indices, index.order, seed), "cells", parameters)
    squares = found.distances if distances else np.empty((n, 0), np.float32)
    return Neighbors(found.indices, squares, report, index.order, index)


def _recall(rows: Rows, indices: Ints, order: Ints, seed: int) -> float:
    """Recall of neighbors by their positions in ``order``, measured on rows that chose nothing."""
    from laplacianshot.neighbors.cells import ExactSample, sample_rows

    sample = ExactSample.search(rows, sample_rows(len(rows), seed, 1), indices.shape[1])
    place = np.empty(len(order), dtype=np.int64)
    place[order] = np.arange(len(order))
    ids = indices[place[sample.rows]]
    return float(sample.shares_found(rows, np.where(ids < 0, -1, order[ids])).mean())


def _put_back(found: Neighbors) -> Neighbors:
    """The same with rows and neighbors numbered as X has them."""
    order = found.order
    indices, distances = np.empty_like(found.indices), np.empty_like(found.distances)
    for start, stop in row_blocks(len(order), _BLOCK_ROWS):
        ids = found.indices[start:stop]
        indices[order[start:stop]] = np.where(ids < 0, -1, order[ids])
        distances[order[start:stop]] = found.distances[start:stop]
    return Neighbors(indices, distances, found.report)
