"""The three recipes on one task: transformed features and labels in, a solution out."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.sparse as sp

from laplacianshot.engine.small_rounds import joint_optimize
from laplacianshot.inference.affinity import knn_affinity, make_psd, normalize, symmetrize
from laplacianshot.inference.bound import BoundResult, bound_optimize
from laplacianshot.inference.induction import InductiveRule
from laplacianshot.inference.prototypes import (
    PAPER_TEMPERATURE,
    REFERENCE_TEMPERATURE,
    class_means,
    rectify_prototypes,
    squared_distances,
)
from laplacianshot.inference.recipes import DefaultConstants
from laplacianshot.runtime.types import Floats, Ints


@dataclass(frozen=True)
class Task:
    """One few-shot task in feature space.

    Attributes
    ----------
    nodes : array of shape (n_s + N, D)
        Transformed rows, the support first.
    labels : int array of shape (n_s,)
        Classes of the support in ``0..C-1``, each at least once.
    n_classes : int
    graph : csr_array of shape (n_s + N, n_s + N), optional
        The user's own affinities between the nodes, in place of nearest neighbors.
    """

    nodes: Floats
    labels: Ints
    n_classes: int
    graph: sp.csr_array | None = None

    @property
    def support(self) -> Floats:
        """Labeled rows (n_s, D)."""
        return self.nodes[: len(self.labels)]

    @property
    def query(self) -> Floats:
        """Unlabeled rows (N, D)."""
        return self.nodes[len(self.labels) :]


@dataclass(frozen=True, repr=False)
class Solution:
    """A recipe's answer to a task.

    Attributes
    ----------
    assignments : array of shape (N, C)
    prototypes : array of shape (C, D)
    objective : array of shape (n_iter,)
        What the recipe minimizes, after each update: F, R or E.
    converged : bool
    lam : float
    affinity : csr_array
        Over all nodes (default) or over the queries (paper, reference).
    rule : InductiveRule
        For rows that come later.
    bound : array of shape (n_iter,), paper and reference
    unary : array of shape (N, C), paper and reference
    """

    assignments: Floats
    prototypes: Floats
    objective: Floats
    converged: bool
    lam: float
    affinity: sp.csr_array
    rule: InductiveRule
    bound: Floats | None = None
    unary: Floats | None = None

    def of_all_rows(self, codes: Ints) -> Fitted:
        """The same for all rows: given classes (n,) in ``0..C-1`` where there are any, -1 for the queries."""
        labeled, unlabeled = np.flatnonzero(codes >= 0), np.flatnonzero(codes < 0)
        distributions = np.zeros((len(codes), self.assignments.shape[1]), self.assignments.dtype)
        distributions[labeled, codes[labeled]] = 1
        distributions[unlabeled] = self.assignments
        extras = {"affinity_": self.affinity, "bound_": self.bound, "unary_": self.unary}
        return Fitted(
            distributions,
            distributions.argmax(axis=1),
            self.prototypes,
            self.objective,
            self.converged,
            self.lam,
            self.rule,
            {name: value for name, value in extras.items() if value is not None},
        )


@dataclass(frozen=True, repr=False)
class Fitted:
    """What an estimator keeps of a solution.

    Attributes
    ----------
    distributions : array or csr_array of shape (n, C)
        For all rows, certainty for labeled ones.
    labels : int array of shape (n,)
    prototypes : array of shape (C, D)
    objective : array of shape (n_iter,)
    converged : bool
    lam : float
    rule : callable
        Transformed rows (m, D) to assignments (m, C).
    extras : mapping of str to object
        What only some solutions have, by the estimator's name for it.
    graph_recall : float
    dropped_mass : float
    """

    distributions: Any
    labels: Ints
    prototypes: Floats
    objective: Floats
    converged: bool
    lam: float
    rule: Any
    extras: Mapping[str, Any]
    graph_recall: float = 1.0
    dropped_mass: float = 0.0


def solve_default(
    task: Task,
    origin: Floats,
    *,
    lam: float | None,
    n_neighbors: int | None,
    balanced: bool,
    max_iter: int | None,
    tol: float,
) -> Solution:
    """The recommended recipe (:mod:`laplacianshot.inference.joint`); ``None`` leaves a constant to the recipe."""
    n_support, n_classes = len(task.labels), task.n_classes
    constants = DefaultConstants.for_task(n_support, len(task.query), n_classes, balanced=balanced)
    constants = constants.with_choices(lam=lam, n_neighbors=n_neighbors, max_rounds=max_iter)
    graph = knn_affinity(task.nodes, constants.n_neighbors) if task.graph is None else symmetrize(task.graph)
    degrees = graph.sum(axis=1)
    graph = normalize(graph)
    result = joint_optimize(task.support, task.labels, task.query, graph, origin, n_classes, constants, tol=tol)

    # A new row has k edges of weight 1, so degree k: the normalized weight of each is 1 / sqrt(k d_p).
    votes = np.zeros((len(task.nodes), n_classes), dtype=task.nodes.dtype)
    votes[np.arange(n_support), task.labels] = constants.e
    votes[n_support:] = result.assignments
    reach = np.sqrt(constants.n_neighbors * degrees)
    votes *= np.divide(1.0, reach, out=np.zeros(len(reach)), where=reach > 0)[:, None]
    rule = InductiveRule(
        prototypes=result.prototypes,
        points=task.nodes,
        votes=votes,
        n_neighbors=constants.n_neighbors,
        lam=constants.lam,
        tau=result.tau,
        bias=result.class_bias,
        shift=np.zeros_like(origin),
    )
    return Solution(
        result.assignments, result.prototypes, result.objective, result.converged, constants.lam, graph, rule
    )


def solve_paper(
    task: Task, *, lam: float, n_neighbors: int, rectify: bool, max_iter: int | None, tol: float
) -> Solution:
    """The paper as written: k true neighbors, W symmetric and PSD, support grouped by its labels, temperature 1."""
    prototypes, query, shift = _prototypes(task, rectify, PAPER_TEMPERATURE, reassign_support=False)
    graph = knn_affinity(query, n_neighbors) if task.graph is None else symmetrize(_between_queries(task))
    unary = squared_distances(query, prototypes)
    graph = make_psd(graph)
    result = bound_optimize(unary, graph, lam, rule="paper", max_iter=max_iter, tol=tol)
    return _solution(result, prototypes, query, shift, unary, graph, lam, n_neighbors)


def solve_reference(
    task: Task, *, lam: float, n_neighbors: int, rectify: bool, max_iter: int | None, tol: float
) -> Solution:
    """The authors' code: ``n_neighbors`` counts the row itself, W directed, support re-assigned, temperature 10."""
    prototypes, query, shift = _prototypes(task, rectify, REFERENCE_TEMPERATURE, reassign_support=True)
    own = task.graph is not None
    graph = _between_queries(task) if own else knn_affinity(query, n_neighbors - 1, symmetry="directed")
    unary = squared_distances(query, prototypes)
    result = bound_optimize(unary, graph, lam, rule="reference", max_iter=max_iter, tol=tol)
    return _solution(result, prototypes, query, shift, unary, graph, lam, n_neighbors - 1)


