"""Labels spread along the graph: the rows that they reach, over short edges first."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import scipy.sparse as sp
from scipy.sparse.csgraph import connected_components, minimum_spanning_tree

from laplacianshot.inference.affinity import normalize
from laplacianshot.runtime.types import Floats, Ints

# Share of the labels' mass that a step along the graph keeps, and that a step keeps which takes short edges first.
_KEPT = 0.9
_KEPT_SHORT = 0.97
_STEPS = 100
# Weight of an edge that crosses from one class to another, and of one as long as that to a typical nearest neighbor:
# exponents of the heat kernel, of which the softer one is taken.
_CROSSING = 9.0
_TYPICAL = 2.0
# Of the longest edges: a row far from all others is still reached.
_MAX_EXPONENT = 50.0
# Numbers that the rows at both ends of some edges may take.
_BLOCK_NUMBERS = 2**22


def spread_labels(graph: sp.csr_array, labels: Ints, n_classes: int) -> Floats:
    """The queries' rows (N, C) of ``(I - 0.9 W)^-1 [Y_s; 0]``, made to sum to one; W (n_s + N, n_s + N), support first.

    By conjugate gradients, all classes at once.
    """
    classes = np.concatenate([labels, np.full(graph.shape[0] - len(labels), -1)])
    return spread_classes(graph, classes, n_classes)[len(labels) :]


def spread_classes(graph: sp.csr_array, classes: Ints, n_classes: int, kept: float = _KEPT) -> Floats:
    """The same for all nodes (n, C), with the class of each (n,), -1 where it is not known, and ``kept`` for 0.9."""
    given = np.flatnonzero(classes >= 0)
    seeds = np.zeros((graph.shape[0], n_classes), graph.dtype)
    seeds[given, classes[given]] = 1
    found, residual = np.zeros_like(seeds), seeds.copy()
    direction, energy = residual.copy(), np.einsum("nc,nc->c", residual, residual)
    first = energy.max()
    for _ in range(_STEPS):
        image = direction - kept * (graph @ direction)
        step = energy / np.maximum(np.einsum("nc,nc->c", direction, image), np.finfo(seeds.dtype).tiny)
        found += step * direction
        residual -= step * image
        previous, energy = energy, np.einsum("nc,nc->c", residual, residual)
        if energy.max() <= 1e-8 * first:
            break
        direction = residual + (energy / np.maximum(previous, np.finfo(seeds.dtype).tiny)) * direction
    reached = np.maximum(found, 0) + seeds.dtype.type(1e-9)
    shares: Floats = reached / reached.sum(axis=1, keepdims=True)
    return shares


@dataclass(frozen=True, repr=False)
class Paths:
    """A graph whose edges have lengths, for labels to take the short ones first.

    Attributes
    ----------
    graph : csr_array of shape (n, n)
        W: symmetric, normalized.
    lengths : array of shape (nnz,)
        ``|x_i - x_j|^2`` of every edge, in the order of its entries.
    """

    graph: sp.csr_array
    lengths: Floats

    @classmethod
    def between(cls, graph: sp.csr_array, rows: Any) -> Paths:
        """Those of a graph over rows (n, D)."""
        n, width = rows.shape
        lengths = np.empty(graph.nnz, np.float32)
        ends = np.repeat(np.arange(n), np.diff(graph.indptr))
        step = max(1, _BLOCK_NUMBERS // max(1, width))
        for start in range(0, graph.nnz, step):
            some = slice(start, start + step)
            gaps = rows[ends[some]] - rows[graph.indices[some]]
            lengths[some] = np.einsum("nd,nd->n", gaps, gaps)
        return cls(graph, lengths)

    @cached_property
    def typical(self) -> float:
        """The median over nodes of the shortest edge's length; equal rows do not count."""
        held = np.flatnonzero(np.diff(self.graph.indptr))
        shortest = np.minimum.reduceat(self.lengths, self.graph.indptr[held]) if len(held) else np.zeros(0)
        apart = shortest[shortest > 0]
        return float(np.median(apart)) if len(apart) else 0.0

    @cached_property
    def tree(self) -> tuple[Ints, Ints, Floats]:
        """A minimum spanning tree of every part of the graph: both ends and the length of each edge, by length."""
        # Edges of length zero would be none.
        longer = self.lengths.astype(np.float64) + max(1e-9 * self.typical, np.finfo(np.float64).tiny)
        tree = minimum_spanning_tree(sp.csr_array((longer, self.graph.indices, self.graph.indptr), self.graph.shape))
        edges = tree.tocoo()
        order = np.argsort(edges.data, kind="stable")
        return edges.row[order], edges.col[order], edges.data[order]

    def crossing(self, classes: Ints) -> float:
        """The length of the first edge that joins labels of two classes, as edges are added from the shortest on.

        The class of a node (n,) is -1 where it is not known. Where no two classes are joined, the length of the last
        edge. Zhu and Ghahramani (2002) take it for the distance between classes.
        """
        first, second, lengths = self.tree
        given = np.flatnonzero(classes >= 0)
        n = len(classes)

        def joined(count: int) -> bool:
            edges = sp.csr_array((np.ones(count, bool), (first[:count], second[:count])), shape=(n, n))
            _, parts = connected_components(edges, directed=False)
            pairs = np.unique(np.stack([parts[given], classes[given]]), axis=1)
            return bool(pairs.shape[1] > len(np.unique(pairs[0])))

        low, high = 0, len(lengths)
        while high - low > 1:
            middle = (low + high) // 2
            low, high = (low, middle) if joined(middle) else (middle, high)
        return float(lengths[high - 1]) if len(lengths) else 0.0

    def gap(self, classes: Ints) -> float:
        """How many times as long as a typical shortest edge the first is that joins two classes, minus one."""
        return self.crossing(classes) / self.typical - 1 if self.typical > 0 else 0.0

    def spread(self, classes: Ints, n_classes: int) -> Floats:
        """Classes (n,), -1 where not known, spread along the graph as shares (n, C), over short edges first.

        An edge of squared length l weighs ``w exp(-r l)`` before W is normalized again, with
        ``r = min(9 / crossing, 2 / typical)``.
        """
        if self.typical == 0:
            return spread_classes(self.graph, classes, n_classes, _KEPT_SHORT)
        rate = _TYPICAL / self.typical
        crossing = self.crossing(classes)
        if crossing > 0:
            rate = min(rate, _CROSSING / crossing)
        exponents = np.minimum(rate * self.lengths, _MAX_EXPONENT)
        weights = self.graph.data * np.exp(-exponents).astype(self.graph.dtype)
        weighed = sp.csr_array((weights, self.graph.indices, self.graph.indptr), shape=self.graph.shape)
        return spread_classes(normalize(weighed), classes, n_classes, _KEPT_SHORT)
