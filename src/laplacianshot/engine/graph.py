"""The default recipe's graph ``W = D^-1/2 ((A + A^T)/2) D^-1/2`` from neighbor lists, without a copy of either."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from laplacianshot.neighbors.cells import incoming_edges
from laplacianshot.runtime.compilation import kernel
from laplacianshot.runtime.threads import Workers, row_blocks
from laplacianshot.runtime.types import Floats, Ints

_BLOCK_ROWS = 8192
_BLOCK_EDGES = 2**20


@dataclass(frozen=True, repr=False)
class NodeGraph:
    """Normalized affinities between n nodes, in an order that keeps neighbors near one another in memory."""

    nodes: Ints  # (n,): the row of X that each node is
    indptr: Ints  # (n + 1,)
    indices: Ints  # (nnz,), ascending in each row
    weights: Floats  # (nnz,), float32
    degrees: Floats  # (n,): row sums of (A + A^T)/2

    @property
    def affinity(self) -> sp.csr_array:
        """Over the rows of X in their own order. Takes as much memory again."""
        n = len(self.nodes)
        W = sp.csr_array((self.weights, self.indices, self.indptr), shape=(n, n))[np.argsort(self.nodes)]
        for start, stop in row_blocks(W.nnz, _BLOCK_EDGES):
            W.indices[start:stop] = self.nodes[W.indices[start:stop]]
        W.has_sorted_indices = False
        W.sort_indices()
        return W


def node_graph(order: Ints, lists: Ints, labeled: NDArray[np.bool_] | None = None) -> NodeGraph:
    """The graph of directed neighbor lists (n, k), which are overwritten.

    ``order`` (n,) has the row of X that each list belongs to. Neighbors are positions in it; -1 is none. Rows of X
    that are ``labeled`` (n,) become the last nodes.
    """
    with Workers(lists.size) as workers:
        if labeled is not None:
            place = np.argsort(labeled[order], kind="stable")
            order, lists = order[place], _moved(workers, lists, place)
        first, sources, _ = incoming_edges(workers, lists)
        degrees = ((lists >= 0).sum(axis=1) + np.diff(first)) / 2
        edges = union_edges(workers, lists, first, sources, inverse_roots(degrees))
    return NodeGraph(order, *edges, degrees)


def _moved(workers: Workers, lists: Ints, place: Ints) -> Ints:
    """The lists at ``place`` (n,), with neighbors by their new positions."""
    n = len(place)
    number = np.full(n + 1, -1, lists.dtype)  # the last one is for no neighbor
    number[place] = np.arange(n, dtype=lists.dtype)
    moved = np.empty_like(lists)

    def move(_: int, start: int, stop: int) -> None:
        moved[start:stop] = number[lists[place[start:stop]]]

    workers.run(move, row_blocks(n, _BLOCK_ROWS))
    return moved


def inverse_roots(degrees: Floats) -> Floats:
    """``d^-1/2`` in float32, 0 where a degree is."""
    roots: Floats = np.divide(1.0, np.sqrt(degrees), out=np.zeros(len(degrees)), where=degrees > 0).astype(np.float32)
    return roots


def union_edges(workers: Workers, lists: Ints, first: Ints, sources: Ints, scale: Floats) -> tuple[Ints, Ints, Floats]:
    """Rows of ``s_i s_j (A + A^T)_ij / 2`` as indptr, indices and weights, columns ascending.

    ``lists`` (n, k) are the neighbors j of each of the first n nodes i, -1 for none; they are sorted in place. The
    nodes whose lists hold node i are ``sources[first_i : first_{i+1}]``, ascending. ``scale`` (n_nodes,) is s,
    ``d^-1/2`` of every node, in float32.
    """
    n = len(lists)
    blocks = row_blocks(n, _BLOCK_ROWS)
    workers.run(lambda _, start, stop: lists[start:stop].sort(axis=1), blocks)
    indptr = np.zeros(n + 1, dtype=np.int64)

    def join(indices: Ints, weights: Floats) -> None:
        rows = (lists, first, sources, scale, indptr, indices, weights)
        workers.run(lambda _, start, stop: _join_rows(*rows, start, stop), blocks)

    join(np.empty(0, dtype=lists.dtype), np.empty(0, dtype=np.float32))
    np.cumsum(indptr, out=indptr)
    indices, weights = np.empty(indptr[-1], dtype=lists.dtype), np.empty(indptr[-1], dtype=np.float32)
    join(indices, weights)
    return indptr, indices, weights


@kernel
def _join_rows(
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
    """Rows ``start..stop`` of :func:`union_edges`; without room for indices, their lengths into ``indptr[1:]``."""
    half, one = np.float32(0.5), np.float32(1)
    counting = len(indices) == 0
    for i in range(start, stop):
        row = lists[i]
        e = 0
        while e < row.shape[0] and row[e] < 0:
            e += 1
        s, end = first[i], first[i + 1]
        at = 0 if counting else indptr[i]
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
            if not counting:
                indices[at] = j
                weights[at] = weight * scale[i] * scale[j]
            at += 1
        if counting:
            indptr[i + 1] = at
