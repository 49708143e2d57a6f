"""The three recipes on one task: transformed features and labels in, a solution out."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np
import scipy.sparse as sp

from laplacianshot.inference.affinity import knn_affinity, neighbor_affinity, normalize, psd_shift, symmetrize
from laplacianshot.inference.bound import BoundResult, StoppingRule, bound_optimize
from laplacianshot.inference.episode import episode_optimize
from laplacianshot.inference.induction import InductiveRule, vote_weights
from laplacianshot.inference.joint import NO_CLUES, Clues, joint_optimize
from laplacianshot.inference.prototypes import (
    PAPER_TEMPERATURE,
    REFERENCE_TEMPERATURE,
    class_means,
    rectify_prototypes,
    squared_distances,
)
from laplacianshot.inference.recipes import (
    PUBLISHED_LAM,
    PUBLISHED_NEIGHBORS,
    TOLERANCE,
    DefaultConstants,
    is_episode,
)
from laplacianshot.inference.solution import Solution
from laplacianshot.inference.spreading import Paths
from laplacianshot.inference.transforms import transform_features
from laplacianshot.neighbors.knn import knn
from laplacianshot.runtime.types import Floats, Ints


@dataclass(frozen=True)
class Task:
    """One few-shot task in feature space.

    Attributes
    ----------
    nodes : array of shape (n_s + N, D)
        Transformed rows, the support first.
    labels : int array of shape (n_s,)
        Classes of the support in ``0..C-1``, each at least once unless names or a prior are known.
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


@dataclass(frozen=True)
class Numerics:
    """The functions that take time, under their names: the formulas, or the same made faster by the engine."""

    transform_features: Callable[..., Floats] = transform_features
    squared_distances: Callable[[Floats, Floats], Floats] = squared_distances
    joint_optimize: Callable[..., Solution] = joint_optimize
    bound_optimize: Callable[..., BoundResult] = bound_optimize


FORMULAS = Numerics()


@dataclass(frozen=True)
class BoundChoices:
    """What a user may choose of the paper's and the authors' recipe.

    Attributes
    ----------
    lam : float
    n_neighbors : int
        ``reference`` counts the row itself.
    rectify : bool
    max_iter : int, optional
    tol : float
    """

    lam: float = PUBLISHED_LAM
    n_neighbors: int = PUBLISHED_NEIGHBORS
    rectify: bool = True
    max_iter: int | None = None
    tol: float = TOLERANCE


def solve_default(
    task: Task,
    origin: Floats,
    constants: DefaultConstants,
    *,
    tol: float,
    clues: Clues | None = None,
    known: Floats | None = None,
    table: bool = False,
    numerics: Numerics = FORMULAS,
) -> Solution:
    """The recommended recipe (:mod:`laplacianshot.inference.joint`).

    Parameters
    ----------
    task : Task
    origin : array of shape (D,)
        What every prototype is drawn to.
    constants : DefaultConstants
    tol : float
    clues : Clues, optional
        What is known of the classes besides (:func:`~laplacianshot.inference.clues.gather_clues`).
    known : array of shape (N, C), optional
        What is known of each query (:meth:`~laplacianshot.inference.priors.Hints.row_logits`).
    table : bool
        Whether rows are of a table, with columns brought to one scale.
    numerics : Numerics
    """
    clues = NO_CLUES if clues is None else clues
    n_support, n_classes = len(task.labels), task.n_classes
    near = None
    if task.graph is None:
        # Measured, neighbors come nearest first.
        near = knn(task.nodes, constants.n_neighbors, method="exact", distances=clues.along > 0)
        graph = neighbor_affinity(near, dtype=task.nodes.dtype)
    else:
        graph = symmetrize(task.graph)
    degrees = graph.sum(axis=1)
    graph = normalize(graph)
    reached = None
    if clues.along > 0:
        paths = Paths.between(graph, task.nodes) if near is None else Paths.to_neighbors(near.indices, near.distances)
        classes = np.concatenate([task.labels, np.full(len(task.query), -1)])
        reached = paths.spread(classes, n_classes, local=clues.local)[n_support:]
    given = (task.support, task.labels, task.query, graph, origin, n_classes, constants)
    # Known shares, and what is known of rows or of classes without labels, are for one descent.
    by_labels = clues.shares is None and known is None and len(np.unique(task.labels)) == n_classes
    if by_labels and is_episode(n_support, len(task.query), n_classes, table=table):
        solution = episode_optimize(*given, clues=clues, tol=tol)
    else:
        solution = numerics.joint_optimize(*given, clues=clues, reached=reached, known=known, tol=tol)
    clues = solution.clues

    weights = vote_weights(degrees, constants.n_neighbors)
    weights[:n_support] *= constants.e
    prototypes, bias = clues.as_prototypes(solution.prototypes, solution.tau)
    rule = InductiveRule(
        prototypes=prototypes,
        points=task.nodes,
        assignments=np.concatenate([np.eye(n_classes, dtype=task.nodes.dtype)[task.labels], solution.assignments]),
        weights=weights,
        n_neighbors=constants.n_neighbors,
        lam=constants.lam,
        tau=(1 - clues.weight) * solution.tau,
        bias=solution.bias + bias.astype(solution.bias.dtype),
    )
    return replace(solution, origin=origin, graph=graph, rule=rule)


