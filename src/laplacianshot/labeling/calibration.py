"""Calibrated probabilities, from one fit and without further labels.

The assignments of a fit rank its rows well but are overconfident, by how much depends on the data. Three steps turn
them into probabilities:

1. a rule for all data, ``z_q = w0 + w . evidence_q`` (:mod:`~laplacianshot.labeling.evidence`), whose weights were
   fitted once on tasks of the design sets (``benchmarks/labeling/fit_confidence.py``);
2. a shift b for these data: the task is solved again with other labels (:mod:`~laplacianshot.labeling.evidence`), so
   that answers are known, and b is the mean of what has probability
   ``~ exp(sum_k log P(right_k | z_k + b) - b^2 / (2 s^2))``. Where the answers are simulated, where classes look
   tighter than they are, ``b' = u0 + u b`` takes its place;
3. ``P(label is right) = 1 / (1 + exp(-z_q - b))``. The other classes share the rest as powers of their assignments.

How far b is known says how far the mean confidence, the expected accuracy, is known
(:class:`~laplacianshot.labeling.result.ExpectedAccuracy`).

The labels themselves stay those of the fit.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.sparse as sp

from laplacianshot.estimator import LaplacianShot
from laplacianshot.inference.clues import Answers
from laplacianshot.inference.prototypes import squared_distances
from laplacianshot.inference.recipes import DefaultConstants
from laplacianshot.inference.solution import Solution
from laplacianshot.labeling.evidence import WEIGHTS, Checks, ClassRows, FittedTask, Margins, TaskEvidence, draw_checks
from laplacianshot.labeling.result import NORMAL, dense
from laplacianshot.neighbors.rows import Rows
from laplacianshot.runtime.threads import row_blocks
from laplacianshot.runtime.types import Floats, Ints

# w0, printed by benchmarks/labeling/fit_confidence.py like WEIGHTS.
INTERCEPT = -2.3840
# s of the shift; u0 and u where the answers are simulated.
SHIFT_SPREAD = 1.5
_SIMULATED_SHIFT = (-0.919, 0.771)
# How far the shift is known: answers count as if they were three times fewer, as rows of a task depend on one another,
# and this standard deviation stays however many there are. Standard deviations below and above where the answers are
# simulated, and where no label is given: how far classes follow the clusters of the rows cannot be known then.
_DEPENDENCE, _MIN_SPREAD = 3.0, 0.2
_SIMULATED_SPREAD, _UNCHECKED_SPREAD = (1.6, 0.8), (1.6, 1.0)
_ANY_SPREAD = 20.0
# Shifts that are compared, and the quantiles at both ends of an interval.
_SHIFTS = np.linspace(-8, 8, 641)
_ENDS = (0.025, 0.975)
# What is taken off the log-odds of labels where no label is given, and the least share of agreeing neighbors.
_UNCHECKED, _MIN_AGREEMENT = -0.5, 0.02
# A label still supports its own row after it is left out, through rows further away: what that adds to z, times the
# number of given rows of its class.
_ECHO = 2.5
# Exponent of the assignments of the classes that share the rest.
REST_POWER = 2 / 3

MAX_CONFIDENCE = 1 - 1e-6
_TINY = np.finfo(np.float32).tiny
# Maximum number of entries of a given row if probabilities are sparse, and of votes per block.
_MAX_ENTRIES = 32
_BLOCK_ENTRIES = 4_000_000


@dataclass(frozen=True, repr=False)
class Calibration:
    """Calibrated probabilities of n rows."""

    # (n, C), float32. Of a given row as if its own label were unknown; the largest of an unlabeled row is that of the
    # label from the fit. Sparse if the assignments are.
    probabilities: Any
    shift: float  # b, what these data add to the log-odds of the rule for all data
    task: TaskEvidence  # what all rows share
    spread: tuple[float, float]  # standard deviation of the shift, below and above
    source: str  # what the shift was found from, in a sentence


def calibrate(model: LaplacianShot, codes: Ints) -> Calibration:
    """Return calibrated probabilities of all rows that ``model``, of the default recipe, was fitted on.

    Codes (n,) are the class numbers of the rows, ``0..C-1`` as in ``model.classes_``, -1 for unlabeled ones.
    """
    if model.recipe != "default":
        raise ValueError(f"only the default recipe can be calibrated, got recipe={model.recipe!r}.")
    given, queries = np.flatnonzero(codes >= 0), np.flatnonzero(codes < 0)
    evidence = gather(model, codes)
    answers = model.solution_.answers
    shift = shift_of(evidence.checks) + unchecked_shift(answers)
    more: Any = (shift, evidence.task, *_doubt(evidence.checks, unchecked=_is_unchecked(answers)))
    labels = codes[given]
    echo = np.where(evidence.given_logits.argmax(axis=1) == labels, _ECHO / np.bincount(labels)[labels], 0.0)
    left_out = evidence.given_logits - evidence.given_logits.max(axis=1, keepdims=True)
    of_given = class_probabilities(np.exp(left_out), log_odds(evidence.given) + shift - echo)
    assignments = ClassRows(model.label_distributions_, queries)
    z = log_odds(evidence.query) + shift
    if sp.issparse(model.label_distributions_):
        return Calibration(_sparse_probabilities(assignments, z, given, of_given), *more)
    probabilities = np.empty(model.label_distributions_.shape, dtype=np.float32)
    probabilities[given] = of_given
    for start, stop in assignments.blocks():
        probabilities[queries[start:stop]] = class_probabilities(assignments[start:stop], z[start:stop])
    return Calibration(probabilities, *more)


@dataclass(frozen=True)
class Evidence:
    """The evidence of a fit on its rows, in the order of their positions."""

    query: Floats  # (N, K), of the unlabeled rows
    given: Floats  # (n_s, K), of the given rows as if their own labels were unknown
    given_logits: Floats  # (n_s, C)
    checks: Checks
    task: TaskEvidence


def gather(model: LaplacianShot, codes: Ints) -> Evidence:
    """Return the evidence that :func:`calibrate` weighs."""
    labels, queries, solution = codes[codes >= 0], np.flatnonzero(codes < 0), model.solution_
    points, n, n_classes = solution.rule.points, len(labels), len(model.classes_)
    # Rows are not formed here.
    query = points.ordered(np.arange(n, len(points))) if isinstance(points, Rows) else points[n:]
    support = points[:n]
    first = solution.prior.means.astype(support.dtype)
    logits = left_out_logits(model, codes) if n else np.zeros((0, n_classes))
    pull = _pull(solution)
    first_logits = -solution.tau * _distances_without(support, labels, first, solution.constants, pull)
    of_given = Margins.of_logits(logits, first_logits)
    if len(queries) == 0:
        task = TaskEvidence.of(of_given, np.bincount(labels, minlength=n_classes) / n, n)
        columns = task.columns(of_given)
        return Evidence(columns[:0], columns, logits, Checks(columns[:0], np.zeros(0), simulated=False), task)
    assignments = ClassRows(model.label_distributions_, queries)
    of_query = Margins.of_queries(query, assignments, first, solution.tau)
    task = TaskEvidence.of(of_query, assignments.mean(), n)
    answers = solution.answers or Answers()
    fitted = FittedTask(
        support, labels, query, of_query.predicted, solution.origin, n_classes, answers, solution.clues.local
    )
    checks = draw_checks(fitted, np.random.default_rng(0))
    return Evidence(task.columns(of_query), task.columns(of_given), logits, checks, task)


def log_odds(
    columns: Floats, weights: Mapping[str, tuple[float, float, float]] = WEIGHTS, intercept: float = INTERCEPT
) -> Floats:
    """Return ``z = w0 + w . evidence`` of rows (m, K); evidence is clipped to its range."""
    factors, low, high = np.array(list(weights.values())).T
    z: Floats = intercept + np.clip(columns, low, high) @ factors
    return z


def shift_of(checks: Checks) -> float:
    """Return the shift b from the answers of small tasks, 0 without any."""
    if len(checks) == 0:
        return 0.0
    shift = mean_shift(log_odds(checks.columns), checks.right)
    base, slope = _SIMULATED_SHIFT if checks.simulated else (0.0, 1.0)
    return base + slope * shift


def unchecked_shift(answers: Answers | None) -> float:
    """Return the shift of labels that no given label has checked: of names or a prior alone; else 0.

    ``-1/2 + min(0, log a / (1 - a))`` for a share a of neighbors that agree by them: where fewer than half do, at least
    one of two neighbors is wrong.
    """
    if answers is None or answers.hints is None or not _is_unchecked(answers):
        return 0.0
    agreement = min(max(answers.hints.agreement, _MIN_AGREEMENT), 0.5)
    return _UNCHECKED + math.log(agreement / (1 - agreement))


def _is_unchecked(answers: Answers | None) -> bool:
    """Whether labels come from names or a prior alone."""
    return answers is not None and answers.hints is not None and not answers.hints.n_labels


def shift_probabilities(z: Floats, right: Floats, spread: float, dependence: float = 1.0) -> Floats:
    """Return the probability of each of the shifts that are compared, given k answers with log-odds z (k,).

    ``~ exp(sum_k log P(right_k | z_k + b) / dependence - b^2 / (2 spread^2))``
    """
    logs = -np.square(_SHIFTS / spread) / 2
    for value, sign in zip(z, 2 * right - 1, strict=True):
        logs -= np.logaddexp(0, -sign * (value + _SHIFTS)) / dependence
    found = np.exp(logs - logs.max())
    probabilities: Floats = found / found.sum()
    return probabilities


def mean_shift(z: Floats, right: Floats, spread: float = SHIFT_SPREAD) -> float:
    """Return the mean shift by :func:`shift_probabilities`."""
    return float(shift_probabilities(z, right, spread) @ _SHIFTS)


def spread_of(z: Floats, checks: Checks) -> tuple[float, float]:
    """Return how far the shift may be off, below and above, as standard deviations; z (k,) are those of the checks.

    From the 95% interval of the shift, with answers that count a third. Where all are right, no shift is too large.
    """
    if checks.simulated or len(checks) == 0:
        return _SIMULATED_SPREAD
    known = np.cumsum(shift_probabilities(z, checks.right, SHIFT_SPREAD, _DEPENDENCE))
    mean = mean_shift(z, checks.right)
    ends = (abs(float(np.interp(end, known, _SHIFTS)) - mean) / NORMAL for end in _ENDS)
    below, above = (math.hypot(end, _MIN_SPREAD) for end in ends)
    return below, _ANY_SPREAD if checks.right.all() else above


def _doubt(checks: Checks, *, unchecked: bool) -> tuple[tuple[float, float], str]:
    """Return the spread of the shift, and where the expected accuracy comes from."""
    if unchecked:
        return _UNCHECKED_SPREAD, (
            "No label has checked it: it comes from how sure names or scores are, and how far similar items agree. "
            "Label a few items of each class to know it better."
        )
    if checks.simulated or len(checks) == 0:
        return _SIMULATED_SPREAD, (
            "Most classes have one label, so none could be held back: it comes from how far items keep their labels "
            "when other items of the predicted classes are labeled instead. A second label per class narrows it."
        )
    return spread_of(log_odds(checks.columns), checks), (
        f"It comes from {len(checks):,} given labels that were held back in turn, of which {int(checks.right.sum()):,} "
        "were found, and from how sure the labels of the others are compared with these."
    )


def class_probabilities(assignments: Floats, z: Floats) -> Floats:
    """Return probabilities (m, C): ``1 / (1 + exp(-z))`` for the label, the rest in proportion to ``y^REST_POWER``."""
    rows = np.arange(len(assignments))
    label = assignments.argmax(axis=1)
    others = np.maximum(assignments, _TINY) ** np.float32(REST_POWER)
    others[rows, label] = 0
    others /= others.sum(axis=1, keepdims=True)
    confidence = _confidence(z, others.max(axis=1, initial=0))
    others *= (1 - confidence)[:, None]
    others[rows, label] = confidence
    return others


def _sparse_probabilities(assignments: ClassRows, z: Floats, given: Ints, of_given: Floats) -> sp.csr_array:
    """Return probabilities (n, C) from sparse assignments (N, C), log-odds (N,) and those of the given rows (n_s, C).

    Classes without an entry get 0, given rows keep their largest entries.
    """
    Y = sp.csr_array(assignments.matrix[assignments.rows])
    each = np.repeat(np.arange(Y.shape[0]), np.diff(Y.indptr))
    firsts = Y.indptr[:-1]
    # Every row has an entry. Of equal ones the first is the label.
    tops = np.flatnonzero(Y.data == np.maximum.reduceat(Y.data, firsts)[each])
    tops = tops[np.unique(each[tops], return_index=True)[1]]
    others = np.maximum(Y.data, _TINY) ** np.float32(REST_POWER)
    others[tops] = 0
    sums = np.add.reduceat(others, firsts)
    others /= np.where(sums > 0, sums, 1)[each]
    confidence = _confidence(z, np.maximum.reduceat(others, firsts))
    others *= (1 - confidence).astype(np.float32)[each]
    others[tops] = confidence
    Y.data = others
    threshold: Floats | float = 0.0
    if of_given.shape[1] > _MAX_ENTRIES:
        threshold = -np.partition(-of_given, _MAX_ENTRIES, axis=1)[:, _MAX_ENTRIES, None]
    largest = sp.csr_array(np.where(of_given > threshold, of_given, 0).astype(np.float32))
    order = np.argsort(np.concatenate([assignments.rows, given]))
    return sp.csr_array(sp.vstack([Y, largest], format="csr")[order])


def _confidence(z: Floats, next_best: Floats) -> Floats:
    """Return the confidence of a label with log-odds z, at least just above the next class."""
    return np.clip(1 / (1 + np.exp(-z)), (next_best + 1e-6) / (1 + next_best), MAX_CONFIDENCE)


def left_out_logits(model: LaplacianShot, codes: Ints) -> Floats:
    """Return logits (n_s, C) of the given rows, each as if it had no label, in the order of their positions.

    A query's assignment is ``softmax(-tau a_q + lam (e W_qs Y_s + W_qq Y)_q + b)``. The same holds for a given row s of
    class c after two corrections that need no second fit:

    - its prototype is computed without it: with ``M_c = beta n_c + kappa + sum_q y_qc`` the mean without s lies
      ``M_c / (M_c - beta)`` times as far from it as the mean with it;
    - so are its neighbors: ``lam e W_qs`` is subtracted from their logit of class c before they vote.

    The effect of the label on rows further away stays, so the only row of a class is still believed to some degree.
    """
    given = np.flatnonzero(codes >= 0)
    labels = codes[given]
    rule, constants = model.solution_.rule, model.solution_.constants
    Y = model.label_distributions_
    lam, edge = constants.lam, constants.e
    queries = ClassRows(Y, np.flatnonzero(codes < 0))
    masses = len(queries) * queries.mean()
    support = rule.points[: len(given)]
    # Distances alone: a linear classifier has learned the row's own label.
    solution = model.solution_
    logits: Floats = -solution.tau * _distances_without(
        support, labels, solution.prototypes, constants, masses + _pull(solution)
    )
    logits += solution.bias

    # Votes: neighbors' assignments, those of given rows times e.
    weights = np.where(codes >= 0, edge, 1.0)
    graph = sp.csr_array(model.affinity_[given])
    degrees = np.diff(graph.indptr)
    rows = np.repeat(np.arange(len(given)), degrees)
    block_rows = _BLOCK_ENTRIES // max(1, int(degrees.max()) * len(model.classes_))
    for start, stop in row_blocks(len(given), max(1, block_rows)):
        part = slice(graph.indptr[start], graph.indptr[stop])
        near, weight, row = graph.indices[part], graph.data[part].astype(np.float64), rows[part]
        votes = dense(Y[near]).astype(np.float64)
        # p -> p exp(-d) / (1 - p + p exp(-d)), d what the row's own label gave this neighbor.
        fade = np.exp(-lam * edge * weight * (codes[near] < 0))
        each = np.arange(len(near)), labels[row]
        left = 1 - votes[each] * (1 - fade)
        votes[each] *= fade
        votes *= (weight * weights[near] / np.maximum(left, np.finfo(np.float64).tiny))[:, None]
        sums = sp.csr_array((np.ones(len(near)), (row - start, np.arange(len(near)))), shape=(stop - start, len(near)))
        logits[start:stop] += lam * (sums @ votes)
    return logits


def _pull(solution: Solution) -> Floats | float:
    """Return the weight (C,) of what names or a prior say of the prototypes."""
    pull = getattr(solution.clues, "pull", None)
    return 0.0 if pull is None else pull


def _distances_without(
    rows: Floats, labels: Ints, prototypes: Floats, constants: DefaultConstants, others: Floats | float
) -> Floats:
    """Return squared distances (n_s, C) of given rows to the prototypes, to their own as if computed without them.

    ``others`` is what else a prototype is the mean of, in rows (C,).
    """
    beta = constants.beta
    distances = squared_distances(rows, prototypes).astype(np.float64)
    mass = beta * np.bincount(labels, minlength=len(prototypes)) + constants.kappa + others
    distances[np.arange(len(rows)), labels] *= np.square(mass / (mass - beta))[labels]
    return distances
