"""Given labels that similar items contradict."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from laplacianshot.labeling.evidence import ClassRows
from laplacianshot.runtime.types import Floats, Ints

# Number of contradicted labels that gives a warning, and their share of the labels that can be checked. On the sets of
# benchmarks/labeling/disputes.py the share was at most 0.24 with right labels and at least 0.40 with shuffled ones.
_MANY = 5
_MANY_SHARE = 0.3


@dataclass(frozen=True, repr=False)
class Opinions:
    """The most probable class of m given rows, as if their own labels were unknown.

    Only rows of classes with several labels: without its only label a class has no support.
    """

    rows: Ints  # (m,)
    given: Ints  # (m,)
    preferred: Ints  # (m,), the most probable class
    probability: Floats  # (m,), of the preferred class

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
    Probabilities (n, C) are those of :func:`~laplacianshot.labeling.calibration.calibrate`; codes (n,) are -1 for
    unlabeled rows.
    """
    opinions = Opinions.of(probabilities, codes)
    disputes = np.full(len(codes), -1)
    disputed = (opinions.preferred != opinions.given) & (opinions.probability > 0.5)
    disputes[opinions.rows[disputed]] = opinions.preferred[disputed]
    return disputes


def doubt_of_labels(probabilities: Any, codes: Ints) -> str:
    """Return a warning if many given labels are contradicted, as if they belonged to other rows; else ``""``.

    A label is contradicted if another class is more probable, even by a little. That is a weaker condition than a
    dispute: if most labels are wrong, few classes have a probability of more than 1/2.
    """
    opinions = Opinions.of(probabilities, codes)
    checked, against = len(opinions.rows), int(np.sum(opinions.preferred != opinions.given))
    if against < _MANY or against <= _MANY_SHARE * checked:
        return ""
    return (
        f"Of {checked:,} given labels that could be checked, {against:,} differ from those of similar items: "
        "the labels may be shifted or swapped, or the vectors may not separate the classes. Check some labels by hand, "
        "beginning with those that the report lists as disputed (--report DIR)."
    )
