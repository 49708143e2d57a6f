"""Ways to find exact neighbors without forming every product in full, and the one place that chooses between them.

``bytes``        products of rows rounded to eight bits, on processors with an instruction for them
``directions``   bounds from few coordinates, where the rows vary in few directions

A trial on a few of the rows tells what each would cost. Beside them, narrow products (:mod:`._narrow_kernels`) multiply
many rows with few classes.
"""

from __future__ import annotations

from typing import Literal

from laplacianshot.neighbors.accel import byte_search
from laplacianshot.neighbors.accel.directions import Projection, project
from laplacianshot.neighbors.accel.trial import MIN_ROWS, Trial
from laplacianshot.runtime.threads import Workers
from laplacianshot.runtime.types import Floats

# What a search with bounds from few coordinates, and one with bounds from bytes, may cost at most against one with all
# products.
MAX_DIRECTIONS_COST = 0.7
MAX_BYTES_COST = 0.75
# What preparing few coordinates costs beside that, in all and over the number of entries.
_PREPARING, _PREPARING_ONCE = 0.1, 1.2e6


def choose(workers: Workers, rows: Floats, halves: Floats, n_neighbors: int) -> Projection | Literal["bytes"] | None:
    """The cheapest way to find the neighbors of all rows (n, D): a projection, by bytes, or None for all products.

    Parameters
    ----------
    workers : Workers
    rows : array of shape (n, D), float32
    halves : array of shape (n,)
        Half their squared lengths.
    n_neighbors : int
    """
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
