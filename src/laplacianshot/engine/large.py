"""The default recipe on a large set: neighbors, graph, rounds, each within the memory budget."""

from __future__ import annotations

from dataclasses import astuple, dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse as sp
from scipy.special import softmax

from laplacianshot.engine.checkpoint import content_of, kept_neighbors, load_solution, save_solution, stage_folder
from laplacianshot.engine.graph import NodeGraph, node_graph
from laplacianshot.engine.passes import choose_tau, squared_distances
from laplacianshot.engine.plan import GraphChoice, LargePlan, sampled_queries
from laplacianshot.engine.round_kernels import Edges
from laplacianshot.engine.rounds import open_rounds
from laplacianshot.engine.top_kernels import Top
from laplacianshot.inference.clues import Answers, hold_prototypes, sample_rows
from laplacianshot.inference.induction import InductiveRule, vote_weights
from laplacianshot.inference.joint import NO_CLUES, Clues, Prior, descend
from laplacianshot.inference.priors import NOTHING_KNOWN, Hints, Knowledge, informed
from laplacianshot.inference.recipes import DefaultConstants
from laplacianshot.inference.solution import Solution
from laplacianshot.inference.spreading import MAX_LISTED, Paths, squared_distances_to
from laplacianshot.neighbors.cells import CellIndex
from laplacianshot.neighbors.knn import knn
from laplacianshot.neighbors.rows import Rows
from laplacianshot.neighbors.types import GraphReport
from laplacianshot.runtime.keyed_folder import KeyedFolder
from laplacianshot.runtime.progress import Progress, Watch, no_watch
from laplacianshot.runtime.threads import Workers, row_blocks, single_threaded_blas
from laplacianshot.runtime.types import CENTERED, Floats, Ints, Transform

_BLOCK_ROWS = 4096


@dataclass(frozen=True, repr=False)
class LargeTask:
    """A large set and its few labels."""

    X: Floats  # (n, D), in memory or memory-mapped
    codes: Ints  # (n,): classes in 0..C-1, -1 for queries, of which there are two at least
    n_classes: int
    transform: Transform
    center: Floats | None  # (D,), for cl2 and power
    constants: DefaultConstants
    plan: LargePlan
    table: bool = False  # whether columns were brought to one scale
    knowledge: Knowledge = NOTHING_KNOWN
    hints: Hints | None = None  # what names and a prior say
    clues: Clues = NO_CLUES
    answers: Answers | None = None

    def informed(self, rows: Rows) -> LargeTask:
        """The task with what its labels say besides their prototypes; transformed rows (n, D)."""
        labeled, queries = np.flatnonzero(self.codes >= 0), np.flatnonzero(self.codes < 0)
        near = rows.centered()
        shift = near.origin - rows.origin
        support, sample, n = near[labeled], near[queries[sample_rows(len(queries))]], len(queries)
        with single_threaded_blas():
            constants, clues, answers = informed(
                support, self.codes[labeled], sample, self.origin(support, near, shift), n, self.n_classes,
                self.constants, table=self.table, along=self.plan.along, knowledge=self.knowledge, hints=self.hints,
                transform=self.transform, center=self.center, shift=shift,
            )  # fmt: skip
        answers = replace(answers, known=answers.known.moved(shift))
        return replace(self, constants=constants, clues=clues.moved(shift), answers=answers)

    def origin(self, support: Floats, rows: Rows, shift: Floats) -> Floats:
        """What every prototype is drawn to, (D,): for labeled rows (n_s, D) and all (n, D), moved by ``-shift``."""
        if self.transform in CENTERED:
            return -shift
        middle: Floats = (support if len(support) else rows[np.flatnonzero(self.codes < 0)[:_BLOCK_ROWS]]).mean(axis=0)
        return middle

    def with_held_prototypes(self) -> LargeTask:
        """The task with prototypes that hardly move."""
        constants, clues = hold_prototypes(self.constants, self.clues)
        answers = replace(self.answers or Answers(), prototypes_held=True)
        return replace(self, constants=constants, clues=clues, answers=answers)


