"""Kernels that turn directed neighbor lists into the normalized symmetric graph, without a copy of either."""

from __future__ import annotations

import numpy as np

from laplacianshot.runtime.compilation import kernel
from laplacianshot.runtime.types import Floats, Ints


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
def count_incoming(lists: Ints, incoming: Ints, start: int, stop: int) -> None:
    """How many lists hold each of the nodes ``start..stop``, into (n,)."""
    for i in range(lists.shape[0]):
        for e in range(lists.shape[1]):
            if start <= lists[i, e] < stop:
                incoming[lists[i, e]] += 1


@kernel
def turn_lists(lists: Ints, place: Ints, first: Ints, sources: Ints, start: int, stop: int) -> None:
    """The nodes whose lists hold each of the nodes ``start..stop``, ascending.

    Those of node j come into ``sources[first_j : first_{j+1}]``. The list of node i is ``lists[place_i]``. ``first``
    (n + 1,) is used up: it ends one node further.
    """
    for i in range(place.shape[0]):
        row = lists[place[i]]
        for e in range(row.shape[0]):
            if start <= row[e] < stop:
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


@kernel
def reorder_rows(
    indptr: Ints,
    indices: Ints,
    weights: Floats,
    nodes: Ints,
    place: Ints,
    new_indptr: Ints,
    new_indices: Ints,
    new_weights: Floats,
    start: int,
    stop: int,
) -> None:
    """Rows ``start..stop`` of the graph whose node ``place_i`` is row i, its columns ``nodes_j`` ascending."""
    for i in range(start, stop):
        first, last = indptr[place[i]], indptr[place[i] + 1]
        columns = np.empty(last - first, dtype=new_indices.dtype)
        for e in range(first, last):
            columns[e - first] = nodes[indices[e]]
        order = np.argsort(columns)
        at = new_indptr[i]
        for e in range(last - first):
            new_indices[at + e] = columns[order[e]]
            new_weights[at + e] = weights[first + order[e]]


@kernel
def turn_with_squares(
    lists: Ints, squares: Floats, first: Ints, sources: Ints, turned: Floats, start: int, stop: int
) -> None:
    """As :func:`turn_lists`, the list of node i being ``lists[i]``, with the squared distances of its entries."""
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
