"""How each method runs over tasks: in batches or task by task, and on all threads."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from numbers import Integral
from time import perf_counter
from typing import Any, NamedTuple, Self

import numpy as np
from scipy.sparse import block_diag, coo_array
from sklearn.base import clone
from threadpoolctl import threadpool_limits

from laplacianshot.baselines.contract import Baseline, BatchedBaseline, TransductiveClassifier, best_classes
from laplacianshot.datasets.feature_set import FeatureSet
from laplacianshot.episodes._bound_kernels import UpdateScratch, bound_terms, bound_updates
from laplacianshot.episodes._gram_kernels import BatchSolution
from laplacianshot.episodes._joint_kernels import JointScratch, joint_tasks
from laplacianshot.episodes.batched import Batch, Buffers, GramSource, Placement
from laplacianshot.episodes.centers import Centers
from laplacianshot.episodes.methods import METHODS, make_method
from laplacianshot.episodes.tasks import INAT_LEAKING, TaskGroup, Tasks
from laplacianshot.estimator import LaplacianShot, center_of, check_parameters, is_balanced
from laplacianshot.inference.affinity import knn_affinity, neighbor_affinity, psd_shift
from laplacianshot.inference.bound import PAPER_MAX_ITER, REFERENCE_MAX_ITER
from laplacianshot.inference.episode import Stages
from laplacianshot.inference.joint import hold_weight
from laplacianshot.inference.labels import UNLABELED
from laplacianshot.inference.prototypes import PAPER_TEMPERATURE, REFERENCE_TEMPERATURE
from laplacianshot.inference.recipes import (
    ABSENCE,
    EPISODE_ROWS,
    MIN_CONFIDENCE,
    PUBLISHED_LAM,
    PUBLISHED_NEIGHBORS,
    DefaultConstants,
    is_episode,
    is_rich,
    ridge_share,
)
from laplacianshot.inference.transforms import given_center, transform_features
from laplacianshot.neighbors.types import Neighbors
from laplacianshot.runtime.progress import Progress
from laplacianshot.runtime.threads import Prefetch, available_threads, row_blocks, single_threaded_blas
from laplacianshot.runtime.types import CENTERED, Floats, Ints, Labels

# Beyond this many rows a task is no longer a small matrix: it is fitted on its features.
_MAX_RECIPE_ROWS = EPISODE_ROWS
_MAX_BASELINE_ROWS = 6000
# Up to this many queries the smallest eigenvalue comes from a dense decomposition, as in psd_shift.
_DENSE_NODES = 256
# Inner products of a batch stay in cache, and a batch is worth a thread.
_BATCH_BYTES = 4 * 2**20
_MAX_TASKS = 64


class Runnable:
    """A method ready to run over tasks of one set, fitted on the features of one task after the other.

    An estimator that has no center of its own gets that of the set (default: each task has its own).
    """

    def __init__(self, name: str, estimator: TransductiveClassifier, centers: Centers | None) -> None:
        self.name = name
        self.slow = bool(getattr(estimator, "slow", False))
        self._estimator: Any = _about(estimator, centers)

    def placement(self, n_support: int, n_query: int, n_classes: int) -> Placement | None:
        """Where the method needs inner products of tasks of this shape; None: it needs features."""
        return None

    def answer(self, batch: Batch) -> tuple[Ints, Ints | None]:
        """Classes of the queries of B tasks, (B, N), and the updates that each task took, (B,), if they are counted."""
        raise NotImplementedError(f"{self.name} has no placement.")

    def fit_each(self, features: Floats, labels: Ints, n_support: int) -> tuple[Ints, Ints | None]:
        """The same from features (B, n, D) and labels (B, n); only those of the support are shown to the method."""
        found = np.empty((len(labels), labels.shape[1] - n_support), dtype=np.int64)
        iterations = np.zeros(len(labels), dtype=np.int64)
        for b, X in enumerate(features):
            # What is not a scikit-learn estimator is copied deeply.
            fitted: Any = clone(self._estimator, safe=False)
            self._fit(fitted, X, labels[b], n_support)
            found[b] = self._checked(fitted.transduction_, len(X))[n_support:]
            count = getattr(fitted, "n_iter_", None)
            iterations[b] = count if isinstance(count, Integral) else -1
        return found, iterations if iterations.min() >= 0 else None

    def _fit(self, fitted: Any, X: Floats, labels: Ints, n_support: int) -> None:
        given = labels.astype(np.int64)
        given[n_support:] = UNLABELED
        fitted.fit(X, given)

    def _checked(self, found: Any, n_rows: int) -> Labels:
        labels: Labels = np.asarray(found)
        if labels.shape == (n_rows,) and labels.dtype.kind in "biuf" and np.isfinite(labels).all():
            return labels
        raise ValueError(
            f"{self.name}: transduction_ has shape {labels.shape} and dtype {labels.dtype}, such as "
            f"{labels.ravel()[:3]}; must be a label of y for each row, shape ({n_rows},)."
        )


class _RunnableBaseline(Runnable):
    """A baseline that scores batches."""

    def placement(self, n_support: int, n_query: int, n_classes: int) -> Placement | None:
        """The baseline's, up to the size at which a task is better fitted on its features."""
        if n_support + n_query > _MAX_BASELINE_ROWS:
            return None
        return Placement.about(self._estimator.space, self._estimator.center)

    def answer(self, batch: Batch) -> tuple[Ints, Ints | None]:
        """The classes with the best scores."""
        return best_classes(self._estimator.scores(batch), batch, self.name), None


