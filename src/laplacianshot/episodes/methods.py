"""What can be evaluated: names, estimators and baselines, and how each of them runs over tasks."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from numbers import Integral
from typing import Any

import numpy as np
from sklearn.base import clone

from laplacianshot.baselines import BASELINES, Baseline, TransductiveClassifier, baseline
from laplacianshot.baselines.batch import TaskBatch
from laplacianshot.baselines.contract import BatchedBaseline, best_classes
from laplacianshot.episodes.batch import BatchedRecipe, Placement
from laplacianshot.episodes.batch.grams import Buffers
from laplacianshot.episodes.tasks import INAT_LEAKING
from laplacianshot.estimator import LaplacianShot
from laplacianshot.inference.affinity import knn_affinity
from laplacianshot.inference.labels import UNLABELED
from laplacianshot.inference.recipes import PUBLISHED_NEIGHBORS
from laplacianshot.inference.transforms import transform_features
from laplacianshot.runtime.types import Floats, Ints, Labels

# Beyond this many rows a task is no longer a small matrix: it is fitted on its features.
_LARGEST_RECIPE = 1200
_LARGEST_BASELINE = 6000


@dataclass(frozen=True)
class BatchAnswer:
    """Classes found for B tasks (B, N), and the updates each took (B,) where the method counts them."""

    found: Ints
    iterations: Ints | None = None


@dataclass(frozen=True)
class Batch:
    """B tasks of one shape as a method sees them.

    Attributes
    ----------
    rows : int array of shape (B, n)
        Rows of ``features``, the support first.
    labels : int array of shape (B, n)
        Classes within the task; a method looks at those of the support only.
    n_support, n_classes : int
    features : array of shape (n_rows, D)
        As they were given.
    grams : array of shape (B, n, n) or None
        Inner products at the method's placement.
    placed : array of shape (n_rows, D), or with no column
        What settles ties there, :attr:`GramSource.rows`.
    buffers : Buffers
    """

    rows: Ints
    labels: Ints
    n_support: int
    n_classes: int
    features: Floats
    grams: Floats | None
    placed: Floats
    buffers: Buffers

    def first(self, count: int) -> Batch:
        """The first tasks of the batch."""
        grams = None if self.grams is None else self.grams[:count]
        return replace(self, rows=self.rows[:count], labels=self.labels[:count], grams=grams)

    @property
    def support_labels(self) -> Ints:
        """Labels of the support, (B, n_s)."""
        return np.ascontiguousarray(self.labels[:, : self.n_support])


class Runnable(ABC):
    """A method ready to run over tasks of one set.

    Attributes
    ----------
    name : str
    slow : bool
    """

    name: str
    slow: bool = False

    def placement(self, n_rows: int) -> Placement | None:
        """Where it wants inner products of tasks with ``n_rows`` rows; None: it wants features."""
        return None

    @abstractmethod
    def answer(self, batch: Batch) -> BatchAnswer:
        """Label the queries of B tasks."""


class RunnableRecipe(Runnable):
    """LaplacianShot, compiled over batches."""

    def __init__(self, name: str, estimator: LaplacianShot, base_mean: Floats | None, n_features: int) -> None:
        self.name = name
        self.recipe = BatchedRecipe(estimator, base_mean, n_features)
        self._fitted = RunnableEstimator(name, estimator, base_mean)

    def placement(self, n_rows: int) -> Placement | None:
        """The recipe's, up to the size at which a task is better fitted on its features."""
        return self.recipe.placement if n_rows <= _LARGEST_RECIPE else None

    def answer(self, batch: Batch) -> BatchAnswer:
        """Label the queries of B tasks."""
        if batch.grams is None:
            return self._fitted.answer(batch)
        solution = self.recipe.solve(
            batch.grams, batch.support_labels, batch.n_classes, batch.rows, batch.placed, batch.buffers
        )
        return BatchAnswer(solution.found[:, 0], solution.iterations[:, 0])


