"""The default recipe's graph ``W = D^-1/2 ((A + A^T)/2) D^-1/2`` from neighbor lists, without a copy of either."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import scipy.sparse as sp

from laplacianshot.neighbors.kernels import count_incoming
from laplacianshot.runtime.compilation import kernel
from laplacianshot.runtime.threads import Workers, row_blocks
from laplacianshot.runtime.types import Floats, Ints

_BLOCK_ROWS = 8192


@dataclass(frozen=True, repr=False)
class NodeGraph:
    """Normalized affinities between n nodes, in an order that keeps neighbors near one another in memory.

    Attributes
    ----------
    nodes : int array of shape (n,)
        The row of X that each node is.
    indptr : int array of shape (n + 1,)
    indices : int array of shape (nnz,)
        Ascending in each row.
    weights : array of shape (nnz,), float32
    degrees : array of shape (n,)
        Row sums of ``(A + A^T)/2``.
    """

    nodes: Ints
    indptr: Ints
    indices: Ints
    weights: Floats
    degrees: Floats

    @property
    def affinity(self) -> sp.csr_array:
        """Over the rows of X in their own order. Takes as much memory again."""
        n = len(self.nodes)
        place = np.empty(n, dtype=np.int64)
        place[self.nodes] = np.arange(n)
        indptr = np.zeros(n + 1, dtype=np.int64)
        np.cumsum(np.diff(self.indptr)[place], out=indptr[1:])
        indices, weights = np.empty_like(self.indices), np.empty_like(self.weights)
        old, new = (self.indptr, self.indices, self.weights, self.nodes, place), (indptr, indices, weights)
        with Workers(len(weights)) as workers:
            workers.run(lambda _, start, stop: _reorder_rows(*old, *new, start, stop), row_blocks(n, _BLOCK_ROWS))
        return sp.csr_array((weights, indices, indptr), shape=(n, n))


def node_graph(order: Ints, lists: Ints) -> NodeGraph:
    """The graph of directed neighbor lists, which are overwritten.

    Parameters
    ----------
    order : int array of shape (n,)
        The row of X that each list belongs to: the nodes.
    lists : int array of shape (n, k)
        Neighbors by their positions in ``order``; -1 is none.
    """
    n, k = lists.shape
    with Workers(n * k) as workers:
        incoming = np.zeros(n, dtype=np.int64)
        workers.run(lambda _, start, stop: count_incoming(lists, incoming, start, stop), workers.share(n))
        degrees = ((lists >= 0).sum(axis=1) + incoming) / 2
        first = np.zeros(n + 1, dtype=np.int64)
        np.cumsum(incoming, out=first[1:])
        sources = np.empty(first[-1], dtype=lists.dtype)
        used = first.copy()
        # Each thread reads all lists and writes of some nodes.
        workers.run(lambda _, start, stop: _turn_lists(lists, used, sources, start, stop), workers.share(n))
        edges = union_edges(workers, lists, first, sources, inverse_roots(degrees))
    return NodeGraph(order, *edges, degrees)


def inverse_roots(degrees: Floats) -> Floats:
    """``d^-1/2`` in float32, 0 where a degree is."""
    roots: Floats = np.divide(1.0, np.sqrt(degrees), out=np.zeros(len(degrees)), where=degrees > 0).astype(np.float32)
    return roots


def union_edges(workers: Workers, lists: Ints, first: Ints, sources: Ints, scale: Floats) -> tuple[Ints, Ints, Floats]:
    """Rows of ``s_i s_j (A + A^T)_ij / 2`` as indptr, indices and weights, columns ascending.

    Parameters
    ----------
    workers : Workers
    lists : int array of shape (n, k)
        The neighbors j of each of the first n nodes i, -1 for none; sorted in place.
    first : int array of shape (n + 1,)
    sources : int array
        The nodes whose lists hold node i are ``sources[first_i : first_{i+1}]``, ascending.
    scale : array of shape (n_nodes,), float32
        s, ``d^-1/2`` of every node.
    """
    n = len(lists)
    blocks = row_blocks(n, _BLOCK_ROWS)
    workers.run(lambda _, start, stop: lists[start:stop].sort(axis=1), blocks)
    counts = np.zeros(n, dtype=np.int64)
    union = (lists, first, sources)
    workers.run(lambda _, start, stop: _count_union(*union, counts, start, stop), blocks)
    indptr = np.zeros(n + 1, dtype=np.int64)
    np.cumsum(counts, out=indptr[1:])
    indices, weights = np.empty(indptr[-1], dtype=lists.dtype), np.empty(indptr[-1], dtype=np.float32)
    workers.run(lambda _, start, stop: _fill_union(*union, scale, indptr, indices, weights, start, stop), blocks)
    return indptr, indices, weights


@kernel
def _turn_lists(lists: Ints, first: Ints, sources: Ints, start: int, stop: int) -> None:
    """The nodes whose lists hold each of the nodes ``start..stop``, ascending.

    Those of node j come into ``sources[first_j : first_{j+1}]``. ``first`` (n + 1,) is used up: it ends one node
    further.
    """
    for i in range(lists.shape[0]):
        for e in range(lists.shape[1]):
            j = lists[i, e]
            if start <= j < stop:
                sources[first[j]] = i
                first[j] += 1


@kernel
def _count_union(lists: Ints, first: Ints, sources: Ints, counts: Ints, start: int, stop: int) -> None:
    """The number of nodes that are in the list of each node ``start..stop`` or have it in theirs."""
    for i in range(start, stop):
        row = lists[i]
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
def _fill_union(
    lists: Ints,
    first: Ints,
    sources: Ints,
    scale: Floats,
    indptr: Ints,
    indices: Ints,
    weights: Floats,
    start: int,
    stop: int,
) -> None:
    """Rows ``start..stop`` of :func:`union_edges`."""
    half = np.float32(0.5)
    one = np.float32(1)
    for i in range(start, stop):
        row = lists[i]
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
def _reorder_rows(
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
