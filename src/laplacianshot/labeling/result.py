"""The result of labeling a source: one entry per item, in the order of the source."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

import numpy as np
import scipy.sparse as sp

from laplacianshot.runtime.types import Floats, Ints

if TYPE_CHECKING:
    from laplacianshot.labeling.sources import Source

GIVEN = "given"
PREDICTED = "predicted"
# A prediction that a person accepted with others in the studio, unseen: not evidence of its own.
ACCEPTED = "accepted"
REJECTED = "rejected"
# If no label was given at all, and only suggestions are made.
UNLABELED = ""


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


@dataclass(frozen=True, repr=False)
class LabelResult:
    """The label of each item of a source, its confidence, and what to label next.

    n items, C classes. Items that could not be read are in ``skipped`` and nowhere else.

    Attributes
    ----------
    ids : tuple of n str
        Relative path, row number or the value of the id column.
    classes : tuple of C str
        In the order of the columns of ``probabilities``.
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
    """

    ids: tuple[str, ...]
    classes: tuple[str, ...]
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

    @property
    def labels(self) -> tuple[str, ...]:
        """The label of each item, ``""`` for items without one."""
        return tuple(self.classes[code] if code >= 0 else "" for code in self.codes)

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

    def counts(self) -> dict[str, int]:
        """Return how many items are given, predicted and rejected."""
        return {origin: self.origins.count(origin) for origin in (GIVEN, PREDICTED, REJECTED)}

    def __len__(self) -> int:
        return len(self.ids)

    def __repr__(self) -> str:
        counts = ", ".join(f"{count} {origin}" for origin, count in self.counts().items() if count)
        return f"LabelResult({len(self)} items, {len(self.classes)} classes: {counts})"


def dense(rows: Any) -> Floats:
    """Return rows (m, C) of probabilities as a dense array."""
    values: Floats = rows.toarray() if sp.issparse(rows) else rows
    return values


def entries_at(matrix: Any, rows: Ints, columns: Ints) -> Floats:
    """Return one entry per row of some rows of a matrix, dense or sparse: (m,)."""
    values: Floats = dense(matrix[rows, columns]).ravel()
    return values
