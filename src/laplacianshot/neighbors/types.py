"""What a neighbor search returns."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

from laplacianshot.runtime.types import Floats, Ints

if TYPE_CHECKING:
    from laplacianshot.neighbors.cells import CellIndex

# Candidates kept beyond k while distances are only known to float32 rounding.
SPARE = 6
# The number of the first query where no query is one of the points: below all of theirs.
ELSEWHERE = -(2**40)


@dataclass(frozen=True)
class GraphReport:
    """How the neighbors of a set were found."""

    recall: float  # share of the true neighbors that were found, measured on a sample of rows; 1 for an exact search
    method: str  # exact or cells
    parameters: Mapping[str, float] = field(default_factory=dict)
    seconds: float = 0.0


@dataclass(frozen=True)
class Neighbors:
    """The k nearest points of each query, nearest first.

    If a search puts rows in a new order, near rows near one another, ``order`` (n,) has the row at each position, and
    ``indices`` are positions as well. Otherwise ``order`` is empty.
    """

    indices: Ints  # (n, k): numbers of the points; -1 where an approximate search found fewer than k
    distances: Floats  # (n, k): squared Euclidean distances; (n, 0) where they were not requested
    report: GraphReport = GraphReport(1.0, "exact")
    order: Ints = field(default_factory=lambda: np.empty(0, dtype=np.int64))
    index: CellIndex | None = None  # what an approximate search has made, for more queries


def index_dtype(n: int) -> Any:
    """int32 where it can number n points, else int64."""
    return np.int32 if n < 2**31 else np.int64


def no_neighbors(n: int, k: int = 0, n_points: int = 0) -> Neighbors:
    """Room for k neighbors of n queries; the result where there is nothing to search."""
    return Neighbors(np.empty((n, k), dtype=index_dtype(n_points)), np.empty((n, k), dtype=np.float64))
