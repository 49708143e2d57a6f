"""Compare an output with the truth: accuracy, classes that are mixed up, and whether confidence holds."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from scipy.stats import binomtest

from laplacianshot.labeling.errors import LabelingError, first_three, listed
from laplacianshot.labeling.outputs import columns_of_result
from laplacianshot.labeling.result import GIVEN, REJECTED, LabelResult
from laplacianshot.labeling.tables import Table, composed, id_of, label_of, open_table, same_label
from laplacianshot.runtime.files import check_input
from laplacianshot.runtime.types import Floats, Ints

# Bins of confidence, of equal width.
_BINS = 10


@dataclass(frozen=True)
class ClassScore:
    """One class: n items by the truth, how many of them have this label, and how many items have it in all."""

    name: str
    n: int
    right: int
    n_predicted: int

    @property
    def recall(self) -> float | None:
        """Share of the items of this class that have its label; None if there is none."""
        return self.right / self.n if self.n else None

    @property
    def precision(self) -> float | None:
        """Share of the items with this label that are of its class; None if there is none."""
        return self.right / self.n_predicted if self.n_predicted else None

    @property
    def f1(self) -> float:
        """Harmonic mean of recall and precision, 2 right / (n + n_predicted)."""
        return 2 * self.right / (self.n + self.n_predicted) if self.n + self.n_predicted else 0.0


@dataclass(frozen=True)
class ConfidenceBin:
    """Items whose confidence is between low and high: their mean confidence, and the share that is right."""

    low: float
    high: float
    n: int
    confidence: float
    accuracy: float


@dataclass(frozen=True, repr=False)
class Score:
    """How far an output agrees with the truth. Only predicted labels are scored: given ones are the truth's own.

    Attributes
    ----------
    n, right : int
        Predicted labels whose truth is known, and how many of them are right.
    interval : pair of float
        Wilson's 95% interval of the accuracy, right / n.
    classes : tuple of C str
        All classes of the output or the truth, sorted.
    confusion : int array of shape (C, C)
        Number of items by true class (row) and predicted class (column).
    per_class : tuple of ClassScore
    bins : tuple of ConfidenceBin
        Those that hold items; none if the output has no confidence.
    expected : float, optional
        Mean confidence, which is the accuracy that the output promises.
    calibration_error : float, optional
        Mean of | accuracy - confidence | over the bins, weighed by their items (ECE).
    n_given, given_wrong, n_rejected : int
        Given labels whose truth is known, those that differ from it, and rejected items whose truth is known.
    notes : tuple of str
    """

    n: int
    right: int
    interval: tuple[float, float]
    classes: tuple[str, ...]
    confusion: Ints
    per_class: tuple[ClassScore, ...]
    bins: tuple[ConfidenceBin, ...]
    expected: float | None
    calibration_error: float | None
    n_given: int
    given_wrong: int
    n_rejected: int
    notes: tuple[str, ...]

    @property
    def accuracy(self) -> float:
        """Share of predicted labels that are right."""
        return self.right / self.n

    @property
    def macro_recall(self) -> float:
        """Mean of the classes' recall: every class counts the same."""
        return float(np.mean([one.recall for one in self.per_class if one.recall is not None]))

    def mistakes(self) -> list[tuple[str, str, int]]:
        """Return true class, predicted class and number of items of every mistake, the most frequent first."""
        wrong = self.confusion.copy()
        np.fill_diagonal(wrong, 0)
        pairs = [(self.classes[i], self.classes[j], int(wrong[i, j])) for i, j in np.argwhere(wrong).tolist()]
        return sorted(pairs, key=lambda pair: (-pair[2], pair[:2]))

    def __repr__(self) -> str:
        low, high = self.interval
        return f"Score({self.right} of {self.n} right: {self.accuracy:.1%}, {low:.1%} to {high:.1%})"


