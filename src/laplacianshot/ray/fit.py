"""The default recipe over shards: every stage is carried out by the workers and kept in a folder that they share."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, replace
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from laplacianshot.engine.large import choose_start, mean_spread, moments
from laplacianshot.engine.plan import GraphChoice, LargePlan, large_plan, sampled_queries
from laplacianshot.estimator import LaplacianShot, constants_for, is_balanced, transform_of
from laplacianshot.inference.clues import hold_prototypes, sample_rows
from laplacianshot.inference.joint import Prior, descend
from laplacianshot.inference.priors import NOTHING_KNOWN, Hints, Knowledge, checked_shares, informed, read_hints
from laplacianshot.inference.spreading import Paths
from laplacianshot.inference.transforms import (
    base_mean,
    before_center,
    center_between,
    column_sums,
    first_seen,
    given_center,
    ordinary_range,
    standard_of,
    transform_features,
)
from laplacianshot.neighbors.types import GraphReport
from laplacianshot.ray.cluster import Cluster, connected
from laplacianshot.ray.graph import find_neighbors, first_neighbors, link_shards
from laplacianshot.ray.job import RUN_FOLDER, Job, fetch, formed_rows, given_rows, ordered_job
from laplacianshot.ray.result import RayFit, drop_other_labels, write_shard
from laplacianshot.ray.rounds import KNOWN, REACHED, RayRounds, Start
from laplacianshot.ray.shards import Shard, Source, open_shards
from laplacianshot.runtime.arrays import checked_rows
from laplacianshot.runtime.errors import InputError
from laplacianshot.runtime.keyed_folder import KeyedFolder, content_key
from laplacianshot.runtime.limits import LARGE_ROWS
from laplacianshot.runtime.progress import Progress, Watch
from laplacianshot.runtime.threads import single_threaded_blas
from laplacianshot.runtime.types import CENTERED, Floats, Ints, Labels, Transform

# Increase by one whenever files of a run change their meaning.
CODE_VERSION = 7
_SOLUTION = "solution.npz"
# Says that classes fell together, and that the task is solved with prototypes that hardly move.
_HELD = "held.json"


def ray_fit(
    source: Source | tuple[Shard, ...],
    codes: ArrayLike | tuple[ArrayLike, ArrayLike],
    *,
    folder: str,
    estimator: LaplacianShot | None = None,
    order: bool | None = None,
    shards: int | None = None,
    address: str | None = None,
    output: str | None = None,
    classes: Labels | None = None,
    watch: Watch | None = None,
    knowledge: Knowledge = NOTHING_KNOWN,
    hints: Hints | None = None,
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
        the same choices and shards, are taken from there.
    estimator : LaplacianShot, optional
        Its parameters are used; it is not fitted.
    order : bool, optional
        Move rows into the shards of their neighbors first (default: for more than 50,000 rows). Labels do not depend on
        it, except for ties between neighbors and for what an approximate search misses.
    shards : int, optional
        Into how many the rows are cut; by default one for each CPU.
    address : str, optional
        Of the cluster; see :func:`~laplacianshot.ray.connected`.
    output : str, optional
        Path or URL of a folder for the labels, in a Parquet file for each shard; those of an earlier run are removed.
    classes : array of shape (C,), optional
        Names to write there in place of class numbers.
    watch : callable, optional
        Called with the name of each stage, it returns what is called with ``(done, total)`` on the way.
    knowledge : Knowledge
        What is known of C classes besides labels; with names or a prior, classes need no label.
    hints : Hints, optional
        What names and a prior say of these rows; given with them.

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
    estimator = LaplacianShot() if estimator is None else estimator
    check_supported(estimator)
    with connected(address) as cluster:
        is_cut = isinstance(source, tuple) and bool(source) and all(isinstance(one, Shard) for one in source)
        cut: Any = source if is_cut else open_shards(source, shards, cpus=cluster.cpus())  # type: ignore[arg-type]
        given = _checked_labels(codes, cut, hints)
        run = _Run(cluster, estimator, order, cut, *given, KeyedFolder.create(folder), watch, knowledge, hints)
        return run.fit(None if output is None else KeyedFolder.create(output), classes)


def check_supported(estimator: LaplacianShot) -> None:
    """InputError for choices that only one machine supports."""
    if estimator.recipe != "default":
        raise InputError(f"recipe={estimator.recipe!r} is not supported on Ray; only the default recipe is.")
    if not isinstance(estimator.graph, str):
        raise InputError("A graph of your own is not supported on Ray; choose graph='auto', 'exact' or 'cells'.")
    if isinstance(estimator.base_mean, str):
        raise InputError(f"base_mean={estimator.base_mean!r} is not supported on Ray; give an array or leave it out.")


class _Run:
    """One call of :func:`ray_fit`."""

    def __init__(
        self,
        cluster: Cluster,
        estimator: LaplacianShot,
        order: bool | None,
        shards: tuple[Shard, ...],
        support: Ints,
        labels: Ints,
        folder: KeyedFolder,
        watch: Watch | None,
        knowledge: Knowledge,
        hints: Hints | None,
    ) -> None:
        self._cluster, self._estimator, self._order, self._watch = cluster, estimator, order, watch
        self._knowledge, self._hints = knowledge, hints
        n_classes = int(labels.max()) + 1 if hints is None else len(hints.shares)
        if knowledge.shares is None and estimator.class_shares is not None and not is_balanced(estimator):
            self._knowledge = replace(knowledge, shares=checked_shares(estimator.class_shares, n_classes))
        self._job = job = Job(folder, shards, support, labels, n_classes)
        self._n_query = job.n - len(support)
        constants = constants_for(estimator, len(support), self._n_query, n_classes)
        k = min(constants.n_neighbors, job.n - 1)
        self._constants = constants._replace(n_neighbors=k)
        method: Any = estimator.graph
        self._choice = GraphChoice(method, estimator.target_recall, estimator.random_state)
        self._plan = large_plan(job.n, self._n_query, n_classes, shards[0].width, k, graph=self._choice)
        self._seconds: dict[str, float] = {}

    def fit(self, output: KeyedFolder | None, classes: Labels | None) -> RayFit:
        """All stages, one after the other."""
        cluster, k = self._cluster, self._constants.n_neighbors
        cluster.check(*_min_bytes(self._job, k, self._plan))
        with self._stage("Reading") as progress:
            self._read(progress)
        given = self._job
        if len(given.shards) > 1 and (given.n > LARGE_ROWS if self._order is None else self._order):
            with self._stage("Order") as progress:
                self._job = ordered_job(cluster, given, self._choice.seed, progress=progress)
        job = self._job
        with self._stage("Neighbors") as progress:
            graph = find_neighbors(cluster, job, k, self._choice, progress=progress)
        with self._stage("Graph") as progress:
            link_shards(cluster, job, progress=progress)
        with self._stage("Updates") as progress:
            if not job.folder.has(_SOLUTION):
                self._solve(given, progress)
        if output is not None:
            with self._stage("Labels") as progress:
                shared = cluster.share(job)
                calls = [(shared, number, output, classes) for number in job.numbers]
                drop_other_labels(output, cluster.map(write_shard, calls, progress=progress))
                output.below(RUN_FOLDER).put_json("run.json", {"rows": job.n, "folder": job.folder.url})
        return self._result(graph)

    @contextmanager
    def _stage(self, name: str) -> Iterator[Progress | None]:
        start = time.perf_counter()
        yield None if self._watch is None else self._watch(name)
        self._seconds[name] = time.perf_counter() - start

    def _read(self, progress: Progress | None) -> None:
        """Check the rows, find the folder of this run, and the center."""
        job, estimator = self._job, self._estimator
        digests, totals, lowest = zip(
            *self._cluster.map(survey, [(shard,) for shard in job.shards], progress=progress), strict=True
        )
        names = ("transform", "lam", "n_neighbors", "max_iter", "tol")
        mean = None if estimator.base_mean is None else np.asarray(estimator.base_mean, dtype=np.float64).tolist()
        settings = {name: estimator.get_params()[name] for name in names} | {"base_mean": mean, "order": self._order}
        settings["balanced"] = is_balanced(estimator)
        cut = [len(shard) for shard in job.shards]
        made_from = (settings, asdict(self._choice), cut, digests, job.support, job.labels, *self._knowledge.key)
        folder = KeyedFolder.of(job.folder.url, "run", CODE_VERSION, *made_from)
        pooled = np.sum(totals, axis=0) / job.n
        some = fetch(self._cluster, job, given_rows, np.array(first_seen(range(job.n))))
        transform = transform_of(estimator, some, min(lowest), named=self._knowledge.names is not None)
        center, scale = self._columns(some) if transform == "standard" else (None, None)
        if transform in CENTERED:
            center = self._center(transform, pooled)
        shift = pooled.astype(np.float32) if transform == "none" else None
        self._job = replace(job, folder=folder, transform=transform, center=center, scale=scale, shift=shift)
        if transform == "standard" and self._hints is not None:
            self._hints = self._hints_of_columns()

    def _hints_of_columns(self) -> Hints:
        """What a prior says of the rows of a table, whose columns have been brought to one scale."""
        job, sampled = self._job, self._job.query_rows(sample_rows(self._n_query))
        rows, support = (
            transform_features(fetch(self._cluster, job, given_rows, some), "standard", job.center, scale=job.scale)
            for some in (sampled, job.support)
        )
        with single_threaded_blas():
            return read_hints(self._knowledge, rows, sampled, support, job.support, job.labels, job.n_classes)

    def _columns(self, some: Floats) -> tuple[Floats, Floats]:
        """Mean and inverse standard deviation of every column (D,), of all rows; ``some`` (m, D) say what is far."""
        middle, limit = ordinary_range(some)
        for reach in (limit, np.full_like(limit, np.inf)):
            calls = [(shard, middle, reach) for shard in self._job.shards]
            found = standard_of(middle, np.sum(self._cluster.map(shard_columns, calls), axis=0), self._job.n)
            if found is not None:
                return found
        raise AssertionError("all rows count")

    def _center(self, transform: Transform, pooled: Floats) -> Floats:
        """The center (D,) from the mean of the given rows."""
        job, estimator = self._job, self._estimator
        if estimator.base_mean is not None:
            return given_center(estimator.base_mean, job.shards[0].width, transform)
        if transform == "power":
            pooled = np.sum(self._cluster.map(root_sums, [(shard,) for shard in job.shards]), axis=0) / job.n
        if is_balanced(estimator):
            return pooled
        if self._hints is not None and self._hints.some_unlabeled:
            some = (job.query_rows(sample_rows(self._n_query)), job.support)
            sample, support = (fetch(self._cluster, job, given_rows, rows) for rows in some)
            return self._hints.center(pooled, sample, support, job.labels, transform)
        queries = fetch(self._cluster, job, given_rows, job.query_rows(first_seen(range(self._n_query))))
        support = fetch(self._cluster, job, given_rows, job.support)
        queries, support = before_center(queries, transform), before_center(support, transform)
        return center_between(pooled, support, job.labels, queries, self._n_query, job.n_classes)

    def _solve(self, given: Job, progress: Progress | None) -> None:
        """Rounds until F no longer changes, into the run's folder."""
        job, constants, cluster = self._job, self._constants, self._cluster
        support = fetch(cluster, job, formed_rows, job.support)
        shift = np.zeros(job.shards[0].width, np.float32) if job.shift is None else job.shift
        asked = fetch(cluster, given, formed_rows, given.query_rows(sample_rows(self._n_query)))
        base = support if len(support) else asked
        origin = -shift if job.transform in CENTERED else base.mean(axis=0)
        with single_threaded_blas():
            constants, clues, answers = informed(
                support,
                job.labels,
                asked,
                origin,
                self._n_query,
                job.n_classes,
                constants,
                knowledge=self._knowledge,
                hints=self._hints,
                transform="none" if job.transform == "standard" else job.transform,
                center=job.center,
                table=job.transform == "standard",
                along=self._plan.along,
                shift=shift,
            )
        prior = Prior.of_support(support, job.labels, origin, job.n_classes, constants, clues)
        shared = cluster.share(job)
        sums, squares = zip(*cluster.map(query_moments, [(shared, number) for number in job.numbers]), strict=True)
        spread = mean_spread(np.sum(sums, axis=0), sum(squares), self._n_query)
        # Of the rows in the user's order, so that the temperature does not depend on the shards.
        sample = given.query_rows(sampled_queries(range(self._n_query), job.n_classes))
        tau, entries = choose_start(
            fetch(cluster, given, formed_rows, sample), prior.means.astype(np.float32), spread, constants, self._plan
        )
        if clues.along > 0:
            self._spread(clues.local)
        has_prior = self._know(answers.hints)
        limits: dict[str, Any] = {"clues": clues, "tol": self._estimator.tol, "progress": progress}
        while True:
            if job.folder.has(_HELD):
                constants, clues = hold_prototypes(constants, clues)
                prior = Prior.of_support(support, job.labels, origin, job.n_classes, constants, clues)
            start = Start(prior.means.astype(np.float32), tau, clues, constants.e, entries, has_prior)
            rounds = RayRounds(cluster, job, start)
            try:
                descent = descend(rounds, prior, constants, self._n_query, tau, np.dtype(np.float32), **limits)
                if job.folder.has(_HELD) or not answers.collapsed(rounds.share):
                    rounds.finish()
                    break
                job.folder.put_json(_HELD, {})
                rounds.discard()
            finally:
                rounds.close()
        reports = rounds.journal.reports
        solution = {
            "prototypes": descent.prototypes + shift,
            "objective": descent.objective,
            "converged": descent.converged,
            "tau": tau,
            "bias": descent.bias,
            "prototypes_held": job.folder.has(_HELD),
            "dropped": max(report.dropped for report in reports) / self._n_query,
            "sent": [report.sent for report in reports],
            "recoveries": rounds.recoveries,
        }
        job.folder.put_arrays(_SOLUTION, solution)

    def _spread(self, local: bool) -> None:
        """Shares of the labels that reach each row along the graph, into ``reached-*.npz``."""
        job = self._job
        if not job.missing(REACHED):
            return
        shared = self._cluster.share(job)
        parts = self._cluster.map(first_neighbors, [(shared, number) for number in job.numbers])
        near, distances = (np.concatenate(side) for side in zip(*parts, strict=True))
        paths = Paths.to_neighbors(near, distances)
        reached = paths.spread(job.classes(np.arange(job.n)), job.n_classes, local=local)
        for number, shard in enumerate(job.shards):
            job.save(REACHED, number, {"shares": reached[shard.first : shard.first + len(shard)]})

    def _know(self, hints: Hints | None) -> bool:
        """What a prior says of each row, into ``known-*.npz``; return whether there is one."""
        job = self._job
        for number in job.missing(KNOWN) if self._knowledge.prior is not None else ():
            assert hints is not None
            job.save(KNOWN, number, {"logits": hints.row_logits(job.originals(number))})
        return self._knowledge.prior is not None

    def _result(self, graph: GraphReport) -> RayFit:
        kept = self._job.folder.arrays(_SOLUTION)
        arrays = {name: kept[name] for name in ("prototypes", "objective", "bias")}
        numbers = {name: kept[name].item() for name in ("converged", "tau", "dropped", "recoveries", "prototypes_held")}
        return RayFit(
            self._job,
            **arrays,
            **numbers,
            lam=self._constants.lam,
            n_neighbors=self._constants.n_neighbors,
            graph=graph,
            plan=self._plan,
            sent=tuple(kept["sent"].tolist()),
            seconds=self._seconds,
            usage=self._cluster.usage,
        )


