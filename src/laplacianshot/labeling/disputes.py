"""Given labels that similar items contradict."""

from __future__ import annotations

from typing import Any

import numpy as np

from laplacianshot.inference.clues import Answers
from laplacianshot.labeling.evidence import ClassRows
from laplacianshot.labeling.result import entries_at
from laplacianshot.runtime.types import Floats, Ints

# Number of contradicted labels that gives a warning, and their share of the labels that can be checked. On the sets of
# benchmarks/labeling/disputes.py the share was at most 0.24 with right labels and at least 0.40 with shuffled ones.
_MANY = 5
_MANY_SHARE = 0.3
# If fewer than a third of the held-back labels were found, those that were not count as contradicted.
_FEW_FOUND = 3


def opinions(probabilities: Any, codes: Ints) -> tuple[Ints, Ints, Floats]:
    """Return m given rows, their most probable classes as if their own labels were unknown, and these probabilities.

    Only rows of classes with several labels: without its only label a class has no support.
    """
    given = np.flatnonzero(codes >= 0)
    rows = given[np.bincount(codes[given])[codes[given]] > 1]
    of_rows = ClassRows(probabilities, rows)
    blocks = [of_rows[start:stop].argmax(axis=1) for start, stop in of_rows.blocks()]
    preferred = np.concatenate([np.zeros(0, dtype=np.int64), *blocks])
    return rows, preferred, entries_at(probabilities, rows, preferred)


def find_disputes(probabilities: Any, codes: Ints) -> Ints:
    """Return the class (n,) that similar items suggest in place of a given label, -1 elsewhere.

    A given label is disputed if another class has a probability of more than 1/2, as if the label were unknown.
    Probabilities (n, C) are those of :func:`~laplacianshot.labeling.calibration.calibrate`; codes (n,) are -1 for
    unlabeled rows.
    """
    rows, preferred, probability = opinions(probabilities, codes)
    disputes = np.full(len(codes), -1)
    disputed = (preferred != codes[rows]) & (probability > 0.5)
    disputes[rows[disputed]] = preferred[disputed]
    return disputes


def doubt_of_labels(probabilities: Any, codes: Ints, answers: Answers | None = None) -> str:
    """Return a warning if many given labels are contradicted, as if they belonged to other rows; else ``""``.

    A label is contradicted if another class is more probable, even by a little. That is a weaker condition than a
    dispute: if most labels are wrong, few classes have a probability of more than 1/2. Where few labels were found when
    the fit held them back (``answers``), these count as contradicted: neighbors believe the only label near them.
    """
    rows, preferred, _ = opinions(probabilities, codes)
    checked, against = len(rows), int(np.sum(preferred != codes[rows]))
    if answers is not None and max(answers.hits) * _FEW_FOUND < answers.held_back:
        checked, against = answers.held_back, answers.held_back - max(answers.hits)
    if against < _MANY or against <= _MANY_SHARE * checked:
        return ""
    return (
        f"Of {checked:,} given labels that could be checked, {against:,} differ from those of similar items: "
        "the labels may be shifted or swapped, or the vectors may not separate the classes. Check some labels by hand, "
        "beginning with those that the report lists as disputed (--report DIR)."
    )
