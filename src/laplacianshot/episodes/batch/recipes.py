"""The three recipes of :class:`~laplacianshot.LaplacianShot` on batches of tasks."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from laplacianshot.episodes.batch._bound_kernels import bound_terms, bound_updates
from laplacianshot.episodes.batch._joint_kernels import joint_tasks
from laplacianshot.episodes.batch.grams import Buffers, Placement
from laplacianshot.estimator import LaplacianShot
from laplacianshot.inference.affinity import neighbor_affinity, psd_shift
from laplacianshot.inference.bound import PAPER_MAX_ITER, REFERENCE_MAX_ITER
from laplacianshot.inference.center import given_center
from laplacianshot.inference.prototypes import PAPER_TEMPERATURE, REFERENCE_TEMPERATURE
from laplacianshot.inference.recipes import LEAST_CONFIDENCE, PUBLISHED_LAM, PUBLISHED_NEIGHBORS, DefaultConstants
from laplacianshot.neighbors.types import Neighbors
from laplacianshot.runtime.types import Floats, Ints

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
        estimator._validate_params()
        estimator._choices.check()
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
        for number, constants in enumerate(choices):
            assignments = np.empty((n_tasks, n_query, n_classes), dtype=np.float32)
            iterations = np.zeros(n_tasks, dtype=np.int64)
            converged = np.zeros(n_tasks, dtype=np.int64)
            objective = np.full((n_tasks if keep else 0, most), np.nan)
            joint_tasks(
                grams,
                labels,
                rows,
                features,
                not self.placement.by_task,
                self._transform != "cl2",
                constants.n_neighbors,
                constants.lam,
                constants.start_lam,
                constants.start_rounds,
                constants.max_rounds,
                constants.e,
                constants.beta,
                constants.kappa,
                constants.gamma,
                constants.delta,
                constants.pair_spread,
                LEAST_CONFIDENCE,
                estimator.tol,
                assignments,
                iterations,
                converged,
                objective,
            )
            solution.found[:, number] = assignments.argmax(axis=2)
            solution.iterations[:, number] = iterations
            solution.converged[:, number] = converged
            if keep:
                solution.objective[:, number] = objective
                if number == 0:
                    solution.assignments[:] = assignments
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
            rows,
            features,
            not self.placement.by_task,
            estimator.rectify is not False and n_query > 0,
            PAPER_TEMPERATURE if paper else REFERENCE_TEMPERATURE,
            not paper,
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
            estimator.tol,
            solution.found,
            solution.assignments,
            solution.iterations,
            solution.converged,
            solution.objective,
        )
        return solution


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
