"""Random tasks of all shapes, and the estimator fitted on the same rows as what a batch has to find."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from sklearn.base import clone

from laplacianshot import FeatureSet, LaplacianShot
from laplacianshot.episodes._gram_kernels import BatchSolution
from laplacianshot.episodes.batched import Buffers, GramSource
from laplacianshot.episodes.centers import Centers
from laplacianshot.episodes.runners import RunnableRecipe
from laplacianshot.inference.recipes import RICH_QUERIES

MOST_WORK = 10**15


@dataclass(frozen=True)
class Tasks:
    """B tasks of one shape as rows (B, n) of features (n_rows, D), the support first, labels (B, n_s)."""

    features: Any
    rows: Any
    labels: Any
    n_classes: int

    @property
    def n_support(self) -> int:
        return int(self.labels.shape[1])

    @property
    def n_query(self) -> int:
        return int(self.rows.shape[1]) - self.n_support

    def solve(
        self, estimator: LaplacianShot, base_mean: Any = None, *, whole: bool = False, lams: Any = None
    ) -> BatchSolution:
        """The answer of the batch; ``whole``: from the inner products of the whole set."""
        centers = None
        if base_mean is not None:
            centers = Centers(FeatureSet(self.features, np.zeros(len(self.features), int)), base_mean)
        recipe = RunnableRecipe("recipe", estimator, centers, self.features.shape[1])
        placement = recipe.placement(self.n_support, self.n_query, self.n_classes)
        assert placement is not None
        source = GramSource(self.features, placement, MOST_WORK if whole else 0)
        batch = source.batch(self.rows, self.labels, self.n_classes, Buffers())
        return recipe.solve(batch, lams=lams, keep=lams is None)

    def fit(self, estimator: LaplacianShot, base_mean: Any, task: int, dtype: Any = None) -> LaplacianShot:
        """The estimator fitted on the rows of one task, in another precision if asked for."""
        fitted = in_episodes(estimator)
        if base_mean is not None and fitted.base_mean is None and fitted.get_params()["transform"] == "cl2":
            fitted.set_params(base_mean=base_mean)
        X = self.features[self.rows[task]]
        y = np.concatenate([self.labels[task], np.full(self.n_query, -1)])
        return fitted.fit(X if dtype is None else X.astype(dtype), y)


def in_episodes(estimator: Any) -> Any:
    """A copy with the transform that episodes take: that of vectors, few columns or many."""
    copy = clone(estimator, safe=False)
    if isinstance(copy, LaplacianShot) and copy.get_params()["transform"] == "auto":
        copy.set_params(transform="cl2")
    return copy


def random_tasks(
    rng: np.random.Generator,
    *,
    n_tasks: int = 2,
    n_classes: int | None = None,
    n_query: int | None = None,
    dim: int | None = None,
    dtype: Any = np.float32,
    duplicates: int = 0,
    zeros: int = 0,
    offset: float = 0.0,
    present: int | None = None,
    least_shots: int = 1,
) -> Tasks:
    """Tasks of 2 to 20 classes with 1 to 5 labels each in any order and 1 to 90 queries, of 2 to 100 features.

    With more queries a class tasks are not solved in batches.

    ``duplicates`` rows are equal to another one, ``zeros`` are zero; all are moved by a vector of length ``offset``.
    Queries are of the first ``present`` classes.
    """
    n_classes = int(rng.integers(2, 21)) if n_classes is None else n_classes
    if n_query is None:
        n_query = min(int(rng.choice([1, 2, 3, *rng.integers(4, 91, size=9)])), RICH_QUERIES * n_classes - 1)
    dim = int(rng.integers(2, 101)) if dim is None else dim
    shots = rng.integers(least_shots, 6, size=n_classes)
    n_rows = int(2 * shots.sum() + 2 * n_query)
    codes = np.concatenate([np.repeat(np.arange(n_classes), shots), np.zeros(n_rows - shots.sum(), dtype=np.int64)])
    codes[shots.sum() :] = rng.integers(present or n_classes, size=n_rows - shots.sum())
    features = rng.standard_normal((n_classes, dim))[codes] + rng.choice([0.3, 0.7, 1.5]) * rng.standard_normal(
        (n_rows, dim)
    )
    features[rng.choice(n_rows, duplicates, replace=False)] = features[rng.choice(n_rows, duplicates, replace=False)]
    features[rng.choice(n_rows, zeros, replace=False)] = 0
    direction = rng.standard_normal(dim)
    features = (features + offset * direction / np.linalg.norm(direction)).astype(dtype)
    rows, labels = [], []
    for _ in range(n_tasks):
        support = rng.permutation(
            np.concatenate([rng.permutation(np.flatnonzero(codes == c))[: shots[c]] for c in range(n_classes)])
        )
        left = np.setdiff1d(np.flatnonzero(codes < (present or n_classes)), support)
        rows.append(np.concatenate([support, rng.permutation(left)[:n_query]]))
        labels.append(codes[support])
    return Tasks(features, np.array(rows), np.array(labels, dtype=np.int32), n_classes)


def clustered_set(
    n_classes: int = 12,
    per_class: int = 30,
    *,
    dim: int = 16,
    spread: float = 1.0,
    seed: int = 0,
    dtype: Any = np.float32,
    offset: float = 0.0,
    splits: bool = False,
) -> FeatureSet:
    """Clustered rows in mixed order; with ``splits`` the classes are shared out among base, val and novel."""
    rng = np.random.default_rng(seed)
    codes = rng.permutation(np.repeat(np.arange(n_classes), per_class))
    features = rng.standard_normal((n_classes, dim))[codes] + spread * rng.standard_normal((len(codes), dim)) + offset
    split = np.array(["base", "val", "novel"])[codes * 3 // n_classes] if splits else None
    return FeatureSet(features.astype(dtype), codes, split)


def fitted_by_hand(feature_set: FeatureSet, estimator: Any, task: Any) -> Any:
    """A copy of an estimator fitted on one drawn task."""
    fitted = in_episodes(estimator)
    y = np.concatenate([task.support_labels, np.full(len(task.query), -1)])
    fitted.fit(feature_set.features[np.concatenate([task.support, task.query])], y)
    return fitted


def fit_by_hand(feature_set: FeatureSet, estimator: Any, task: Any) -> Any:
    """Labels that an estimator finds for the queries of one drawn task, (N,)."""
    return fitted_by_hand(feature_set, estimator, task).transduction_[len(task.support) :]
