"""The assignments of one shard, and the actor that holds those of some shards from round to round."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass
from typing import Any

import numpy as np

from laplacianshot.engine.round_kernels import Edges
from laplacianshot.engine.rounds import open_rounds
from laplacianshot.engine.top_kernels import Top
from laplacianshot.inference.joint import Sums
from laplacianshot.ray.cluster import measured
from laplacianshot.ray.graph import load_graph, wanted_rows
from laplacianshot.ray.job import Job
from laplacianshot.runtime.threads import Workers
from laplacianshot.runtime.types import Floats


@dataclass(frozen=True, repr=False)
class Start:
    """What the first assignments depend on.

    Attributes
    ----------
    prototypes : array of shape (C, D)
    tau : float
    e : float
        Weight of an edge to a labeled row.
    entries : int, optional
        Entries of an assignment that are kept; None: all.
    """

    prototypes: Floats
    tau: float
    e: float
    entries: int | None


@dataclass(frozen=True, repr=False)
class Order:
    """One step for every shard.

    Attributes
    ----------
    number : int
    accept : bool
        Whether the assignments of the step before it are made the current ones first.
    save : bool
        Whether these are saved then.
    share, prototypes, lam, g
        See :class:`~laplacianshot.inference.joint.Rounds`.
    """

    number: int
    accept: bool
    save: bool
    share: Floats
    prototypes: Floats
    lam: float
    g: float


@dataclass(frozen=True, repr=False)
class Report:
    """What a step made, of one shard or of all: parts of F, sums by class, mass left out, bytes sent."""

    pairwise: float
    smooth: float
    shares: Floats
    features: Floats
    dropped: float
    sent: int

    @classmethod
    def of_all(cls, reports: list[Report]) -> Report:
        """Their sum, in the order of the shards."""
        names = ("pairwise", "smooth", "shares", "features", "dropped", "sent")
        return cls(*(sum(getattr(report, name) for report in reports) for name in names))


class ShardRounds:
    """The assignments of one shard."""

    def __init__(self, job: Job, number: int, start: Start) -> None:
        self._job, self._number = job, number
        graph = load_graph(job, number)
        rows, edges = job.rows(number), graph.edges
        fixed = job.classes(edges.nodes).astype(np.int32)
        self._n_free = len(job.queries(number))
        self._halo = graph.halo
        self._wanted = [
            wanted_rows(job, number, other) if other != number else np.zeros(0, np.int64)
            for other in range(len(job.shards))
        ]
        self._open = ExitStack()
        workers = self._open.enter_context(Workers(len(rows) * job.n_classes * 10))
        kept = Edges(edges.indptr, edges.indices, edges.weights, fixed)
        self._rounds = open_rounds(workers, rows, kept, job.n_classes, start.tau, start.e, start.entries)
        self._rounds.start(start.prototypes)

    def opened(self, saved: int | None) -> list[Any]:
        """Begin, or go on from a saved round: a report, and what each other shard wants."""
        if saved is not None:
            self._rounds.set_state(self._job.folder.arrays(state_name(self._number, saved)))
        return self._answer(Sums(0.0, 0.0), accepted=True)

    def step(self, order: Order, incoming: tuple[Any, ...]) -> list[Any]:
        """One step, with what the other shards sent: a report, and what each of them wants of the result."""
        if order.accept:
            self._rounds.accept()
        if order.save:
            self._job.folder.put_arrays(state_name(self._number, order.number), self._rounds.state())
        for part, rows in zip(self._halo, incoming, strict=True):
            if part.stop > part.start:
                self._rounds.receive(part.start, *rows)
        self._rounds.share = order.share
        return self._answer(self._rounds.step(order.prototypes, order.lam, order.g), accepted=False)

    def finish(self) -> None:
        """Write the current assignments into ``assignments-*.npz``."""
        held = self._rounds.assignments()
        arrays = {"classes": held.classes, "values": held.values} if isinstance(held, Top) else {"values": held}
        self._job.folder.put_arrays(assignments_name(self._number), arrays)
        self._open.close()

    def _answer(self, sums: Sums, *, accepted: bool) -> list[Any]:
        shares, features = self._rounds.class_sums()
        parcels = [self._rounds.outgoing(rows, accepted=accepted) if len(rows) else () for rows in self._wanted]
        sent = sum(array.nbytes for parcel in parcels for array in parcel)
        dropped = self._rounds.dropped[-1] * self._n_free
        return [Report(sums.pairwise, sums.smooth, shares, features, dropped, sent), *parcels]


class Host:
    """An actor that holds the assignments of some shards."""

    def __init__(self, job: Job) -> None:
        self._job = job
        self._shards: dict[int, ShardRounds] = {}

    def ready(self) -> bool:
        """Return True once the actor has started."""
        return True

    def open(self, number: int, start: Start, saved: int | None) -> list[Any]:
        """Take a shard; see :meth:`ShardRounds.opened`."""
        self._shards[number] = ShardRounds(self._job, number, start)
        return self._measured(self._shards[number].opened, saved)

    def step(self, number: int, order: Order, *incoming: Any) -> list[Any]:
        """See :meth:`ShardRounds.step`."""
        return self._measured(self._shards[number].step, order, incoming)

    def finish(self, number: int) -> tuple[Any, ...]:
        """See :meth:`ShardRounds.finish`."""
        return measured(self._shards.pop(number).finish)

    def _measured(self, function: Callable[..., list[Any]], *arguments: Any) -> list[Any]:
        """An answer whose first part, the report, comes with what the call took."""
        answer, *taken = measured(function, *arguments)
        return [(answer[0], *taken), *answer[1:]]


def assignments_name(number: int) -> str:
    """The file of a shard's final assignments."""
    return f"assignments-{number:05}.npz"


def state_name(number: int, order: int) -> str:
    """The file of what a shard holds before a step."""
    return f"state-{order:03}-{number:05}.npz"
