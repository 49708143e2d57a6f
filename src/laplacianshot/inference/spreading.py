"""Labels spread along the graph: the rows that they reach, over short edges first."""

from __future__ import annotations

import math
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
# Smallest share of a class, for logarithms.
_MIN_SHARE = 1e-9
# What must arrive at a row for it to be reached, and how often those that are reached pass it on.
_REACHED = 0.01
_WAVES = 20
# Different lengths of the edges to a row's nearest ones that labels take, how many of its neighbors are asked for them,
# and the part of a length by which others may differ and still be the same.
MAX_PATHS = 10
MAX_LISTED = 30
_EQUAL = 1e-5
# Weight of an edge that crosses from one class to another, and of one as long as that to a typical nearest neighbor:
# exponents of the heat kernel, of which the softer one is taken.
_CROSSING = 9.0
_TYPICAL = 2.0
# The exponent of a row's own last edge, where every row has its own scale; and the smallest scale.
_LOCAL = 4.0
_MIN_REACH = 1e-30
# Of the longest edges: a row far from all others is still reached.
_MAX_EXPONENT = 50.0
# Numbers that the rows at both ends of some edges may take.
_BLOCK_NUMBERS = 2**18


def spread_labels(graph: sp.csr_array, labels: Ints, n_classes: int) -> Floats:
    """The queries' rows (N, C) of ``(I - 0.9 W)^-1 [Y_s; 0]``, made to sum to one; W (n_s + N, n_s + N), support first.

    By conjugate gradients, all classes at once.
    """
    classes = np.concatenate([labels, np.full(graph.shape[0] - len(labels), -1)])
    found = _spread(graph, _indicators(classes, n_classes).astype(graph.dtype), _KEPT, 1e-8)[len(labels) :]
    reached = np.maximum(found, 0) + graph.dtype.type(_MIN_SHARE)
    shares: Floats = reached / reached.sum(axis=1, keepdims=True)
    return shares


def _indicators(classes: Ints, n_classes: int) -> Floats:
    """Rows (n, C) of one for a class, zero for -1."""
    seeds = np.zeros((len(classes), n_classes))
    given = np.flatnonzero(classes >= 0)
    seeds[given, classes[given]] = 1
    return seeds


def _spread(graph: sp.csr_array, seeds: Floats, kept: float, tol: float) -> Floats:
    """``(I - kept W)^-1 seeds`` (n, C) by conjugate gradients, to ``tol`` times the first squared residual."""
    tiny = np.finfo(seeds.dtype).tiny
    found, residual = np.zeros_like(seeds), seeds.copy()
    direction, energy = residual.copy(), np.einsum("nc,nc->c", residual, residual)
    first = energy.max()
    for _ in range(_STEPS):
        image = direction - kept * (graph @ direction)
        step = energy / np.maximum(np.einsum("nc,nc->c", direction, image), tiny)
        found += step * direction
        residual -= step * image
        previous, energy = energy, np.einsum("nc,nc->c", residual, residual)
        if energy.max() <= tol * first:
            break
        direction = residual + (energy / np.maximum(previous, tiny)) * direction
    return found


