"""The default recipe over shards: every stage is carried out by the workers and kept in a folder that they share."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from laplacianshot.engine.large import choose_start, mean_spread
from laplacianshot.engine.plan import large_plan, sampled_queries
from laplacianshot.inference.joint import Prior, descend
from laplacianshot.inference.transforms import center_between, first_seen, given_center
from laplacianshot.neighbors.types import GraphReport
from laplacianshot.ray.cluster import Cluster, connected
from laplacianshot.ray.graph import build_graph, is_built, is_joined, join_edges, split_edges
from laplacianshot.ray.job import RUN_FOLDER, Job, RayOptions
from laplacianshot.ray.neighbors import find_neighbors, formed, take_rows
from laplacianshot.ray.order import ordered_job
from laplacianshot.ray.result import RayFit, drop_other_labels, write_shard
from laplacianshot.ray.rounds import RayRounds
from laplacianshot.ray.shard_rounds import Start
from laplacianshot.ray.shards import Shard, Source, open_shards
from laplacianshot.ray.survey import checked_labels, given_rows, needs, query_moments, run_key, survey
from laplacianshot.runtime.keyed_folder import KeyedFolder
from laplacianshot.runtime.progress import Watch
from laplacianshot.runtime.types import Floats, Ints, Labels

_SOLUTION = "solution.npz"


def ray_fit(
    source: Source | tuple[Shard, ...],
    codes: ArrayLike | tuple[ArrayLike, ArrayLike],
    *,
    folder: str,
    options: RayOptions | None = None,
    shards: int | None = None,
    address: str | None = None,
    output: str | None = None,
    classes: Labels | None = None,
    watch: Watch | None = None,
) -> RayFit:
    """Label every row of a set in files from the few that have a label, on a Ray cluster.

    Parameters
    ----------
    source : path, URL or list of them
        ``.npy`` or ``.parquet`` files that every node can read; see :func:`~laplacianshot.ray.open_shards`.
    codes : int array of shape (n,), or a pair of int arrays of shape (n_s,)
        The class of each row in ``0..C-1``, -1 for unlabeled ones; or the rows that have a label, and their classes.
    folder : str
        Path or URL that every node can write to. Stages that were finished before, on the same rows and labels with
        the same options and shards, are taken from there.
    options : RayOptions, optional
    shards : int, optional
        Into how many the rows are cut; by default one for each CPU.
    address : str, optional
        Of the cluster; see :func:`~laplacianshot.ray.connected`.
    output : str, optional
        Path or URL of a folder for the labels, in a Parquet file for each shard; those of an earlier run go away.
    classes : array of shape (C,), optional
        Names to write there in place of class numbers.
    watch : callable, optional
        Called with the name of each stage, it gives what is called with ``(done, total)`` on the way.

    Returns
    -------
    RayFit

    Raises
    ------
    ValueError
        The rows or labels are not sound; the message names the shard.
    ClusterError
        The cluster is too small, or was lost.
    """
    options = RayOptions() if options is None else options
    with connected(address) as cluster:
        given = isinstance(source, tuple) and bool(source) and all(isinstance(one, Shard) for one in source)
        cut: Any = source if given else open_shards(source, shards, cpus=cluster.cpus())  # type: ignore[arg-type]
        run = _Run(cluster, options, cut, *checked_labels(codes, cut), KeyedFolder.create(folder), watch)
        return run.fit(None if output is None else KeyedFolder.create(output), classes)


class _Run:
    """One call of :func:`ray_fit`."""

    def __init__(
        self,
        cluster: Cluster,
        options: RayOptions,
        shards: tuple[Shard, ...],
        support: Ints,
        labels: Ints,
        folder: KeyedFolder,
        watch: Watch | None,
    ) -> None:
        self._cluster, self._options = cluster, options
        self._watch = watch
        n_classes = int(labels.max()) + 1
        self._job = Job(folder, shards, support, labels, n_classes, options.transform)
        self._n_query = self._job.n - len(support)
        self._constants = options.constants(len(support), self._n_query, n_classes)
        self._plan = large_plan(
            self._job.n, self._n_query, n_classes, shards[0].width, self._constants.n_neighbors, graph=options.choice
        )
        self._seconds: dict[str, float] = {}

    def fit(self, output: KeyedFolder | None, classes: Labels | None) -> RayFit:
        """All stages, one after the other."""
        self._cluster.check(needs(self._job, self._constants.n_neighbors, self._plan))
        with self._stage("Reading") as progress:
            self._read(progress)
        given = self._job
        if self._options.is_ordered(given.n, len(given.shards)):
            with self._stage("Order") as progress:
                self._job = ordered_job(self._cluster, given, self._options.choice.seed, progress=progress)
        shared = self._cluster.share(self._job)
        with self._stage("Neighbors") as progress:
            k = self._constants.n_neighbors
            graph = find_neighbors(self._cluster, self._job, k, self._options.choice, progress=progress)
        with self._stage("Graph") as progress:
            self._link(shared, progress)
        with self._stage("Updates") as progress:
            result = self._update(given, shared, graph, progress)
        if output is not None:
            with self._stage("Labels") as progress:
                calls = [(shared, number, output, classes) for number in self._numbers]
                written = self._cluster.map(write_shard, calls, progress=progress)
                drop_other_labels(output, written)
                output.below(RUN_FOLDER).put_json("run.json", {"rows": self._job.n, "folder": self._job.folder.url})
        return replace(result, seconds=self._seconds, usage=self._cluster.usage)

    @property
    def _numbers(self) -> range:
        return range(len(self._job.shards))

    @contextmanager
    def _stage(self, name: str) -> Iterator[Callable[[int, int], object] | None]:
        start = time.perf_counter()
        yield None if self._watch is None else self._watch(name)
        self._seconds[name] = time.perf_counter() - start

    def _read(self, progress: Callable[[int, int], object] | None) -> None:
        """Check the rows, find the folder of this run, and the center."""
        job, options = self._job, self._options
        found = self._cluster.map(survey, [(shard,) for shard in job.shards], progress=progress)
        settings = options.settings() | {"shards": [len(shard) for shard in job.shards]}
        folder = job.folder.below(f"run-{run_key(found, job.support, job.labels, settings)}")
        pooled = np.sum([one.total for one in found], axis=0) / job.n
        center = self._center(pooled) if options.transform == "cl2" else None
        shift = pooled.astype(np.float32) if options.transform == "none" else None
        self._job = replace(job, folder=folder, center=center, shift=shift)

    def _center(self, pooled: Floats) -> Floats:
        job, options = self._job, self._options
        if options.base_mean is not None:
            return given_center(options.base_mean, job.shards[0].width)
        if options.balanced:
            return pooled
        seen = self._given(job.query_rows(first_seen(range(self._n_query))))
        return center_between(pooled, self._given(job.support), job.labels, seen, self._n_query, job.n_classes)

    def _given(self, rows: Ints) -> Floats:
        """Rows as they are given, by ascending numbers."""
        parts = [rows[part] - shard.first for shard, part in zip(self._job.shards, self._job.split(rows), strict=True)]
        return take_rows(self._cluster, given_rows, [(shard,) for shard in self._job.shards], parts)

    def _link(self, shared: Any, progress: Callable[[int, int], object] | None) -> None:
        """The graph of every shard, unless it is there."""
        job, cluster, count = self._job, self._cluster, len(self._job.shards)
        missing = [number for number in self._numbers if not is_joined(job, number)]
        if missing:
            parts = cluster.scatter(split_edges, [(shared, number) for number in self._numbers], count)
            calls = [(shared, number, *(refs[number] for refs in parts)) for number in missing]
            cluster.map(join_edges, calls, progress=progress)
        calls = [(shared, number) for number in self._numbers if not is_built(job, number)]
        cluster.map(build_graph, calls, progress=progress)

    def _update(
        self, given: Job, shared: Any, graph: GraphReport, progress: Callable[[int, int], object] | None
    ) -> RayFit:
        """Rounds until F no longer changes, unless the solution is there."""
        job, constants = self._job, self._constants
        if not job.folder.has(_SOLUTION):
            self._solve(given, shared, progress)
        kept = job.folder.arrays(_SOLUTION)
        return RayFit(
            job,
            kept["prototypes"],
            kept["objective"],
            bool(kept["converged"]),
            constants.lam,
            float(kept["tau"]),
            kept["bias"],
            constants.n_neighbors,
            graph,
            float(kept["dropped"]),
            tuple(int(count) for count in kept["sent"]),
            int(kept["recoveries"]),
        )

    def _solve(self, given: Job, shared: Any, progress: Callable[[int, int], object] | None) -> None:
        job, constants, cluster = self._job, self._constants, self._cluster
        support = formed(cluster, job, shared, job.support)
        shift = np.zeros(job.shards[0].width, np.float32) if job.shift is None else job.shift
        origin = -shift if job.transform == "cl2" else support.mean(axis=0)
        prior = Prior.of_support(support, job.labels, origin, job.n_classes, constants)
        prototypes = prior.means.astype(np.float32)
        parts = cluster.map(query_moments, [(shared, number) for number in self._numbers])
        spread = mean_spread(np.sum([part[0] for part in parts], axis=0), sum(part[1] for part in parts), self._n_query)
        # Of the rows as they were given, so that the temperature does not depend on their order.
        sample = given.query_rows(sampled_queries(range(self._n_query), job.n_classes))
        rows = formed(cluster, given, cluster.share(given), sample)
        tau, entries = choose_start(rows, prototypes, spread, constants, self._plan)
        rounds = RayRounds(cluster, job, Start(prototypes, tau, constants.e, entries))
        try:
            limits = {"tol": self._options.tol, "progress": progress}
            descent = descend(rounds, prior, constants, self._n_query, tau, np.dtype(np.float32), **limits)  # type: ignore[arg-type]
            rounds.finish()
        finally:
            rounds.close()
        reports = rounds.journal.reports
        solution = {
            "prototypes": descent.prototypes + shift,
            "objective": descent.objective,
            "converged": np.array(descent.converged),
            "tau": np.array(tau),
            "bias": descent.bias,
            "dropped": np.array(max(report.dropped for report in reports) / self._n_query),
            "sent": np.array([report.sent for report in reports]),
            "recoveries": np.array(rounds.recoveries),
        }
        job.folder.put_arrays(_SOLUTION, solution)
