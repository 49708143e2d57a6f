"""Large tasks of a whole data set: a few rows keep their label, every other row is to be labeled."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from time import perf_counter

import numpy as np
from sklearn.base import clone

from laplacianshot.baselines import TransductiveClassifier
from laplacianshot.episodes.results import Evaluation, Evaluations, Setting
from laplacianshot.inference.labels import UNLABELED
from laplacianshot.runtime.types import Floats, Ints


def draw_labeled(labels: Ints, per_class: int, *, seed: int, repeat: int = 0) -> Ints:
    """Draw the rows that keep their label: ``per_class`` of each class of labels (n,), without replacement.

    The draw depends on ``seed``, ``repeat`` and ``per_class`` alone. Returns row numbers (per_class * C,), class after
    class.
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


def evaluate_whole_set(
    features: Floats,
    labels: Ints,
    methods: Mapping[str, TransductiveClassifier],
    *,
    per_class: int,
    repeats: int,
    seed: int,
    done: Callable[[], object] = lambda: None,
) -> Evaluations:
    """Fit each method on features (n, D) with a few labels, and score it on all other rows; every repeat is a task.

    Ctrl-C ends the run early. The result then contains the finished repeats and is marked as interrupted.

    Parameters
    ----------
    features : array of shape (n, D)
    labels : int array of shape (n,)
    methods : mapping of str to estimator
    per_class, repeats, seed : int
        See :func:`draw_labeled`. All methods see the same draws.
    done : callable
        Called after each repeat.

    Returns
    -------
    Evaluations
        ``seconds`` is the median time of a fit times the number of repeats.
    """
    accuracies: list[list[float]] = []
    seconds: list[list[float]] = []
    interrupted = False
    try:
        for repeat in range(repeats):
            given = keep_labels(labels, draw_labeled(labels, per_class, seed=seed, repeat=repeat))
            scores = [_score(method, features, labels, given) for method in methods.values()]
            accuracies.append([accuracy for accuracy, _ in scores])
            seconds.append([time for _, time in scores])
            done()
    except KeyboardInterrupt:
        if not accuracies:
            raise
        interrupted = True
    setting = Setting("whole set", len(np.unique(labels)), per_class, query=0, tasks=repeats, seed=seed)
    times = len(seconds) * np.median(seconds, axis=0)
    return Evaluations(
        tuple(
            Evaluation(name, setting, np.array(values), seconds=float(time), interrupted=interrupted)
            for name, values, time in zip(methods, zip(*accuracies, strict=True), times, strict=True)
        )
    )


def _score(method: TransductiveClassifier, features: Floats, labels: Ints, given: Ints) -> tuple[float, float]:
    """Share of right labels among the rows without one, and seconds of the fit."""
    fitted = clone(method)
    start = perf_counter()
    fitted.fit(features, given)
    seconds = perf_counter() - start
    hidden = given == UNLABELED
    return float(np.mean(fitted.transduction_[hidden] == labels[hidden])), seconds
