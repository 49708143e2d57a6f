"""Neighbors that only one of two rows has found."""

from __future__ import annotations

import numpy as np

from laplacianshot.neighbors._graph_kernels import count_incoming, take_sources, turn_with_squares
from laplacianshot.neighbors.types import Neighbors
from laplacianshot.runtime.threads import Workers, row_blocks

_BLOCK_ROWS = 8192


def complete(found: Neighbors) -> None:
    """Let each row take over, in place, who has it among its neighbors and is nearer than its own last one.

    An approximate search misses neighbors that lie just beyond what was searched, often on one side only: the other
    row has found this one. Their distance is known, so that nothing has to be searched again.

    Parameters
    ----------
    found : Neighbors
        indices (n, k), nearest first, -1 for none; and squared distances.
    """
    lists, squares = found.indices, found.distances
    n, k = lists.shape
    with Workers(n * k * 4) as workers:
        # Each thread reads all lists and writes of some nodes.
        incoming = np.zeros(n, dtype=np.int64)
        workers.run(lambda _, start, stop: count_incoming(lists, incoming, start, stop), workers.share(n))
        first = np.zeros(n + 1, dtype=np.int64)
        np.cumsum(incoming, out=first[1:])
        sources, turned = np.empty(first[-1], dtype=lists.dtype), np.empty(first[-1], dtype=squares.dtype)
        used = (lists, squares, first.copy(), sources, turned)
        workers.run(lambda _, start, stop: turn_with_squares(*used, start, stop), workers.share(n))
        workers.run(
            lambda _, start, stop: take_sources(lists, squares, first, sources, turned, start, stop),
            row_blocks(n, _BLOCK_ROWS),
        )
