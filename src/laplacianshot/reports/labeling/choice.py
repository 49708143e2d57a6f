"""Which items a page shows: lists of positions, the first the most worth a look."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from laplacianshot.labeling.class_rows import entries_at
from laplacianshot.labeling.result import GIVEN, PREDICTED, REJECTED, LabelResult
from laplacianshot.runtime.types import Floats, Ints

# Items of a list, and of a class.
LIST = 24
OF_CLASS = 12
# Over all classes not more than so many, as every picture makes the page longer.
_OF_ALL_CLASSES = 720
# Classes that are shown with items; a table counts the others.
_CLASSES = 240


@dataclass(frozen=True)
class ClassItems:
    """A class and what a page shows of it.

    Attributes
    ----------
    code : int
    n_given, n_predicted : int
    sure : float
        Mean confidence of its predicted items; NaN where there are none.
    best : int array
        Positions: some given ones, then the predicted ones that are surest.
    worst : int array
        Positions of other predicted ones, the least sure first.
    """

    code: int
    n_given: int
    n_predicted: int
    sure: float
    best: Ints
    worst: Ints

    @property
    def n_items(self) -> int:
        """All items of the class."""
        return self.n_given + self.n_predicted


@dataclass(frozen=True)
class Choice:
    """Positions of the items in each list of a page.

    Attributes
    ----------
    suggested, disputed, rejected, least_sure, surest : int array
        At most 24 each. The rejected ones are the strangest; the surest are of as many classes as can be.
    classes : tuple of ClassItems
        All of them, the largest first.
    n_pictured : int
        So many of the classes, from the first on, are shown with items.
    """

    suggested: Ints
    disputed: Ints
    rejected: Ints
    least_sure: Ints
    surest: Ints
    classes: tuple[ClassItems, ...]
    n_pictured: int

    def items(self) -> Ints:
        """Every position that is in a list, once, in order."""
        lists = [self.suggested, self.disputed, self.rejected, self.least_sure, self.surest]
        for shown in self.classes[: self.n_pictured]:
            lists += [shown.best, shown.worst]
        return np.unique(np.concatenate(lists)).astype(np.int64)


def choose(result: LabelResult) -> Choice:
    """Choose what a page shows of a result."""
    origins = np.asarray(result.origins, dtype=object)
    predicted, rejected = np.flatnonzero(origins == PREDICTED), np.flatnonzero(origins == REJECTED)
    # Most sure first; of equals the first in the source.
    order = predicted[np.argsort(-result.confidence[predicted], kind="stable")]
    disputed = np.flatnonzero(result.disputes >= 0)
    doubt = _probability(result, disputed, result.disputes[disputed])
    classes = _classes(result, origins, order)
    return Choice(
        suggested=result.suggested[:LIST],
        disputed=disputed[np.argsort(-doubt, kind="stable")][:LIST],
        rejected=rejected[np.argsort(-result.novelty[rejected], kind="stable")][:LIST],
        least_sure=order[::-1][:LIST],
        surest=_surest(result.codes, order),
        classes=classes,
        n_pictured=min(len(classes), _CLASSES),
    )


def _probability(result: LabelResult, items: Ints, codes: Ints) -> Floats:
    return entries_at(result.probabilities, items, codes) if len(result.classes) else np.zeros(len(items))


def _surest(codes: Ints, order: Ints) -> Ints:
    """The surest item of each class, then the second of each, and so on."""
    by_class = np.argsort(codes[order], kind="stable")
    sorted_codes = codes[order][by_class]
    turn = np.empty(len(order), dtype=np.int64)
    starts = np.searchsorted(sorted_codes, sorted_codes)
    turn[by_class] = np.arange(len(order)) - starts
    return order[np.argsort(turn, kind="stable")][:LIST]


def _classes(
    result: LabelResult, origins: np.ndarray[tuple[int], np.dtype[np.object_]], order: Ints
) -> tuple[ClassItems, ...]:
    n_classes = len(result.classes)
    given = np.flatnonzero((origins == GIVEN) & (result.codes >= 0))
    each = max(1, min(OF_CLASS, _OF_ALL_CLASSES // max(1, min(n_classes, _CLASSES))))
    found = []
    for code, mine, certain in zip(
        range(n_classes),
        _grouped(result.codes, given, n_classes),
        _grouped(result.codes, order, n_classes),
        strict=True,
    ):
        first = (each + 1) // 2
        labeled = mine[: max(first - len(certain), (first + 1) // 2)]
        best = certain[: first - len(labeled)]
        worst = certain[len(best) :][::-1][: each - first]
        sure = float(result.confidence[certain].mean()) if len(certain) else float("nan")
        found.append(ClassItems(code, len(mine), len(certain), sure, np.concatenate([labeled, best]), worst))
    return tuple(sorted(found, key=lambda shown: -shown.n_items))


def _grouped(codes: Ints, items: Ints, n_classes: int) -> list[Ints]:
    """Items of each class, in the order of ``items``."""
    by_class = items[np.argsort(codes[items], kind="stable")]
    return np.split(by_class, np.searchsorted(codes[by_class], np.arange(1, n_classes))) if n_classes else []
