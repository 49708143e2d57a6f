"""Probabilities that mean what they say, from one fit and without a label more than the given ones.

The assignments of a fit rank its rows well and are too sure of themselves, how much so depends on the data. Three steps
make a probability of them:

1. a rule for all data, ``z_q = w0 + w . evidence_q`` (:mod:`~laplacianshot.labeling._evidence`), whose weights were
   fitted once on tasks of the design sets (``benchmarks/labeling/fit_confidence.py``);
2. a shift b for these data: small tasks whose answers are known (:mod:`~laplacianshot.labeling._checks`) are labeled
   in the same way, and ``sum_k log P(right_k | z_k + b) - b^2 / (2 s^2)`` is largest at b. Where the answers are
   simulated, classes being tighter in the fit's own eyes than in truth, ``b' = u0 + u b`` takes its place;
3. ``P(label is right) = 1 / (1 + exp(-z_q - b))``. The other classes share the rest as powers of their assignments.

The labels themselves stay those of the fit.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.sparse as sp

from laplacianshot.estimator import LaplacianShot
from laplacianshot.inference.joint import Prior
from laplacianshot.labeling._checks import Checks, Fitted, draw_checks
from laplacianshot.labeling._class_rows import ClassRows, later_rows
from laplacianshot.labeling._evidence import COLUMNS, Margins, TaskEvidence
from laplacianshot.labeling._sharing import shared_out, shared_out_dense, shared_out_sparse, sigmoid
from laplacianshot.labeling.left_out import constants_of, left_out_first_logits, left_out_logits
from laplacianshot.runtime.types import Floats, Ints

# Printed by benchmarks/labeling/fit_confidence.py: w0, and for each of COLUMNS its weight and the range it had there.
INTERCEPT = -2.0121
WEIGHTS: dict[str, tuple[float, float, float]] = {
    "s(assigned)": (1.1543, -1.207, 3.419),
    "s(first)": (0.0917, -2.468, 2.863),
    "s(assigned)^2": (0.0349, 0.000, 11.691),
    "s(first)^2": (0.1671, 0.000, 8.194),
    "s(assigned) s(first)": (0.3077, -6.102, 8.613),
    "share": (0.2102, -4.029, 1.382),
    "labels": (-0.2132, 0.000, 2.303),
    "classes": (-0.1085, 1.609, 4.605),
    "rows": (0.3326, 1.694, 6.395),
    "agreement": (1.0172, -0.309, 6.907),
    "mean assigned": (-0.2402, 2.487, 12.575),
    "balance": (0.6106, 0.000, 0.998),
}
# s of the shift; u0 and u where the answers are simulated.
SHIFT_SPREAD = 0.5
SIMULATED_SHIFT = (-0.477, 0.845)
# A label still speaks for its own row after it is left out, through rows further away: what that adds to z, times the
# given rows of its class.
ECHO = 2.5

_STEPS = 50


@dataclass(frozen=True, repr=False)
class Calibration:
    """Calibrated probabilities.

    Attributes
    ----------
    probabilities : float32 array or csr_array of shape (n, C)
        Probability of each class; for a given row what the graph says of it without its own label. The largest of an
        unlabeled row is that of the label the fit gave it. Sparse where the assignments are.
    shift : float
        b, what these data add to the log-odds that the rule for all data gives.
    n_checks : int
        Answers that b rests on.
    simulated : bool
        Whether they were simulated, as too few classes have two labels.
    expected_accuracy : float
        Share of the unlabeled rows whose label is expected to be right: their mean confidence; NaN without any.
    """

    probabilities: Any
    shift: float
    n_checks: int
    simulated: bool
    expected_accuracy: float

    def __repr__(self) -> str:
        n, c = self.probabilities.shape
        return f"Calibration({n} rows x {c} classes, expected accuracy {self.expected_accuracy:.3f})"


def calibrate(model: LaplacianShot, codes: Ints, *, seed: int = 0) -> Calibration:
    """Calibrated probabilities of every row that ``model`` was fitted on.

    Parameters
    ----------
    model : LaplacianShot
        The default recipe, fitted on rows with these codes.
    codes : int array of shape (n,)
        Class number of each row, -1 for unlabeled ones; ``0..C-1`` as in ``model.classes_``.
    seed : int
        Of the small tasks.

    Returns
    -------
    Calibration
    """
    if model.recipe != "default":
        raise ValueError(f"only the default recipe can be calibrated, got recipe={model.recipe!r}.")
    given, queries = np.flatnonzero(codes >= 0), np.flatnonzero(codes < 0)
    evidence = gather(model, codes, seed=seed)
    shift = shift_of(evidence.checks)
    labels = codes[given]
    echo = np.where(evidence.given_logits.argmax(axis=1) == labels, ECHO / np.bincount(labels)[labels], 0.0)
    left_out = evidence.given_logits - evidence.given_logits.max(axis=1, keepdims=True)
    of_given = shared_out(np.exp(left_out), log_odds(evidence.given) + shift - echo)
    z = log_odds(evidence.query) + shift
    assignments = ClassRows(model.label_distributions_, queries)
    if sp.issparse(model.label_distributions_):
        sure, probabilities = shared_out_sparse(assignments, z, given, of_given)
    else:
        sure, probabilities = shared_out_dense(assignments, z, given, of_given)
    expected = float(sure.mean()) if len(sure) else float("nan")
    return Calibration(probabilities, shift, len(evidence.checks), evidence.checks.simulated, expected)


@dataclass(frozen=True)
class Evidence:
    """What a fit shows of its rows.

    Attributes
    ----------
    query : array of shape (N, len(COLUMNS))
        Of the unlabeled rows, in the order of their positions.
    given : array of shape (n_s, len(COLUMNS))
        Of the given rows, without their own labels.
    given_logits : array of shape (n_s, C)
    checks : Checks
    """

    query: Floats
    given: Floats
    given_logits: Floats
    checks: Checks


def gather(model: LaplacianShot, codes: Ints, *, seed: int = 0) -> Evidence:
    """The evidence that :func:`calibrate` weighs."""
    given = codes >= 0
    labels, n_classes, rule = codes[given], len(model.classes_), model._rule
    support, query = rule.points[: len(labels)], later_rows(rule.points, len(labels))
    # As the estimator chooses it.
    origin = np.zeros_like(support[0]) if model._fitted_transform == "cl2" else support.mean(axis=0)
    first = Prior.of_support(support, labels, origin, n_classes, constants_of(model, codes)).means
    first = first.astype(support.dtype)
    logits = left_out_logits(model, codes)
    of_given = Margins.of_logits(logits, left_out_first_logits(model, codes, first))
    if len(query) == 0:
        shares = np.bincount(labels, minlength=n_classes) / len(labels)
        task = TaskEvidence.of(of_given, shares, len(labels))
        none = task.columns(of_given)[:0]
        return Evidence(none, task.columns(of_given), logits, Checks(none, np.zeros(0), simulated=False))
    assignments = ClassRows(model.label_distributions_, np.flatnonzero(~given))
    of_query = Margins.of_queries(query, assignments, first, rule.tau)
    task = TaskEvidence.of(of_query, assignments.mean(), len(labels))
    fitted = Fitted(support, labels, query, of_query.predicted, origin, n_classes)
    checks = draw_checks(fitted, np.random.default_rng(seed))
    return Evidence(task.columns(of_query), task.columns(of_given), logits, checks)


def log_odds(columns: Floats) -> Floats:
    """``z = w0 + w . evidence`` of rows (m, len(COLUMNS)); evidence beyond its range counts as the end of it."""
    weights, low, high = np.array([WEIGHTS[name] for name in COLUMNS]).T
    z: Floats = INTERCEPT + np.clip(columns, low, high) @ weights
    return z


def shift_of(checks: Checks) -> float:
    """The shift b that the answers of small tasks ask for, 0 without any."""
    if len(checks) == 0:
        return 0.0
    shift = most_probable_shift(log_odds(checks.columns), checks.right, SHIFT_SPREAD)
    if not checks.simulated:
        return shift
    base, slope = SIMULATED_SHIFT
    return base + slope * shift


def most_probable_shift(z: Floats, right: Floats, spread: float) -> float:
    """The b that maximizes ``sum_k log P(right_k | z_k + b) - b^2 / (2 spread^2)``, by Newton's method."""
    b = 0.0
    for _ in range(_STEPS):
        p = sigmoid(z + b)
        step = float(np.sum(right - p) - b / spread**2) / float(np.sum(p * (1 - p)) + 1 / spread**2)
        b += min(max(step, -1.0), 1.0)
        if abs(step) < 1e-9:
            break
    return b