def score(output: Any, truth: Any = None, *, truth_column: str | None = None) -> Score:
    """Compare the labels of an output with true ones.

    Parameters
    ----------
    output : path, DataFrame or LabelResult
        A file of ``laplacianshot label`` or ``predict``, or another table with the columns ``id`` and ``label``. Where
        a column ``origin`` says so, given labels and rejected items are counted apart.
    truth : path, DataFrame or mapping, optional
        A table with the columns ``id`` and ``label``, or a mapping from id to label. It may have fewer items than the
        output, such as a sample that somebody has checked. Default: the column ``truth_column`` of the output itself.
    truth_column : str, optional
        The column of true labels (default: ``label``).

    Raises
    ------
    LabelingError
        A file cannot be read, no id or no class of the truth occurs in the output, or there is nothing to compare.

    Examples
    --------
    >>> import pandas as pd
    >>> out = pd.DataFrame({"id": [1, 2, 3, 4], "label": ["a", "a", "b", "b"]})
    >>> score(out, {1: "a", 2: "b", 3: "b", 4: "b"})
    Score(3 of 4 right: 75.0%, 30.1% to 95.4%)
    """
    table = _table(output, "output")
    predicted = [label_of(value) for value in table.values(_column(table, "label"))]
    rows = _rows_by_id(table)
    if truth is None:
        if truth_column is None:
            raise LabelingError("truth: give a file of true labels, or the column of the output that holds them.")
        place = table
        values = table.values(table.column(truth_column, "truth column"))
        true = {key: label for key, row in rows.items() if (label := label_of(values[row])) is not None}
        missing: list[str] = []
    else:
        place, found = _truth(truth, truth_column)
        true = {key: label for key, label in found.items() if key in rows}
        missing = [key for key in found if key not in rows]
        if found and not true:
            raise LabelingError(
                f"{place.path}: none of its {len(found):,} ids is in {table.path}, such as {listed(missing[:1])}; the "
                f"ids of {table.path} are such as {listed(list(rows)[:1])}."
            )
    if not true:
        raise LabelingError(f"{place.path}: no item has a true label; there is nothing to compare.")
    at = np.array([rows[key] for key in true])
    right_labels = list(true.values())
    origins = _origins(table, predicted)
    kinds = np.array([origins[row] for row in at.tolist()], dtype=object)
    blank = np.array([predicted[row] is None for row in at.tolist()])
    scored = np.flatnonzero((kinds != GIVEN) & (kinds != REJECTED) & ~blank)
    given = np.flatnonzero((kinds == GIVEN) & ~blank)
    if not len(scored):
        raise LabelingError(
            f"{table.path}: none of the {len(true):,} items with a true label has a predicted one; there is nothing to "
            "score."
        )
    pairs = [(right_labels[i], str(predicted[at[i]])) for i in scored.tolist()]
    notes = _notes(table, place, pairs, missing, len(blank) - len(scored) - len(given) - int((kinds == REJECTED).sum()))
    return _scored(
        pairs,
        None if (confidence := _confidence(table)) is None else confidence[at[scored]],
        n_given=len(given),
        given_wrong=sum(predicted[at[i]] != right_labels[i] for i in given.tolist()),
        n_rejected=int((kinds == REJECTED).sum()),
        notes=notes,
    )


def _scored(pairs: Sequence[tuple[str, str]], confidence: Floats | None, **more: Any) -> Score:
    """Return the score of pairs of a true and a predicted label, with the confidence in each, (n,)."""
    classes = tuple(sorted({name for pair in pairs for name in pair}))
    number = {name: code for code, name in enumerate(classes)}
    confusion = np.zeros((len(classes), len(classes)), np.int64)
    np.add.at(confusion, tuple(np.array([[number[name] for name in pair] for pair in pairs]).T), 1)
    n, right = len(pairs), int(np.trace(confusion))
    interval = binomtest(right, n).proportion_ci(method="wilson")
    hits = np.array([true == found for true, found in pairs], dtype=np.float64)
    known = np.zeros(n, bool) if confidence is None else ~np.isnan(confidence)
    stated = np.zeros(0) if confidence is None else confidence[known]
    bins = _bins(stated, hits[known])
    return Score(
        n=n,
        right=right,
        interval=(float(interval.low), float(interval.high)),
        classes=classes,
        confusion=confusion,
        per_class=tuple(
            ClassScore(name, int(confusion[code].sum()), int(confusion[code, code]), int(confusion[:, code].sum()))
            for code, name in enumerate(classes)
        ),
        bins=bins,
        expected=float(stated.mean()) if bins else None,
        calibration_error=sum(one.n * abs(one.accuracy - one.confidence) for one in bins) / len(stated)
        if bins
        else None,
        **more,
    )


def _bins(confidence: Floats, hits: Floats) -> tuple[ConfidenceBin, ...]:
    place = np.minimum((confidence * _BINS).astype(np.int64), _BINS - 1)
    return tuple(
        ConfidenceBin(
            number / _BINS,
            (number + 1) / _BINS,
            int(here.sum()),
            float(confidence[here].mean()),
            float(hits[here].mean()),
        )
        for number in range(_BINS)
        if (here := place == number).any()
    )


def _table(given: Any, argument: str) -> Table:
    if isinstance(given, LabelResult):
        columns = columns_of_result(given)
        return Table(Path("result"), columns, len(given))
    if isinstance(given, str | Path):
        try:
            check_input(Path(given))
        except FileNotFoundError:
            raise LabelingError(f"{argument}: there is no file {str(given)!r}.") from None
        except OSError as error:
            raise LabelingError(f"{argument}: {given} cannot be read: {error.strerror}.") from error
    return open_table(given)


