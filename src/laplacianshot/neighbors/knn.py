"""Exact neighbors of rows: the one door to the search of small and of large sets."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeAlias

from laplacianshot.neighbors.small import SmallIndex
from laplacianshot.neighbors.types import Neighbors
from laplacianshot.runtime.limits import SMALL_ROWS
from laplacianshot.runtime.types import Floats

if TYPE_CHECKING:
    from laplacianshot.neighbors.exact import ExactIndex

PointIndex: TypeAlias = "SmallIndex | ExactIndex"


def point_index(points: Floats) -> PointIndex:
    """Points (n, D), finite and C-contiguous, made ready for any number of searches; few of them without a compiler."""
    if len(points) <= SMALL_ROWS:
        return SmallIndex(points)
    # Not at the top: it needs numba, which small sets must not wait for.
    from laplacianshot.neighbors.exact import ExactIndex

    return ExactIndex(points)


def nearest_neighbors(X: Floats, n_neighbors: int) -> Neighbors:
    """The nearest other rows of each row of ``X`` (n, D), finite and C-contiguous: (n, min(n_neighbors, n - 1))."""
    return point_index(X).neighbors(n_neighbors)


def cross_neighbors(X: Floats, points: Floats, n_neighbors: int) -> Neighbors:
    """The nearest rows of ``points`` (n, D) to each row of ``X`` (m, D), equal ones too: (m, min(n_neighbors, n))."""
    return point_index(points).neighbors_of(X, n_neighbors)
