"""Evaluate any methods over many tasks, all on the same ones."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, overload

import numpy as np

from laplacianshot.datasets.feature_set import FeatureSet
from laplacianshot.episodes.centers import Centers
from laplacianshot.episodes.results import Convergence, Evaluation, Evaluations, Setting
from laplacianshot.episodes.runners import (
    Answer,
    Runnable,
    RunnableRecipe,
    TaskRunner,
    method_name,
    over_threads,
    recipe_of,
    runnables,
)
from laplacianshot.episodes.tasks import INAT_LEAKING, Tasks, draw_tasks
from laplacianshot.runtime.extras import open_engine
from laplacianshot.runtime.progress import Progress
from laplacianshot.runtime.threads import available_threads
from laplacianshot.runtime.types import Floats, Ints

if TYPE_CHECKING:
    from laplacianshot.training.config import TrainConfig


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
    present: int | None = None,
    total_queries: int | None = None,
    base_mean: Any = None,
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
    present : int, optional
        With ``protocol="present"``: classes that occur among the queries, of the ``way`` that have labels.
    total_queries : int, optional
        Queries per task with ``protocol="present"`` and ``"dirichlet"`` (default: ``way * query``).
    base_mean : array of shape (D,), FeatureSet, "task" or None
        What CL2 takes away, for every method without a center of its own: a vector; the mean of another set (its split
        ``base`` if it has one, else all rows), for cross-domain tasks; nothing but what each task has (``"task"``); or,
        for None, the mean of the set's own split ``base`` if it has one. A default recipe with ``transform="auto"``
        takes ``power`` where no feature of the set is negative, about the mean of the base rows' unit roots; with a
        vector, and for all other sets, it takes CL2.
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
        Address of the cluster; see :func:`~laplacianshot.ray.connected`.

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
    drawn, centers, setting = draw_setting(
        feature_set, base_mean, protocol,
        way=way, shot=shot, query=query, tasks=tasks, seed=seed, split=split, alpha=alpha,
        present=present, total_queries=total_queries,
    )  # fmt: skip
    methods = runnables(method, centers, feature_set.dim, leaking=protocol == INAT_LEAKING)
    runner = TaskRunner(feature_set, drawn, methods, slow_tasks).prepare()
    tallies = [_Tally(one, drawn, feature_set, runner.seconds_to_prepare(one)) for one in methods]
    share = min(available_threads() if threads is None else threads, len(runner.chunks))
    done, interrupted = 0, False
    try:
        answered = (
            over_threads(runner.answers, runner.chunks, threads)
            if elsewhere is None
            else elsewhere.spread(runner, runner.chunks)
        )
        with answered as results:
            for answers in results:
                for answer in answers:
                    tallies[answer.method].add(answer, share)
                    done += len(answer.numbers)
                if progress is not None:
                    progress(done, sum(runner.limits))
    except KeyboardInterrupt:
        if not partial or done == 0:
            raise
        interrupted = True
    found = tuple(tally.evaluation(setting, interrupted) for tally in tallies)
    return Evaluations(found) if isinstance(method, (list, tuple, Mapping)) else found[0]


class _Tally:
    """Results of one method as they come in."""

    def __init__(self, method: Runnable, tasks: Tasks, feature_set: FeatureSet, seconds: float) -> None:
        self._method, self._tasks, self._set, self._seconds = method, tasks, feature_set, seconds
        self._accuracies = np.full(len(tasks), np.nan)
        self._iterations = np.full(len(tasks), -1, dtype=np.int64)
        self._right = np.zeros(feature_set.n_classes, dtype=np.int64)
        self._asked = np.zeros(feature_set.n_classes, dtype=np.int64)

    def add(self, answer: Answer, threads: int) -> None:
        """Count the right labels of some tasks, which ran on one of ``threads`` threads."""
        numbers, found = answer.numbers, answer.found
        labels = self._tasks.block(numbers)[1]
        truth = labels[:, labels.shape[1] - found.shape[1] :]
        known = truth >= 0
        right = (found == truth) & known
        self._accuracies[numbers] = accuracy_of(found, truth)
        if answer.iterations is not None:
            self._iterations[numbers] = answer.iterations
        classes = np.take_along_axis(self._tasks.classes[numbers], np.maximum(truth, 0), axis=1)
        self._asked += np.bincount(classes[known], minlength=len(self._asked))
        self._right += np.bincount(classes[right], minlength=len(self._asked))
        self._seconds += answer.seconds / threads

    def evaluation(self, setting: Setting, interrupted: bool) -> Evaluation:
        """What the method has found so far."""
        run = ~np.isnan(self._accuracies)
        asked, counted = self._asked, self._iterations[run]
        return Evaluation(
            method=self._method.name,
            setting=setting,
            accuracies=self._accuracies[run],
            class_accuracies=np.divide(self._right, asked, out=np.full(len(asked), np.nan), where=asked > 0),
            class_names=self._set.class_names,
            iterations=counted if len(counted) and counted.min() >= 0 else None,
            seconds=float(self._seconds),
            interrupted=interrupted,
            numbers=np.flatnonzero(run) if interrupted else None,
        )


def accuracy_of(found: Ints, truth: Ints) -> Floats:
    """Share of right labels along the last axis; queries of classes outside the task (-1) do not count."""
    known = truth >= 0
    # A task without a query of its own classes has nothing to be right about.
    shares: Floats = ((found == truth) & known).sum(axis=-1) / np.maximum(known.sum(axis=-1), 1)
    return shares


def draw_setting(feature_set: FeatureSet, base_mean: Any, protocol: str, **task: Any) -> tuple[Tasks, Centers, Setting]:
    """The tasks of :func:`~laplacianshot.episodes.draw_tasks`, their centers, and what to call both."""
    drawn, centers = draw_tasks(feature_set, protocol, **task), Centers(feature_set, base_mean)
    known = {"way": drawn.way, "tasks": len(drawn), "center": "task" if centers.of("cl2") is None else "base mean"}
    return drawn, centers, Setting(protocol, **task | known)


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


def trace_convergence(
    feature_set: FeatureSet,
    method: Any = "laplacianshot",
    *,
    protocol: str = "balanced",
    tasks: int = 1000,
    base_mean: Any = None,
    progress: Progress | None = None,
    threads: int | None = None,
    **task: Any,
) -> Convergence:
    """What a recipe minimizes (F, R or E) after each update of each task.

    Parameters
    ----------
    feature_set : FeatureSet
    method : str or LaplacianShot
        A recipe by name, or an estimator.
    protocol, tasks, base_mean, progress, threads, **task
        See :func:`~laplacianshot.evaluate`; ``task`` holds way, shot, query, seed, split, alpha,
        present and total_queries.

    Returns
    -------
    Convergence
    """
    estimator = recipe_of(method, protocol)
    drawn, centers, setting = draw_setting(feature_set, base_mean, protocol, tasks=tasks, **task)
    recipe = RunnableRecipe(method_name(method), estimator, centers, feature_set.dim)
    runner = TaskRunner(feature_set, drawn, [recipe]).prepare()
    found = list(runner.solutions(recipe, threads, progress, keep=True))
    updates = max(int(solution.iterations.max()) for _, solution in found)
    objective = np.full((len(drawn), updates), np.nan)
    converged = np.zeros(len(drawn), dtype=bool)
    for chunk, solution in found:
        width = min(updates, solution.objective.shape[2])
        objective[chunk.numbers, :width] = solution.objective[:, 0, :width]
        converged[chunk.numbers] = solution.converged[:, 0]
    return Convergence(recipe.name, setting, objective, converged)
