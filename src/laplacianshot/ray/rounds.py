"""Bound updates as rounds over shards: actors hold the assignments, and send one another the rows that they need.

The driver runs :func:`~laplacianshot.inference.joint.descend` with :class:`RayRounds`. A step is carried out by all
shards at once. What it needs of other shards' assignments comes through the object store, where each shard has put what
each other one needs. When an actor is lost all are started anew from the last saved round, and the steps since then are
repeated: they depend on nothing but their orders, so the assignments come out as they were.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass, fields, replace
from typing import Any

import numpy as np

from laplacianshot.engine.round_kernels import Edges
from laplacianshot.engine.rounds import open_rounds
from laplacianshot.engine.top_kernels import Top
from laplacianshot.inference.joint import Balance, Clues, Sums
from laplacianshot.ray.cluster import Cluster, ClusterError, Lost, measured
from laplacianshot.ray.graph import load_graph
from laplacianshot.ray.job import Job
from laplacianshot.runtime.threads import Workers
from laplacianshot.runtime.types import Floats

# Rounds after which the assignments are saved.
_SAVE_ROUNDS = 10
# How often actors are started anew, and seconds that they have for it.
_RECOVERIES = 8
_START_SECONDS = 120.0
_JOURNAL = "rounds.npz"
# Files with the shares (m, C) of the labels that reach the rows of a shard along the graph.
REACHED = "reached"
# Files with what a prior says of the rows of a shard, logits (m, C).
KNOWN = "known"


@dataclass(frozen=True, repr=False)
class Start:
    """What the first assignments depend on."""

    prototypes: Floats  # (C, D)
    tau: float
    clues: Clues
    e: float  # weight of an edge to a labeled row
    entries: int | None  # entries of an assignment that are kept; None: all
    known: bool = False  # whether a prior speaks of each row


@dataclass(frozen=True, repr=False)
class Order:
    """One step for every shard; the last fields are those of :class:`~laplacianshot.inference.joint.Rounds`."""

    number: int
    accept: bool  # whether the assignments of the step before it are made the current ones first
    save: bool  # whether these are saved then
    prototypes: Floats
    lam: float
    balance: Balance


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
        return cls(*(sum(getattr(report, field.name) for report in reports) for field in fields(cls)))


class ShardRounds:
    """The assignments of one shard."""

    def __init__(self, job: Job, number: int, start: Start) -> None:
        self._job, self._number = job, number
        graph, self._halo = load_graph(job, number)
        rows = job.rows(number)
        self._n_queries = len(job.queries(number))
        # Rows of this shard that each other shard has in its halo.
        self._needed = [
            job.load("halo", other)[str(number)] if other != number else np.zeros(0, np.int64) for other in job.numbers
        ]
        self._open = ExitStack()
        workers = self._open.enter_context(Workers(len(rows) * job.n_classes * 10))
        edges = Edges(graph.indptr, graph.indices, graph.weights, job.classes(graph.nodes).astype(np.int32))
        what = (job.n_classes, start.tau, start.clues, start.e)
        self._rounds = open_rounds(workers, rows, edges, *what, entries=start.entries)
        reached = job.load(REACHED, number)["shares"] if start.clues.along > 0 else None
        known = job.load(KNOWN, number)["logits"] if start.known else None
        self._rounds.start(start.prototypes, reached=reached, known=known)

    def opened(self, saved: int | None) -> list[Any]:
        """Begin, or go on from a saved round: a report, and what each other shard needs."""
        if saved is not None:
            self._rounds.set_state(self._job.load(_state(saved), self._number))
        return self._answer(Sums(0.0, 0.0), accepted=True)

    def step(self, order: Order, incoming: tuple[Any, ...]) -> list[Any]:
        """One step, with what the other shards sent: a report, and what each of them needs of the result."""
        if order.accept:
            self._rounds.accept()
        if order.save:
            self._job.save(_state(order.number), self._number, self._rounds.state())
        for part, rows in zip(self._halo, incoming, strict=True):
            if part.stop > part.start:
                self._rounds.receive(part.start, *rows)
        return self._answer(self._rounds.step(order.prototypes, order.lam, order.balance), accepted=False)

    def finish(self) -> None:
        """Write the current assignments into ``assignments-*.npz``."""
        held = self._rounds.assignments()
        arrays = {"classes": held.classes, "values": held.values} if isinstance(held, Top) else {"values": held}
        self._job.save("assignments", self._number, arrays)
        self._open.close()

    def _answer(self, sums: Sums, *, accepted: bool) -> list[Any]:
        shares, features = self._rounds.class_sums()
        parcels = [self._rounds.outgoing(rows, accepted=accepted) if len(rows) else () for rows in self._needed]
        sent = sum(array.nbytes for parcel in parcels for array in parcel)
        dropped = self._rounds.dropped[-1] * self._n_queries
        return [Report(sums.pairwise, sums.smooth, shares, features, dropped, sent), *parcels]


def _state(order: int) -> str:
    """The kind of file that holds a shard's assignments before a step."""
    return f"state-{order:03}"


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


