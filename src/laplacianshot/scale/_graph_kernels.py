"""Kernels that turn directed neighbour lists into the normalised symmetric graph, without a copy of either."""

from __future__ import annotations

import numpy as np

from laplacianshot.inference._compile import kernel
from laplacianshot.inference._types import Floats, Ints


@kernel
def rename_rows(lists: Ints, number: Ints, start: int, stop: int) -> None:
    """Rename the entries of lists ``start..stop`` by ``number`` and sort each list; -1 stays and comes first."""
    for i in range(start, stop):
        row = lists[i]
        for e in range(row.shape[0]):
            if row[e] >= 0:
                row[e] = number[row[e]]
        row.sort()


@kernel
def count_incoming(lists: Ints, incoming: Ints) -> None:
    """How many lists hold each node, (n,)."""
    for i in range(lists.shape[0]):
        for e in range(lists.shape[1]):
            if lists[i, e] >= 0:
                incoming[lists[i, e]] += 1


@kernel
def turn_lists(lists: Ints, place: Ints, first: Ints, sources: Ints) -> None:
    """The nodes whose lists hold each node, ascending: those of node j in ``sources[first_j : first_{j+1}]``.

    The list of node i is ``lists[place_i]``. ``first`` (n + 1,) is used up: it ends one node further.
    """
    for i in range(place.shape[0]):
        row = lists[place[i]]
        for e in range(row.shape[0]):
            if row[e] >= 0:
                sources[first[row[e]]] = i
                first[row[e]] += 1


@kernel
def count_union(lists: Ints, place: Ints, first: Ints, sources: Ints, counts: Ints, start: int, stop: int) -> None:
    """How many nodes are in the list of each node ``start..stop`` or have it in theirs."""
    for i in range(start, stop):
        row = lists[place[i]]
        e = 0
        while e < row.shape[0] and row[e] < 0:
            e += 1
        s, end = first[i], first[i + 1]
        count = 0
        while e < row.shape[0] or s < end:
            if s == end or (e < row.shape[0] and row[e] < sources[s]):
                e += 1
            elif e == row.shape[0] or sources[s] < row[e]:
                s += 1
            else:
                e += 1
                s += 1
            count += 1
        counts[i] = count


@kernel
def fill_union(
    lists: Ints,
    place: Ints,
    first: Ints,
    sources: Ints,
    scale: Floats,
    indptr: Ints,
    indices: Ints,
    weights: Floats,
    start: int,
    stop: int,
) -> None:
    """Rows ``start..stop`` of ``s_i s_j (A + A^T)_ij / 2`` with s = scale, columns ascending."""
    half = np.float32(0.5)
    one = np.float32(1)
    for i in range(start, stop):
        row = lists[place[i]]
        e = 0
        while e < row.shape[0] and row[e] < 0:
            e += 1
        s, end = first[i], first[i + 1]
        at = indptr[i]
        while e < row.shape[0] or s < end:
            if s == end or (e < row.shape[0] and row[e] < sources[s]):
                j = row[e]
                weight = half
                e += 1
            elif e == row.shape[0] or sources[s] < row[e]:
                j = sources[s]
                weight = half
                s += 1
            else:
                j = row[e]
                weight = one
                e += 1
                s += 1
            indices[at] = j
            weights[at] = weight * scale[i] * scale[j]
            at += 1
