"""Which items a label report shows, and what it says about each."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from laplacianshot.labeling.result import GIVEN, PREDICTED, REJECTED, ExpectedAccuracy, LabelResult, entries_at
from laplacianshot.reports.page import Block, block
from laplacianshot.reports.table import percentage
from laplacianshot.runtime.types import Ints
from laplacianshot.ui.colors import ClassColor, class_color
from laplacianshot.ui.names import line, passage, short_path
from laplacianshot.ui.thumbnails import Thumbnail

# Maximum number of items in a list, of suggestions, and per class.
LIST = 24
SUGGESTIONS = 240
OF_CLASS = 12
# Maximum number over all classes, as every picture makes the page larger.
_OF_ALL_CLASSES = 720
# Maximum number of classes that are shown with items; a table lists the others.
_CLASSES = 240


@dataclass(frozen=True)
class ClassItems:
    """A class and the items that a page shows of it."""

    code: int
    n_given: int
    n_predicted: int
    confidence: float  # mean of its predicted items; NaN without any
    best: Ints  # positions of some given items, then of the most confident predicted ones
    worst: Ints  # positions of other predicted items, lowest confidence first

    @property
    def n_items(self) -> int:
        """Number of items of the class."""
        return self.n_given + self.n_predicted

    @property
    def mean_confidence(self) -> str:
        """Mean confidence of the predicted items in percent; empty without any."""
        return percentage(self.confidence, 1) if self.n_predicted else ""


@dataclass(frozen=True)
class Choice:
    """Positions of the items in each list of a page, at most 24 per list, and more suggestions."""

    suggested: Ints
    disputed: Ints
    rejected: Ints  # the most novel first
    least_confident: Ints
    most_confident: Ints  # of as many classes as possible
    classes: tuple[ClassItems, ...]  # all of them, the largest first
    n_pictured: int  # number of classes, from the first, that are shown with items

    def items(self) -> Ints:
        """Return all positions that are in a list, sorted, without duplicates."""
        lists = [self.suggested, self.disputed, self.rejected, self.least_confident, self.most_confident]
        for shown in self.classes[: self.n_pictured]:
            lists += [shown.best, shown.worst]
        return np.unique(np.concatenate(lists)).astype(np.int64)


def interval_text(said: ExpectedAccuracy) -> str:
    """The interval of an expected accuracy, in percent."""
    return f"{percentage(said.low)} to {percentage(said.high)}"


def choose(result: LabelResult) -> Choice:
    """Choose the items that a page shows of a result."""
    origins = np.asarray(result.origins, dtype=object)
    predicted, rejected = np.flatnonzero(origins == PREDICTED), np.flatnonzero(origins == REJECTED)
    # Highest confidence first; ties in the order of the source.
    order = predicted[np.argsort(-result.confidence[predicted], kind="stable")]
    disputed = np.flatnonzero(result.disputes >= 0)
    doubt = entries_at(result.probabilities, disputed, result.disputes[disputed]) if len(disputed) else np.zeros(0)
    classes = _classes(result, origins, order)
    return Choice(
        suggested=result.suggested[:SUGGESTIONS],
        disputed=disputed[np.argsort(-doubt, kind="stable")][:LIST],
        rejected=rejected[np.argsort(-result.novelty[rejected], kind="stable")][:LIST],
        least_confident=order[::-1][:LIST],
        most_confident=_most_confident(result.codes, order),
        classes=classes,
        n_pictured=min(len(classes), _CLASSES),
    )


def _most_confident(codes: Ints, order: Ints) -> Ints:
    """The most confident item of each class, then the second of each, and so on."""
    by_class = np.argsort(codes[order], kind="stable")
    sorted_codes = codes[order][by_class]
    rank = np.empty(len(order), dtype=np.int64)
    rank[by_class] = np.arange(len(order)) - np.searchsorted(sorted_codes, sorted_codes)
    return order[np.argsort(rank, kind="stable")][:LIST]


def _classes(result: LabelResult, origins: Any, order: Ints) -> tuple[ClassItems, ...]:
    n_classes = len(result.classes)
    each = max(1, min(OF_CLASS, _OF_ALL_CLASSES // max(1, min(n_classes, _CLASSES))))
    first = (each + 1) // 2
    given_by_class = _grouped(result.codes, np.flatnonzero((origins == GIVEN) & (result.codes >= 0)), n_classes)
    found = []
    for code, (given, predicted) in enumerate(
        zip(given_by_class, _grouped(result.codes, order, n_classes), strict=True)
    ):
        labeled = given[: max(first - len(predicted), (first + 1) // 2)]
        best = predicted[: first - len(labeled)]
        worst = predicted[len(best) :][::-1][: each - first]
        confidence = float(result.confidence[predicted].mean()) if len(predicted) else float("nan")
        shown = np.concatenate([labeled, best])
        found.append(ClassItems(code, len(given), len(predicted), confidence, shown, worst))
    return tuple(sorted(found, key=lambda shown: -shown.n_items))


def _grouped(codes: Ints, items: Ints, n_classes: int) -> list[Ints]:
    """Items of each class, in the order of ``items``."""
    by_class = items[np.argsort(codes[items], kind="stable")]
    return np.split(by_class, np.searchsorted(codes[by_class], np.arange(1, n_classes))) if n_classes else []


# A less probable class is not named beside a better one.
_MIN_PROBABILITY = 0.005
_MAX_PATH_LENGTH = 300


@dataclass(frozen=True)
class CardLabel:
    """A line below an item: a class and a percentage, either of which may be missing."""

    name: str = ""
    color: ClassColor | None = None
    percent: str = ""
    other: bool = False  # drawn less prominently
    part: str = ""  # a word above the line


@dataclass(frozen=True)
class Card:
    """One item: a picture with its path, or a text with its name."""

    item: int
    text: str
    name: str
    picture: Thumbnail | None
    badge: str
    labels: tuple[CardLabel, ...]


@dataclass(frozen=True)
class Cards:
    """Makes the cards of a result's items."""

    result: LabelResult
    pictures: Mapping[int, Thumbnail]  # by item; some may be missing
    texts: Mapping[int, str] | None  # by item; None for pictures and vectors

    def items(
        self,
        items: Iterable[int],
        labels: Callable[[int], tuple[CardLabel, ...]] | None = None,
        badge: Callable[[int], str] | None = None,
    ) -> Block:
        """Return cards of items, with lines below (default: label and confidence) and a badge (default: "given")."""
        labels = self.label if labels is None else labels
        badge = self._given if badge is None else badge
        cards = [self._card(int(item), labels(int(item)), badge(int(item))) for item in items]
        return block("items", cards, in_rows=not self.pictures)

    def label(self, item: int) -> tuple[CardLabel, ...]:
        """The label and its confidence; for a rejected item the most probable class."""
        result = self.result
        code = int(result.codes[item])
        if result.origins[item] == REJECTED and result.classes:
            probabilities = result.probabilities_of(item)
            best = int(np.argmax(probabilities))
            return (self._of_class(best, probabilities[best], other=True),)
        if code < 0:
            return ()
        return (self._of_class(code, None if result.origins[item] == GIVEN else result.confidence[item]),)

    def confidence(self, item: int) -> tuple[CardLabel, ...]:
        """The confidence alone, where the class is known."""
        if self.result.origins[item] == GIVEN:
            return ()
        return (CardLabel(percent=percentage(float(self.result.confidence[item]))),)

    def best_classes(self, item: int) -> tuple[CardLabel, ...]:
        """The two most probable classes, without very improbable ones."""
        probabilities = self.result.probabilities_of(item)
        best = np.argsort(-probabilities, kind="stable")[:2]
        best = best[(probabilities[best] >= _MIN_PROBABILITY) | (np.arange(len(best)) == 0)]
        return tuple(self._of_class(int(c), probabilities[c], other=place > 0) for place, c in enumerate(best))

    def disputed(self, item: int) -> tuple[CardLabel, ...]:
        """The given class, and the class that the neighbors suggest."""
        given, other = int(self.result.codes[item]), int(self.result.disputes[item])
        probabilities = self.result.probabilities_of(item)
        return (
            self._of_class(given, probabilities[given], other=True, part="given"),
            self._of_class(other, probabilities[other], part="neighbors suggest"),
        )

    def rank(self, item: int) -> str:
        """The rank among the items to label next."""
        return str(int(self.result.suggestions[item]))

    def _of_class(self, code: int, share: float | None, *, other: bool = False, part: str = "") -> CardLabel:
        percent = "" if share is None else percentage(float(share))
        return CardLabel(line(self.result.classes[code]), class_color(code), percent, other, part)

    def _given(self, item: int) -> str:
        return "given" if self.result.origins[item] == GIVEN else ""

    def _card(self, item: int, labels: tuple[CardLabel, ...], badge: str) -> Card:
        name = line(self.result.ids[item])
        if self.pictures:
            whole = line(self.result.ids[item], _MAX_PATH_LENGTH)
            return Card(item, self._paths.get(item, whole), whole, self.pictures.get(item), badge, labels)
        if self.texts is None:
            return Card(item, name, "", None, badge, labels)
        return Card(item, passage(self.texts[item]), name, None, badge, labels)

    @cached_property
    def _paths(self) -> dict[int, str]:
        """Paths of the pictures, shortened unless two of them would look the same."""
        short = {item: short_path(self.result.ids[item]) for item in self.pictures}
        alike = Counter(short.values())
        return {
            item: path if alike[path] == 1 else line(self.result.ids[item], _MAX_PATH_LENGTH)
            for item, path in short.items()
        }
