"""Given labels that similar items contradict."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from laplacianshot.labeling.class_rows import ClassRows
from laplacianshot.runtime.types import Floats, Ints

# Number of contradicted labels that gives a warning, and their share of the labels that can be checked. On the sets of
# benchmarks/labeling/disputes.py the share was at most 0.24 with right labels and at least 0.40 with shuffled ones.
_MANY = 5
_MANY_SHARE = 0.3


@dataclass(frozen=True, repr=False)
class Opinions:
    """The most probable class of m given rows, as if their own labels were unknown.

    Only rows of classes with several labels: without its only label a class has no support.

    Attributes
    ----------
    rows : int array of shape (m,)
    given, preferred : int arrays of shape (m,)
        The given class and the most probable one.
    probability : float array of shape (m,)
        Probability of the preferred class.
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
    """Return the class (n,) that similar items suggest in place of a given label, -1 elsewhere.

    A given label is disputed if another class has a probability of more than 1/2, as if the label were unknown.

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
    """Return a warning if so many given labels are contradicted that they may belong to other rows; else ``""``.

    A label is contradicted if another class is more probable, by however little. That is a weaker condition than a
    dispute: if most labels are wrong, few classes have a probability of more than 1/2.
    """
    said = Opinions.of(probabilities, codes)
    against = int(np.sum(said.preferred != said.given))
    if against < _MANY or against <= _MANY_SHARE * len(said.rows):
        return ""
    return (
        f"Of {len(said.rows):,} given labels that could be checked, {against:,} differ from those of similar items: "
        "the labels may be shifted or swapped, or the vectors may not separate the classes. Check some labels by hand, "
        "beginning with those that the report lists as disputed (--report DIR)."
    )