def _prototypes(
    task: Task, rectify: bool, temperature: float, *, reassign_support: bool
) -> tuple[Floats, Floats, Floats]:
    """Prototypes, the queries they are compared with, and the shift that those took."""
    if not rectify:
        plain = class_means(task.support, task.labels, task.n_classes)
        return plain, task.query, np.zeros(task.nodes.shape[1], task.nodes.dtype)
    rectified = rectify_prototypes(
        task.support,
        task.labels,
        task.query,
        task.n_classes,
        temperature=temperature,
        reassign_support=reassign_support,
    )
    return rectified.prototypes, task.query + rectified.query_shift, rectified.query_shift


def _between_queries(task: Task) -> sp.csr_array:
    if task.graph is None:
        raise ValueError("the task has no graph of its own.")
    n_support = len(task.labels)
    return sp.csr_array(task.graph[n_support:, n_support:])


def _solution(
    result: BoundResult,
    prototypes: Floats,
    query: Floats,
    shift: Floats,
    unary: Floats,
    graph: sp.csr_array,
    lam: float,
    n_neighbors: int,
) -> Solution:
    rule = InductiveRule(
        prototypes=prototypes,
        points=query,
        votes=result.assignments,
        n_neighbors=n_neighbors,
        lam=lam,
        tau=1.0,
        bias=np.zeros(len(prototypes), prototypes.dtype),
        shift=shift,
    )
    return Solution(
        result.assignments,
        prototypes,
        result.objective,
        result.converged,
        lam,
        graph,
        rule,
        bound=result.bound,
        unary=unary,
    )