def _truth(given: Any, truth_column: str | None) -> tuple[Table, dict[str, str]]:
    """Return the table of true labels, and the labels by id."""
    if isinstance(given, Mapping):
        columns = {"id": list(given), "label": list(given.values())}
        given, truth_column = Table(Path("truth"), columns, len(given)), None
    table = given if isinstance(given, Table) else _table(given, "truth")
    column = _column(table, "label") if truth_column is None else table.column(truth_column, "truth column")
    labels = [label_of(value) for value in table.values(column)]
    found = {key: labels[row] for key, row in _rows_by_id(table, labels).items()}
    return table, {key: label for key, label in found.items() if label is not None}


def _column(table: Table, name: str) -> str:
    found = table.find(name)
    if found is None:
        raise LabelingError(f"{table.path} has no column {name!r}, its columns are {listed(table.columns)}.")
    return found


def _rows_by_id(table: Table, labels: Sequence[str | None] | None = None) -> dict[str, int]:
    """Return the row of each id; an id may be there twice only with the same label."""
    rows: dict[str, int] = {}
    twice = []
    for row, value in enumerate(table.values(_column(table, "id"))):
        key = _key(id_of(value))
        first = rows.setdefault(key, row)
        if key and first != row and (labels is None or labels[first] != labels[row]):
            twice.append(f"{key!r} ({table.place(first)} and {table.place(row)})")
    if twice:
        wrong = "ids are there more than once" if labels is None else "items have two labels"
        raise LabelingError(f"{table.path}: {wrong}, {first_three(twice)}; keep one of each.")
    rows.pop("", None)
    return rows


def _key(name: str) -> str:
    """Return an id without what programs change in it: blanks around it, accents, .0 behind a whole number, slashes."""
    plain = composed(name.strip()).replace("\\", "/").removeprefix("./")
    whole, dot, rest = plain.partition(".")
    return whole if dot and whole.isdigit() and not rest.strip("0") else plain


def _origins(table: Table, labels: Sequence[str | None]) -> list[Any]:
    """Return the origin of each row; a label that a person has changed in our output is a given one."""
    column = table.find("origin")
    if column is None or table.find("confidence") is None:
        return [None] * table.n_rows
    origins = list(table.values(column))
    if (written := table.find("written")) is not None:
        for row, first in enumerate(table.values(written)):
            if labels[row] is not None and not same_label(labels[row], label_of(first)):
                origins[row] = GIVEN
    return origins


def _confidence(table: Table) -> Floats | None:
    """Return the confidence of each row, NaN where there is none; None without such a column."""
    column = table.find("confidence")
    if column is None:
        return None
    values = table.values(column)
    try:
        found = np.array([np.nan if id_of(value).strip() == "" else float(value) for value in values])
    except (TypeError, ValueError) as error:
        raise LabelingError(f"{table.path}: column {column!r} must hold numbers ({error}).") from error
    odd = np.flatnonzero((found < 0) | (found > 1))
    if odd.size:
        raise LabelingError(
            f"{table.path}, {table.place(int(odd[0]))}: a {column} must be between 0 and 1, got {found[odd[0]]:g}."
        )
    return None if np.isnan(found).all() else found


def _notes(
    table: Table, place: Table, pairs: Sequence[tuple[str, str]], missing: list[str], n_blank: int
) -> tuple[str, ...]:
    """Return what a reader must know; raise if no class of the truth occurs in the output."""
    known, true = {found for _, found in pairs}, Counter(label for label, _ in pairs)
    unknown = {name: count for name, count in true.items() if name not in known}
    if len(unknown) == len(true):
        raise LabelingError(
            f"{place.path}: none of its classes, {listed(sorted(true))}, is one of those in {table.path}, "
            f"{listed(sorted(known))}; write the same names in both."
        )
    notes = []
    if missing:
        notes.append(
            f"{len(missing):,} ids of {place.path} are not in {table.path} and are not scored: {listed(missing)}."
        )
    if unknown:
        notes.append(
            f"Classes that are never predicted, so that their {sum(unknown.values()):,} items count as wrong: "
            f"{listed(sorted(unknown))}."
        )
    spelled: dict[str, set[str]] = {}
    for name in known | set(true):
        spelled.setdefault(name.casefold(), set()).add(name)
    if alike := sorted(name for names in spelled.values() if len(names) > 1 for name in names):
        notes.append(f"Classes that differ only in case count as different: {listed(alike)}.")
    if n_blank:
        notes.append(f"{n_blank:,} items have a true label and none in {table.path}; they are not scored.")
    return tuple(notes)
