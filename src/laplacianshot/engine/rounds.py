"""Rounds of the default recipe on a graph of nodes, fast: small tasks and large ones, clamped rows and shards.

A node is *free* or *fixed*. The rows of features belong to the first n nodes, in any order: those that are free are
updated, the others have a label. Further nodes have no row here. They are rows of other shards that are neighbors of
this one's, assignments that are received (:meth:`Rounds.receive`), or labeled rows that no step needs the features of.

Each visit to a block of rows forms its products with the prototypes, takes the Y step and sums the rows by class, while
they are in cache. All C entries of an assignment are kept (:class:`DenseRounds`) or the r largest
(:class:`TopRounds`). Both are :class:`~laplacianshot.inference.joint.Rounds`.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from typing import Any, TypeAlias

import numpy as np
import scipy.sparse as sp

from laplacianshot.engine.round_kernels import Dense, Edges, Step, add_certain, dense_rows, narrow_rows, pairwise_rows
from laplacianshot.engine.top_kernels import Top, add_top_rows, top_pairwise_rows, top_rows
from laplacianshot.inference.joint import Balance, Clues, Sums, hold_weight
from laplacianshot.neighbors.accel import _vector_kernels
from laplacianshot.neighbors.rows import Rows
from laplacianshot.runtime.threads import Workers, even_blocks, row_blocks
from laplacianshot.runtime.types import Floats, Ints

# Rows visited together, and the bytes of them where few classes make it pay to keep them in a nearer cache.
VISIT_ROWS = 2048
_TILE_BYTES = 2**19
# Rows of a block that has partial sums of its own: at least four blocks of a small task, at most MAX_BLOCKS of any.
_MIN_ROWS, _BLOCK_ROWS = 256, 2048
MAX_BLOCKS = 32
# Entries of a neighbor that must be saved on average for it to be worth asking whether it has only one.
_WORTH_ASKING = 40
# The share of rows that are not certain below which it pays to copy them for a product of their own.
_WORTH_COPYING = 0.9
# The smallest assignment that rounds resume from.
_MIN_ASSIGNMENT = 1e-30

NodeRows: TypeAlias = Floats | Rows


def edges_of(affinity: sp.csr_array, fixed: Ints, dtype: Any) -> Edges:
    """Rows of a normalized affinity (n, n_nodes) with the class of every node (n_nodes,), -1 where it is free."""
    indptr, indices = affinity.indptr.astype(np.int64), affinity.indices.astype(np.int32, copy=False)
    return Edges(indptr, indices, affinity.data.astype(dtype, copy=False), fixed.astype(np.int32))


class Rounds(ABC):
    """Visits to blocks of rows; subclasses hold the assignments.

    Parameters
    ----------
    workers : Workers
    rows : array or Rows of shape (n, D)
        Transformed rows; an array in memory may be float64.
    edges : Edges
        Rows of W, and the class of every node. Rows of W beyond the first n are of fixed nodes.
    n_classes : int
    tau : float
        Temperature of the distances.
    clues : Clues
        About the origin of the rows.
    e : float
        Weight of an edge to a fixed node.
    entries : int, optional
        Entries of an assignment that are kept; None: all of them.

    Attributes
    ----------
    share : array of shape (C,)
        ``p``, the mean assignment of free rows.
    class_features : array of shape (C, D)
        ``sum_q y_qc x_q`` over free rows.
    dropped : list of float
        Mean mass that each step left out of a row.
    """

    share: Floats
    class_features: Floats
    _narrow = False

    def __init__(
        self,
        workers: Workers,
        rows: NodeRows,
        edges: Edges,
        n_classes: int,
        tau: float,
        clues: Clues,
        e: float,
        entries: int | None = None,
    ) -> None:
        n, width = rows.shape
        self._workers, self._rows, self._edges = workers, rows, edges
        self._n_classes, self._tau, self._clues = n_classes, tau, clues
        self._fixed = edges.fixed[:n]
        self._clamped = np.flatnonzero(self._fixed >= 0)
        self._n_free = n - len(self._clamped)
        self._squares = math.nan
        self._products: Floats | None = None
        self._known = np.empty((0, n_classes), rows.dtype)
        self.dropped: list[float] = []
        self._blocks = even_blocks(n, min(_BLOCK_ROWS, max(_MIN_ROWS, n // 4)), MAX_BLOCKS)
        self._sums = np.zeros((len(self._blocks), 3))
        self._shares = np.zeros((len(self._blocks), n_classes))
        self._features = np.zeros((len(self._blocks), n_classes, width), rows.dtype)
        self._make_room(n_classes if entries is None else entries, e)

    @abstractmethod
    def _make_room(self, entries: int, e: float) -> None:
        """Arrays for ``entries`` entries of every node's assignment; those of fixed nodes are e times their class."""

    def start(
        self,
        prototypes: Floats,
        squares: float | None = None,
        products: Floats | None = None,
        reached: Floats | None = None,
        known: Floats | None = None,
    ) -> None:
        """Make ``Y = softmax(-cost)`` at the first prototypes (C, D) current: a step without graph and balance.

        The clues may have others. Where known, ``squares`` is ``sum_q |x_q|^2`` over free rows and ``products`` are
        those with the first directions, ``d_c.x_q`` (n, C), up to what depends on q alone. Shares of the labels that
        ``reached`` rows along the graph (n, C), where they count, are the first assignments instead. What is ``known``
        of each row (n, C) counts in every step.
        """
        self._squares = self._measured() if squares is None else squares
        self.know(reached, known)
        if reached is not None:
            self.dropped.append(0.0)
            return self.resume(reached.astype(self._rows.dtype, copy=False))
        self.share = np.ones(self._n_classes)
        self._products = products
        start = self._clues.start
        self.step(prototypes if start is None else start.astype(prototypes.dtype), 0.0, Balance.none(self._n_classes))
        self._products = None
        self.accept()

    def know(self, reached: Floats | None, known: Floats | None = None) -> None:
        """Let labels that reached rows along the graph, shares (n, C), and what is known of rows (n, C) count."""
        logits = self._clues.row_logits(reached, known)
        if logits is not None:
            self._known = logits.astype(self._rows.dtype, copy=False)

    def step(self, prototypes: Floats, lam: float, balance: Balance, *, last: bool = False) -> Sums:
        """The Y step from the current assignments at these prototypes; :meth:`accept` makes its result current.

        The ``last`` step only sums over the current assignments. Edges to fixed nodes count in ``pairwise``.
        """
        self._sums[:] = 0
        self._add_pairs(self._sums[0], len(self._fixed), len(self._edges.indptr) - 1)
        if last:
            self._workers.run(lambda number, *rows: self._add_pairs(self._sums[number], *rows), self._blocks)
            return Sums(float(self._sums[:, 0].sum()), math.nan)
        dtype: Any = self._rows.dtype.type
        hold = hold_weight(lam, balance.g)
        directions, exact = self._clues.costs(prototypes, self._tau)
        offsets = exact.astype(dtype)
        slopes = balance.slopes.astype(dtype)
        self._visit(directions, Step(dtype(lam), dtype(hold), dtype(1 / (1 + hold)), offsets, slopes))
        pairwise, smooth, dropped = self._sums.sum(axis=0)
        self.dropped.append(float(dropped) / max(1, self._n_free))
        # What offsets lost when they took their type is lost again for each row.
        smooth += self._shares.sum(axis=0) @ (exact - offsets)
        return Sums(float(pairwise), float(smooth) + (1 - self._clues.weight) * self._tau * self._squares)

    def accept(self) -> None:
        """Make the assignments of the last step the current ones."""
        self._swap()
        shares, self.class_features = self.class_sums()
        self.share = shares / max(1, self._n_free)

    def class_sums(self) -> tuple[Floats, Floats]:
        """``sum_q y_q`` (C,) and ``sum_q y_qc x_q`` (C, D) over free rows, of what the last step made."""
        return self._shares.sum(axis=0), self._features.sum(axis=0, dtype=np.float64)

    def _visit(self, directions: Floats, step: Step) -> None:
        columns, formed, known = np.ascontiguousarray(directions.T), self._products, self._known

        def update(number: int, start: int, stop: int, rows: Floats) -> None:
            products = rows @ columns if formed is None else formed[start:stop]
            if len(known) > 0:
                products = products + known[start:stop]
            self._step_rows(products, step, self._sums[number], start, stop)
            self._add_rows(number, start, stop, rows)

        self._over_rows(update)

    def _over_rows(self, work: Callable[[int, int, int, Floats], None]) -> None:
        """Call ``work(number, start, stop, rows)`` for the visits to every block, whose sums by class begin anew."""
        rows = self._rows

        def visit(number: int, start: int, stop: int) -> None:
            self._features[number] = 0
            self._shares[number] = 0
            if not isinstance(rows, Rows):
                # With few classes the kernel cuts rows into tiles itself.
                for first, last in [(start, stop)] if self._narrow else _visits(start, stop):
                    work(number, first, last, rows[first:last])
                return
            buffer = np.empty((VISIT_ROWS, rows.shape[1]), np.float32)
            for first, last in _visits(start, stop):
                work(number, first, last, rows.formed(slice(first, last), buffer))

        self._workers.run(visit, self._blocks)

    def _measured(self) -> float:
        """``sum_q |x_q|^2`` over free rows, the part of F over tau that no step changes."""
        squares = np.zeros(len(self._blocks))

        def add(number: int, start: int, stop: int, rows: Floats) -> None:
            lengths = np.einsum("nd,nd->n", rows, rows)
            squares[number] += lengths[self._fixed[start:stop] < 0].sum(dtype=np.float64)

        self._over_rows(add)
        return float(squares.sum())

    @abstractmethod
    def resume(self, assignments: Floats) -> None:
        """Make assignments (n, C) current; those of fixed rows are not used. F is not known then."""

    @abstractmethod
    def assignments(self) -> Any:
        """The current ones of the n rows, certainty for fixed rows; nothing else can be done afterwards."""

    @abstractmethod
    def outgoing(self, rows: Ints, *, accepted: bool) -> tuple[Any, ...]:
        """What other shards need of these rows, of the current assignments or of those of the last step."""

    @abstractmethod
    def receive(self, first: int, *sent: Any) -> None:
        """Rows of another shard, as :meth:`outgoing` gives them, at node ``n + first``."""

    @abstractmethod
    def state(self) -> dict[str, Any]:
        """Everything that the next step depends on, when the last one has been accepted: views of the arrays."""

    def set_state(self, state: Mapping[str, Any]) -> None:
        """Go on from what :meth:`state` gave."""
        for name, array in self.state().items():
            array[:] = state[name]

    @abstractmethod
    def _step_rows(self, products: Floats, step: Step, sums: Floats, start: int, stop: int) -> None:
        """The Y step of these rows from their products with the prototypes."""

    @abstractmethod
    def _add_rows(self, number: int, start: int, stop: int, rows: Floats) -> None:
        """Add these rows, by the class they are assigned to, to the sums of a block."""

    @abstractmethod
    def _add_pairs(self, sums: Floats, start: int, stop: int) -> None:
        """Add ``pairwise`` of these rows to the sums."""

    @abstractmethod
    def _swap(self) -> None:
        """Make the updated assignments the current ones."""