class RunnableRecipe(Runnable):
    """A :class:`~laplacianshot.LaplacianShot` with ``graph="auto"``, compiled over batches of tasks of one shape."""

    def __init__(self, name: str, estimator: LaplacianShot, centers: Centers | None, n_features: int) -> None:
        check_parameters(estimator)
        super().__init__(name, estimator, centers)
        self._transform = self._estimator.get_params()["transform"]
        center: Any = self._estimator.base_mean
        if center is None and self._transform in CENTERED:
            center = "blended" if estimator.recipe == "default" and not is_balanced(estimator) else "pooled"
        elif not (center is None or isinstance(center, str)):
            center = given_center(center, n_features, self._transform)
        # Rectification looks at angles, which change as rows are moved.
        movable = estimator.recipe == "default" or estimator.rectify is False
        self._placement = Placement.about(self._transform, center, movable=movable)

    def placement(self, n_support: int, n_query: int, n_classes: int) -> Placement | None:
        """The recipe's, up to the size at which a task is better fitted on its features."""
        return self.any_placement(n_query, n_classes) if n_support + n_query <= _MAX_RECIPE_ROWS else None

    def any_placement(self, n_query: int, n_classes: int) -> Placement | None:
        """The same for tasks however large; None where inner products are not enough.

        They are not for columns that are brought to one scale, nor where the default recipe learns from many queries,
        or from a sample of them, before it solves a task, nor for shares of the classes, which kernels do not have.
        """
        many = is_rich(n_query, n_classes) or n_query > ABSENCE.sample_rows
        rich = self._estimator.recipe == "default" and many
        shares = self._estimator.class_shares is not None and not is_balanced(self._estimator)
        return None if rich or shares or self._transform == "standard" else self._placement

    def answer(self, batch: Batch) -> tuple[Ints, Ints | None]:
        """The solution at the estimator's own weight of the graph."""
        solution = self.solve(batch)
        return solution.found[:, 0], solution.iterations[:, 0]

    def solve(self, batch: Batch, *, lams: Floats | None = None, keep: bool = False) -> BatchSolution:
        """Solve B tasks for weights ``lams`` (L,) of the graph (default: the estimator's own).

        ``keep``: with assignments and objectives.
        """
        solve = self._solve_default if self._estimator.recipe == "default" else self._solve_bound
        return solve(batch, lams, keep)

    def fit_solutions(
        self, features: Floats, labels: Ints, n_support: int, *, lams: Floats | None = None, keep: bool = False
    ) -> BatchSolution:
        """The same from features (B, n, D) and labels (B, n), one fit after the other."""
        weights = [self._estimator.lam] if lams is None else lams.tolist()
        solution = BatchSolution.empty(
            len(labels), len(weights), labels.shape[1] - n_support, int(labels.max()) + 1, 0, keep
        )
        values: dict[tuple[int, int], Floats] = {}
        for b, X in enumerate(features):
            for place, lam in enumerate(weights):
                fitted = clone(self._estimator).set_params(lam=lam)
                self._fit(fitted, X, labels[b], n_support)
                solution.found[b, place] = fitted.transduction_[n_support:]
                solution.iterations[b, place] = fitted.n_iter_
                solution.converged[b, place] = fitted.converged_
                values[b, place] = fitted.objective_
                if keep and place == 0:
                    solution.assignments[b] = fitted.label_distributions_[n_support:]
        if not keep:
            return solution
        objective = np.full((*solution.iterations.shape, solution.iterations.max()), np.nan)
        for at, row in values.items():
            objective[at][: len(row)] = row
        return solution._replace(objective=objective)

    def _solve_default(self, batch: Batch, lams: Floats | None, keep: bool) -> BatchSolution:
        estimator = self._estimator
        n_support, n_query, n_classes = batch.n_support, batch.n_query, batch.n_classes
        own = DefaultConstants.for_task(n_support, n_query, n_classes, balanced=is_balanced(estimator))
        choices = [
            own.with_choices(lam=lam, n_neighbors=estimator.n_neighbors, max_rounds=estimator.max_iter)
            for lam in ([estimator.lam] if lams is None else lams)
        ]
        max_updates = max(constants.max_rounds - constants.start_rounds for constants in choices)
        solution = BatchSolution.empty(len(batch), len(choices), n_query, n_classes, max_updates, keep)
        episode = is_episode(n_support, n_query, n_classes)
        ridge = episode and ridge_share(n_classes) > 0
        scratch = JointScratch.of(n_support + n_query, n_support, n_classes, choices[0].n_neighbors, ridge=ridge)
        on_support, tol = self._transform not in CENTERED, float(estimator.tol)
        for place, constants in enumerate(choices):
            stages = Stages.of(constants, n_query, n_classes)
            chosen = (on_support, constants, stages, episode, ABSENCE, MIN_CONFIDENCE, tol, place)
            joint_tasks(batch.gram, batch.labels, batch.ties, *chosen, scratch, solution)
        return solution

    def _solve_bound(self, batch: Batch, lams: Floats | None, keep: bool) -> BatchSolution:
        estimator = self._estimator
        paper = estimator.recipe == "paper"
        n_tasks, n_query, n_classes = len(batch), batch.n_query, batch.n_classes
        k = PUBLISHED_NEIGHBORS if estimator.n_neighbors is None else estimator.n_neighbors
        k = max(0, min(k if paper else k - 1, n_query - 1))
        unary = np.empty((n_tasks, n_query, n_classes), dtype=np.float32)
        neighbors = np.empty((n_tasks, n_query, k), dtype=np.int64)
        bound_terms(
            batch.gram,
            batch.labels,
            batch.ties,
            estimator.rectify is not False and n_query > 0,
            PAPER_TEMPERATURE if paper else REFERENCE_TEMPERATURE,
            not paper,
            unary,
            neighbors,
        )
        if lams is None:
            lams = np.array([PUBLISHED_LAM if estimator.lam is None else estimator.lam])
        limit = estimator.max_iter or (PAPER_MAX_ITER if paper else REFERENCE_MAX_ITER)
        solution = BatchSolution.empty(n_tasks, len(lams), n_query, n_classes, limit, keep)
        deltas = _psd_shifts(neighbors) if paper else np.zeros(n_tasks)
        r = np.array([hold_weight(lam * delta, 0.0) for delta in deltas for lam in lams], dtype=np.float32)
        bound_updates(
            unary,
            neighbors,
            deltas,
            r.reshape(n_tasks, len(lams)),
            lams.astype(np.float32),
            paper,
            limit,
            float(estimator.tol),
            UpdateScratch.of(n_query, n_classes, k, len(lams)),
            solution,
        )
        return solution