def survey(shard: Shard) -> tuple[str, Floats, float]:
    """Read a shard once: a hash of its rows, their sum (D,) and smallest entry. InputError if they are not finite."""
    rows = shard.read()
    try:
        checked_rows(rows, None)
    except ValueError as error:
        raise InputError(f"{shard.path}, rows {shard.start} to {shard.stop}: {error}") from None
    return content_key(rows), base_mean(rows) * len(rows), float(rows.min())


def root_sums(shard: Shard) -> Floats:
    """Sum of the unit roots of a shard, (D,)."""
    rows = shard.read()
    return base_mean(rows, "power") * len(rows)


def shard_columns(shard: Shard, middle: Floats, limit: Floats) -> Floats:
    """:func:`~laplacianshot.inference.transforms.column_sums` of a shard."""
    return column_sums(shard.read(), middle, limit)


def query_moments(job: Job, number: int) -> tuple[Floats, float]:
    """Sum and squared norms of the queries of a shard."""
    return moments(job.rows(number).ordered(job.queries(number)))


def _min_bytes(job: Job, k: int, plan: LargePlan) -> tuple[float, float]:
    """What a run takes at least over all nodes, in memory and in the object store.

    Memory holds edges and assignments, the object store what travels in one stage.
    """
    n, n_query = job.n, job.n - len(job.support)
    away = 1 - 1 / len(job.shards)
    entries = job.n_classes if plan.dense else min(job.n_classes, plan.max_entries)
    memory = 16.0 * n * k + 12.0 * n_query * entries
    return memory, away * max(12.0 * n * k, 4.0 * n_query * min(entries, 8))