class RunnableBaseline(Runnable):
    """A baseline that scores batches."""

    def __init__(self, name: str, estimator: BatchedBaseline, base_mean: Floats | None) -> None:
        self.name = name
        self.slow = estimator.slow
        self._estimator = _about(estimator, "center", base_mean)
        self._fitted = RunnableEstimator(name, estimator, base_mean)

    def placement(self, n_rows: int) -> Placement | None:
        """The baseline's, up to the size at which a task is better fitted on its features."""
        if n_rows > _LARGEST_BASELINE:
            return None
        return Placement.about(self._estimator.space, self._estimator.center)

    def answer(self, batch: Batch) -> BatchAnswer:
        """Label the queries of B tasks."""
        if batch.grams is None:
            return self._fitted.answer(batch)
        tasks = TaskBatch(batch.grams, batch.support_labels, batch.n_classes)
        return BatchAnswer(best_classes(self._estimator.scores(tasks), tasks, self.name))


class RunnableEstimator(Runnable):
    """Anything with ``fit`` and ``transduction_``, fitted task by task on the features."""

    def __init__(self, name: str, estimator: TransductiveClassifier, base_mean: Floats | None) -> None:
        self.name = name
        self.slow = bool(getattr(estimator, "slow", False))
        self._estimator = estimator
        if isinstance(estimator, LaplacianShot) and estimator.get_params()["transform"] == "cl2":
            self._estimator = _about(estimator, "base_mean", base_mean)
        elif isinstance(estimator, Baseline) and hasattr(estimator, "center"):
            self._estimator = _about(estimator, "center", base_mean)

    def answer(self, batch: Batch) -> BatchAnswer:
        """Label the queries of B tasks, one after the other."""
        found = np.empty((len(batch.rows), batch.rows.shape[1] - batch.n_support), dtype=np.int64)
        iterations = np.zeros(len(batch.rows), dtype=np.int64)
        for b, (rows, labels) in enumerate(zip(batch.rows, batch.labels, strict=True)):
            # What is no scikit-learn estimator is copied deeply.
            fitted: Any = clone(self._estimator, safe=False)
            self._fit(fitted, batch.features[rows], labels, batch.n_support)
            found[b] = self._labels(fitted.transduction_, len(rows))[batch.n_support :]
            count = getattr(fitted, "n_iter_", None)
            iterations[b] = count if isinstance(count, Integral) else -1
        return BatchAnswer(found, iterations if iterations.min() >= 0 else None)

    def _labels(self, found: Any, n_rows: int) -> Labels:
        labels: Labels = np.asarray(found)
        if labels.shape == (n_rows,) and labels.dtype.kind in "biuf" and np.isfinite(labels).all():
            return labels
        raise ValueError(
            f"{self.name}: transduction_ has shape {labels.shape} and dtype {labels.dtype}, such as "
            f"{labels.ravel()[:3]}; a label of y for each row, shape ({n_rows},), is wanted."
        )

    def _fit(self, fitted: Any, X: Floats, labels: Ints, n_support: int) -> None:
        given = labels.astype(np.int64)
        given[n_support:] = UNLABELED
        fitted.fit(X, given)


class LeakingRecipe(RunnableEstimator):
    """The authors' iNat script: a query has neighbors among the queries of its own class only.

    The graph is built from the labels that are to be found. It exists to show the size of that effect, and for the
    protocol ``inat-leaking-labels`` alone.
    """

    def _fit(self, fitted: Any, X: Floats, labels: Ints, n_support: int) -> None:
        from scipy.sparse import coo_array

        k = PUBLISHED_NEIGHBORS if fitted.n_neighbors is None else fitted.n_neighbors
        k -= fitted.recipe == "reference"
        codes = np.where(np.arange(len(X)) < n_support, labels, UNLABELED)
        nodes = transform_features(X, fitted._transform, fitted._choices.center(X, codes, int(labels.max()) + 1))
        sources, targets = [np.empty(0, dtype=np.int64)], [np.empty(0, dtype=np.int64)]
        for c in np.unique(labels[n_support:]):
            members = n_support + np.flatnonzero(labels[n_support:] == c)
            graph = knn_affinity(nodes[members], k, symmetry="directed").tocoo()
            sources.append(members[graph.row])
            targets.append(members[graph.col])
        ends = (np.concatenate(sources), np.concatenate(targets))
        leaking = coo_array((np.ones(len(ends[0]), dtype=nodes.dtype), ends), shape=(len(X), len(X))).tocsr()
        super()._fit(fitted.set_params(graph=leaking), X, labels, n_support)