def _psd_shifts(neighbors: Ints) -> Floats:
    """``delta`` of each task's graph ``(A + A^T)/2``, (B,), as of ``psd_shift``; neighbors (B, N, k)."""
    n_tasks, n, k = neighbors.shape
    if k == 0:
        return np.zeros(n_tasks)
    if n > _DENSE_NODES:
        distances = np.zeros((n, k))
        graphs = (neighbor_affinity(Neighbors(found, distances)) for found in neighbors)
        return np.array([psd_shift(graph) for graph in graphs])
    dense = np.zeros((n_tasks, n, n))
    tasks, queries = np.arange(n_tasks)[:, None, None], np.arange(n)[None, :, None]
    dense[tasks, queries, neighbors] = 0.5
    dense = dense + np.swapaxes(dense, 1, 2)
    slack = 1e-12 * dense.sum(axis=2).max(axis=1)
    shifts: Floats = np.maximum(0.0, slack - np.linalg.eigvalsh(dense)[:, 0])
    return shifts


class _LeakingRecipe(Runnable):
    """The authors' iNat script: a query has neighbors among the queries of its own class only.

    The graph is built from the labels that are to be found. It exists to show the size of that effect, and for the
    protocol ``inat-leaking-labels`` alone.
    """

    def _fit(self, fitted: Any, X: Floats, labels: Ints, n_support: int) -> None:
        k = PUBLISHED_NEIGHBORS if fitted.n_neighbors is None else fitted.n_neighbors
        k -= fitted.recipe == "reference"
        codes = np.where(np.arange(len(X)) < n_support, labels, UNLABELED)
        center = center_of(fitted, X, codes, int(labels.max()) + 1)
        nodes = transform_features(X, fitted.get_params()["transform"], center)
        classes = np.unique(labels[n_support:])
        members = [n_support + np.flatnonzero(labels[n_support:] == c) for c in classes]
        graphs = block_diag([knn_affinity(nodes[rows], k, symmetry="directed") for rows in members], format="coo")
        row = np.concatenate(members)
        leaking = coo_array((graphs.data, (row[graphs.row], row[graphs.col])), shape=(len(X), len(X))).tocsr()
        super()._fit(fitted.set_params(graph=leaking), X, labels, n_support)