def _checked_labels(codes: Any, shards: tuple[Shard, ...], hints: Hints | None) -> tuple[Ints, Ints]:
    """Rows that have a label, ascending, and their classes; InputError where they do not fit the rows.

    Classes need no label where ``hints`` say something of them.
    """
    n = shards[-1].first + len(shards[-1])
    if isinstance(codes, tuple):
        rows, labels = (np.asarray(part) for part in codes)
        if rows.shape != labels.shape or rows.ndim != 1:
            raise InputError(f"codes are {rows.shape} rows and {labels.shape} classes; give a class for each row.")
        order = np.argsort(rows, kind="stable")
        rows, labels = rows[order], labels[order]
        if len(np.unique(rows)) < len(rows) or (len(rows) and not (rows[0] >= 0 and rows[-1] < n)):
            raise InputError(f"codes: rows must be different numbers from 0 to {n - 1}.")
    else:
        every = np.asarray(codes)
        if every.shape != (n,):
            raise InputError(f"codes have shape {every.shape} and the shards hold {n} rows; give a class for each.")
        rows = np.flatnonzero(every >= 0)
        labels = every[rows]
    classes = np.unique(labels)
    if hints is not None:
        classes = np.arange(len(hints.shares))
    if len(classes) < 2:
        raise InputError("codes have labels of fewer than two classes; label at least one row of a second class.")
    if classes[0] != 0 or classes[-1] != len(classes) - 1:
        raise InputError(
            f"codes must be 0 to C - 1, each at least once; {len(classes)} classes go up to {classes[-1]}."
        )
    if n - len(rows) < 2:
        raise InputError("fewer than two rows have no label; there is nothing to do on a cluster.")
    return rows.astype(np.int64), labels.astype(np.int64)
