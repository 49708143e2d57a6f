"""The current state of all items as arrays, and queries that filter and sort them.

A new :class:`View` is made after each change and never modified, so it can be read while the next one is made. Filters
are masks over arrays: a hundred thousand items take milliseconds.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache
from threading import Lock
from typing import Literal, TypeAlias

import numpy as np
from numpy.typing import NDArray
from pydantic import BaseModel, Field

from laplacianshot.labeling.tables import composed
from laplacianshot.runtime.types import Floats, Ints

Origin: TypeAlias = Literal["waiting", "unlabeled", "predicted", "given", "failed", "accepted"]
Sort: TypeAlias = Literal["index", "confidence", "-confidence", "novelty", "-novelty", "suggestion", "id", "-id"]
Only: TypeAlias = Literal["suggested", "disputed", "novel"]

ORIGINS: tuple[Origin, ...] = ("waiting", "unlabeled", "predicted", "given", "failed", "accepted")
WAITING, UNLABELED, PREDICTED, GIVEN, FAILED, ACCEPTED = range(6)
# The class id of items without a label.
NO_CLASS = -1
# Number of cached answers, so that all pages of a gallery have the same order.
_CACHED = 32


@dataclass(frozen=True, repr=False)
class View:
    """n items at one moment; all arrays have shape (n,)."""

    revision: int  # number of this view; grows
    classes: Ints  # class id, given, accepted or predicted; -1 for none
    origins: NDArray[np.uint8]  # position in ORIGINS
    confidence: Floats  # NaN where there is none
    disputes: Ints  # class id that the graph prefers to a given or accepted label, -1 elsewhere
    novelty: Floats  # how little the item fits any class; NaN where it is unknown
    novel: NDArray[np.bool_]  # whether the item fits no class
    suggestions: Ints  # rank in the queue from 1, 0 for items that are not in it

    def __len__(self) -> int:
        return len(self.classes)

    def counts(self) -> dict[Origin | Only, int]:
        """Return the number of items of each origin and kind."""
        found = np.bincount(self.origins, minlength=len(ORIGINS)).tolist()
        return {
            **dict(zip(ORIGINS, found, strict=True)),
            "disputed": int(np.count_nonzero(self.disputes >= 0)),
            "novel": int(np.count_nonzero(self.novel)),
            "suggested": int(np.count_nonzero(self.suggestions)),
        }

    def by_class(self, origin: int) -> dict[int, int]:
        """Return the number of items of an origin per class, without empty classes."""
        counts = np.bincount(self.classes[self.origins == origin] - NO_CLASS)
        return {int(place) + NO_CLASS: int(counts[place]) for place in np.flatnonzero(counts)}


@dataclass(frozen=True)
class Query:
    """A filter and a sort order. None or empty matches all items; ties are sorted by index."""

    classes: tuple[int, ...] = ()
    origins: tuple[Origin, ...] = ()
    min_confidence: float | None = None
    max_confidence: float | None = None
    search: str = ""
    only: Only | None = None
    sort: Sort = "index"


class Catalog:
    """Answers queries about items by their ids and, if there are any, their texts."""

    def __init__(self, ids: Sequence[str], texts: Sequence[str] | None = None) -> None:
        self._ids = ids
        self._words = [_plain(name) for name in ids]
        if texts is not None:
            self._words = [f"{name}\n{_plain(text)}" for name, text in zip(self._words, texts, strict=True)]
        self._holding = lru_cache(_CACHED)(self._search)
        self._answers: OrderedDict[tuple[int, Query], Ints] = OrderedDict()
        self._lock = Lock()

    def select(self, view: View, query: Query) -> Ints:
        """Return the positions of the items that match a query, sorted."""
        key = (view.revision, query)
        with self._lock:
            answer = self._answers.get(key)
        if answer is None:
            answer = self._order(view, np.flatnonzero(self._mask(view, query)), query.sort)
            with self._lock:
                self._answers[key] = answer
                while len(self._answers) > _CACHED:
                    self._answers.popitem(last=False)
        return answer

    def _mask(self, view: View, query: Query) -> NDArray[np.bool_]:
        mask = np.ones(len(view), dtype=bool)
        if query.classes:
            mask &= np.isin(view.classes, query.classes)
        if query.origins:
            mask &= np.isin(view.origins, [ORIGINS.index(origin) for origin in query.origins])
        # NaN matches neither.
        if query.min_confidence is not None:
            mask &= view.confidence >= np.float32(query.min_confidence)
        if query.max_confidence is not None:
            mask &= view.confidence <= np.float32(query.max_confidence)
        if query.only == "suggested":
            mask &= view.suggestions > 0
        elif query.only == "disputed":
            mask &= view.disputes >= 0
        elif query.only == "novel":
            mask &= view.novel
        for word in _plain(query.search).split():
            mask &= self._holding(word)
        return mask

    def _order(self, view: View, rows: Ints, sort: Sort) -> Ints:
        if sort == "index":
            return rows
        if sort in ("id", "-id"):
            keys: Ints | Floats = self._id_ranks[rows]
        elif sort == "suggestion":
            ranks = view.suggestions[rows]
            keys = np.where(ranks > 0, ranks, len(view) + 1)
        else:
            keys = (view.confidence if sort.endswith("confidence") else view.novelty)[rows]
        # NaN comes last in both directions.
        return rows[np.argsort(-keys if sort.startswith("-") else keys, kind="stable")]

    def _search(self, word: str) -> NDArray[np.bool_]:
        return np.fromiter((word in words for words in self._words), dtype=bool, count=len(self._words))

    @cached_property
    def _id_ranks(self) -> Ints:
        ranks = np.empty(len(self._ids), dtype=np.int64)
        ranks[sorted(range(len(self._ids)), key=self._ids.__getitem__)] = np.arange(len(self._ids))
        return ranks


class Group(BaseModel):
    """Items of one class, or of none: their number, origins and mean confidence (None if unknown)."""

    class_id: int | None = Field(serialization_alias="class")
    total: int
    given: int
    accepted: int
    predicted: int
    confidence: float | None


def groups(view: View, rows: Ints, class_ids: Sequence[int]) -> list[Group]:
    """Group the items at ``rows`` by class in the order of ``class_ids``, unlabeled ones last; no group is empty."""
    found = []
    classes, origins, confidence = view.classes[rows], view.origins[rows], view.confidence[rows]
    order = np.argsort(classes, kind="stable")
    for class_id in (*class_ids, NO_CLASS):
        first, last = np.searchsorted(classes[order], [class_id, class_id + 1])
        members = order[first:last]
        if len(members):
            known = confidence[members]
            known = known[~np.isnan(known)]
            group = Group(
                class_id=None if class_id == NO_CLASS else class_id,
                total=len(members),
                given=int(np.count_nonzero(origins[members] == GIVEN)),
                accepted=int(np.count_nonzero(origins[members] == ACCEPTED)),
                predicted=int(np.count_nonzero(origins[members] == PREDICTED)),
                confidence=float(known.mean(dtype=np.float64)) if len(known) else None,
            )
            found.append(group)
    return found


def _plain(text: str) -> str:
    """Normalize a text for searching: case and accents."""
    return composed(text.casefold())