def solve_large(task: LargeTask, *, tol: float, watch: Watch | None = None, checkpoint: Path | None = None) -> Solution:
    """The joint recipe (:mod:`laplacianshot.inference.joint`) with rows formed block by block.

    ``watch`` is called with the name of each stage. Neighbors and updates are kept in the folder ``checkpoint`` by
    content, and a later run continues from them.
    """
    stages = no_watch if watch is None else watch
    rows = Rows.transformed(task.X, task.transform, task.center)
    progress = stages("Neighbors")
    folders = None if checkpoint is None else _folders(task, rows, tol, checkpoint)
    kept: Any = {"memory": task.plan.memory, "folder": None if folders is None else folders[0]}
    found = kept_neighbors(rows, task.constants.n_neighbors, task.plan.graph, progress=progress, **kept)
    stages("Graph")
    task = task.informed(rows)
    order, near = found.order, found.indices[:, :MAX_LISTED].copy() if task.clues.along > 0 else None
    graph = node_graph(order, found.indices, task.codes >= 0)
    report, index = found.report, found.index
    del found
    progress = stages("Updates")
    result = None if folders is None else load_solution(folders[1])
    if result is None:
        reached = None if near is None else _reached(task, rows, order, near)
        result = _rounds(task, rows, graph, reached, tol, progress)
        if task.answers is not None and task.answers.collapsed(_query_shares(task, result)):
            task = task.with_held_prototypes()
            result = _rounds(task, rows, graph, reached, tol, progress)
        if folders is not None:
            save_solution(folders[1], replace(result, answers=task.answers))
    elif result.answers is not None and result.answers.prototypes_held:
        task = task.with_held_prototypes()
    return fitted_of(task, rows, graph, result, report, index)


def _folders(task: LargeTask, rows: Rows, tol: float, checkpoint: Path) -> tuple[KeyedFolder, KeyedFolder]:
    """Those of the neighbors and of the updates."""
    graph = (content_of(rows), task.constants.n_neighbors, astuple(task.plan.graph))
    rest = (task.transform, task.constants._asdict(), tol, task.plan.dense, task.plan.max_entries, *task.knowledge.key)
    neighbors = stage_folder(checkpoint, "neighbors", *graph)
    return neighbors, stage_folder(checkpoint, "updates", *graph, *rest, np.ascontiguousarray(task.codes).tobytes())


def fitted_of(
    task: LargeTask, rows: Rows, graph: NodeGraph, result: Solution, report: GraphReport, index: CellIndex | None = None
) -> Solution:
    """The solution of the rounds on a graph, with the rule for rows that come later."""
    labeled = np.flatnonzero(task.codes >= 0)
    support = rows[labeled]
    origin = task.origin(support, rows, np.zeros(rows.shape[1], np.float32))
    prior = Prior.of_support(support, task.codes[labeled], origin, task.n_classes, task.constants, task.clues)
    k = task.constants.n_neighbors
    weights = np.empty(len(graph.nodes))
    weights[graph.nodes] = vote_weights(graph.degrees, k)
    weights[labeled] *= task.constants.e
    clues = task.clues
    prototypes, bias = clues.as_prototypes(result.prototypes, result.tau)
    rule = InductiveRule(
        prototypes=prototypes,
        points=rows.ordered(np.concatenate([labeled, np.flatnonzero(task.codes < 0)])),
        assignments=result.assignments,
        weights=weights,
        n_neighbors=k,
        lam=task.constants.lam,
        tau=(1 - clues.weight) * result.tau,
        bias=result.bias + bias.astype(result.bias.dtype),
        search=NewNeighbors(rows, index),
    )
    return replace(
        result,
        constants=task.constants,
        clues=clues,
        answers=task.answers,
        prior=prior,
        origin=origin,
        transform=task.transform,
        center=task.center,
        graph=graph,
        rule=rule,
        graph_report=report,
        graph_recall=report.recall,
    )


