"""Ways to find exact neighbors without forming every product in full, and the one place that chooses between them.

``bytes``        products of rows rounded to eight bits, on processors with an instruction for them
``directions``   bounds from few coordinates, where the rows vary in few directions

A trial on a few of the rows tells what each would cost. Beside them, narrow products (:mod:`._vector_kernels`) multiply
many rows with few classes.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, Self

import numpy as np

from laplacianshot.neighbors.accel import byte_search
from laplacianshot.neighbors.accel.directions import Projection, project
from laplacianshot.runtime.threads import Workers
from laplacianshot.runtime.types import Floats, Ints

# What a search with bounds from few coordinates, and one with bounds from bytes, may cost at most against one with all
# products.
MAX_DIRECTIONS_COST = 0.7
MAX_BYTES_COST = 0.75
# What preparing few coordinates costs beside that, in all and over the number of entries.
_PREPARING, _PREPARING_ONCE = 0.1, 1.2e6
# Fewer rows than this are searched in full sooner than anything is tried.
MIN_ROWS = 4096
_ROWS, _FIRST = 1024, 96


@dataclass(frozen=True)
class Trial:
    """Rows to try bounds on, the first few of them against all.

    A pair is in question while a bound of its key, ``|x_j|^2 / 2 - x_i.x_j``, is not above the limit of row i: the key
    of the neighbor that is as far down among these rows as the last one is among all.
    """

    tried: Ints  # (m,): which rows they are
    rows: Floats  # (m, D)
    halves: Floats  # (m,): half their squared lengths
    keys: Floats  # (f, m)
    limits: Floats  # (f, 1)
    near: float  # the squared distance of that neighbor over the one of any two rows

    @classmethod
    def of_rows(cls, workers: Workers, rows: Floats, halves: Floats, n_neighbors: int) -> Self:
        """From rows (n, D), at least MIN_ROWS, whose ``n_neighbors`` nearest are searched."""
        tried = np.random.default_rng(0).choice(len(rows), _ROWS, replace=False)
        some, halves = rows[tried], halves[tried]
        keys = halves - workers.product(some[:_FIRST], some.T)
        keys[np.arange(_FIRST), np.arange(_FIRST)] = np.inf
        rank = min(int(n_neighbors / len(rows) * _ROWS) + 1, _ROWS - 2)
        limits = np.partition(keys, rank, axis=1)[:, rank]
        spread = 2 * float(np.mean(halves))
        near = float(np.mean(limits + halves[:_FIRST])) / spread if spread else np.inf
        return cls(tried, some, halves, keys, limits[:, None], near)

    def in_question(self, lower: Floats) -> float:
        """The share of pairs with these lower bounds of keys (f, m) that are."""
        return float(np.count_nonzero(lower <= self.limits)) / lower.size


def choose(workers: Workers, rows: Floats, halves: Floats, n_neighbors: int) -> Projection | Literal["bytes"] | None:
    """The cheapest way to find the neighbors of all rows (n, D): a projection, by bytes, or None for all products."""
    if len(rows) < MIN_ROWS:
        return None
    trial = Trial.of_rows(workers, rows, halves, n_neighbors)
    by_bytes, worth = False, MAX_DIRECTIONS_COST
    if byte_search.applies(rows.shape[1]):
        cost = byte_search.cost(trial)
        by_bytes = cost < MAX_BYTES_COST
        worth = min(worth, cost - _PREPARING - _PREPARING_ONCE / rows.size)
    projection = project(workers, rows, halves, trial, worth)
    return "bytes" if projection is None and by_bytes else projection