def runnables(method: Any, centers: Centers | None, n_features: int, *, leaking: bool = False) -> list[Runnable]:
    """Methods ready to run: a name or an estimator, a sequence of them, or a mapping of names to them.

    With ``leaking`` every method must be a recipe with a graph of its own choosing (:class:`_LeakingRecipe`).
    """
    if isinstance(method, Mapping):
        named = [(str(name), _estimator(value)) for name, value in method.items()]
    else:
        values = method if isinstance(method, (list, tuple)) else [method]
        named = _unique([(method_name(value), _estimator(value)) for value in values])
    if not named:
        raise ValueError("method must name at least one method.")
    return [_runnable(name, estimator, centers, n_features, leaking) for name, estimator in named]


def _runnable(name: str, estimator: Any, centers: Centers | None, n_features: int, leaking: bool) -> Runnable:
    if leaking:
        if not isinstance(estimator, LaplacianShot) or estimator.recipe == "default":
            raise ValueError(f"protocol {INAT_LEAKING!r} is for LaplacianShot.paper and .reference, not {name}.")
        return _LeakingRecipe(name, estimator, centers)
    if isinstance(estimator, LaplacianShot) and isinstance(estimator.graph, str):
        return RunnableRecipe(name, estimator, centers, n_features)
    return (_RunnableBaseline if isinstance(estimator, BatchedBaseline) else Runnable)(name, estimator, centers)


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
        kind = "balanced" if is_balanced(value) else value.recipe
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