@dataclass(frozen=True, repr=False)
class Paths:
    """Edges between each row and a few near ones, with their lengths, for labels to take the short ones first.

    Attributes
    ----------
    lengths : csr_array of shape (n, n)
        ``|x_i - x_j|^2`` of every edge; symmetric, with zeros that are stored.
    reach : array of shape (n,)
        The length of the last of a row's own edges; 0 for a row that has none.
    """

    lengths: sp.csr_array
    reach: Floats

    @classmethod
    def between(cls, graph: sp.csr_array, rows: Any) -> Paths:
        """The shortest edges at each row (n, D) of a symmetric graph (n, n)."""
        n = graph.shape[0]
        ends = np.repeat(np.arange(n), np.diff(graph.indptr))
        lengths = _squared_lengths(rows, ends, graph.indices)
        # Positions of the edges, row by row from the shortest on.
        order = np.lexsort((lengths, ends))
        return cls._of_edges(n, ends[order], graph.indices[order], lengths[order])

    @classmethod
    def to_neighbors(cls, neighbors: Ints, distances: Floats) -> Paths:
        """To the first neighbors (n, k) of each row, nearest first, -1 for none, at these squared distances (n, k).

        Where lists are shorter than ten, rows that have it in theirs count as well: the edges are those that
        :meth:`between` finds in the graph of the same neighbors.
        """
        held = neighbors[:, :MAX_LISTED] >= 0
        ends, others = np.nonzero(held)[0], neighbors[:, :MAX_LISTED][held].astype(np.int64)
        lengths = distances[:, :MAX_LISTED][held]
        if neighbors.shape[1] < MAX_PATHS:
            ends, others = np.concatenate([ends, others]), np.concatenate([others, ends])
            _, once = np.unique(ends * len(held) + others, return_index=True)
            ends, others, lengths = ends[once], others[once], np.tile(lengths, 2)[once]
            order = np.lexsort((lengths, ends))
            ends, others, lengths = ends[order], others[order], lengths[order]
        return cls._of_edges(len(held), ends, others, lengths)

    @classmethod
    def _of_edges(cls, n: int, ends: Ints, others: Ints, lengths: Floats) -> Paths:
        """From the edges at each row in turn, shortest first, which may be there in one direction only.

        Edges of a row are counted by their lengths, so that equal rows count once.
        """
        starts = np.flatnonzero(np.diff(ends, prepend=-1))
        longer = np.diff(lengths, prepend=-np.inf) > _EQUAL * lengths
        longer[starts] = True
        place = np.cumsum(longer)
        near = place - np.repeat(place[starts], np.diff(np.append(starts, len(ends)))) < MAX_PATHS
        ends, others, lengths = ends[near], others[near], lengths[near]
        reach = np.zeros(n)
        reach[ends] = lengths  # Of each row the last one stays.
        first, second = np.minimum(ends, others), np.maximum(ends, others)
        _, once = np.unique(first.astype(np.int64) * n + second, return_index=True)
        pairs = (np.concatenate([first[once], second[once]]), np.concatenate([second[once], first[once]]))
        return cls(sp.csr_array((np.tile(lengths[once].astype(np.float32), 2), pairs), shape=(n, n)), reach)

    @cached_property
    def typical(self) -> float:
        """The median over nodes of the length of the shortest edge to a row that is not equal."""
        indptr = self.lengths.indptr
        held = np.flatnonzero(np.diff(indptr))
        if len(held) == 0:
            return 0.0
        lengths = np.where(self.lengths.data > 0, self.lengths.data, np.inf)
        shortest = np.minimum.reduceat(lengths, indptr[held])
        apart = shortest[np.isfinite(shortest)]
        return float(np.median(apart)) if len(apart) else 0.0

    @cached_property
    def tree(self) -> tuple[Ints, Ints, Floats]:
        """A minimum spanning tree of every part of the graph: both ends and the length of each edge, by length."""
        # Edges of length zero would be none.
        longer = self.lengths.astype(np.float64)
        longer.data += max(1e-9 * self.typical, np.finfo(np.float64).tiny)
        edges = minimum_spanning_tree(longer).tocoo()
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

    def spread(self, classes: Ints, n_classes: int, *, local: bool = False) -> Floats:
        """Classes (n,), -1 where not known, spread along the graph as shares (n, C), over short edges first.

        An edge of squared length l between rows i and j weighs, before W is normalized::

            exp(-r l),  r = min(9 / crossing, 2 / typical)
            local:  (exp(-4 l / reach_i) + exp(-4 l / reach_j)) / 2

        If ``local``, what arrives of a class is also divided by the mean square root of the degrees of its labels. Far
        from them a class arrives in proportion to it, however near it is: Poisson learning (Calder et al., 2020) has
        sources that cancel this.

        Rows that less than a hundredth of a label reaches are reached in the same way from those that were; what no
        label is joined with stays undecided.
        """
        # Half the numbers' size is half the time, and shares need no more digits.
        graph = self.lengths.astype(np.float32)
        shares = _indicators(classes, n_classes).astype(np.float32)
        strength = np.ones(n_classes)
        if local:
            graph.data = self._local_weights(graph)
            labels = np.maximum(shares.sum(axis=0), 1)
            strength = np.maximum(np.sqrt(graph.sum(axis=1)) @ shares / labels, _MIN_SHARE)
            strength /= strength.mean()
        else:
            graph.data = np.exp(-np.minimum(self._rate(classes) * graph.data, _MAX_EXPONENT))
        graph = normalize(graph).astype(np.float32)
        waiting = classes < 0
        # What is far from all labels is reached from rows that they have reached, in a few waves.
        for _ in range(_WAVES):
            if not waiting.any():
                break
            found = np.maximum(_spread(graph, shares, _KEPT_SHORT, 1e-11), 0) / strength.astype(np.float32)
            totals = found.sum(axis=1)
            new = np.flatnonzero(waiting & (totals > _REACHED))
            if len(new) == 0:
                break
            shares[new] = found[new] / totals[new, None]
            waiting[new] = False
        shares[waiting] = 1 / n_classes
        shares += _MIN_SHARE
        shares /= shares.sum(axis=1, keepdims=True)
        return shares

    def _rate(self, classes: Ints) -> float:
        """``min(9 / crossing, 2 / typical)``; 0 where all rows are equal."""
        crossing = self.crossing(classes)
        if self.typical == 0:
            return 0.0
        return min(_TYPICAL / self.typical, _CROSSING / crossing if crossing > 0 else math.inf)

    def _local_weights(self, lengths: sp.csr_array) -> Floats:
        """Weights (m,) of the edges by the reach of the rows at both ends."""
        reach = np.maximum(self.reach, _MIN_REACH)
        ends = np.repeat(np.arange(len(reach)), np.diff(lengths.indptr))
        exponents = (_LOCAL * lengths.data / reach[rows] for rows in (ends, lengths.indices))
        one, other = (np.exp(-np.minimum(exponent, _MAX_EXPONENT)) for exponent in exponents)
        weights: Floats = (one + other) / 2
        return weights


def squared_distances_to(rows: Any, neighbors: Ints) -> Floats:
    """Squared distances (n, k) of rows (n, D) to their neighbors (n, k), to themselves for -1."""
    n, k = neighbors.shape
    others = np.where(neighbors < 0, np.arange(n)[:, None], neighbors)
    return _squared_lengths(rows, np.repeat(np.arange(n), k), others.ravel()).reshape(n, k)


def _squared_lengths(rows: Any, ends: Ints, others: Ints) -> Floats:
    """``|x_i - x_j|^2`` (m,) between rows of (n, D) at these positions (m,)."""
    lengths = np.empty(len(ends), np.float32)
    step = max(1, _BLOCK_NUMBERS // max(1, rows.shape[1]))
    for start in range(0, len(ends), step):
        some = slice(start, start + step)
        gaps = rows[ends[some]] - rows[others[some]]
        lengths[some] = np.einsum("nd,nd->n", gaps, gaps)
    return lengths
