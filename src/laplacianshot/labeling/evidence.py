"""Evidence of how far the labels of a fit can be trusted: a few numbers per row and a few per task.

All of them are log-odds, logarithms or shares, so none depends on a scale. With y the assignments of a task's queries,
c the class of a row, ``a0`` the distances to the first prototypes (of the given rows alone), p the class shares and
``odds(p_c) = log(p_c / (1 - p_c))``, the K columns are those of :data:`WEIGHTS`.

Calibration needs answers. If classes have two given rows or more, one row of each is held out, a few queries per class
are drawn, and this small task is labeled from the remaining given rows: the held-out rows tell right from wrong. With
one row per class nothing can be held out. Then the support of the small task is drawn from the rows predicted to be of
each class, and agreement with the predictions takes the place of being right.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse as sp

from laplacianshot.engine.passes import squared_distances
from laplacianshot.inference.affinity import neighbor_affinity, normalize
from laplacianshot.inference.clues import Answers, hold_prototypes, weighed
from laplacianshot.inference.joint import NO_CLUES, Clues, Prior, joint_optimize, m_step
from laplacianshot.inference.recipes import DELTA, DefaultConstants
from laplacianshot.inference.spreading import MAX_PATHS, Paths, spread_labels
from laplacianshot.inference.temperature import divergence
from laplacianshot.labeling.result import dense
from laplacianshot.neighbors.knn import knn
from laplacianshot.neighbors.rows import Rows
from laplacianshot.runtime.threads import Prefetch, available_threads, in_this_thread, row_blocks, single_threaded_blas
from laplacianshot.runtime.types import Floats, Ints

# Weight of each column in the rule of confidence, and the range it had where the rule was fitted; printed by
# benchmarks/labeling/fit_confidence.py. s(v) = sign(v) log(1 + |v|).
WEIGHTS: dict[str, tuple[float, float, float]] = {
    "s(assigned)": (1.2361, -1.348, 3.714),  # assigned: odds(y_c)
    "s(first)": (-0.2902, -2.833, 2.799),  # first: odds of softmax(-tau a0) at c
    "s(assigned)^2": (0.1485, 0.000, 13.791),
    "s(first)^2": (0.0941, 0.000, 8.025),
    "s(assigned) s(first)": (0.3392, -10.520, 7.914),
    "share": (-0.1620, -2.911, 2.303),  # log(C p_c)
    "labels": (-0.0938, 0.000, 2.303),  # log of the given rows per class
    "classes": (-0.2051, 1.609, 4.605),  # log C
    "rows": (0.0793, 1.531, 5.402),  # log of the queries per class
    "agreement": (1.1377, -2.494, 6.907),  # odds of the share of queries whose nearest first prototype is their class
    "mean assigned": (-0.0627, -0.336, 40.000),  # mean of odds(y_c) over the queries
    "balance": (1.0577, 0.000, 1.000),  # exp(-KL(p|u) / delta)
}
COLUMNS = tuple(WEIGHTS)

# Limits: odds beyond the first, and assignments, shares and errors below the others, say nothing more.
MAX_ODDS = 40.0
MIN_ASSIGNMENT = 1e-30
MIN_SHARE = 1e-4
_MIN_ERROR = 1e-3

# Maximum number of rows and of entries of a block of assignments.
_BLOCK_ROWS = 8192
_BLOCK_ENTRIES = 2**22

# Limits of the sample that is solved again: queries, products with all prototypes, classes, given rows per class and
# rounds.
_MAX_ROWS = 2000
_MAX_PRODUCTS = 2**27
_MAX_CLASSES = 100
_MAX_GIVEN = 20
_ROUNDS = 10
# Number of answers to collect, and limit of the tasks for it; of those with simulated labels. Rows that a class must be
# predicted for to lend some of them as labels.
_ANSWERS = 160
_MAX_TASKS = 5
_SIMULATED_TASKS = 4
_MIN_FOUND = 3


@dataclass(frozen=True, repr=False)
class ClassRows:
    """The rows ``rows`` (m,) of a matrix (n, C), dense or sparse; slices are dense."""

    matrix: Any
    rows: Ints

    def __len__(self) -> int:
        return len(self.rows)

    def __getitem__(self, some: slice) -> Floats:
        """Return consecutive rows, (b, C)."""
        return dense(self.matrix[self.rows[some]])

    def blocks(self) -> list[tuple[int, int]]:
        """Return the ranges of small blocks."""
        return _class_blocks(len(self.rows), self.matrix.shape[1])

    def mean(self) -> Floats:
        """Return the mean of the rows (C,), in float64."""
        sums = np.zeros(self.matrix.shape[1])
        for start, stop in self.blocks():
            sums += self[start:stop].sum(axis=0, dtype=np.float64)
        mean: Floats = sums / max(1, len(self))
        return mean


def _class_blocks(n: int, n_classes: int) -> list[tuple[int, int]]:
    """Cut ``[0, n)`` into blocks with a limited number of entries (m, C)."""
    return row_blocks(n, max(1, min(_BLOCK_ROWS, _BLOCK_ENTRIES // max(1, n_classes))))


class Margins(NamedTuple):
    """Evidence on m rows, all of shape (m,)."""

    predicted: Ints  # c, the class of each row
    assigned: Floats  # odds of c by the assignments
    first: Floats  # odds of c by the first prototypes
    agrees: Floats  # whether c is the class of the nearest first prototype

    @classmethod
    def of_logits(cls, assigned: Floats, first: Floats) -> Margins:
        """Return the margins for logits (m, C) of the assignments and of the first prototypes."""
        predicted = assigned.argmax(axis=1)
        return cls(predicted, odds(assigned, predicted), odds(first, predicted), first.argmax(axis=1) == predicted)

    @classmethod
    def of_queries(
        cls, rows: Floats | Rows, assignments: Floats | ClassRows, prototypes: Floats, tau: float
    ) -> Margins:
        """Return the margins of queries (N, D) with assignments (N, C), first prototypes (C, D) and temperature."""
        parts = []
        for start, stop in _class_blocks(len(rows), len(prototypes)):
            logits = np.log(np.maximum(assignments[start:stop], MIN_ASSIGNMENT))
            parts.append(cls.of_logits(logits, squared_distances(rows[start:stop], prototypes, wide=False) * -tau))
        return cls(*(np.concatenate(part) for part in zip(*parts, strict=True)))


class TaskEvidence(NamedTuple):
    """Evidence on a task as a whole: the last of COLUMNS, which all of its rows share, and its class shares (C,)."""

    shared: tuple[float, ...]
    shares: Floats

    @classmethod
    def of(cls, margins: Margins, shares: Floats, n_support: int) -> TaskEvidence:
        """Return the evidence of a task of N queries with these margins and class shares (C,)."""
        n, n_classes = len(margins.predicted), len(shares)
        agreement = min(max(float(np.mean(margins.agrees)), _MIN_ERROR), 1 - _MIN_ERROR)
        shared = (
            # Names or a prior stand for a label of each class.
            math.log(max(n_support, n_classes) / n_classes),
            math.log(n_classes),
            math.log(n / n_classes),
            math.log(agreement / (1 - agreement)),
            float(np.mean(margins.assigned)),
            math.exp(-divergence(shares) / DELTA),
        )
        return cls(shared, shares)

    def columns(self, margins: Margins) -> Floats:
        """Return the columns of rows of this task, (m, K)."""
        shares = np.log(np.maximum(self.shares * len(self.shares), MIN_SHARE))
        a, f = _signed_log(margins.assigned), _signed_log(margins.first)
        shared = (np.full(len(a), value) for value in self.shared)
        columns: Floats = np.stack([a, f, a * a, f * f, a * f, shares[margins.predicted], *shared], axis=1)
        return columns


def odds(logits: Floats, columns: Ints) -> Floats:
    """``log p_c / (1 - p_c)`` of ``p = softmax(logits)`` (m, C) at one column c per row, clipped to [-40, 40]."""
    rows = np.arange(len(logits))
    rest = logits.astype(np.float64)
    own = rest[rows, columns]
    rest[rows, columns] = -np.inf
    top = rest.max(axis=1)
    rest -= top[:, None]
    found: Floats = own - top - np.log(np.exp(rest).sum(axis=1))
    return np.clip(found, -MAX_ODDS, MAX_ODDS)


def _signed_log(values: Floats) -> Floats:
    logs: Floats = np.sign(values) * np.log1p(np.abs(values))
    return logs


@dataclass(frozen=True)
class FittedTask:
    """A task in transformed space, its predictions, and what was chosen for it."""

    support: Floats  # (n_s, D)
    labels: Ints  # (n_s,)
    query: Floats | Rows  # (N, D)
    predicted: Ints  # (N,)
    origin: Floats  # (D,)
    n_classes: int
    answers: Answers
    local: bool  # that of the clues


@dataclass(frozen=True)
class Checks:
    """Evidence on k rows whose answer is known."""

    columns: Floats  # (k, K)
    right: Floats  # (k,), 1 if the label is right
    simulated: bool  # the answers are predictions of the fit

    def __len__(self) -> int:
        return len(self.right)


def draw_checks(fitted: FittedTask, rng: np.random.Generator) -> Checks:
    """Solve the task again with other labels: without some of the given ones if half of the classes have two."""
    counts = np.bincount(fitted.labels, minlength=fitted.n_classes)
    simulated = 2 * np.sum(counts >= 2) < fitted.n_classes
    found = np.bincount(fitted.predicted, minlength=fitted.n_classes)
    classes = np.flatnonzero(found >= _MIN_FOUND) if simulated else np.arange(fitted.n_classes)
    if len(classes) < 2:
        return Checks(np.zeros((0, len(COLUMNS))), np.zeros(0), bool(simulated))
    if len(classes) > _MAX_CLASSES:
        # Those with several labels, which can be held back, come first.
        classes = np.sort(classes[np.lexsort((rng.random(len(classes)), counts[classes] < 2))[:_MAX_CLASSES]])
    # Simulated labels stand for all that is known of the classes.
    sample = _Sample.of(fitted, classes, NO_CLUES if simulated else fitted.answers.known.of_classes(classes), rng)
    threads = available_threads()
    tasks = sample.simulated_tasks(rng) if simulated else sample.held_out_tasks()
    with single_threaded_blas(), Prefetch(sample.answered, tasks, threads, threads + 1, "checks") as results:
        parts = [(np.zeros((0, len(COLUMNS))), np.zeros(0)), *results]
    columns, right = (np.concatenate(part) for part in zip(*parts, strict=True))
    return Checks(columns, right, bool(simulated))


class _Check(NamedTuple):
    """The sample with the classes that are known in a check, and the rows that it asks for."""

    classes: Ints  # (m,), -1 where not known
    asked: Ints  # (k,), rows
    answers: Ints  # (k,), their classes


@dataclass(frozen=True, repr=False)
class _Sample:
    """Rows of a fitted task and the graph between them: all of a task that is small, some of a large one."""

    rows: Floats  # (m, D)
    given: Ints  # (m,), class of a labeled row, -1 for others
    predicted: Ints  # (m,), class by the fit
    n_classes: int
    graph: sp.csr_array  # (m, m), normalized
    paths: Paths | None  # where labels are spread along the graph
    origin: Floats
    recipe: FittedTask
    known: Clues  # what was known of the classes besides

    @classmethod
    def of(cls, fitted: FittedTask, classes: Ints, known: Clues, rng: np.random.Generator) -> _Sample:
        """Draw at most 2,000 queries and 20 given rows per class of some classes (C',), a few of each first."""
        code = np.full(fitted.n_classes, -1)
        code[classes] = np.arange(len(classes))
        support = np.concatenate(
            [np.zeros(0, np.int64), *(rng.permutation(_rows_of(fitted.labels, c))[:_MAX_GIVEN] for c in classes)]
        )
        queries = rng.permutation(np.flatnonzero(code[fitted.predicted] >= 0))
        room = min(_MAX_ROWS, max(_MAX_ROWS // 4, _MAX_PRODUCTS // (len(classes) * len(fitted.origin))))
        if len(queries) > room:
            firsts = np.concatenate([_rows_of(fitted.predicted[queries], c)[:_MIN_FOUND] for c in classes])
            queries = np.concatenate([queries[firsts], np.delete(queries, firsts)])[:room]
        queries = np.sort(queries)
        labels, predicted = code[fitted.labels[support]], code[fitted.predicted[queries]]
        rows = np.concatenate([fitted.support[support], fitted.query[queries]])
        k = DefaultConstants.for_task(len(support), len(queries), len(classes)).n_neighbors
        along = fitted.answers.shares[2] > 0
        near = knn(rows, max(k, MAX_PATHS) if along else k, method="exact", distances=along)
        graph = normalize(neighbor_affinity(replace(near, indices=near.indices[:, :k]), dtype=rows.dtype))
        paths = Paths.to_neighbors(near.indices, near.distances) if along else None
        given = np.concatenate([labels, np.full(len(queries), -1)])
        everywhere = np.concatenate([labels, predicted])
        return cls(rows, given, everywhere, len(classes), graph, paths, fitted.origin, fitted, known)

    def held_out_tasks(self) -> Iterator[_Check]:
        """Yield tasks that lack a part of the given labels, which are the answers; each class keeps one or more."""
        rows = np.flatnonzero(self.given >= 0)
        counts = np.bincount(self.given[rows], minlength=self.n_classes)
        # The place of each row among those of its class.
        place = np.arange(len(rows)) - np.repeat(np.cumsum(counts) - counts, counts)
        folds = np.minimum(counts, _MAX_TASKS)[self.given[rows]]
        answers = 0
        for turn in range(_MAX_TASKS):
            held = rows[(folds > 1) & (place % folds == turn)]
            if answers >= _ANSWERS or len(held) == 0:
                return
            classes = self.given.copy()
            classes[held] = -1
            answers += len(held)
            yield _Check(classes, held, self.given[held])

    def simulated_tasks(self, rng: np.random.Generator) -> Iterator[_Check]:
        """Yield tasks whose labels are drawn from the predictions; those of some other rows are the answers."""
        counts = np.bincount(self.given[self.given >= 0], minlength=self.n_classes)
        members = [_rows_of(self.predicted, c) for c in range(self.n_classes)]
        for _ in range(_SIMULATED_TASKS):
            classes = np.full(len(self.rows), -1)
            for c, rows in enumerate(members):
                classes[rng.permutation(rows)[: max(1, min(counts[c], len(rows) // 2))]] = c
            asked = rng.permutation(np.flatnonzero(classes < 0))[: 2 * _ANSWERS // _SIMULATED_TASKS]
            yield _Check(classes, asked, self.predicted[asked])

    def answered(self, check: _Check) -> tuple[Floats, Floats]:
        """Solve a task as the fitted one was, and return the evidence on the rows asked for, and which are right."""
        with in_this_thread():
            margins, task = self._solved(check.classes)
        place = np.cumsum(check.classes < 0) - 1
        asked = place[check.asked]
        return task.columns(margins)[asked], (margins.predicted[asked] == check.answers).astype(np.float64)

    def _solved(self, classes: Ints) -> tuple[Margins, TaskEvidence]:
        """Evidence on the rows of unknown classes (m,), in their order."""
        kept, out = np.flatnonzero(classes >= 0), np.flatnonzero(classes < 0)
        order = np.concatenate([kept, out])
        W = sp.csr_array(self.graph[order][:, order])
        support, labels, query, C = self.rows[kept], classes[kept], self.rows[out], self.n_classes
        answers, clues, reached = self.recipe.answers, self.known, None
        constants = DefaultConstants.for_task(len(kept), len(out), C).with_absent(answers.absent, C)
        constants = constants.with_graph_trust(answers.graph_trust)
        if answers.spread:
            found = spread_labels(W, labels, C)
            prior = Prior.of_support(support, labels, self.origin, C, constants, clues)
            clues = replace(clues, start=m_step(prior, found.T @ query, found.sum(axis=0)))
            clues = weighed(clues, answers.shares, support, labels, query, C, local=self.recipe.local)
        if answers.prototypes_held:
            constants, clues = hold_prototypes(constants, clues)
        if self.paths is not None:
            reached = self.paths.spread(classes, C, local=self.recipe.local)[out].astype(query.dtype)
        constants = constants._replace(max_rounds=min(constants.max_rounds, constants.start_rounds + _ROUNDS))
        result = joint_optimize(support, labels, query, W, self.origin, C, constants, clues=clues, reached=reached)
        first = result.prior.means.astype(query.dtype)
        margins = Margins.of_queries(query, result.assignments, first, result.tau)
        return margins, TaskEvidence.of(margins, result.assignments.mean(axis=0, dtype=np.float64), len(kept))


def _rows_of(codes: Ints, c: int) -> Ints:
    return np.flatnonzero(codes == c)
