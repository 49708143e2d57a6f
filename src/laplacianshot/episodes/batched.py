"""The three recipes of :class:`~laplacianshot.LaplacianShot` on batches of tasks."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any, Literal, TypeAlias

import numpy as np

from laplacianshot.baselines.contract import Space, place_rows
from laplacianshot.episodes._bound_kernels import (
    BoundAnswers,
    BoundScratch,
    UpdateScratch,
    bound_terms,
    bound_updates,
)
from laplacianshot.episodes._gram_kernels import Ties, gather_grams
from laplacianshot.episodes._joint_kernels import (
    JointAnswers,
    JointConstants,
    JointScratch,
    blended_grams,
    centered_grams,
    joint_tasks,
)
from laplacianshot.estimator import LaplacianShot, check_parameters
from laplacianshot.inference.affinity import neighbor_affinity, psd_shift
from laplacianshot.inference.bound import PAPER_MAX_ITER, REFERENCE_MAX_ITER
from laplacianshot.inference.prototypes import PAPER_TEMPERATURE, REFERENCE_TEMPERATURE
from laplacianshot.inference.recipes import MIN_CONFIDENCE, PUBLISHED_LAM, PUBLISHED_NEIGHBORS, DefaultConstants
from laplacianshot.inference.transforms import CHANCE_FADE, MIN_FADE, given_center
from laplacianshot.neighbors.types import Neighbors
from laplacianshot.runtime.threads import Workers, row_blocks
from laplacianshot.runtime.types import Floats, Ints, working_dtype

# Up to this many queries the smallest eigenvalue comes from a dense decomposition, as in psd_shift.
_DENSE_NODES = 256


@dataclass(frozen=True)
class BatchSolution:
    """A recipe's answer to B tasks, for each of L weights of the graph.

    Attributes
    ----------
    found : int array of shape (B, L, N)
        Class of each query.
    iterations : int array of shape (B, L)
    converged : bool array of shape (B, L)
    assignments : array of shape (B, N, C), or of no task
        At the first weight.
    objective : array of shape (B, L, most updates), or of no task
        NaN after the last update.
    """

    found: Ints
    iterations: Ints
    converged: Any
    assignments: Floats
    objective: Floats


class BatchedRecipe:
    """A :class:`~laplacianshot.LaplacianShot` that solves many tasks of one shape at once.

    Parameters
    ----------
    estimator : LaplacianShot
        Its parameters are checked here, once. Its ``graph`` must be ``"auto"``.
    base_mean : array of shape (D,), optional
        Center of CL2 where the estimator has none of its own.
    n_features : int
        D.
    """

    def __init__(self, estimator: LaplacianShot, base_mean: Floats | None, n_features: int) -> None:
        check_parameters(estimator)
        self._estimator = estimator
        self._parameters = estimator.get_params()
        self._transform = self._parameters["transform"]
        self._center: Any = None
        if self._transform == "cl2":
            given = self._parameters["base_mean"]
            if given is None and base_mean is not None:
                self._center = base_mean
            elif given is None:
                blended = estimator.recipe == "default" and not estimator.balanced
                self._center = "blended" if blended else "pooled"
            else:
                self._center = given if isinstance(given, str) else given_center(given, n_features)

    @property
    def placement(self) -> Placement:
        """Where the recipe sees the rows."""
        # Rectification looks at angles, which change as rows are moved.
        movable = self._estimator.recipe == "default" or self._estimator.rectify is False
        return Placement.about(self._transform, self._center, movable=movable)

    def solve(
        self,
        grams: Floats,
        labels: Ints,
        n_classes: int,
        rows: Ints,
        features: Floats,
        buffers: Buffers,
        *,
        lams: Floats | None = None,
        keep: bool = False,
    ) -> BatchSolution:
        """Solve B tasks.

        Parameters
        ----------
        grams : float32 array of shape (B, n, n)
        labels : int array of shape (B, n_s)
        n_classes : int
        rows : int array of shape (B, n)
            Rows of ``features``.
        features : array of shape (n_rows, D)
            What settles ties between neighbors, :attr:`GramSource.rows`.
        buffers : Buffers
        lams : array of shape (L,), optional
            Weights of the graph; the estimator's own if not given.
        keep : bool
            Whether to keep assignments and objectives.
        """
        if self._estimator.recipe == "default":
            return self._solve_default(grams, labels, n_classes, rows, features, lams, keep)
        return self._solve_bound(grams, labels, n_classes, rows, features, buffers, lams, keep)

    def _solve_default(
        self, grams: Floats, labels: Ints, n_classes: int, rows: Ints, features: Floats, lams: Floats | None, keep: bool
    ) -> BatchSolution:
        estimator = self._estimator
        n_tasks, n_support = labels.shape
        n_query = grams.shape[1] - n_support
        own = DefaultConstants.for_task(n_support, n_query, n_classes, balanced=estimator.balanced)
        weights = [estimator.lam] if lams is None else [float(lam) for lam in lams]
        choices = [
            own.with_choices(lam=lam, n_neighbors=estimator.n_neighbors, max_rounds=estimator.max_iter)
            for lam in weights
        ]
        most = max(constants.max_rounds - constants.start_rounds for constants in choices)
        solution = _empty(n_tasks, len(weights), n_query, n_classes, most, keep)
        ties = Ties(rows, features, not self.placement.by_task)
        for number, constants in enumerate(choices):
            out = JointAnswers(
                np.empty((n_tasks, n_query, n_classes), dtype=np.float32),
                np.zeros(n_tasks, dtype=np.int64),
                np.zeros(n_tasks, dtype=np.int64),
                np.full((n_tasks if keep else 0, most), np.nan),
            )
            scratch = JointScratch.of(n_support + n_query, n_support, n_classes, constants.n_neighbors)
            numbers = joint_constants(constants, float(estimator.tol))
            joint_tasks(grams, labels, ties, self._transform != "cl2", numbers, scratch, out)
            solution.found[:, number] = out.assignments.argmax(axis=2)
            solution.iterations[:, number] = out.iterations
            solution.converged[:, number] = out.converged
            if keep:
                solution.objective[:, number] = out.objective
                if number == 0:
                    solution.assignments[:] = out.assignments
        return solution

    def _solve_bound(
        self,
        grams: Floats,
        labels: Ints,
        n_classes: int,
        rows: Ints,
        features: Floats,
        buffers: Buffers,
        lams: Floats | None,
        keep: bool,
    ) -> BatchSolution:
        estimator = self._estimator
        paper = estimator.recipe == "paper"
        n_tasks, n_support = labels.shape
        n_query = grams.shape[1] - n_support
        k = PUBLISHED_NEIGHBORS if estimator.n_neighbors is None else estimator.n_neighbors
        k = min(k if paper else k - 1, n_query - 1)
        unary = buffers.take("unary", (n_tasks, n_query, n_classes))
        neighbors = buffers.take("neighbors", (n_tasks, n_query, max(0, k)), np.int64)
        bound_terms(
            grams,
            labels,
            Ties(rows, features, not self.placement.by_task),
            estimator.rectify is not False and n_query > 0,
            PAPER_TEMPERATURE if paper else REFERENCE_TEMPERATURE,
            not paper,
            BoundScratch.of(n_support + n_query, n_classes),
            unary,
            neighbors,
        )
        if lams is None:
            lams = np.array([PUBLISHED_LAM if estimator.lam is None else estimator.lam])
        limit = estimator.max_iter or (PAPER_MAX_ITER if paper else REFERENCE_MAX_ITER)
        solution = _empty(n_tasks, len(lams), n_query, n_classes, limit, keep)
        bound_updates(
            unary,
            neighbors,
            _psd_shifts(neighbors) if paper else np.zeros(n_tasks),
            lams.astype(np.float32),
            paper,
            limit,
            float(estimator.tol),
            UpdateScratch.of(n_query, n_classes, neighbors.shape[2], len(lams)),
            BoundAnswers(
                solution.found, solution.iterations, solution.converged, solution.assignments, solution.objective
            ),
        )
        return solution


def joint_constants(constants: DefaultConstants, tol: float) -> JointConstants:
    """The constants as the kernels take them: each always of one type, so that they are compiled once."""
    values: dict[str, Any] = {name: float(value) for name, value in asdict(constants).items()}
    for name in ("n_neighbors", "start_rounds", "max_rounds"):
        values[name] = int(values[name])
    return JointConstants(**values, min_confidence=MIN_CONFIDENCE, tol=tol)


def _empty(n_tasks: int, n_lams: int, n_query: int, n_classes: int, most: int, keep: bool) -> BatchSolution:
    kept = n_tasks if keep else 0
    return BatchSolution(
        found=np.zeros((n_tasks, n_lams, n_query), dtype=np.int64),
        iterations=np.zeros((n_tasks, n_lams), dtype=np.int64),
        converged=np.zeros((n_tasks, n_lams), dtype=np.int64),
        assignments=np.empty((kept, n_query, n_classes), dtype=np.float32),
        objective=np.full((kept, n_lams, most), np.nan),
    )


def _psd_shifts(neighbors: Ints) -> Floats:
    """What the diagonal of each task's graph ``(A + A^T)/2`` needs, (B,); neighbors (B, N, k)."""
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


