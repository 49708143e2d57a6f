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
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from laplacianshot.engine.passes import squared_distances
from laplacianshot.inference.affinity import knn_affinity, normalize
from laplacianshot.inference.joint import joint_optimize
from laplacianshot.inference.recipes import DELTA, DefaultConstants
from laplacianshot.inference.temperature import divergence
from laplacianshot.labeling.result import dense
from laplacianshot.neighbors.rows import Rows
from laplacianshot.runtime.threads import Prefetch, available_threads, in_this_thread, row_blocks, single_threaded_blas
from laplacianshot.runtime.types import Floats, Ints

# Weight of each column in the rule of confidence, and the range it had where the rule was fitted; printed by
# benchmarks/labeling/fit_confidence.py. s(v) = sign(v) log(1 + |v|).
WEIGHTS: dict[str, tuple[float, float, float]] = {
    "s(assigned)": (1.1543, -1.207, 3.419),  # assigned: odds(y_c)
    "s(first)": (0.0917, -2.468, 2.863),  # first: odds of softmax(-tau a0) at c
    "s(assigned)^2": (0.0349, 0.000, 11.691),
    "s(first)^2": (0.1671, 0.000, 8.194),
    "s(assigned) s(first)": (0.3077, -6.102, 8.613),
    "share": (0.2102, -4.029, 1.382),  # log(C p_c)
    "labels": (-0.2132, 0.000, 2.303),  # log of the given rows per class
    "classes": (-0.1085, 1.609, 4.605),  # log C
    "rows": (0.3326, 1.694, 6.395),  # log of the queries per class
    "agreement": (1.0172, -0.309, 6.907),  # odds of the share of queries whose nearest first prototype is their class
    "mean assigned": (-0.2402, 2.487, 12.575),  # mean of odds(y_c) over the queries
    "balance": (0.6106, 0.000, 0.998),  # exp(-KL(p|u) / delta)
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

# Limits of a small task: rows, classes, queries per class and given rows per class.
_MAX_ROWS = 1200
_MAX_CLASSES = 100
_MIN_QUERIES = 3
_MAX_QUERIES = 20
_MAX_GIVEN = 20
# Number of answers to collect, and limit of the small tasks for it.
_ANSWERS = 160
_MAX_TASKS = 8

# Support, its labels, queries and the answers of the first of them.
_SmallTask = tuple[Floats, Ints, Floats, Ints]


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
    """A task in transformed space, and its predictions."""

    support: Floats  # (n_s, D)
    labels: Ints  # (n_s,)
    query: Floats | Rows  # (N, D)
    predicted: Ints  # (N,)
    origin: Floats  # (D,)
    n_classes: int


@dataclass(frozen=True)
class Checks:
    """Evidence on k rows whose answer is known."""

    columns: Floats  # (k, K)
    right: Floats  # (k,), 1 if the label is right
    simulated: bool  # the answers are predictions of the fit

    def __len__(self) -> int:
        return len(self.right)


def draw_checks(fitted: FittedTask, rng: np.random.Generator) -> Checks:
    """Draw and solve small tasks until about 160 answers are known; from given labels if half the classes have two."""
    counts = np.bincount(fitted.labels, minlength=fitted.n_classes)
    found = np.bincount(fitted.predicted, minlength=fitted.n_classes)
    simulated = 2 * np.sum(counts >= 2) < fitted.n_classes
    draw = _simulated_tasks if simulated else _held_out_tasks

    def answered(small: _SmallTask) -> tuple[Floats, Floats]:
        rows, labels, queries, answers = small
        with in_this_thread():
            margins, task = _solve_small(rows, labels, queries, fitted.origin)
        known = slice(0, len(answers))
        return task.columns(margins)[known], (margins.predicted[known] == answers).astype(np.float64)

    threads = available_threads()
    tasks = draw(fitted, counts, found, rng)
    with single_threaded_blas(), Prefetch(answered, tasks, threads, threads + 1, "checks") as results:
        parts = [(np.zeros((0, len(COLUMNS))), np.zeros(0)), *results]
    columns, right = (np.concatenate(part) for part in zip(*parts, strict=True))
    return Checks(columns, right, bool(simulated))


def _solve_small(support: Floats, labels: Ints, query: Floats, origin: Floats) -> tuple[Margins, TaskEvidence]:
    """Solve a small task of transformed rows with the default recipe; return the evidence on its queries."""
    n_classes = int(labels.max()) + 1
    constants = DefaultConstants.for_task(len(support), len(query), n_classes)
    graph = normalize(knn_affinity(np.concatenate([support, query]), constants.n_neighbors))
    result = joint_optimize(support, labels, query, graph, origin, n_classes, constants)
    first = result.prior.means.astype(query.dtype)
    margins = Margins.of_queries(query, result.assignments, first, result.tau)
    return margins, TaskEvidence.of(margins, result.assignments.mean(axis=0, dtype=np.float64), len(support))


def _held_out_tasks(fitted: FittedTask, counts: Ints, found: Ints, rng: np.random.Generator) -> Iterator[_SmallTask]:
    """Yield tasks whose first queries, and answers, are one held-out given row of each class."""
    given = [rng.permutation(rows) for rows in _by_class(fitted.labels, fitted.n_classes)]
    predicted = _by_class(fitted.predicted, fitted.n_classes)
    used = np.zeros(fitted.n_classes, dtype=np.int64)
    answers = 0
    for _ in range(_MAX_TASKS):
        left = np.flatnonzero((counts >= 2) & (used < counts))
        if answers >= _ANSWERS or len(left) < 2:
            return
        # Classes that were used least come first.
        chosen = left[np.lexsort((rng.random(len(left)), used[left]))][: _classes_per_task(counts[left])]
        held = np.array([given[c][used[c]] for c in chosen])
        support = [np.delete(given[c], used[c])[:_MAX_GIVEN] for c in chosen]
        queries = [rng.permutation(predicted[c])[: _queries_per_class(chosen, support)] for c in chosen]
        used[chosen] += 1
        answers += len(chosen)
        labels = np.repeat(np.arange(len(chosen)), [len(rows) for rows in support])
        rows = np.concatenate([fitted.support[held], fitted.query[np.concatenate(queries)]])
        yield fitted.support[np.concatenate(support)], labels, rows, np.arange(len(chosen))


def _simulated_tasks(fitted: FittedTask, counts: Ints, found: Ints, rng: np.random.Generator) -> Iterator[_SmallTask]:
    """Yield tasks whose support is drawn from the predictions; the predictions of the queries are the answers."""
    predicted = _by_class(fitted.predicted, fitted.n_classes)
    able = np.flatnonzero(found >= 3)
    answers = 0
    for _ in range(_MAX_TASKS):
        if answers >= 2 * _ANSWERS or len(able) < 2:
            return
        chosen = rng.permutation(able)[: _classes_per_task(counts[able])]
        shuffled = [rng.permutation(predicted[c]) for c in chosen]
        shots = [min(max(1, int(counts[c])), int(found[c]) // 2, _MAX_GIVEN) for c in chosen]
        support = [rows[:shot] for rows, shot in zip(shuffled, shots, strict=True)]
        n_queries = _queries_per_class(chosen, support)
        queries = [rows[shot : shot + n_queries] for rows, shot in zip(shuffled, shots, strict=True)]
        truth = np.repeat(np.arange(len(chosen)), [len(rows) for rows in queries])
        answers += len(truth)
        labels = np.repeat(np.arange(len(chosen)), shots)
        yield fitted.query[np.concatenate(support)], labels, fitted.query[np.concatenate(queries)], truth


def _classes_per_task(counts: Ints) -> int:
    """Return how many classes fit into a small task with a few queries each, given the labeled rows per class."""
    room = _MAX_ROWS / (np.minimum(counts, _MAX_GIVEN).mean() + _MIN_QUERIES)
    return int(min(room, _MAX_CLASSES))


def _queries_per_class(chosen: Ints, support: list[Ints]) -> int:
    mean_shots = sum(len(rows) for rows in support) / len(chosen)
    return int(min(max(_MAX_ROWS / len(chosen) - mean_shots, _MIN_QUERIES), _MAX_QUERIES))


def _by_class(codes: Ints, n_classes: int) -> list[Ints]:
    """Return the positions of the rows of each class."""
    order = np.argsort(codes, kind="stable")
    return np.split(order, np.searchsorted(codes[order], np.arange(1, n_classes)))