def _about(estimator: Any, centers: Centers | None) -> Any:
    """The estimator with the set's center, unless it has a center of its own or there is none.

    A recipe that chooses its transform takes :attr:`Centers.auto` or, as the estimator does, ``cl2`` if it is not the
    default recipe or has a base mean.
    """
    recipe = isinstance(estimator, LaplacianShot)
    if recipe and estimator.get_params()["transform"] == "auto":
        free = estimator.recipe == "default" and estimator.base_mean is None
        auto = centers.auto if centers is not None and free else "cl2"
        estimator = clone(estimator).set_params(transform=auto)
    has_center = recipe or (isinstance(estimator, Baseline) and hasattr(estimator, "center"))
    if centers is None or not has_center:
        return estimator
    space = estimator.get_params()["transform"] if recipe else getattr(estimator, "space", "cl2")
    base_mean = centers.of(space)
    if base_mean is None:
        return estimator
    parameter = "base_mean" if recipe else "center"
    own = getattr(estimator, parameter)
    # A baseline is made with the center "pooled"; in a recipe that is somebody's choice.
    if own is None or (not recipe and isinstance(own, str) and own == "pooled"):
        return clone(estimator).set_params(**{parameter: base_mean})
    return estimator


class Answer(NamedTuple):
    """What one method found for some tasks."""

    method: int
    numbers: Ints  # (B,): which tasks
    found: Ints  # (B, N)
    iterations: Ints | None  # (B,)
    seconds: float


