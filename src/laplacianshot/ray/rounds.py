"""Bound updates as rounds over shards: actors hold the assignments, and send one another the rows that they need.

The driver runs :func:`~laplacianshot.inference.joint.descend` with :class:`RayRounds`. A step is carried out by all
shards at once. What it needs of other shards' assignments comes through the object store, where each shard has put what
each other one wants. When an actor is lost all are started anew from the last saved round, and the steps since then are
repeated: they depend on nothing but their orders, so the assignments come out as they were.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from laplacianshot.inference.joint import Sums
from laplacianshot.ray.cluster import Cluster, ClusterError, Lost
from laplacianshot.ray.job import Job
from laplacianshot.ray.shard_rounds import Host, Order, Report, Start, state_name
from laplacianshot.runtime.types import Floats

# Rounds after which the assignments are saved.
SAVE_ROUNDS = 10
# How often actors are started anew, and seconds that they have for it.
RECOVERIES = 8
_START_SECONDS = 120.0
_JOURNAL = "rounds.npz"
_FIELDS = ("pairwise", "smooth", "shares", "features", "dropped", "sent")


class RayRounds:
    """:class:`~laplacianshot.inference.joint.Rounds` whose assignments are with actors.

    Parameters
    ----------
    cluster : Cluster
    job : Job
    start : Start

    Attributes
    ----------
    share : array of shape (C,)
    class_features : array of shape (C, D)
    recoveries : int
        How often actors were lost.
    journal : Journal
    """

    def __init__(self, cluster: Cluster, job: Job, start: Start) -> None:
        self._cluster, self._job = cluster, job
        self._n = job.n - len(job.support)
        self._shared = cluster.share(job), cluster.share(start)
        self.recoveries = 0
        self.journal = Journal.load(job)
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

    def step(self, prototypes: Floats, lam: float, g: float, *, last: bool = False) -> Sums:
        """The Y step from the current assignments at these prototypes; :meth:`accept` makes its result current."""
        number = len(self._orders)
        save = self._accept and number % SAVE_ROUNDS == 0
        order = Order(number, self._accept, save, self.share, prototypes, lam, g)
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
            self._cluster.results("finish", [self._host(number).finish.remote(number) for number in self._numbers])

        self._try(write)
        self.close()
        self._forget(self.journal.saved)
        self._job.folder.remove(_JOURNAL)

    def close(self) -> None:
        """End the actors."""
        for host in self._hosts:
            self._cluster.ray.kill(host)
        self._hosts = []

    @property
    def _numbers(self) -> range:
        return range(len(self._job.shards))

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
                if self.recoveries > RECOVERIES:
                    raise ClusterError(f"workers were lost {self.recoveries} times; {error}") from error

    def _catch_up(self) -> None:
        """New hosts at the last saved round, or the first assignments, and the steps since then."""
        self._place()
        saved = self.journal.saved
        refs = [
            self._host(number).open.options(num_returns=1 + len(self._numbers)).remote(number, self._shared[1], saved)
            for number in self._numbers
        ]
        self._first, self._parcels = self._gathered("open", refs)
        self._fresh = True
        for order in self._orders[saved or 0 :]:
            self._run(replace(order, save=False))
            self._parcels = self._next

    def _run(self, order: Order) -> Report:
        """One step of all shards."""
        shared = self._cluster.share(replace(order, accept=order.accept and not self._fresh))
        refs = [
            self._host(number)
            .step.options(num_returns=1 + len(self._numbers))
            .remote(number, shared, *(parcels[number] for parcels in self._parcels))
            for number in self._numbers
        ]
        report, self._next = self._gathered("step", refs)
        self._fresh = False
        return report

    def _gathered(self, name: str, refs: list[list[Any]]) -> tuple[Report, list[list[Any]]]:
        """The sum of all reports, and references to what each shard has for each."""
        reports = self._cluster.results(name, [answer[0] for answer in refs])
        return Report.of_all(reports), [answer[1:] for answer in refs]

    def _place(self) -> None:
        """A host for each CPU that is there; shards are dealt out among those that come up."""
        ray = self._cluster.ray
        wanted = max(1, min(len(self._numbers), self._cluster.cpus()))
        remote = ray.remote(Host).options(num_cpus=1, max_restarts=0, scheduling_strategy="SPREAD")
        started = [remote.remote(self._shared[0]) for _ in range(wanted)]
        coming = {host.ready.remote(): host for host in started}
        deadline = time.monotonic() + _START_SECONDS
        up: list[Any] = []
        # A node may be gone that was still counted: go on with as many as there is room for.
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
            for number in self._numbers:
                self._job.folder.remove(state_name(number, saved))


@dataclass(eq=False)
class Journal:
    """What every step of a run reported, so that a new driver can go on where another one ended.

    Attributes
    ----------
    reports : list of Report
        Of the first assignments, then of each step.
    saved : int, optional
        The step before which the shards saved their assignments.
    """

    reports: list[Report]
    saved: int | None = None

    @classmethod
    def load(cls, job: Job) -> Journal:
        """That of the run, or an empty one."""
        if not job.folder.has(_JOURNAL):
            return cls([])
        kept = job.folder.arrays(_JOURNAL)
        columns = [kept[name] for name in _FIELDS]
        reports = [Report(*(_plain(column[step]) for column in columns)) for step in range(len(columns[0]))]
        return cls(reports, int(kept["saved"]))

    def put(self, job: Job, number: int) -> None:
        """Keep the reports of all that came before step ``number``, where the shards have saved their assignments."""
        kept = self.reports[: number + 1]
        arrays = {name: np.array([getattr(report, name) for report in kept]) for name in _FIELDS}
        job.folder.put_arrays(_JOURNAL, {**arrays, "saved": np.array(number)})


def _plain(value: Any) -> Any:
    """A number for an array without dimensions."""
    return value.item() if value.ndim == 0 else value