@dataclass(frozen=True, repr=False)
class NewNeighbors:
    """The fitted rows near new ones, searched as in the fit: in the cells nearest to a row, or exactly."""

    rows: Rows  # (n, D), as X had them
    index: CellIndex | None = None

    def __call__(self, X: Floats, k: int) -> Ints:
        """Rows of X nearest to each transformed row (m, D), (m, k); -1 where fewer were found."""
        X = X.astype(np.float32)
        if self.index is None:
            return knn(self.rows, k, queries=X).indices
        found = self.index.neighbors_of(X - (self.index.rows.origin - self.rows.origin), k).indices
        near: Ints = np.where(found < 0, -1, self.index.order[found])
        return near


def _query_shares(task: LargeTask, result: Solution) -> Floats:
    """``p = mean_q y_q`` (C,)."""
    counts = np.bincount(task.codes[task.codes >= 0], minlength=task.n_classes)
    total = np.asarray(result.assignments.sum(axis=0, dtype=np.float64)).ravel()
    shares: Floats = np.maximum(total - counts, 0) / max(1, len(task.codes) - int(counts.sum()))
    return shares


def _reached(task: LargeTask, rows: Rows, order: Ints, near: Ints) -> Floats:
    """Shares (n, C) of the labels that reach each row of X, with neighbors (n, k) by positions in an order (n,)."""
    reached = np.empty((len(order), task.n_classes), np.float32)
    distances = squared_distances_to(rows.centered().ordered(order), near)
    paths = Paths.to_neighbors(near, distances)
    reached[order] = paths.spread(task.codes[order], task.n_classes, local=task.clues.local)
    return reached


def _rounds(
    task: LargeTask, rows: Rows, graph: NodeGraph, reached: Floats | None, tol: float, progress: Progress | None
) -> Solution:
    constants, n_classes = task.constants, task.n_classes
    # Far from zero |x|^2 - 2 x.m + |m|^2 would lose its digits, and F does not see a common shift.
    near = rows.centered()
    shift = near.origin - rows.origin
    given = np.flatnonzero(task.codes >= 0)
    support, labels = near[given], task.codes[given]
    clues = task.clues.moved(-shift)
    prior = Prior.of_support(support, labels, task.origin(support, near, shift), n_classes, constants, clues)
    prototypes = prior.means.astype(np.float32)
    queries = np.flatnonzero(task.codes < 0)
    n = len(queries)
    sums, squares = moments(near.ordered(queries))
    sample = near.ordered(sampled_queries(queries, n_classes))
    tau, entries = choose_start(sample[:], prototypes, mean_spread(sums, squares, n), constants, task.plan)
    fixed = task.codes[graph.nodes]
    edges = Edges(graph.indptr, graph.indices, graph.weights, fixed.astype(np.int32))
    with Workers(n * n_classes * 10) as workers:
        free = near.ordered(graph.nodes[:n])
        rounds = open_rounds(workers, free, edges, n_classes, tau, clues, constants.e, entries=entries)
        rows_of = graph.nodes[:n]
        known = None if task.answers is None or task.answers.hints is None else task.answers.hints.row_logits(rows_of)
        rounds.start(prototypes, squares, reached=None if reached is None else reached[rows_of], known=known)
        limits: Any = {"clues": clues, "tol": tol, "progress": progress}
        solution = descend(rounds, prior, constants, n, tau, np.dtype(np.float32), **limits)
        assignments, dropped = rounds.assignments(), max(rounds.dropped)
        del rounds
    Y, found = _of_all_rows(assignments, graph.nodes, fixed[n:], n_classes)
    return replace(
        solution,
        assignments=Y,
        labels=found,
        prototypes=solution.prototypes + shift,
        dropped_mass=dropped,
    )