class TaskRunner:
    """Methods and their tasks: all that is needed to run some of them, here or on another machine.

    Methods marked slow run the first ``slow_tasks`` tasks only.
    """

    def __init__(
        self, feature_set: FeatureSet, tasks: Tasks, methods: Sequence[Runnable], slow_tasks: int | None = None
    ) -> None:
        if slow_tasks is not None and slow_tasks < 1:
            raise ValueError(f"slow_tasks must be at least 1, got {slow_tasks}.")
        self.feature_set = feature_set
        self.tasks = tasks
        self.methods = methods
        n_tasks = len(tasks)
        self.limits = [min(n_tasks, slow_tasks) if slow_tasks and method.slow else n_tasks for method in methods]
        self.chunks = _chunks(tasks)

    def __getstate__(self) -> dict[str, Any]:
        """Without the placed rows: another process places them itself."""
        return {name: value for name, value in vars(self).items() if not name.startswith("_")}

    def prepare(self) -> Self:
        """Place the rows that the tasks use, once for all methods that see them alike. Must precede any answer."""
        used = np.zeros(self.feature_set.n_rows, dtype=bool)
        used[self.tasks.rows] = True
        self._position = np.cumsum(used) - 1
        self._features: Floats = np.ascontiguousarray(self.feature_set.features[used])
        self._local = threading.local()
        self._sources: dict[Placement, GramSource] = {}
        for chunk in self.chunks:
            for method in self.methods:
                self._place(self._placement_of(method, chunk))
        return self

    def _placement_of(self, method: Runnable, chunk: TaskGroup) -> Placement | None:
        return method.placement(chunk.n_support, chunk.n_query, self.tasks.way)

    def _place(self, placement: Placement | None) -> None:
        if placement is not None and placement not in self._sources:
            work = int(np.square(np.diff(self.tasks.offsets).astype(np.float64)).sum())
            self._sources[placement] = GramSource(self._features, placement, work)

    def seconds_to_prepare(self, method: Runnable) -> float:
        """Time that placing the rows for a method took."""
        placement = self._placement_of(method, self.chunks[0])
        return 0.0 if placement is None else self._sources[placement].seconds

    def batch(self, chunk: TaskGroup, placement: Placement | None) -> Batch | None:
        """The tasks of a chunk as inner products, valid until this thread's next call.

        None without a placement, and where inner products are not enough (:meth:`GramSource.suits`).
        """
        if placement is None:
            return None
        source = self._sources[placement]
        rows, labels = self.tasks.block(chunk.numbers)
        if not source.suits(self._position[rows]):
            return None
        if not hasattr(self._local, "buffers"):
            self._local.buffers = Buffers()
        support = np.ascontiguousarray(labels[:, : chunk.n_support])
        return source.batch(self._position[rows], support, self.tasks.way, self._local.buffers)

    def answers(self, chunk: TaskGroup) -> list[Answer]:
        """Every method on its tasks of a chunk; methods at the same placement share the inner products."""
        alike: dict[tuple[Placement | None, int], list[int]] = {}
        for number, method in enumerate(self.methods):
            count = int(np.searchsorted(chunk.numbers, self.limits[number]))
            if count > 0:
                alike.setdefault((self._placement_of(method, chunk), count), []).append(number)
        answers = []
        for (placement, count), numbers in alike.items():
            start = perf_counter()
            part = chunk._replace(numbers=chunk.numbers[:count])
            batch = self.batch(part, placement)
            shared = perf_counter() - start
            for number in numbers:
                start = perf_counter()
                found, iterations = self._answer(self.methods[number], part, batch)
                answers.append(Answer(number, part.numbers, found, iterations, shared + perf_counter() - start))
        return answers

    def _answer(self, method: Runnable, part: TaskGroup, batch: Batch | None) -> tuple[Ints, Ints | None]:
        if batch is not None:
            return method.answer(batch)
        return method.fit_each(*self._rows_of(part))

    def _rows_of(self, chunk: TaskGroup) -> tuple[Floats, Ints, int]:
        """Features (B, n, D) and labels (B, n) of a chunk, and how many of them are of the support."""
        rows, labels = self.tasks.block(chunk.numbers)
        return self._features[self._position[rows]], labels, chunk.n_support

    def solutions(
        self, recipe: RunnableRecipe, threads: int | None, progress: Progress | None, **options: Any
    ) -> Iterator[tuple[TaskGroup, BatchSolution]]:
        """A recipe's solution of each chunk, however large, with the options of :meth:`RunnableRecipe.solve`."""
        placements = {chunk.n_query: recipe.any_placement(chunk.n_query, self.tasks.way) for chunk in self.chunks}
        for placement in placements.values():
            self._place(placement)

        def solve(chunk: TaskGroup) -> tuple[TaskGroup, BatchSolution]:
            placement = placements[chunk.n_query]
            if placement is not None and not self._sources[placement].sharp:
                raise ValueError(
                    "the features lie too far from zero, and too close together, for float32 inner products; subtract "
                    "their mean, or use transform='cl2' with a base mean among them."
                )
            batch = self.batch(chunk, placement)
            if batch is None:
                return chunk, recipe.fit_solutions(*self._rows_of(chunk), **options)
            return chunk, recipe.solve(batch, **options)

        done = 0
        with over_threads(solve, self.chunks, threads) as results:
            for chunk, solution in results:
                yield chunk, solution
                done += len(chunk.numbers)
                if progress is not None:
                    progress(done, len(self.tasks))


def _chunks(tasks: Tasks) -> list[TaskGroup]:
    """All tasks in batches of one shape."""
    result: list[TaskGroup] = []
    for shape in tasks.shapes():
        size = max(1, min(_MAX_TASKS, _BATCH_BYTES // (4 * shape.n_rows * shape.n_rows)))
        parts = row_blocks(len(shape.numbers), size)
        result += [shape._replace(numbers=shape.numbers[start:stop]) for start, stop in parts]
    # In the order of their first task, so that what has been run is nearly a run of tasks from the first on.
    return sorted(result, key=lambda chunk: int(chunk.numbers[0]))


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
