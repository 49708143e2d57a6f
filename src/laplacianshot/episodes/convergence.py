"""The objective of a recipe, update by update, over many tasks."""

from __future__ import annotations

from typing import Any

import numpy as np

from laplacianshot.datasets.feature_set import FeatureSet
from laplacianshot.episodes.batch import BatchedRecipe
from laplacianshot.episodes.evaluation import BaseMean, center_for
from laplacianshot.episodes.methods import method_name, recipe_of
from laplacianshot.episodes.results import Convergence, Setting
from laplacianshot.episodes.run import TOO_FAR, Chunk, TaskRows, over_threads
from laplacianshot.episodes.tasks import draw_tasks
from laplacianshot.runtime.progress import Progress
from laplacianshot.runtime.types import Floats, Ints


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

    def work(chunk: Chunk) -> tuple[Ints, Floats, Ints]:
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