TaskCenter: TypeAlias = Literal["pooled", "support", "blended"]

# The inner products of a whole set are formed once if they fit in this many bytes and take fewer operations than those
# of its tasks, where a scattered read counts as _SCATTERED_READ multiplications.
_MAX_WHOLE_BYTES = 2**30
_SCATTERED_READ = 64
_BLOCK_ROWS = 1024
_SOME_ROWS = 1024
# Squared distance from zero of rows whose inner products are still sharp, against that of a row from their middle:
# each factor of ten is a digit lost of float32's seven.
_FARTHEST = 100.0


@dataclass(frozen=True)
class Placement:
    """Where a method sees the rows.

    Attributes
    ----------
    space : {"cl2", "l2", "none", "power"}
    center : bytes, str or None
        What ``cl2`` takes away: a vector (its float64 bytes, so that equal ones are equal), or ``pooled``, ``support``
        or ``blended`` for a center that each task has of its own.
    movable : bool
        Spaces ``none`` and ``l2`` for a method that sees distances only: zero is moved amid the rows, which keeps inner
        products sharp where they lie far from it.
    """

    space: Space
    center: bytes | TaskCenter | None = None
    movable: bool = False

    @classmethod
    def about(cls, space: Space, center: Floats | TaskCenter | None, *, movable: bool = False) -> Placement:
        """The placement about a vector (D,) or a center of each task's own; only ``cl2`` has a center."""
        if space != "cl2":
            return cls(space, movable=movable and space in ("none", "l2"))
        if center is None:
            raise ValueError("space 'cl2' needs a center.")
        return cls(space, center if isinstance(center, str) else np.asarray(center, dtype=np.float64).tobytes())

    @property
    def by_task(self) -> bool:
        """Whether every task has its own center."""
        return isinstance(self.center, str)


