"""What a fit shows of how far its labels can be trusted: a few numbers a row and a few a task.

All of them are log-odds, logarithms or shares, so none has a scale. With y the assignments of a task's queries, c the
class a row is assigned to, ``a0`` the distances to the first prototypes (of the given rows alone), p the class shares
and ``odds(p_c) = log(p_c / (1 - p_c))``, the columns are those of :data:`COLUMNS`.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from laplacianshot.inference.prototypes import squared_distances
from laplacianshot.inference.temperature import divergence
from laplacianshot.labeling._class_rows import ClassRows, class_blocks
from laplacianshot.neighbors.rows import Rows
from laplacianshot.runtime.types import Floats, Ints

# s(v) = sign(v) log(1 + |v|).
COLUMNS = (
    "s(assigned)",  # assigned: odds(y_c)
    "s(first)",  # first: odds of softmax(-tau a0) at c
    "s(assigned)^2",
    "s(first)^2",
    "s(assigned) s(first)",
    "share",  # log(C p_c)
    "labels",  # log of the given rows a class
    "classes",  # log C
    "rows",  # log of the queries a class
    "agreement",  # odds of the share of queries whose nearest first prototype is their class
    "mean assigned",  # mean of odds(y_c) over the queries
    "balance",  # exp(-KL(p|u) / 0.02)
)

# Divergence of the shares at which the recipe takes classes for unequal.
_FADE = 0.02
# Odds beyond these say nothing more; assignments and shares below these are as good as none.
_MOST_ODDS = 40.0
_LEAST_ASSIGNMENT = 1e-30
_LEAST_SHARE = 1e-4
_LEAST_ERROR = 1e-3


@dataclass(frozen=True)
class Margins:
    """Evidence on rows.

    Attributes
    ----------
    predicted : int array of shape (m,)
        The class c of each row.
    assigned, first : float arrays of shape (m,)
        Odds of class c by the assignments and by the first prototypes.
    agrees : bool array of shape (m,)
        Whether c is the class of the nearest first prototype.
    """

    predicted: Ints
    assigned: Floats
    first: Floats
    agrees: Floats

    @classmethod
    def of_logits(cls, assigned: Floats, first: Floats) -> Margins:
        """From logits (m, C) of the assignments and of the first prototypes."""
        predicted = assigned.argmax(axis=1)
        return cls(predicted, odds(assigned, predicted), odds(first, predicted), first.argmax(axis=1) == predicted)

    @classmethod
    def of_queries(
        cls, rows: Floats | Rows, assignments: Floats | ClassRows, prototypes: Floats, tau: float
    ) -> Margins:
        """From queries (N, D), their assignments (N, C), the first prototypes (C, D) and the temperature."""
        parts = []
        for start, stop in class_blocks(len(rows), len(prototypes)):
            logits = np.log(np.maximum(assignments[start:stop], _LEAST_ASSIGNMENT))
            parts.append(cls.of_logits(logits, squared_distances(rows[start:stop], prototypes, wide=False) * -tau))
        return cls(
            np.concatenate([part.predicted for part in parts]),
            np.concatenate([part.assigned for part in parts]),
            np.concatenate([part.first for part in parts]),
            np.concatenate([part.agrees for part in parts]),
        )


@dataclass(frozen=True)
class TaskEvidence:
    """Evidence on a task as a whole: the columns that all of its rows share, and its class shares (C,)."""

    labels: float
    classes: float
    rows: float
    agreement: float
    mean_assigned: float
    balance: float
    shares: Floats

    @classmethod
    def of(cls, margins: Margins, shares: Floats, n_support: int) -> TaskEvidence:
        """Of N queries with these margins and class shares (C,), and ``n_support`` given rows."""
        n, n_classes = len(margins.predicted), len(shares)
        agreement = min(max(float(np.mean(margins.agrees)), _LEAST_ERROR), 1 - _LEAST_ERROR)
        return cls(
            labels=math.log(n_support / n_classes),
            classes=math.log(n_classes),
            rows=math.log(n / n_classes),
            agreement=math.log(agreement / (1 - agreement)),
            mean_assigned=float(np.mean(margins.assigned)),
            balance=math.exp(-divergence(shares) / _FADE),
            shares=shares,
        )

    def columns(self, margins: Margins) -> Floats:
        """The columns of rows of this task, (m, len(COLUMNS))."""
        shares = np.log(np.maximum(self.shares * len(self.shares), _LEAST_SHARE))
        a, f = _signed_log(margins.assigned), _signed_log(margins.first)
        rows = (a, f, a * a, f * f, a * f, shares[margins.predicted])
        task = (
            self.labels,
            self.classes,
            self.rows,
            self.agreement,
            self.mean_assigned,
            self.balance,
        )
        out: Floats = np.empty((len(margins.predicted), len(COLUMNS)))
        out[:, : len(rows)] = np.stack(rows, axis=1)
        out[:, len(rows) :] = task
        return out


def odds(logits: Floats, columns: Ints) -> Floats:
    """``log p_c / (1 - p_c)`` of ``p = softmax(logits)`` (m, C) at one column c a row, at most 40 either way."""
    rows = np.arange(len(logits))
    rest = logits.astype(np.float64)
    own = rest[rows, columns]
    rest[rows, columns] = -np.inf
    top = rest.max(axis=1)
    rest -= top[:, None]
    found: Floats = own - top - np.log(np.exp(rest).sum(axis=1))
    return np.clip(found, -_MOST_ODDS, _MOST_ODDS)


def _signed_log(values: Floats) -> Floats:
    logs: Floats = np.sign(values) * np.log1p(np.abs(values))
    return logs
