"""The result of labeling a source: one entry per item, in the order of the source."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

import numpy as np
import scipy.sparse as sp

from laplacianshot.runtime.extras import MissingExtra
from laplacianshot.runtime.types import Floats, Ints

if TYPE_CHECKING:
    from laplacianshot.labeling.model import LabelModel
    from laplacianshot.labeling.sources import Source

GIVEN = "given"
PREDICTED = "predicted"
# A prediction that a person accepted with others in the studio, unseen: not evidence of its own.
ACCEPTED = "accepted"
REJECTED = "rejected"
# If no label was given at all, and only suggestions are made.
UNLABELED = ""


# 97.5% quantile of the normal distribution, and the smallest probability that has log-odds.
NORMAL = 1.96
_LEAST = 1e-9

# Arrays of a result with one entry per item, which labeling vectors gives.
ARRAYS = ("codes", "probabilities", "confidence", "suggestions", "disputes", "novelty")


@dataclass(frozen=True)
class Skipped:
    """An item that could not be read, and why."""

    id: str
    reason: str


@dataclass(frozen=True)
class Stage:
    """A stage of the work and the seconds it took."""

    name: str
    seconds: float


@dataclass(frozen=True)
class ExpectedAccuracy:
    """The share of the predicted labels that is expected to be right.

    Attributes
    ----------
    estimate : float
        Mean confidence of the predicted labels.
    low, high : float
        Ends of the interval that holds the true share in 95 of 100 sets.
    spread : (float, float)
        Standard deviation, below and above, of what the log-odds of all labels may be off by together.
    source : str
        Where it comes from, in a sentence.
    """

    estimate: float
    low: float
    high: float
    spread: tuple[float, float]
    source: str

    @classmethod
    def of_labels(cls, confidence: Floats, spread: tuple[float, float], source: str) -> ExpectedAccuracy | None:
        """Of predicted labels with these confidences (N,), None without any.

        With q the confidences, z their log-odds, s and t the spread below and above and m the mean over labels ::

            p = m(q),   p_low = m(1 / (1 + exp(-z + 1.96 s))),   p_high = m(1 / (1 + exp(-z - 1.96 t)))
            p - sqrt((p - p_low)^2 + v),   p + sqrt((p_high - p)^2 + v),   v = 1.96^2 m(q (1 - q)) / N

        The second line has the ends; v is what chance adds where labels are few.
        """
        if len(confidence) == 0:
            return None
        q = np.clip(confidence.astype(np.float64), _LEAST, 1 - _LEAST)
        z, estimate = np.log(q / (1 - q)), float(q.mean())
        chance = NORMAL**2 * float(np.mean(q * (1 - q))) / len(q)
        low, high = (float(np.mean(1 / (1 + np.exp(-z - off)))) for off in (-NORMAL * spread[0], NORMAL * spread[1]))
        return cls(
            estimate,
            max(0.0, estimate - math.sqrt((estimate - low) ** 2 + chance)),
            min(1.0, estimate + math.sqrt((high - estimate) ** 2 + chance)),
            spread,
            source,
        )

    def among(self, confidence: Floats) -> ExpectedAccuracy | None:
        """The same of other labels (N,), found in the same way."""
        return self.of_labels(confidence, self.spread, self.source)

    def to_dict(self) -> dict[str, Any]:
        """The same for JSON."""
        return {"estimate": self.estimate, "low": self.low, "high": self.high, "source": self.source}


@dataclass(frozen=True, repr=False)
class LabelResult:
    """The label of each item of a source, its confidence, and what to label next.

    n items, C classes. Items that could not be read are in ``skipped`` and nowhere else.

    Attributes
    ----------
    ids : tuple of n str
        Relative path, row number or the value of the id column. Of :func:`~laplacianshot.label`: row numbers, or the
        index of a DataFrame.
    classes : tuple of C str
        In the order of the columns of ``probabilities``. Of :func:`~laplacianshot.label`: the labels as given, such as
        numbers.
    codes : int array of shape (n,)
        Class number of each item's label; -1 for items without one (rejected, or no label was given at all).
    origins : tuple of n str
        ``"given"``, ``"predicted"`` or ``"rejected"``; ``"accepted"`` for predictions that were accepted in the studio;
        ``""`` where no label was given at all.
    probabilities : float32 array or csr_array of shape (n, C)
        Calibrated probability of each class; for a given item as if its own label were unknown. Sparse if there are too
        many items and classes; see :meth:`probabilities_of`.
    confidence : float array of shape (n,)
        Probability that the label is right: that of the item's class in ``probabilities``; 1 for given labels unless
        they are disputed; for a rejected item that of the class it would have had.
    suggestions : int array of shape (n,)
        Rank among the items to label next, from 1; 0 for items that are not suggested.
    disputes : int array of shape (n,)
        Class number that similar items suggest in place of a given label; -1 where they do not.
    novelty : float array of shape (n,)
        How little an item fits any of the classes; ``--reject`` leaves out the largest.
    skipped : tuple of Skipped
    objective : float array
        The objective after each iteration; it falls.
    converged : bool
    stages : tuple of Stage
    settings : mapping of str to JSON values
        Encoder, options and versions.
    notes : tuple of str
        Notes for the user.
    source : Source, optional
        The source of the items.
    rows : int array of shape (n,), optional
        Position of each item in the source.
    vectors : array of shape (n, D), optional
    affinity : csr_array of shape (n, n), optional
        The graph between the items.
    center : array of shape (D,), optional
        Center that was subtracted from the vectors.
    model : LabelModel, optional
        What labels new items in the same way (:class:`~laplacianshot.LabelModel`); None where no label was given.
    expected_accuracy : ExpectedAccuracy, optional
        Share of the predicted labels that is expected to be right, with its interval; None where nothing is predicted.
    """

    ids: tuple[Any, ...]
    classes: tuple[Any, ...]
    codes: Ints
    origins: tuple[str, ...]
    probabilities: Any
    confidence: Floats
    suggestions: Ints
    disputes: Ints
    novelty: Floats
    skipped: tuple[Skipped, ...] = ()
    objective: Floats = field(default_factory=lambda: np.zeros(0))
    converged: bool = True
    stages: tuple[Stage, ...] = ()
    settings: Mapping[str, Any] = field(default_factory=dict)
    notes: tuple[str, ...] = ()
    source: Source | None = None
    rows: Ints | None = None
    vectors: Floats | None = None
    affinity: sp.csr_array | None = None
    center: Floats | None = None
    model: LabelModel | None = None
    expected_accuracy: ExpectedAccuracy | None = None

    @property
    def labels(self) -> tuple[Any, ...]:
        """The label of each item, ``""`` for items without one; -1 if labels are numbers."""
        nothing = unlabeled_like(self.classes)
        return tuple(self.classes[code] if code >= 0 else nothing for code in self.codes)

    @property
    def suggested(self) -> Ints:
        """Positions of the items to label next, the most useful first."""
        rows = np.flatnonzero(self.suggestions)
        return rows[np.argsort(self.suggestions[rows])]

    def probabilities_of(self, item: int) -> Floats:
        """Probability of each class for one item, (C,)."""
        row: Floats = dense(self.probabilities[[item]])[0]
        return row

    def of_items(self, items: Ints) -> LabelResult:
        """Return the result of some items only, by their positions; without the graph."""
        return replace(
            self,
            ids=tuple(self.ids[item] for item in items.tolist()),
            origins=tuple(self.origins[item] for item in items.tolist()),
            **{name: getattr(self, name)[items] for name in ARRAYS},
            rows=items if self.rows is None else self.rows[items],
            vectors=None if self.vectors is None else self.vectors[items],
            affinity=None,
        )

    def to_frame(self) -> Any:
        """The items as a pandas DataFrame: label, confidence, origin, suggestion, dispute and novelty by id.

        Suggestions are ranks, missing for items that are not suggested. The column ``dispute`` has the label that
        similar items suggest in place of a given one.
        """
        try:
            import pandas
        except ModuleNotFoundError as error:
            raise MissingExtra("to_frame needs pandas, which is not installed; pip install pandas.") from error
        nothing = unlabeled_like(self.classes)
        disputes = [self.classes[code] if code >= 0 else nothing for code in self.disputes.tolist()]
        suggestions = pandas.array(self.suggestions.tolist(), dtype="Int64")
        suggestions[self.suggestions == 0] = pandas.NA
        return pandas.DataFrame(
            {
                "label": list(self.labels),
                # Without any label there is no confidence.
                "confidence": np.where(np.asarray(self.origins) == UNLABELED, np.nan, self.confidence),
                "origin": list(self.origins),
                "suggestion": suggestions,
                "dispute": disputes,
                "novelty": self.novelty,
            },
            index=pandas.Index(list(self.ids), name="id"),
        )

    def counts(self) -> dict[str, int]:
        """Return how many items are given, predicted and rejected."""
        return {origin: self.origins.count(origin) for origin in (GIVEN, PREDICTED, REJECTED)}

    def __len__(self) -> int:
        return len(self.ids)

    def __repr__(self) -> str:
        counts = ", ".join(f"{count} {origin}" for origin, count in self.counts().items() if count)
        return f"LabelResult({len(self)} items, {len(self.classes)} classes: {counts})"


def unlabeled_like(classes: tuple[Any, ...]) -> Any:
    """Return what stands for no label among the labels of these classes: -1 for numbers, else ``""``."""
    return -1 if classes and not isinstance(classes[0], str | bool) else ""


def dense(rows: Any) -> Floats:
    """Return rows (m, C) of probabilities as a dense array."""
    values: Floats = rows.toarray() if sp.issparse(rows) else rows
    return values


def entries_at(matrix: Any, rows: Ints, columns: Ints) -> Floats:
    """Return one entry per row of some rows of a matrix, dense or sparse: (m,)."""
    values: Floats = dense(matrix[rows, columns]).ravel()
    return values
