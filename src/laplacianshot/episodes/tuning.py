"""Lambda and k chosen on paired tasks of classes that the test tasks never see."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from enum import Enum
from time import perf_counter
from typing import Any

import numpy as np
from sklearn.base import clone

from laplacianshot.datasets.feature_set import FeatureSet, check_split_name
from laplacianshot.episodes.evaluation import accuracy_of, draw_setting
from laplacianshot.episodes.results import Tuning
from laplacianshot.episodes.runners import RunnableRecipe, TaskRunner, method_name, recipe_of
from laplacianshot.episodes.tasks import Tasks, draw_tasks
from laplacianshot.inference.bound import check_lam
from laplacianshot.runtime.progress import Progress
from laplacianshot.runtime.types import Floats

# The paper's grids.
LAMS = (0.1, 0.3, 0.5, 0.7, 0.8, 1.0, 1.2, 1.5)
NEIGHBORS = (3, 5, 10)

NO_SPLITS = "the {} has no splits: all rows choose, so do not report accuracies on them as test accuracies."


class _Usual(Enum):
    """In place of an argument that was not given, where None has a meaning of its own."""

    SPLIT = "usual"

    def __repr__(self) -> str:
        return "<usual>"


def tune(
    feature_set: FeatureSet,
    method: Any = "laplacianshot-reference",
    *,
    way: int = 5,
    shot: int | tuple[int, int] = 1,
    query: int = 15,
    tasks: int = 500,
    seed: int = 0,
    protocol: str = "balanced",
    lams: Sequence[float] = LAMS,
    neighbors: Sequence[int] = NEIGHBORS,
    split: str | _Usual | None = _Usual.SPLIT,
    neighbor_split: str | _Usual | None = _Usual.SPLIT,
    alpha: float = 2.0,
    present: int | None = None,
    total_queries: int | None = None,
    base_mean: Any = None,
    progress: Progress | None = None,
    threads: int | None = None,
) -> Tuning:
    """The best lambda and k of a recipe.

    k is chosen on ``neighbor_split``, each k at its own best lambda; then lambda on ``split`` at that k. All values see
    the same tasks. The graph and the unary terms of a task are computed once for the whole grid of lambda, and eight
    lambdas are updated together. Where a split has too few classes, pass another; both may be the same.

    Parameters
    ----------
    feature_set : FeatureSet
    method : str or LaplacianShot
        ``laplacianshot-reference``, ``laplacianshot-paper``, ``laplacianshot``, or an estimator.
    way, shot, query, tasks, seed, protocol, alpha, present, total_queries
        See :func:`~laplacianshot.episodes.draw_tasks`.
    lams : sequence of float
    neighbors : sequence of int
        As the recipe counts them: with the row itself for ``reference``. One value: nothing to choose.
    split : str or None, default "val"
        Where lambda is chosen; None: all rows. Not given for a set without splits: all rows, with a warning, as
        accuracies on them are then no test accuracies.
    neighbor_split : str or None, default "base"
        Where k is chosen; None: all rows. Not given and no such split: where lambda is.
    base_mean
        See :func:`~laplacianshot.evaluate`.
    progress : callable, optional
        ``progress(done, total)`` is called with numbers of tasks.
    threads : int, optional

    Returns
    -------
    Tuning
    """
    estimator = recipe_of(method, protocol)
    grid = np.array([check_lam(lam) for lam in lams])
    counts = np.array(list(neighbors))
    if grid.size == 0 or counts.size == 0:
        raise ValueError("lams and neighbors must each have at least one value.")
    if counts.dtype.kind not in "iu" or counts.min() < 1:
        raise ValueError(f"neighbors must be integers of at least 1, got {list(neighbors)}.")
    start = perf_counter()
    task: dict[str, Any] = {"way": way, "shot": shot, "query": query, "tasks": tasks, "seed": seed, "alpha": alpha}
    task |= {"present": present, "total_queries": total_queries}
    several = len(counts) > 1
    split, neighbor_split = _splits(feature_set, split, neighbor_split if several else None)
    drawn, centers, setting = draw_setting(feature_set, base_mean, protocol, split=split, **task)
    runs, done = len(counts) * several + 1, 0

    def run(tasks: Tasks, k: int) -> Floats:
        """Accuracy of each lambda on each task at this k, (L, T)."""
        nonlocal done
        chosen = clone(estimator).set_params(n_neighbors=int(k))
        recipe = RunnableRecipe(method_name(estimator), chosen, centers, feature_set.dim)
        accuracies = np.zeros((len(grid), len(tasks)))
        solutions = TaskRunner(feature_set, tasks, [recipe]).prepare().solutions(recipe, threads, None, lams=grid)
        for chunk, solution in solutions:
            truth = tasks.block(chunk.numbers)[1][:, None, chunk.n_support :]
            accuracies[:, chunk.numbers] = accuracy_of(solution.found, truth).T
            done += len(chunk.numbers)
            if progress is not None:
                progress(done, len(drawn) * runs)
        return accuracies

    if several:
        others = draw_tasks(feature_set, protocol, split=neighbor_split, **task)
        by_neighbors = np.stack([run(others, k) for k in counts])
        best = int(counts[by_neighbors.mean(axis=2).max(axis=1).argmax()])
    else:
        best = int(counts[0])
    accuracies = run(drawn, best)
    return Tuning(
        lam=float(grid[accuracies.mean(axis=1).argmax()]),
        n_neighbors=best,
        lams=grid,
        neighbors=counts,
        lam_accuracies=accuracies,
        neighbor_accuracies=by_neighbors if several else accuracies[None],
        setting=setting,
        lam_split=split,
        neighbor_split=neighbor_split if several else split,
        seconds=perf_counter() - start,
    )


def _splits(
    feature_set: FeatureSet, split: str | _Usual | None, neighbor_split: str | _Usual | None
) -> tuple[str | None, str | None]:
    """Where lambda and where k are chosen."""
    there = feature_set.splits
    if isinstance(split, _Usual):
        if there and "val" not in there:
            raise ValueError(f"split was not given and the set has no split 'val'; name one of {', '.join(there)}.")
        split = "val" if there else None
        if split is None:
            warnings.warn(NO_SPLITS.format("set"), stacklevel=3)
    elif split is not None:
        check_split_name(split, there)
    if isinstance(neighbor_split, _Usual):
        neighbor_split = "base" if "base" in there else split
    elif neighbor_split is not None:
        check_split_name(neighbor_split, there, "neighbor_split")
    return split, neighbor_split
