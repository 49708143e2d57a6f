"""One large task: a few rows of a data set keep their label, every other row is to be labeled."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from time import perf_counter

import numpy as np
from sklearn.base import clone

from laplacianshot.baselines import TransductiveClassifier
from laplacianshot.episodes.results import MeanInterval, PairedDifference, mean_interval, paired_difference
from laplacianshot.inference.labels import UNLABELED
from laplacianshot.runtime.types import Floats, Ints


def draw_labeled(labels: Ints, per_class: int, *, seed: int, repeat: int = 0) -> Ints:
    """Draw the rows that keep their label: ``per_class`` of each class, without replacement.

    Parameters
    ----------
    labels : int array of shape (n,)
    per_class : int
    seed, repeat : int
        The draw depends on these two and ``per_class`` alone.

    Returns
    -------
    int array of shape (per_class * C,)
        Row numbers, class after class.
    """
    classes, counts = np.unique(labels, return_counts=True)
    if not 1 <= per_class < counts.min():
        raise ValueError(f"labels per class must be 1 to {counts.min() - 1}, got {per_class}.")
    rng = np.random.default_rng([seed, per_class, repeat])
    return np.concatenate([rng.choice(np.flatnonzero(labels == c), per_class, replace=False) for c in classes])


def keep_labels(labels: Ints, rows: Ints) -> Ints:
    """``labels`` (n,) with -1 everywhere but at ``rows``."""
    kept = np.full_like(labels, UNLABELED)
    kept[rows] = labels[rows]
    return kept


@dataclass(frozen=True)
class Repeat:
    """All methods on one choice of labeled rows.

    Attributes
    ----------
    accuracies : dict of str to float
        Share of right labels among the rows without one, by method.
    seconds : dict of str to float
        Wall time of the fit, by method.
    """

    accuracies: Mapping[str, float]
    seconds: Mapping[str, float]


def run_repeat(features: Floats, labels: Ints, rows: Ints, methods: Mapping[str, TransductiveClassifier]) -> Repeat:
    """Fit each method on features (n, D) with the labels of ``rows`` only, and score it on all other rows."""
    given = keep_labels(labels, rows)
    hidden = given == UNLABELED
    accuracies, seconds = {}, {}
    for name, method in methods.items():
        fitted = clone(method)
        start = perf_counter()
        fitted.fit(features, given)
        seconds[name] = perf_counter() - start
        accuracies[name] = float(np.mean(fitted.transduction_[hidden] == labels[hidden]))
    return Repeat(accuracies, seconds)


def run_repeats(
    features: Floats,
    labels: Ints,
    methods: Mapping[str, TransductiveClassifier],
    *,
    per_class: int,
    repeats: int,
    seed: int,
) -> Iterator[Repeat]:
    """One :class:`Repeat` after the other, so that a caller can show progress and stop in between."""
    for repeat in range(repeats):
        rows = draw_labeled(labels, per_class, seed=seed, repeat=repeat)
        yield run_repeat(features, labels, rows, methods)


@dataclass(frozen=True)
class Standing:
    """A method's line in a comparison.

    Attributes
    ----------
    place : int
        From 1, by mean accuracy.
    name : str
    accuracy : MeanInterval
    behind_best : PairedDifference or None
        Accuracy minus that of the best method on the same choices; None for the best itself.
    seconds : float
        Median time of a fit.
    """

    place: int
    name: str
    accuracy: MeanInterval
    behind_best: PairedDifference | None
    seconds: float


@dataclass(frozen=True, repr=False)
class Comparison:
    """Methods on the same choices of labeled rows.

    Attributes
    ----------
    per_class : int
        Labeled rows per class.
    repeats : tuple of Repeat
        At least one.
    """

    per_class: int
    repeats: Sequence[Repeat]

    def __post_init__(self) -> None:
        if not self.repeats:
            raise ValueError("a comparison needs at least one repeat.")

    @property
    def names(self) -> tuple[str, ...]:
        """Methods in the order in which they were run."""
        return tuple(self.repeats[0].accuracies)

    def accuracies(self, name: str) -> Floats:
        """Accuracy of a method at each repeat, (n,)."""
        return np.array([repeat.accuracies[name] for repeat in self.repeats])

    def accuracy(self, name: str) -> MeanInterval:
        """Mean accuracy of a method."""
        return mean_interval(self.accuracies(name))

    def difference(self, name: str, other: str) -> PairedDifference:
        """Accuracy of ``name`` minus that of ``other``, paired."""
        return paired_difference(self.accuracies(name), self.accuracies(other))

    def seconds(self, name: str) -> float:
        """Median seconds of a fit."""
        return float(np.median([repeat.seconds[name] for repeat in self.repeats]))

    def standings(self) -> tuple[Standing, ...]:
        """All methods, best mean accuracy first."""
        order = sorted(self.names, key=lambda name: -self.accuracy(name).mean)
        return tuple(
            Standing(
                place=place,
                name=name,
                accuracy=self.accuracy(name),
                behind_best=None if place == 1 else self.difference(name, order[0]),
                seconds=self.seconds(name),
            )
            for place, name in enumerate(order, start=1)
        )

    def __repr__(self) -> str:
        best = self.standings()[0]
        return (
            f"Comparison({len(self.names)} methods x {len(self.repeats)} repeats, {self.per_class} per class, "
            f"best {best.name} at {best.accuracy.mean:.4f})"
        )