class RayRounds:
    """:class:`~laplacianshot.inference.joint.Rounds` whose assignments are with actors.

    ``recoveries`` counts how often actors were lost; ``journal`` has what every step reported.
    """

    def __init__(self, cluster: Cluster, job: Job, start: Start) -> None:
        self._cluster, self._job = cluster, job
        self._n = job.n - len(job.support)
        self._shared = cluster.share(job), cluster.share(start)
        self.recoveries = 0
        self.journal = _Journal.load(job)
        self._orders: list[Order] = []
        self._hosts: list[Any] = []
        # Whether the hosts' assignments are accepted ones, just opened; what each shard has for each.
        self._fresh = True
        self._parcels: list[list[Any]] = []
        self._next: list[list[Any]] = []
        self._accept = False
        if not self.journal.reports:
            self.journal.reports.append(self._try(lambda: self._first))
        self._set(self.journal.reports[0])

    def step(self, prototypes: Floats, lam: float, balance: Balance, *, last: bool = False) -> Sums:
        """The Y step from the current assignments at these prototypes; :meth:`accept` makes its result current."""
        number = len(self._orders)
        save = self._accept and number % _SAVE_ROUNDS == 0
        order = Order(number, self._accept, save, prototypes, lam, balance)
        if number + 1 < len(self.journal.reports):
            report = self.journal.reports[number + 1]
        else:
            report = self._try(lambda: self._run(order))
            if save:
                self._keep(number)
            self.journal.reports.append(report)
        self._orders.append(order)
        return Sums(report.pairwise, report.smooth)

    def accept(self) -> None:
        """Make the assignments of the last step the current ones."""
        self._accept = True
        self._parcels = self._next
        self._set(self.journal.reports[len(self._orders)])

    def finish(self) -> None:
        """Let every shard write its current assignments, and end the actors."""

        def write() -> None:
            self._cluster.results("finish", [self._host(number).finish.remote(number) for number in self._job.numbers])

        self._try(write)
        self.discard()

    def discard(self) -> None:
        """End the actors, and forget what they saved."""
        self.close()
        self._forget(self.journal.saved)
        self._job.folder.remove(_JOURNAL)

    def close(self) -> None:
        """End the actors."""
        for host in self._hosts:
            self._cluster.ray.kill(host)
        self._hosts = []

    def _set(self, report: Report) -> None:
        self.share: Floats = report.shares / self._n
        self.class_features: Floats = report.features

    def _try(self, work: Callable[[], Any]) -> Any:
        """``work()`` with hosts that are up to date; again where some are lost on the way."""
        while True:
            try:
                if not self._hosts:
                    self._catch_up()
                return work()
            except Lost as error:
                self.close()
                self.recoveries += 1
                if self.recoveries > _RECOVERIES:
                    raise ClusterError(f"workers were lost {self.recoveries} times; {error}") from error

    def _catch_up(self) -> None:
        """New hosts at the last saved round, or the first assignments, and the steps since then."""
        self._place()
        saved = self.journal.saved
        self._first, self._parcels = self._ask("open", lambda number: (self._shared[1], saved))
        self._fresh = True
        for order in self._orders[saved or 0 :]:
            self._run(replace(order, save=False))
            self._parcels = self._next

    def _run(self, order: Order) -> Report:
        """One step of all shards."""
        shared = self._cluster.share(replace(order, accept=order.accept and not self._fresh))
        parcels = self._parcels
        report, self._next = self._ask("step", lambda number: (shared, *(parcel[number] for parcel in parcels)))
        self._fresh = False
        return report

    def _ask(self, name: str, arguments: Callable[[int], tuple[Any, ...]]) -> tuple[Report, list[list[Any]]]:
        """Call a method of the hosts for all shards: the sum of the reports, and what each shard has for each."""
        answers = [
            getattr(self._host(number), name)
            .options(num_returns=1 + len(self._job.shards))
            .remote(number, *arguments(number))
            for number in self._job.numbers
        ]
        reports = self._cluster.results(name, [answer[0] for answer in answers])
        return Report.of_all(reports), [answer[1:] for answer in answers]

    def _place(self) -> None:
        """Start a host per CPU; shards are dealt out among those that come up."""
        ray = self._cluster.ray
        count = max(1, min(len(self._job.shards), self._cluster.cpus()))
        remote = ray.remote(Host).options(num_cpus=1, max_restarts=0, scheduling_strategy="SPREAD")
        started = [remote.remote(self._shared[0]) for _ in range(count)]
        coming = {host.ready.remote(): host for host in started}
        deadline = time.monotonic() + _START_SECONDS
        up: list[Any] = []
        # A node that was still counted may be lost: go on with the hosts that have room.
        while coming and time.monotonic() < deadline and not (up and len(up) >= self._cluster.cpus()):
            done, _ = ray.wait(list(coming), num_returns=1, timeout=2.0)
            for ref in done:
                host = coming.pop(ref)
                try:
                    self._cluster.get(ref)
                    up.append(host)
                except Lost:
                    continue
        for host in coming.values():
            ray.kill(host)
        if not up:
            raise Lost("no worker came up in time")
        self._hosts = up

    def _host(self, number: int) -> Any:
        return self._hosts[number % len(self._hosts)]

    def _keep(self, number: int) -> None:
        """What was saved before step ``number`` counts from now on."""
        before, self.journal.saved = self.journal.saved, number
        self.journal.put(self._job, number)
        if before != number:
            self._forget(before)

    def _forget(self, saved: int | None) -> None:
        if saved is not None:
            self._job.drop(_state(saved))


@dataclass(eq=False)
class _Journal:
    """What every step of a run reported, so that a new driver can go on where another one ended."""

    reports: list[Report]  # of the first assignments, then of each step
    saved: int | None = None  # the step before which the shards saved their assignments

    @classmethod
    def load(cls, job: Job) -> _Journal:
        """That of the run, or an empty one."""
        if not job.folder.has(_JOURNAL):
            return cls([])
        kept = job.folder.arrays(_JOURNAL)
        columns = [kept[field.name] for field in fields(Report)]
        return cls([Report(*values) for values in zip(*columns, strict=True)], int(kept["saved"]))

    def put(self, job: Job, number: int) -> None:
        """Keep the reports of all that came before step ``number``, where the shards have saved their assignments."""
        kept = self.reports[: number + 1]
        arrays = {field.name: np.array([getattr(report, field.name) for report in kept]) for field in fields(Report)}
        job.folder.put_arrays(_JOURNAL, {**arrays, "saved": np.array(number)})
