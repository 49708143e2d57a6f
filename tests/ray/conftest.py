"""Sets in files, and what the engine makes of them without a cluster."""

from __future__ import annotations

import os

import numpy as np
import pytest

from laplacianshot.engine.plan import GraphChoice
from laplacianshot.estimator import LaplacianShot, constants_for
from laplacianshot.inference.joint import NO_CLUES, Prior, Sums, descend
from laplacianshot.ray.graph import build_graph, find_neighbors, join_edges, split_edges
from laplacianshot.ray.job import Job
from laplacianshot.ray.rounds import Order, Report, ShardRounds, Start
from laplacianshot.ray.shards import open_shards
from laplacianshot.runtime.keyed_folder import KeyedFolder

# Before ray is imported by any file here: addresses of this machine alone, and nobody is told.
os.environ["RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER"] = "0"
os.environ["RAY_USAGE_STATS_ENABLED"] = "0"
os.environ["RAY_DEDUP_LOGS"] = "0"


@pytest.fixture
def job(digits, tmp_path):
    """``job(shards, rows)``: the digits in shards, near their mean."""

    def make(shards=3, rows=600):
        pixels, _, y = digits
        np.save(tmp_path / "rows.npy", pixels[:rows])
        support = np.flatnonzero(y[:rows] >= 0)
        cut = open_shards(tmp_path / "rows.npy", shards)
        center = pixels[:rows].mean(axis=0)
        return Job(KeyedFolder.create(str(tmp_path / "run")), cut, support, y[support], 10, "cl2", center)

    return make


class Here:
    """What :class:`~laplacianshot.ray.cluster.Cluster` does, in this process."""

    def map(self, function, calls, *, progress=None):
        return [function(*call) for call in calls]

    def share(self, value):
        return value


class RoundsHere:
    """Rounds over shards in this process; before step ``restart`` they are saved and taken up anew."""

    def __init__(self, job, start, restart=None):
        self._job, self._start, self._restart = job, start, restart
        self._n = job.n - len(job.support)
        self._accept = False
        self._number = 0
        self._open(None)

    def _open(self, saved):
        self._shards = [ShardRounds(self._job, number, self._start) for number in range(len(self._job.shards))]
        answers = [shard.opened(saved) for shard in self._shards]
        self._next = self._parcels = [answer[1:] for answer in answers]
        if saved is None:
            self._set(Report.of_all([answer[0] for answer in answers]))

    def _set(self, report):
        self.share, self.class_features = report.shares / self._n, report.features

    def step(self, prototypes, lam, balance, *, last=False):
        save = self._number == self._restart
        order = Order(self._number, self._accept, save, prototypes, lam, balance)
        answers = self._all(order)
        if save:
            # What was saved is accepted.
            self._open(self._number)
            answers = self._all(Order(self._number, False, False, prototypes, lam, balance))
        self._number += 1
        self._next = [answer[1:] for answer in answers]
        self.last = Report.of_all([answer[0] for answer in answers])
        return Sums(self.last.pairwise, self.last.smooth)

    def _all(self, order):
        sent = list(zip(*self._parcels, strict=True))
        return [shard.step(order, incoming) for shard, incoming in zip(self._shards, sent, strict=True)]

    def accept(self):
        self._accept = True
        self._parcels = self._next
        self._set(self.last)

    def finish(self):
        for shard in self._shards:
            shard.finish()


@pytest.fixture
def here():
    return Here()


@pytest.fixture
def linked():
    """``linked(job, k, method)``: find the neighbors and build the graph of every shard."""

    def link(job, k=5, method="exact"):
        numbers = range(len(job.shards))
        report = find_neighbors(Here(), job, k, GraphChoice(method))
        parts = [split_edges(job, number) for number in numbers]
        for number in numbers:
            join_edges(job, number, *(part[number] for part in parts))
        for number in numbers:
            build_graph(job, number)
        return report

    return link


@pytest.fixture
def solved():
    """``solved(job, tau, entries)``: the rounds of the default recipe over its linked shards."""

    def solve(job, tau=5.0, entries=None, restart=None):
        constants = constants_for(LaplacianShot(), len(job.support), job.n - len(job.support), job.n_classes)
        numbers = range(len(job.shards))
        rows = np.concatenate([job.rows(number)[job.given(number)[0]] for number in numbers])
        prior = Prior.of_support(rows, job.labels, np.zeros(rows.shape[1]), job.n_classes, constants)
        start = Start(prior.means.astype(np.float32), tau, NO_CLUES, constants.e, entries)
        rounds = RoundsHere(job, start, restart)
        descent = descend(rounds, prior, constants, job.n - len(job.support), tau, np.dtype(np.float32))
        rounds.finish()
        return descent

    return solve