def runnables(
    method: Any, base_mean: Floats | None, n_features: int, *, leaking: bool = False
) -> tuple[list[Runnable], bool]:
    """Methods ready to run, and whether there was but one.

    Parameters
    ----------
    method : str, estimator, or a sequence of them, or a mapping of names to estimators
    base_mean : array of shape (D,) or None
    n_features : int
    leaking : bool
        Every method must be a recipe with a graph of its own choosing (:class:`LeakingRecipe`).
    """
    single = not isinstance(method, (list, tuple, Mapping))
    if isinstance(method, Mapping):
        named = [(str(name), _estimator(value)) for name, value in method.items()]
    else:
        values: Sequence[Any] = [method] if single else method
        named = _unique([(method_name(value), _estimator(value)) for value in values])
    if not named:
        raise ValueError("method must name at least one method.")
    if leaking:
        for name, estimator in named:
            if not isinstance(estimator, LaplacianShot) or estimator.recipe == "default":
                raise ValueError(f"protocol {INAT_LEAKING!r} is for LaplacianShot.paper and .reference, not {name}.")
        return [LeakingRecipe(name, estimator, base_mean) for name, estimator in named], single
    return [_runnable(name, estimator, base_mean, n_features) for name, estimator in named], single


def _runnable(name: str, estimator: Any, base_mean: Floats | None, n_features: int) -> Runnable:
    if isinstance(estimator, LaplacianShot) and isinstance(estimator.graph, str):
        return RunnableRecipe(name, estimator, base_mean, n_features)
    if isinstance(estimator, BatchedBaseline):
        return RunnableBaseline(name, estimator, base_mean)
    return RunnableEstimator(name, estimator, base_mean)


def _estimator(value: Any) -> Any:
    if isinstance(value, str):
        return baseline(value)
    if not callable(getattr(value, "fit", None)) or isinstance(value, type):
        raise TypeError(
            f"method must be a name ({', '.join(BASELINES)}) or an estimator with fit and transduction_, got {value!r}."
        )
    return value


def recipe_of(method: Any, protocol: str) -> LaplacianShot:
    """A recipe by name or as an estimator, with a graph that it finds itself; no protocol may give it one."""
    if protocol == INAT_LEAKING:
        raise ValueError(f"protocol {INAT_LEAKING!r} is for evaluate alone: its graph looks at the labels to be found.")
    estimator = _estimator(method)
    if not isinstance(estimator, LaplacianShot) or not isinstance(estimator.graph, str):
        raise TypeError(f"method must be a LaplacianShot with graph='auto', or the name of one, got {method!r}.")
    return estimator


def method_name(value: Any) -> str:
    """What a table calls a method."""
    if isinstance(value, str):
        return value
    if isinstance(value, LaplacianShot):
        kind = "balanced" if value.balanced else value.recipe
        return "laplacianshot" if kind == "default" else f"laplacianshot-{kind}"
    return type(value).__name__


def _unique(named: list[tuple[str, Any]]) -> list[tuple[str, Any]]:
    """Names with a number where they occur again."""
    seen: dict[str, int] = {}
    result = []
    for name, value in named:
        seen[name] = seen.get(name, 0) + 1
        result.append((name if seen[name] == 1 else f"{name} ({seen[name]})", value))
    return result


def _about(estimator: Any, parameter: str, base_mean: Floats | None) -> Any:
    """The estimator with the base mean as its center, unless it has a center of its own or there is no base mean."""
    own = estimator.get_params()[parameter]
    # A baseline is made with the center "pooled"; in a recipe that is somebody's choice.
    made_so = isinstance(own, str) and own == "pooled" and parameter == "center"
    if base_mean is None or not (own is None or made_so):
        return estimator
    return clone(estimator).set_params(**{parameter: base_mean})
