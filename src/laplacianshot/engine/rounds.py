"""The assignments of a large set: rows of features formed block by block, all C entries of a row kept or its top r.

A set may be one of several parts: the assignments then have some rows more, the *halo*, of queries that belong to other
parts and are neighbors of this one's. They are received, not updated.

Both classes are :class:`~laplacianshot.inference.joint.Rounds`. ``Y`` is over the queries in the order of a
:class:`~laplacianshot.engine.graph.NodeGraph`, whose neighbors are near one another in memory.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from laplacianshot.engine._round_kernels import add_certain, dense_rows
from laplacianshot.engine._top_kernels import add_top_features, first_top_rows, top_rows
from laplacianshot.engine.graph import NodeGraph
from laplacianshot.inference.joint import Sums, log_share, proximal_weight
from laplacianshot.neighbors.rows import Rows
from laplacianshot.runtime.threads import Workers, even_blocks, row_blocks
from laplacianshot.runtime.types import Floats, Ints

# Queries visited together; blocks that have partial sums of their own.
VISIT_ROWS = 1536
MOST_BLOCKS = 32
_BLOCK_ROWS = 1024
# Entries of a neighbor that must be saved on average for it to be worth asking whether it has only one.
_WORTH_ASKING = 40

_single = np.float32


@dataclass(frozen=True, repr=False)
class Queries:
    """What stays the same from round to round.

    Attributes
    ----------
    rows : Rows of shape (N, D)
        Transformed queries in the graph's order.
    graph : NodeGraph
    support_labels : int array of shape (n_s,)
        In the graph's order.
    support_edge : float
        Weight of an edge to a labeled row (e).
    tau : float
    square_sum : float
        ``sum_q |x_q|^2``.
    """

    rows: Rows
    graph: NodeGraph
    support_labels: Ints
    support_edge: float
    tau: float
    square_sum: float


class BlockRounds(ABC):
    """Visits to blocks of queries: form their rows, take a step, add them up by class. Subclasses hold assignments."""

    def __init__(self, workers: Workers, queries: Queries, n_classes: int) -> None:
        n, width = queries.rows.shape
        self._workers = workers
        self._queries = queries
        self._n_classes = n_classes
        # Mean mass that each visit left out of a row.
        self.dropped: list[float] = []
        self._blocks = even_blocks(n, _BLOCK_ROWS, MOST_BLOCKS)
        self._sums = np.zeros((len(self._blocks), 3))
        self._shares = np.zeros((len(self._blocks), n_classes))
        self._features = np.zeros((len(self._blocks), n_classes, width), np.float32)

    def step(self, prototypes: Floats, lam: float, g: float, *, last: bool = False) -> Sums:
        """The Y step from the current assignments at these prototypes; :meth:`accept` makes its result current."""
        r = proximal_weight(lam, g)
        kept = g + r
        tau, graph = self._queries.tau, self._queries.graph
        fixed = (graph.indptr, graph.indices, graph.weights, self._queries.support_labels)
        scalars = (self._queries.support_edge, 2 * tau, lam, kept, 1 / (1 + kept))
        exact_cost = tau * np.einsum("cd,cd->c", prototypes, prototypes, dtype=np.float64)
        costs = (exact_cost.astype(np.float32), (g * log_share(self.share)).astype(np.float32))
        columns = np.ascontiguousarray(prototypes.T)
        arguments = (*fixed, *map(_single, scalars), *costs)

        def update(number: int, start: int, stop: int, rows: Floats) -> None:
            self._step_rows(rows @ columns, arguments, self._sums[number], start, stop)

        self._visit(update)
        pairwise, smooth, _ = self._sums.sum(axis=0)
        # What costs lost when they became float32 is lost again for each query.
        smooth += self._shares.sum(axis=0) @ (exact_cost - costs[0])
        return Sums(float(pairwise), float(smooth) + tau * self._queries.square_sum)

    def accept(self) -> None:
        """Make the assignments of the last step the current ones."""
        self._swap()
        self._gather()

    def class_sums(self) -> tuple[Floats, Floats]:
        """``sum_q y_q`` (C,) and ``Y^T Q`` (C, D) of what the last visit made."""
        return self._shares.sum(axis=0), self._features.sum(axis=0, dtype=np.float64)

    def _start(self, prototypes: Floats) -> None:
        """``Y = softmax(-tau a)`` at the first prototypes."""
        tau = self._queries.tau
        halves = np.einsum("cd,cd->c", prototypes, prototypes) / 2
        columns = np.ascontiguousarray(prototypes.T)

        def first(number: int, start: int, stop: int, rows: Floats) -> None:
            logits = rows @ columns
            logits -= halves
            logits *= _single(2 * tau)
            self._first_rows(logits, self._sums[number], start, stop)

        self._visit(first)
        self._swap()
        self._gather()

    def _gather(self) -> None:
        shares, self.class_features = self.class_sums()
        self.share: Floats = shares / max(1, len(self._queries.rows))

    def _visit(self, update: Callable[[int, int, int, Floats], None]) -> None:
        """Update every block, then sum its queries by the class they are assigned to."""
        self._sums[:] = 0

        def visit(number: int, start: int, stop: int) -> None:
            self._features[number] = 0
            self._shares[number] = 0
            buffer = np.empty((VISIT_ROWS, self._queries.rows.shape[1]), np.float32)
            for first, last in _visits(start, stop):
                rows = self._queries.rows.formed(slice(first, last), buffer)
                update(number, first, last, rows)
                self._add_rows(rows, self._features[number], self._shares[number], first, last)

        self._workers.run(visit, self._blocks)
        self.dropped.append(float(self._sums[:, 2].sum()) / max(1, len(self._queries.rows)))

    @abstractmethod
    def _step_rows(self, products: Floats, arguments: Any, sums: Floats, start: int, stop: int) -> None:
        """The Y step of these rows from their products with the prototypes."""

    @abstractmethod
    def _first_rows(self, logits: Floats, sums: Floats, start: int, stop: int) -> None:
        """Assignments of these rows from their first logits."""

    @abstractmethod
    def _add_rows(self, rows: Floats, features: Floats, share: Floats, start: int, stop: int) -> None:
        """Add these rows, by the class they are assigned to, to the sums."""

    @abstractmethod
    def _swap(self) -> None:
        """Make the updated assignments the current ones."""


class DenseRounds(BlockRounds):
    """All C entries of every row: three arrays (N, C)."""

    def __init__(self, workers: Workers, queries: Queries, prototypes: Floats, *, halo: int = 0) -> None:
        super().__init__(workers, queries, len(prototypes))
        n, n_classes = len(queries.rows), len(prototypes)
        self.current, self._updated = (np.zeros((n + halo, n_classes), np.float32) for _ in range(2))
        self._logs = np.empty((n, n_classes), np.float32)
        # Classes of rows that have all of their mass there, most rows after a while; C for others.
        self._certain, self._new_certain = (np.full(n + halo, n_classes, np.int32) for _ in range(2))
        self._start(prototypes)

    def assignments(self) -> Floats:
        """The current ones, (N, C); nothing else can be done afterwards."""
        del self._updated, self._logs
        return self.current[: len(self._queries.rows)]

    def step(self, prototypes: Floats, lam: float, g: float, *, last: bool = False) -> Sums:
        """The Y step from the current assignments at these prototypes; :meth:`accept` makes its result current."""
        certain = np.count_nonzero(self._certain < self._n_classes)
        self._mixed = certain * self._n_classes > _WORTH_ASKING * len(self._certain)
        return super().step(prototypes, lam, g, last=last)

    def outgoing(self, rows: Ints, *, accepted: bool) -> tuple[Any, ...]:
        """What other parts need of these rows: the classes of those that are certain, C for others, and all of these.

        They are the current ones, or those of the last step before it is accepted.
        """
        kept, certain = (self.current, self._certain) if accepted else (self._updated, self._new_certain)
        return certain[rows], kept[rows[certain[rows] == self._n_classes]]

    def receive(self, first: int, certain: Ints, others: Floats) -> None:
        """Rows of another part, as :meth:`outgoing` gives them, at ``first`` of the halo."""
        at = len(self._queries.rows) + first
        here = slice(at, at + len(certain))
        self._certain[here] = certain
        self.current[here] = np.eye(self._n_classes + 1, self._n_classes, dtype=np.float32)[certain]
        self.current[here][certain == self._n_classes] = others

    def state(self) -> dict[str, Any]:
        """Everything that the next step depends on, when the last one has been accepted."""
        n = len(self._queries.rows)
        return {"current": self.current[:n], "certain": self._certain[:n], "logs": self._logs}

    def set_state(self, state: Mapping[str, Any]) -> None:
        """What :meth:`state` gave."""
        n = len(self._queries.rows)
        self.current[:n], self._certain[:n], self._logs[:] = state["current"], state["certain"], state["logs"]

    def _step_rows(self, products: Floats, arguments: Any, sums: Floats, start: int, stop: int) -> None:
        state = (self._logs, self.current, self._certain, self._mixed, self._updated, self._new_certain)
        everything = (products, *arguments, *state, sums, start, stop)
        dense_rows(*everything)

    def _first_rows(self, logits: Floats, sums: Floats, start: int, stop: int) -> None:
        logits -= logits.max(axis=1, keepdims=True)
        values = np.exp(logits)
        totals = values.sum(axis=1, keepdims=True)
        np.divide(values, totals, out=self._updated[start:stop])
        np.subtract(logits, np.log(totals), out=self._logs[start:stop])

    def _add_rows(self, rows: Floats, features: Floats, share: Floats, start: int, stop: int) -> None:
        assignments, certain = self._updated[start:stop], self._new_certain[start:stop]
        if add_certain(certain, rows, features, share):
            others = np.flatnonzero(certain == self._n_classes)
            assignments, rows = assignments[others], rows[others]
        features += assignments.T @ rows
        share += np.ones(len(rows), np.float32) @ assignments

    def _swap(self) -> None:
        self.current, self._updated = self._updated, self.current
        self._certain, self._new_certain = self._new_certain, self._certain


@dataclass(frozen=True, repr=False)
class TopEntries:
    """The r largest entries of each row, largest first: classes, logarithms and values, (N, r) each; 0 is none."""

    classes: Ints
    logs: Floats
    values: Floats

    @classmethod
    def empty(cls, n: int, r: int, n_classes: int) -> TopEntries:
        """No entries yet."""
        kind = np.int16 if n_classes < 2**15 else np.int32
        return cls(np.zeros((n, r), kind), np.zeros((n, r), np.float32), np.zeros((n, r), np.float32))


class TopRounds(BlockRounds):
    """Only the r largest entries of every row, brought to sum one."""

    def __init__(self, workers: Workers, queries: Queries, prototypes: Floats, r: int, *, halo: int = 0) -> None:
        super().__init__(workers, queries, len(prototypes))
        size = (len(queries.rows) + halo, r, len(prototypes))
        self._current, self._updated = (TopEntries.empty(*size) for _ in range(2))
        self._start(prototypes)

    def assignments(self) -> TopEntries:
        """The current ones; nothing else can be done afterwards."""
        del self._updated
        n = len(self._queries.rows)
        return TopEntries(self._current.classes[:n], self._current.logs[:n], self._current.values[:n])

    def outgoing(self, rows: Ints, *, accepted: bool) -> tuple[Any, ...]:
        """What other parts need of these rows: how many entries each has, then the classes and values of all of them.

        They are the current ones, or those of the last step before it is accepted.
        """
        kept = self._current if accepted else self._updated
        held = kept.values[rows] > 0
        return held.sum(axis=1, dtype=np.int16), kept.classes[rows][held], kept.values[rows][held]

    def receive(self, first: int, counts: Ints, classes: Ints, values: Floats) -> None:
        """Rows of another part, as :meth:`outgoing` gives them, at ``first`` of the halo."""
        at = len(self._queries.rows) + first
        here = slice(at, at + len(counts))
        held = np.arange(self._current.values.shape[1]) < counts[:, None]
        self._current.values[here] = 0
        self._current.classes[here][held], self._current.values[here][held] = classes, values

    def state(self) -> dict[str, Any]:
        """Everything that the next step depends on, when the last one has been accepted."""
        n, now = len(self._queries.rows), self._current
        return {"classes": now.classes[:n], "logs": now.logs[:n], "values": now.values[:n]}

    def set_state(self, state: Mapping[str, Any]) -> None:
        """What :meth:`state` gave."""
        n, now = len(self._queries.rows), self._current
        now.classes[:n], now.logs[:n], now.values[:n] = state["classes"], state["logs"], state["values"]

    def _step_rows(self, products: Floats, arguments: Any, sums: Floats, start: int, stop: int) -> None:
        now, new = self._current, self._updated
        state = (now.classes, now.logs, now.values, new.classes, new.logs, new.values)
        everything = (products, *arguments, *state, sums, start, stop)
        top_rows(*everything)

    def _first_rows(self, logits: Floats, sums: Floats, start: int, stop: int) -> None:
        new = self._updated
        first_top_rows(logits, new.classes, new.logs, new.values, sums, start)

    def _add_rows(self, rows: Floats, features: Floats, share: Floats, start: int, stop: int) -> None:
        new = self._updated
        add_top_features(new.classes, new.values, rows, features, share, start, stop)

    def _swap(self) -> None:
        self._current, self._updated = self._updated, self._current


def _visits(start: int, stop: int) -> list[tuple[int, int]]:
    """``[start, stop)`` in equal parts of at most VISIT_ROWS rows."""
    count = -(-(stop - start) // VISIT_ROWS)
    return [(start + a, start + b) for a, b in row_blocks(stop - start, -(-(stop - start) // count))]