class DenseRounds(Rounds):
    """All C entries of every row: three arrays (n, C).

    With few classes the products are formed where the rows lie (:mod:`~laplacianshot.neighbors.accel._vector_kernels`).
    With many, neighbors that have all of their mass at one class are read by that class alone, once they are frequent.
    """

    def _make_room(self, entries: int, e: float) -> None:
        rows, fixed = self._rows, self._edges.fixed
        self._current, self._updated = (np.zeros((len(fixed), entries), rows.dtype) for _ in range(2))
        self._logs = np.zeros((len(rows), entries), rows.dtype)
        # Classes of rows that have all of their mass there, most rows after a while; C for others.
        self._certain, self._new_certain = (np.full(len(fixed), entries, np.int32) for _ in range(2))
        clamped = np.flatnonzero(fixed >= 0)
        for Y in (self._current, self._updated):
            Y[clamped, fixed[clamped]] = e
        few = min(len(rows), VISIT_ROWS)
        sample = np.empty((few, rows.shape[1]), rows.dtype) if isinstance(rows, Rows) else rows
        self._narrow = _vector_kernels.applies(sample, entries)

    def resume(self, assignments: Floats) -> None:
        """Make assignments (n, C) current; those of fixed rows are not used. F is not known then."""
        np.log(np.maximum(assignments, _MIN_ASSIGNMENT), out=self._logs, casting="same_kind")
        self._updated[: len(assignments)] = assignments
        self._updated[self._clamped] = 0
        self._over_rows(self._add_rows)
        self.accept()

    def assignments(self) -> Floats:
        """The current ones, (n, C), certainty for fixed rows; nothing else can be done afterwards."""
        del self._updated, self._logs
        held = self._current[: len(self._fixed)]
        held[self._clamped, self._fixed[self._clamped]] = 1
        return held

    def outgoing(self, rows: Ints, *, accepted: bool) -> tuple[Any, ...]:
        """The classes of those that are certain, C for others, and all entries of these."""
        kept, certain = (self._current, self._certain) if accepted else (self._updated, self._new_certain)
        return certain[rows], kept[rows[certain[rows] == self._n_classes]]

    def receive(self, first: int, certain: Ints, others: Floats) -> None:
        """Rows of another shard, as :meth:`outgoing` gives them, at node ``n + first``."""
        at = len(self._fixed) + first
        here = slice(at, at + len(certain))
        self._certain[here] = certain
        self._current[here] = np.eye(self._n_classes + 1, self._n_classes, dtype=self._current.dtype)[certain]
        self._current[here][certain == self._n_classes] = others

    def state(self) -> dict[str, Any]:
        """Assignments, the classes of certain rows, and logarithms."""
        n = len(self._fixed)
        return {"current": self._current[:n], "certain": self._certain[:n], "logs": self._logs}

    def step(self, prototypes: Floats, lam: float, balance: Balance, *, last: bool = False) -> Sums:
        """The Y step; see :meth:`Rounds.step`."""
        certain = np.count_nonzero(self._certain < self._n_classes)
        self._mixed = bool(certain * self._n_classes > _WORTH_ASKING * len(self._certain))
        return super().step(prototypes, lam, balance, last=last)

    def _visit(self, directions: Floats, step: Step) -> None:
        if not self._narrow or self._products is not None:
            return super()._visit(directions, step)
        tile = max(16, _TILE_BYTES // (directions.itemsize * directions.shape[1]))

        def update(number: int, start: int, stop: int, rows: Floats) -> None:
            sums = (self._sums[number], self._features[number], self._shares[number])
            narrow_rows(rows, directions, self._known, self._edges, step, self._state, *sums, tile, start)

        self._over_rows(update)

    @property
    def _state(self) -> Dense:
        return Dense(self._current, self._certain, self._updated, self._new_certain, self._logs)

    def _step_rows(self, products: Floats, step: Step, sums: Floats, start: int, stop: int) -> None:
        dense_rows(products, self._edges, step, self._state, self._mixed, sums, start, stop)

    def _add_rows(self, number: int, start: int, stop: int, rows: Floats) -> None:
        features = self._features[number]
        assignments, certain = self._updated[start:stop], self._new_certain[start:stop]
        # Of all entries: a class may have no more than what rows that are certain of another one leave to it.
        self._shares[number] += np.ones(len(rows), rows.dtype) @ assignments
        others = np.flatnonzero(certain == self._n_classes)
        if len(others) < _WORTH_COPYING * len(rows):
            add_certain(certain, rows, features)
            assignments, rows = assignments[others], rows[others]
        if self._narrow:
            _vector_kernels.add_class_sums(assignments, rows, features)
        else:
            features += assignments.T @ rows

    def _add_pairs(self, sums: Floats, start: int, stop: int) -> None:
        pairwise_rows(self._edges, self._current, sums, start, stop)

    def _swap(self) -> None:
        self._updated[self._clamped] = self._current[self._clamped]
        self._current, self._updated = self._updated, self._current
        self._certain, self._new_certain = self._new_certain, self._certain


class TopRounds(Rounds):
    """Only the r largest entries of every row, brought to sum one."""

    def _make_room(self, entries: int, e: float) -> None:
        fixed = self._edges.fixed
        clamped = np.flatnonzero(fixed >= 0)
        self._current, self._updated = (Top.empty(len(fixed), entries, self._n_classes) for _ in range(2))
        for Y in (self._current, self._updated):
            Y.classes[clamped, 0], Y.values[clamped, 0] = fixed[clamped], e

    def resume(self, assignments: Floats) -> None:
        """Make the largest entries of assignments (n, C) current; those of fixed rows are not used."""
        r = self._updated.classes.shape[1]
        free = np.flatnonzero(self._fixed < 0)
        for start, stop in row_blocks(len(free), VISIT_ROWS):
            rows = free[start:stop]
            order = np.argsort(-assignments[rows], axis=1, kind="stable")[:, :r]
            values = np.take_along_axis(assignments[rows], order, axis=1)
            values = np.maximum(values / values.sum(axis=1, keepdims=True), _MIN_ASSIGNMENT)
            self._updated.classes[rows], self._updated.values[rows] = order, values
            self._updated.logs[rows] = np.log(values)
        self._over_rows(self._add_rows)
        self.accept()

    def assignments(self) -> Top:
        """The current ones, certainty for fixed rows; nothing else can be done afterwards."""
        del self._updated
        held = Top(**self.state())
        held.values[self._clamped, 0] = 1
        return held

    def outgoing(self, rows: Ints, *, accepted: bool) -> tuple[Any, ...]:
        """The number of entries of each row, then classes and values of all of them."""
        kept = self._current if accepted else self._updated
        held = kept.values[rows] > 0
        return held.sum(axis=1, dtype=np.int16), kept.classes[rows][held], kept.values[rows][held]

    def receive(self, first: int, counts: Ints, classes: Ints, values: Floats) -> None:
        """Rows of another shard, as :meth:`outgoing` gives them, at node ``n + first``."""
        at = len(self._fixed) + first
        here = slice(at, at + len(counts))
        held = np.arange(self._current.values.shape[1]) < counts[:, None]
        self._current.values[here] = 0
        self._current.classes[here][held], self._current.values[here][held] = classes, values

    def state(self) -> dict[str, Any]:
        """The entries of the rows."""
        return {name: array[: len(self._fixed)] for name, array in self._current._asdict().items()}

    def _step_rows(self, products: Floats, step: Step, sums: Floats, start: int, stop: int) -> None:
        top_rows(products, self._edges, step, self._current, self._updated, sums, start, stop)

    def _add_rows(self, number: int, start: int, stop: int, rows: Floats) -> None:
        sums = (self._features[number], self._shares[number])
        add_top_rows(self._updated, self._edges.fixed, rows, *sums, start, stop)

    def _add_pairs(self, sums: Floats, start: int, stop: int) -> None:
        top_pairwise_rows(self._edges, self._current, sums, self._n_classes, start, stop)

    def _swap(self) -> None:
        self._current, self._updated = self._updated, self._current


def open_rounds(*what: Any, entries: int | None) -> Rounds:
    """Rounds that keep this many entries of an assignment, None: all of them; ``what`` as for :class:`Rounds`."""
    kind: Callable[..., Rounds] = DenseRounds if entries is None else TopRounds
    return kind(*what, entries=entries)


def _visits(start: int, stop: int) -> list[tuple[int, int]]:
    """``[start, stop)`` in equal parts of at most VISIT_ROWS rows."""
    count = -(-(stop - start) // VISIT_ROWS)
    return [(start + a, start + b) for a, b in row_blocks(stop - start, -(-(stop - start) // count))]
