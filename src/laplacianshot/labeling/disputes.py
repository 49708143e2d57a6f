"""Given labels against what the graph says of their rows without them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from laplacianshot.labeling.class_rows import ClassRows
from laplacianshot.runtime.types import Floats, Ints

# Labels that must be contradicted for a warning, and the share of those that can be checked. On the sets of
# benchmarks/labeling/disputes.py the share was at most 0.24 with right labels and at least 0.40 with shuffled ones.
_MANY = 5
_MANY_SHARE = 0.3


@dataclass(frozen=True, repr=False)
class Opinions:
    """What the graph says of m given rows without their own labels.

    Only of classes with several labels: without its only label nothing speaks for a class.

    Attributes
    ----------
    rows : int array of shape (m,)
    given, preferred : int arrays of shape (m,)
        The given class and the most probable one.
    probability : float array of shape (m,)
        Of the preferred class.
    """

    rows: Ints
    given: Ints
    preferred: Ints
    probability: Floats

    @classmethod
    def of(cls, probabilities: Any, codes: Ints) -> Opinions:
        """From probabilities (n, C) of :func:`~laplacianshot.labeling.calibration.calibrate` and codes (n,)."""
        given = np.flatnonzero(codes >= 0)
        counts = np.bincount(codes[given], minlength=probabilities.shape[1])
        rows = given[counts[codes[given]] > 1]
        of_rows = ClassRows(probabilities, rows)
        preferred, probability = np.zeros(len(rows), dtype=np.int64), np.zeros(len(rows))
        for start, stop in of_rows.blocks():
            block = of_rows[start:stop]
            preferred[start:stop] = block.argmax(axis=1)
            probability[start:stop] = block.max(axis=1)
        return cls(rows, codes[rows], preferred, probability)


def find_disputes(probabilities: Any, codes: Ints) -> Ints:
    """Given labels that the neighbors dispute: the class they prefer (n,), -1 elsewhere.

    A given label is disputed where another class has more than half of the probability that the graph gives the row
    without its label.

    Parameters
    ----------
    probabilities : array or csr_array of shape (n, C)
        Of :func:`~laplacianshot.labeling.calibration.calibrate`.
    codes : int array of shape (n,)
        Class number of each row, -1 for unlabeled ones.
    """
    said = Opinions.of(probabilities, codes)
    disputes = np.full(len(codes), -1)
    disputed = (said.preferred != said.given) & (said.probability > 0.5)
    disputes[said.rows[disputed]] = said.preferred[disputed]
    return disputes


def doubt_of_labels(probabilities: Any, codes: Ints) -> str:
    """A warning where the graph contradicts so many given labels that they may be those of other rows; else ``""``.

    A label is contradicted where the graph, without it, prefers another class, however little. That is more than a
    dispute: where most labels are wrong the graph is sure of nothing, and disputes few of them.
    """
    said = Opinions.of(probabilities, codes)
    against = int(np.sum(said.preferred != said.given))
    if against < _MANY or against <= _MANY_SHARE * len(said.rows):
        return ""
    return (
        f"Of {len(said.rows):,} given labels that could be checked, {against:,} are not what their neighbors say: "
        "labels may be shifted or swapped, or these vectors do not tell the classes apart. Compare some of them with "
        "their items, first those that the report lists as disputed (--report DIR)."
    )