def solve_paper(task: Task, choices: BoundChoices, numerics: Numerics = FORMULAS) -> Solution:
    """The paper as written: k true neighbors, W symmetric, support grouped by its labels, temperature 1.

    W has negative eigenvalues, to which the paper's proof does not apply: updates hold on to the last assignments by
    ``delta``, minus the smallest of them (:func:`~laplacianshot.inference.bound.bound_optimize`).
    """
    prototypes, query, shift = _prototypes(task, choices.rectify, PAPER_TEMPERATURE, by_cosine=False)
    k = choices.n_neighbors
    graph = knn_affinity(query, k) if task.graph is None else symmetrize(_between_queries(task))
    return _solve_bound(prototypes, query, shift, graph, k, choices, "paper", psd_shift(graph), numerics)


def solve_reference(task: Task, choices: BoundChoices, numerics: Numerics = FORMULAS) -> Solution:
    """The authors' code: ``n_neighbors`` counts the row itself, W directed, support re-assigned, temperature 10."""
    prototypes, query, shift = _prototypes(task, choices.rectify, REFERENCE_TEMPERATURE, by_cosine=True)
    k, own = choices.n_neighbors - 1, task.graph is not None
    graph = _between_queries(task) if own else knn_affinity(query, k, symmetry="directed")
    return _solve_bound(prototypes, query, shift, graph, k, choices, "reference", 0.0, numerics)


def _prototypes(task: Task, rectify: bool, temperature: float, *, by_cosine: bool) -> tuple[Floats, Floats, Floats]:
    """Prototypes, the queries they are compared with, and the shift that those took."""
    if not rectify:
        plain = class_means(task.support, task.labels, task.n_classes)
        return plain, task.query, np.zeros(task.nodes.shape[1], task.nodes.dtype)
    rectified = rectify_prototypes(
        task.support, task.labels, task.query, task.n_classes, temperature=temperature, by_cosine=by_cosine
    )
    return rectified.prototypes, task.query + rectified.query_shift, rectified.query_shift


def _between_queries(task: Task) -> sp.csr_array:
    if task.graph is None:
        raise ValueError("the task has no graph of its own.")
    n_support = len(task.labels)
    return sp.csr_array(task.graph[n_support:, n_support:])


def _solve_bound(
    prototypes: Floats,
    query: Floats,
    shift: Floats,
    graph: sp.csr_array,
    n_neighbors: int,
    choices: BoundChoices,
    rule: StoppingRule,
    delta: float,
    numerics: Numerics,
) -> Solution:
    unary = numerics.squared_distances(query, prototypes)
    result = numerics.bound_optimize(
        unary, graph, choices.lam, rule=rule, delta=delta, max_iter=choices.max_iter, tol=choices.tol
    )
    bias = np.zeros(len(prototypes), prototypes.dtype)
    later = InductiveRule(
        prototypes, query, result.assignments, np.ones(len(query)), n_neighbors, choices.lam, 1.0, bias, shift
    )
    return Solution(
        result.assignments,
        prototypes,
        result.objective,
        result.converged,
        choices.lam,
        bound=result.bound,
        unary=unary,
        graph=graph,
        rule=later,
    )
