"""The default recipe's graph ``W = D^-1/2 ((A + A^T)/2) D^-1/2`` from the neighbor lists of a large set."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from laplacianshot.neighbors._graph_kernels import (
    count_incoming,
    count_union,
    fill_union,
    rename_rows,
    reorder_rows,
    turn_lists,
)
from laplacianshot.runtime.threads import Workers, row_blocks
from laplacianshot.runtime.types import Floats, Ints

_BLOCK_ROWS = 8192


@dataclass(frozen=True, repr=False)
class NodeGraph:
    """Normalized affinities between n nodes: queries first, in an order that keeps neighbors near, then the support.

    Attributes
    ----------
    nodes : int array of shape (n,)
        The row of X that each node is.
    n_query : int
    indptr : int array of shape (n + 1,)
    indices : int array of shape (nnz,)
        Ascending in each row, so that edges to the support come last.
    weights : array of shape (nnz,), float32
    degrees : array of shape (n,)
        Row sums of ``(A + A^T)/2``.
    """

    nodes: Ints
    n_query: int
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
            workers.run(lambda _, start, stop: reorder_rows(*old, *new, start, stop), row_blocks(n, _BLOCK_ROWS))
        return sp.csr_array((weights, indices, indptr), shape=(n, n))


def node_graph(order: Ints, lists: Ints, is_query: NDArray[np.bool_]) -> NodeGraph:
    """The graph of directed neighbor lists, which are overwritten.

    Parameters
    ----------
    order : int array of shape (n,)
        The row of X that each list belongs to.
    lists : int array of shape (n, k)
        Neighbors by their positions in ``order``; -1 is none.
    is_query : bool array of shape (n,)
        For each row of X.
    """
    n, k = lists.shape
    queries = is_query[order]
    # place_i: where the list of node i is. number_p: the node whose list is at p.
    place = np.concatenate([np.flatnonzero(queries), np.flatnonzero(~queries)])
    number = np.empty(n, dtype=lists.dtype)
    number[place] = np.arange(n, dtype=lists.dtype)
    blocks = row_blocks(n, _BLOCK_ROWS)
    with Workers(n * k) as workers:
        workers.run(lambda _, start, stop: rename_rows(lists, number, start, stop), blocks)
        incoming = np.zeros(n, dtype=np.int64)
        workers.run(lambda _, start, stop: count_incoming(lists, incoming, start, stop), workers.share(n))
        degrees = ((lists >= 0).sum(axis=1)[place] + incoming) / 2
        scale = np.divide(1.0, np.sqrt(degrees), out=np.zeros(n), where=degrees > 0).astype(np.float32)
        first = np.zeros(n + 1, dtype=np.int64)
        np.cumsum(incoming, out=first[1:])
        sources = np.empty(first[-1], dtype=lists.dtype)
        used = first.copy()
        # Each thread reads all lists and writes of some nodes.
        workers.run(lambda _, start, stop: turn_lists(lists, place, used, sources, start, stop), workers.share(n))
        counts = np.zeros(n, dtype=np.int64)
        union = (lists, place, first, sources)
        workers.run(lambda _, start, stop: count_union(*union, counts, start, stop), blocks)
        indptr = np.zeros(n + 1, dtype=np.int64)
        np.cumsum(counts, out=indptr[1:])
        indices = np.empty(indptr[-1], dtype=lists.dtype)
        weights = np.empty(indptr[-1], dtype=np.float32)
        workers.run(lambda _, start, stop: fill_union(*union, scale, indptr, indices, weights, start, stop), blocks)
    return NodeGraph(order[place], int(queries.sum()), indptr, indices, weights, degrees)