class GramSource:
    """Inner products of tasks, from the rows of a set placed once.

    Parameters
    ----------
    features : array of shape (n, D)
        Rows that the tasks refer to.
    placement : Placement
    work : int
        Inner products that all tasks together need.

    Attributes
    ----------
    rows : float32 array of shape (n, D)
        What settles ties between distances: rows at the placement or, where tasks have centers of their own, before it.
    sharp : bool
        Whether float32 inner products tell the rows apart. They do not where rows lie far from zero and close together:
        such tasks are better fitted on their features.
    """

    def __init__(self, features: Floats, placement: Placement, work: int) -> None:
        self._placement = placement
        if placement.by_task:
            # CL2 comes later, task by task.
            placed = features.astype(working_dtype(features), copy=False)
        else:
            center = np.frombuffer(placement.center) if isinstance(placement.center, bytes) else None
            placed = place_rows(features, placement.space, center)
        single = np.ascontiguousarray(placed, dtype=np.float32)
        moved = placement.by_task or placement.movable
        self._rows: Floats = (placed - _middle(placed)).astype(np.float32, copy=False) if moved else single
        # Ties between rows that float32 cannot hold are those of the moved ones.
        self.rows: Floats = single if np.array_equal(single, placed) else self._rows
        self.sharp = _sharp(self._rows)
        self._whole = self._inner_products() if self._whole_is_cheaper(work) else None

    def fill(self, rows: Ints, labels: Ints, n_classes: int, grams: Floats, buffers: Buffers) -> None:
        """Inner products (B, n, n) of the tasks with these rows (B, n); labels (B, n_s) of their support."""
        by_task = self._placement.by_task
        target = buffers.take("raw", grams.shape) if by_task else grams
        if self._whole is not None:
            gather_grams(self._whole, rows, target)
        else:
            gathered = buffers.take("gathered", (rows.shape[1], self._rows.shape[1]))
            for b in range(len(rows)):
                np.take(self._rows, rows[b], axis=0, out=gathered, mode="clip")
                np.matmul(gathered, gathered.T, out=target[b])
        if not by_task:
            return
        n_support = labels.shape[1]
        n_query = rows.shape[1] - n_support
        if self._placement.center != "blended" or n_query == 0:
            centered_grams(target, n_support, self._placement.center == "support", grams)
            return
        constants = DefaultConstants.for_task(n_support, n_query, n_classes)
        fade = max(MIN_FADE, CHANCE_FADE * (n_classes - 1) / n_query)
        scratch = JointScratch.of(rows.shape[1], n_support, n_classes, 0)
        blended_grams(target, labels, joint_constants(constants, 0.0), fade, scratch, grams)

    def _whole_is_cheaper(self, work: int) -> bool:
        n, dim = self._rows.shape
        # Symmetric both: half the products are formed.
        whole = n * n * dim / 2 + work * _SCATTERED_READ
        return bool(4 * n * n <= _MAX_WHOLE_BYTES and whole < work * dim / 2)

    def _inner_products(self) -> Floats:
        n = len(self._rows)
        whole = np.empty((n, n), dtype=np.float32)

        def fill(_: int, start: int, stop: int) -> None:
            np.matmul(self._rows[start:stop], self._rows[start:].T, out=whole[start:stop, start:])
            whole[stop:, start:stop] = whole[start:stop, stop:].T

        with Workers(n * n) as workers:
            workers.run(fill, row_blocks(n, _BLOCK_ROWS))
        return whole


def _middle(rows: Floats) -> Floats:
    """A point (D,) amid the rows, wherever a few of them may lie: the median of some, feature by feature."""
    middle: Floats = np.median(rows[:: -(-len(rows) // _SOME_ROWS)], axis=0)
    return middle


def _sharp(rows: Floats) -> bool:
    some = rows[:: -(-len(rows) // _SOME_ROWS)].astype(np.float64)
    middle = _middle(some)
    spread = float(np.median(np.square(some - middle).sum(axis=1)))
    return float(middle @ middle) <= _FARTHEST * spread


class Buffers:
    """Arrays of one thread that are used again from batch to batch."""

    def __init__(self) -> None:
        self._arrays: dict[str, Any] = {}

    def take(self, name: str, shape: tuple[int, ...], dtype: Any = np.float32) -> Any:
        """An array of that shape, with whatever it held before."""
        size = int(np.prod(shape))
        held = self._arrays.get(name)
        if held is None or held.size < size or held.dtype != dtype:
            held = self._arrays[name] = np.empty(size, dtype=dtype)
        return held[:size].reshape(shape)
