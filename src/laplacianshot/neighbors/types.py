"""What a neighbor search returns."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from laplacianshot.runtime.types import Floats, Ints

# Candidates kept beyond k while distances are only known to float32 rounding.
SPARE = 6


@dataclass(frozen=True)
class Neighbors:
    """The k nearest points of each query, nearest first.

    Attributes
    ----------
    indices : array of shape (n, k)
        Numbers of the points; -1 where an approximate search found fewer than k.
    distances : array of shape (n, k)
        Their squared Euclidean distances.
    """

    indices: Ints
    distances: Floats


def no_neighbors(n: int, k: int = 0) -> Neighbors:
    """The neighbors of n queries where there is nothing to search."""
    return Neighbors(np.empty((n, k), dtype=np.int32), np.empty((n, k), dtype=np.float64))