def choose_start(
    rows: Floats, prototypes: Floats, spread: float, constants: DefaultConstants, plan: LargePlan
) -> tuple[float, int | None]:
    """The temperature, and how many entries of an assignment to keep (None: all), from some transformed queries."""
    unary = squared_distances(rows, prototypes, wide=False)
    tau = choose_tau(unary, spread, constants.pair_spread)
    unary *= np.float32(-tau)
    return tau, None if plan.dense else plan.entries(softmax(unary, axis=1))


def moments(rows: Rows) -> tuple[Floats, float]:
    """``sum_q x_q`` (D,) and ``sum_q |x_q|^2``."""
    n, width = rows.shape
    blocks = row_blocks(n, _BLOCK_ROWS)
    sums, squares = np.zeros((len(blocks), width)), np.zeros(len(blocks))

    def add(number: int, start: int, stop: int) -> None:
        block = rows[start:stop]
        sums[number] = block.sum(axis=0, dtype=np.float64)
        squares[number] = np.einsum("nd,nd->n", block, block).sum(dtype=np.float64)

    with Workers(rows.size) as workers:
        workers.run(add, blocks)
    return sums.sum(axis=0), float(squares.sum())


def mean_spread(sums: Floats, square_sum: float, n: int) -> float:
    """The mean of ``|x_q - x_p|^2`` over pairs of different rows of n, from their :func:`moments`."""
    mean = sums / n
    return max(0.0, 2 * (square_sum - n * float(mean @ mean)) / (n - 1))


def _of_all_rows(assignments: Floats | Top, nodes: Ints, fixed: Ints, n_classes: int) -> tuple[Any, Ints]:
    """Assignments of the first nodes, and the classes of those that are fixed, as (n, C) of the rows of X and (n,)."""
    free, given = np.split(nodes, [len(nodes) - len(fixed)])
    found = np.empty(len(nodes), dtype=np.int64)
    found[given] = fixed
    if isinstance(assignments, Top):
        found[free] = assignments.classes[:, 0]
        shape = (len(nodes), assignments.classes.shape[1])
        classes: Ints = np.zeros(shape, assignments.classes.dtype)
        values: Floats = np.zeros(shape, assignments.values.dtype)
        classes[free], values[free] = assignments.classes, assignments.values
        classes[given, 0], values[given, 0] = fixed, 1
        return sparse_rows(classes, values, n_classes), found
    found[free] = assignments.argmax(axis=1)
    distributions = np.zeros((len(nodes), n_classes), assignments.dtype)
    distributions[free] = assignments
    distributions[given, fixed] = 1
    return distributions, found


def sparse_rows(classes: Ints, values: Floats, n_classes: int) -> sp.csr_array:
    """Classes and values (n, r) of the entries that were kept, 0 for none, as (n, C)."""
    held = values > 0
    indptr = np.concatenate([[0], np.cumsum(held.sum(axis=1))])
    rows = sp.csr_array((values[held], classes[held], indptr), shape=(len(values), n_classes))
    rows.sort_indices()
    return rows


def scaled_affinity(
    rows: Rows, n_neighbors: int, *, watch: Watch | None = None, checkpoint: Path | None = None
) -> sp.csr_array:
    """The default recipe's graph ``D^-1/2 ((A + A^T)/2) D^-1/2`` of many rows (n, D), with k neighbors each: (n, n).

    ``watch`` and ``checkpoint`` are those of :func:`~laplacianshot.estimator.fit_large`.
    """
    stages = no_watch if watch is None else watch
    progress = stages("Neighbors")
    folder = None
    if checkpoint is not None:
        folder = stage_folder(checkpoint, "neighbors", content_of(rows), n_neighbors, astuple(GraphChoice()))
    found = kept_neighbors(rows, n_neighbors, GraphChoice(), progress=progress, folder=folder)
    stages("Graph")
    return node_graph(found.order, found.indices).affinity
