"""How each method runs over batches of tasks, and batches over threads."""

from __future__ import annotations

import threading
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, replace
from numbers import Integral
from time import perf_counter
from typing import Any

import numpy as np
from sklearn.base import clone
from threadpoolctl import threadpool_limits

from laplacianshot.baselines import Baseline, TransductiveClassifier
from laplacianshot.baselines.contract import BatchedBaseline, TaskBatch, best_classes
from laplacianshot.datasets.feature_set import FeatureSet
from laplacianshot.episodes.batched import BatchedRecipe, Buffers, GramSource, Placement
from laplacianshot.episodes.methods import METHODS, make_method
from laplacianshot.episodes.tasks import INAT_LEAKING, TaskGroup, Tasks
from laplacianshot.estimator import LaplacianShot, center_of
from laplacianshot.inference.affinity import knn_affinity
from laplacianshot.inference.labels import UNLABELED
from laplacianshot.inference.recipes import PUBLISHED_NEIGHBORS
from laplacianshot.inference.transforms import transform_features
from laplacianshot.runtime.threads import Prefetch, available_threads, row_blocks, single_threaded_blas
from laplacianshot.runtime.types import Floats, Ints, Labels

# Beyond this many rows a task is no longer a small matrix: it is fitted on its features.
_MAX_RECIPE_ROWS = 1200
_MAX_BASELINE_ROWS = 6000


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
        return self.recipe.placement if n_rows <= _MAX_RECIPE_ROWS else None

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
        if n_rows > _MAX_BASELINE_ROWS:
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
            # What is not a scikit-learn estimator is copied deeply.
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
            f"{labels.ravel()[:3]}; must be a label of y for each row, shape ({n_rows},)."
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
        center = center_of(fitted, X, codes, int(labels.max()) + 1)
        nodes = transform_features(X, fitted.get_params()["transform"], center)
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
        return make_method(value)
    if not callable(getattr(value, "fit", None)) or isinstance(value, type):
        raise TypeError(
            f"method must be a name ({', '.join(METHODS)}) or an estimator with fit and transduction_, got {value!r}."
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


# Inner products of a batch stay in cache, and a batch is worth a thread.
_BATCH_BYTES = 4 * 2**20
_MAX_TASKS = 64

# Where only a batch will do.
TOO_FAR = (
    "the features lie too far from zero, and too close together, for float32 inner products; subtract their mean, or "
    "use transform='cl2' with a base mean among them."
)


class TaskRows:
    """The rows that tasks use, and their inner products at any placement.

    Parameters
    ----------
    feature_set : FeatureSet
    tasks : Tasks
    """

    def __init__(self, feature_set: FeatureSet, tasks: Tasks) -> None:
        self.tasks = tasks
        used = np.zeros(feature_set.n_rows, dtype=bool)
        used[tasks.rows] = True
        self._place = np.cumsum(used) - 1
        self.features: Floats = np.ascontiguousarray(feature_set.features[used])
        self._work = int(np.square(np.diff(tasks.offsets).astype(np.float64)).sum())
        self._sources: dict[Placement, GramSource] = {}
        self._seconds: dict[Placement, float] = {}
        self._local = threading.local()

    def prepare(self, placements: Sequence[Placement | None]) -> None:
        """Place the rows once for each placement."""
        for placement in placements:
            if placement is not None and placement not in self._sources:
                start = perf_counter()
                self._sources[placement] = GramSource(self.features, placement, self._work)
                self._seconds[placement] = perf_counter() - start

    def seconds_to_place(self, placement: Placement | None) -> float:
        """Time that :meth:`prepare` took for a placement."""
        return 0.0 if placement is None else self._seconds[placement]

    def chunks(self) -> list[TaskGroup]:
        """All tasks in batches of one shape."""
        result: list[TaskGroup] = []
        for shape in self.tasks.shapes():
            n_rows = shape.n_rows
            size = max(1, min(_MAX_TASKS, _BATCH_BYTES // (4 * n_rows * n_rows)))
            parts = row_blocks(len(shape.numbers), size)
            result += [shape._replace(numbers=shape.numbers[start:stop]) for start, stop in parts]
        # In the order of their first task, so that what has been run is nearly a run of tasks from the first on.
        return sorted(result, key=lambda chunk: int(chunk.numbers[0]))

    def batch(self, chunk: TaskGroup, placement: Placement | None) -> Batch:
        """The tasks of a chunk as a method at this placement sees them; inner products last until the next call.

        There are none without a placement, nor where they would be blunt (:attr:`GramSource.sharp`).
        """
        rows, labels = self.tasks.block(chunk.numbers)
        rows = self._place[rows]
        buffers = self._buffers()
        grams = None
        placed = self.features[:, :0]
        source = None if placement is None else self._sources[placement]
        if source is not None and source.sharp:
            grams = buffers.take("grams", (len(rows), chunk.n_rows, chunk.n_rows))
            support = np.ascontiguousarray(labels[:, : chunk.n_support])
            source.fill(rows, support, self.tasks.way, grams, buffers)
            placed = source.rows
        return Batch(rows, labels, chunk.n_support, self.tasks.way, self.features, grams, placed, buffers)

    def _buffers(self) -> Buffers:
        held: Buffers | None = getattr(self._local, "buffers", None)
        if held is None:
            held = self._local.buffers = Buffers()
        return held


@contextmanager
def over_threads(
    work: Callable[[TaskGroup], Any], chunks: Sequence[TaskGroup], threads: int | None
) -> Iterator[Iterator[Any]]:
    """A context with ``work(chunk)`` of every chunk, in order, on threads with BLAS and OpenMP held to one.

    After an exception, KeyboardInterrupt among them, chunks not yet begun are dropped and those begun are waited for.
    """
    count = available_threads() if threads is None else threads
    if count < 1:
        raise ValueError(f"threads must be at least 1, got {threads}.")
    # A task that is all alone may have the threads of OpenMP; small ones would wait for them on a busy machine.
    alone = count > 1 and len(chunks) == 1 and len(chunks[0].numbers) == 1
    with single_threaded_blas(), nullcontext() if alone else threadpool_limits(1, user_api="openmp"):
        if count == 1 or len(chunks) == 1:
            yield map(work, chunks)
            return
        # A few ahead of the threads, not all: results are taken as they come and Ctrl-C drops little.
        with Prefetch(work, chunks, count, 3 * count) as results:
            yield results
