"""Evaluate any methods over many tasks, all on the same ones."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from dataclasses import dataclass
from time import perf_counter
from typing import TYPE_CHECKING, Any, TypeAlias, overload

import numpy as np

from laplacianshot.datasets.feature_set import FeatureSet
from laplacianshot.episodes.batched import BatchedRecipe
from laplacianshot.episodes.results import Convergence, Evaluation, Evaluations, Setting
from laplacianshot.episodes.runners import (
    TOO_FAR,
    Runnable,
    TaskRows,
    method_name,
    over_threads,
    recipe_of,
    runnables,
)
from laplacianshot.episodes.tasks import INAT_LEAKING, TaskGroup, Tasks, draw_tasks
from laplacianshot.inference.transforms import base_mean as mean_of_rows
from laplacianshot.inference.transforms import given_center
from laplacianshot.runtime.extras import open_engine
from laplacianshot.runtime.progress import Progress
from laplacianshot.runtime.threads import available_threads
from laplacianshot.runtime.types import Floats, Ints

if TYPE_CHECKING:
    from laplacianshot.training.config import TrainConfig

BaseMean: TypeAlias = Any

# What answers the chunks of some tasks, in order.
Spread: TypeAlias = Callable[["TaskWork", list[TaskGroup]], AbstractContextManager[Iterator[Any]]]


@overload
def evaluate(
    feature_set: FeatureSet,
    method: list[Any] | tuple[Any, ...] | dict[str, Any],
    **options: Any,
) -> Evaluations: ...
@overload
def evaluate(feature_set: FeatureSet, method: Any, **options: Any) -> Evaluation: ...
def evaluate(  # type: ignore[misc]  # the overloads leave the options to this signature
    feature_set: FeatureSet,
    method: Any,
    *,
    way: int = 5,
    shot: int | tuple[int, int] = 1,
    query: int = 15,
    tasks: int = 10_000,
    seed: int = 0,
    protocol: str = "balanced",
    split: str | None = None,
    alpha: float = 2.0,
    base_mean: BaseMean = None,
    slow_tasks: int | None = None,
    progress: Progress | None = None,
    partial: bool = False,
    threads: int | None = None,
    engine: str = "local",
    address: str | None = None,
) -> Evaluation | Evaluations:
    """Accuracy of one or several methods over many few-shot tasks.

    Tasks depend on the seed and the protocol alone, so every method sees the same ones, and results do not depend on
    the number of threads.

    Parameters
    ----------
    feature_set : FeatureSet
    method : str or estimator, or a list of them, or a dict of names to them
        A name of :data:`~laplacianshot.episodes.METHODS`, or anything with ``fit(X, y)`` and ``transduction_``. The
        recipes and most baselines run in compiled or vectorized batches, other estimators one task at a time.
    way, shot, query, tasks, seed, protocol, split, alpha
        See :func:`~laplacianshot.episodes.draw_tasks`.
    base_mean : array of shape (D,), FeatureSet, "task" or None
        What CL2 takes away, for every method without a center of its own: a vector; the mean of another set (its split
        ``base`` if it has one, else all rows), for cross-domain tasks; nothing but what each task has (``"task"``); or,
        for None, the mean of the set's own split ``base`` if it has one.
    slow_tasks : int, optional
        Number of tasks for methods marked slow: the first of all.
    progress : callable, optional
        ``progress(done, total)`` is called with numbers of tasks, over all methods.
    partial : bool
        After Ctrl-C return what has been run so far, marked as interrupted, instead of raising KeyboardInterrupt.
    threads : int, optional
        Number of threads (default: all cores).
    engine : {"local", "ray"}
        Run the tasks on this machine, or spread over the workers of a Ray cluster (extra ``ray``); accuracies are the
        same.
    address : str, optional
        Of the cluster; see :func:`~laplacianshot.ray.connected`.

    Returns
    -------
    Evaluation, or Evaluations for several methods

    Examples
    --------
    >>> from sklearn.datasets import load_digits
    >>> from laplacianshot import FeatureSet, evaluate
    >>> digits = FeatureSet(*load_digits(return_X_y=True))
    >>> both = evaluate(digits, ["laplacianshot", "simpleshot-cl2"], shot=1, tasks=200)
    >>> both.best.method
    'laplacianshot'
    """
    elsewhere = open_engine(engine, address=address)
    drawn = draw_tasks(
        feature_set,
        protocol,
        way=way,
        shot=shot,
        query=query,
        tasks=tasks,
        seed=seed,
        split=split,
        alpha=alpha,
    )
    center = center_for(feature_set, base_mean)
    methods, single = runnables(method, center, feature_set.dim, leaking=protocol == INAT_LEAKING)
    setting = Setting(
        protocol,
        drawn.way,
        shot,
        query,
        len(drawn),
        seed,
        split,
        float(alpha),
        "task" if center is None else "base mean",
    )
    run = _Run(feature_set, drawn, methods, slow_tasks)
    run.execute(progress, partial, threads, None if elsewhere is None else elsewhere.spread)
    results = tuple(run.evaluation(number, setting) for number in range(len(methods)))
    return results[0] if single else Evaluations(results)


def validation_score(features: Floats, labels: Ints, config: TrainConfig, threads: int | None = None) -> Evaluation:
    """Accuracy of a network's features on the validation tasks of its training, which are the same every time.

    The method is nearest prototype on L2-normalized rows.

    Parameters
    ----------
    features : array of shape (n, D)
    labels : int array of shape (n,)
    config : TrainConfig
    threads : int, optional
    """
    return evaluate(
        FeatureSet(features, labels),
        "simpleshot-l2",
        way=config.validation_way,
        shot=config.validation_shot,
        query=config.validation_query,
        tasks=config.validation_tasks,
        seed=config.validation_seed,
        threads=threads,
    )


def center_for(feature_set: FeatureSet, base_mean: BaseMean) -> Floats | None:
    """The vector (D,) that CL2 takes away from the rows of every task, or None."""
    if isinstance(base_mean, FeatureSet):
        mean = base_mean.base_mean()
        return given_center(mean_of_rows(base_mean.features) if mean is None else mean, feature_set.dim)
    if isinstance(base_mean, str):
        if base_mean != "task":
            raise ValueError(f"base_mean must be a vector, a FeatureSet, 'task' or None, got {base_mean!r}.")
        return None
    if base_mean is None:
        return feature_set.base_mean()
    return given_center(base_mean, feature_set.dim)


@dataclass(frozen=True, repr=False)
class TaskWork:
    """Methods and their tasks: all that is needed to answer some of them, here or on another machine.

    Attributes
    ----------
    feature_set : FeatureSet
    tasks : Tasks
    methods : list of Runnable
    limits : list of int
        How many of the tasks each method runs.
    """

    feature_set: FeatureSet
    tasks: Tasks
    methods: list[Runnable]
    limits: list[int]

    def placed_rows(self) -> TaskRows:
        """The rows of the tasks, placed for every method."""
        rows = TaskRows(self.feature_set, self.tasks)
        for n_rows in {chunk.n_rows for chunk in rows.chunks()}:
            rows.prepare([method.placement(n_rows) for method in self.methods])
        return rows

    def answers(
        self, rows: TaskRows, chunk: TaskGroup
    ) -> tuple[TaskGroup, list[tuple[int, Ints, Ints, Ints | None, float]]]:
        """Every method on the tasks of a chunk; methods at the same placement share the inner products."""
        answers = []
        by_placement: dict[Any, list[int]] = {}
        for number, method in enumerate(self.methods):
            by_placement.setdefault(method.placement(chunk.n_rows), []).append(number)
        for placement, numbers in by_placement.items():
            start = perf_counter()
            batch = rows.batch(chunk, placement)
            shared = perf_counter() - start
            for number in numbers:
                kept = int(np.searchsorted(chunk.numbers, self.limits[number]))
                if kept == 0:
                    continue
                start = perf_counter()
                answer = self.methods[number].answer(batch if kept == len(chunk.numbers) else batch.first(kept))
                seconds = shared + perf_counter() - start
                answers.append((number, chunk.numbers[:kept], answer.found, answer.iterations, seconds))
        return chunk, answers


class _Run:
    """Accuracies as they come in, method by method."""

    def __init__(self, feature_set: FeatureSet, tasks: Tasks, methods: list[Runnable], slow_tasks: int | None) -> None:
        if slow_tasks is not None and slow_tasks < 1:
            raise ValueError(f"slow_tasks must be at least 1, got {slow_tasks}.")
        n_tasks, n_methods = len(tasks), len(methods)
        self._set = feature_set
        self._tasks = tasks
        self._methods = methods
        self._limits = [min(n_tasks, slow_tasks) if slow_tasks and m.slow else n_tasks for m in methods]
        self._accuracies = np.full((n_methods, n_tasks), np.nan)
        self._iterations = np.full((n_methods, n_tasks), -1, dtype=np.int64)
        self._right = np.zeros((n_methods, feature_set.n_classes), dtype=np.int64)
        self._asked = np.zeros((n_methods, feature_set.n_classes), dtype=np.int64)
        self._seconds = np.zeros(n_methods)
        self._interrupted = False

    def execute(
        self, progress: Progress | None, partial: bool, threads: int | None, spread: Spread | None = None
    ) -> None:
        """Run every method on every task."""
        total = sum(self._limits)
        work = TaskWork(self._set, self._tasks, self._methods, self._limits)
        rows = work.placed_rows()
        chunks = rows.chunks()
        for number, method in enumerate(self._methods):
            self._seconds[number] += rows.seconds_to_place(method.placement(chunks[0].n_rows))
        share = min(available_threads() if threads is None else threads, len(chunks))
        done = 0
        try:
            answered = (
                over_threads(lambda chunk: work.answers(rows, chunk), chunks, threads)
                if spread is None
                else spread(work, chunks)
            )
            with answered as results:
                for chunk, answers in results:
                    for number, numbers, found, iterations, seconds in answers:
                        self._record(number, numbers, chunk, found, iterations)
                        self._seconds[number] += seconds / share
                        done += len(numbers)
                    if progress is not None:
                        progress(done, total)
        except KeyboardInterrupt:
            if not partial or done == 0:
                raise
            self._interrupted = True

    def evaluation(self, number: int, setting: Setting) -> Evaluation:
        """What one method has found so far."""
        run = ~np.isnan(self._accuracies[number])
        asked = self._asked[number]
        shares = np.divide(self._right[number], asked, out=np.full(len(asked), np.nan), where=asked > 0)
        counted = self._iterations[number][run]
        return Evaluation(
            method=self._methods[number].name,
            setting=setting,
            accuracies=self._accuracies[number][run],
            class_accuracies=shares,
            class_names=self._set.class_names,
            iterations=counted if len(counted) and counted.min() >= 0 else None,
            seconds=float(self._seconds[number]),
            interrupted=self._interrupted,
            numbers=np.flatnonzero(run) if self._interrupted else None,
        )

    def _record(self, number: int, numbers: Ints, chunk: TaskGroup, found: Ints, iterations: Ints | None) -> None:
        _, labels = self._tasks.block(numbers)
        wanted = labels[:, chunk.n_support :]
        known = wanted >= 0
        right = (found == wanted) & known
        # A task without a query of its own classes has nothing to be right about.
        self._accuracies[number, numbers] = right.sum(axis=1) / np.maximum(known.sum(axis=1), 1)
        if iterations is not None:
            self._iterations[number, numbers] = iterations
        classes = np.take_along_axis(self._tasks.classes[numbers], np.maximum(wanted, 0), axis=1)
        n_classes = self._set.n_classes
        self._asked[number] += np.bincount(classes[known], minlength=n_classes)
        self._right[number] += np.bincount(classes[right], minlength=n_classes)


def trace_convergence(
    feature_set: FeatureSet,
    method: Any = "laplacianshot",
    *,
    way: int = 5,
    shot: int | tuple[int, int] = 1,
    query: int = 15,
    tasks: int = 1000,
    seed: int = 0,
    protocol: str = "balanced",
    split: str | None = None,
    alpha: float = 2.0,
    base_mean: BaseMean = None,
    progress: Progress | None = None,
    threads: int | None = None,
) -> Convergence:
    """What a recipe minimizes (F, R or E) after each update of each task.

    Parameters
    ----------
    feature_set : FeatureSet
    method : str or LaplacianShot
        A recipe by name, or an estimator.
    way, shot, query, tasks, seed, protocol, split, alpha, base_mean, progress, threads
        See :func:`~laplacianshot.evaluate`.

    Returns
    -------
    Convergence
    """
    estimator = recipe_of(method, protocol)
    center = center_for(feature_set, base_mean)
    drawn = draw_tasks(
        feature_set,
        protocol,
        way=way,
        shot=shot,
        query=query,
        tasks=tasks,
        seed=seed,
        split=split,
        alpha=alpha,
    )
    recipe = BatchedRecipe(estimator, center, feature_set.dim)
    rows = TaskRows(feature_set, drawn)
    rows.prepare([recipe.placement])

    def work(chunk: TaskGroup) -> tuple[Ints, Floats, Ints]:
        batch = rows.batch(chunk, recipe.placement)
        if batch.grams is None:
            raise ValueError(TOO_FAR)
        solution = recipe.solve(
            batch.grams, batch.support_labels, batch.n_classes, batch.rows, batch.placed, batch.buffers, keep=True
        )
        return chunk.numbers, solution.objective[:, 0], solution.converged[:, 0]

    found = []
    done = 0
    with over_threads(work, rows.chunks(), threads) as parts:
        for part in parts:
            found.append(part)
            done += len(part[0])
            if progress is not None:
                progress(done, len(drawn))
    most = max(int(np.isfinite(objective).sum(axis=1).max()) for _, objective, _ in found)
    objective = np.full((len(drawn), most), np.nan)
    converged = np.zeros(len(drawn), dtype=bool)
    for numbers, values, ended in found:
        width = min(most, values.shape[1])
        objective[numbers, :width] = values[:, :width]
        converged[numbers] = ended
    where = "task" if center is None else "base mean"
    setting = Setting(protocol, drawn.way, shot, query, len(drawn), seed, split, float(alpha), where)
    return Convergence(method_name(method), setting, objective, converged)
