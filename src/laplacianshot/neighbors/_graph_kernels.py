"""Kernels over directed neighbor lists."""

from __future__ import annotations

import numpy as np

from laplacianshot.runtime.compilation import kernel
from laplacianshot.runtime.types import Floats, Ints


@kernel
def count_incoming(lists: Ints, incoming: Ints, start: int, stop: int) -> None:
    """How many lists hold each of the nodes ``start..stop``, into (n,)."""
    for i in range(lists.shape[0]):
        for e in range(lists.shape[1]):
            if start <= lists[i, e] < stop:
                incoming[lists[i, e]] += 1


@kernel
def turn_with_squares(
    lists: Ints, squares: Floats, first: Ints, sources: Ints, turned: Floats, start: int, stop: int
) -> None:
    """The nodes whose lists hold each of the nodes ``start..stop``, ascending, with the squared distances.

    Those of node j come into ``sources[first_j : first_{j+1}]`` and ``turned``. ``first`` (n + 1,) is used up: it ends
    one node further.
    """
    for i in range(lists.shape[0]):
        for e in range(lists.shape[1]):
            j = lists[i, e]
            if start <= j < stop:
                sources[first[j]] = i
                turned[first[j]] = squares[i, e]
                first[j] += 1


@kernel
def take_sources(
    lists: Ints, squares: Floats, first: Ints, sources: Ints, turned: Floats, start: int, stop: int
) -> None:
    """Put into the lists ``start..stop``, nearest first, what is nearer than their last and has them in its own.

    Those of node j are ``sources[first_j : first_{j+1}]``, at squared distances ``turned``. -1 is none, and comes last.
    """
    k = lists.shape[1]
    seen = np.full(first.shape[0] - 1, -1, dtype=lists.dtype)
    for j in range(start, stop):
        row, square = lists[j], squares[j]
        for e in range(k):
            if row[e] >= 0:
                seen[row[e]] = j
        for s in range(first[j], first[j + 1]):
            gap = turned[s]
            if (row[k - 1] >= 0 and gap >= square[k - 1]) or seen[sources[s]] == j:
                continue
            at = k - 1
            while at > 0 and (row[at - 1] < 0 or gap < square[at - 1]):
                row[at] = row[at - 1]
                square[at] = square[at - 1]
                at -= 1
            row[at] = sources[s]
            square[at] = gap
