"""Label vectors from the few that have a label: the part of the work without files.

The default recipe labels the rows, :mod:`~laplacianshot.labeling.calibration` gives the confidence of each label,
:mod:`~laplacianshot.labeling.novelty` which rows fit no class and :mod:`~laplacianshot.labeling.suggestions` which
ones a person should label next.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray

from laplacianshot.engine.large import scaled_affinity
from laplacianshot.engine.plan import ENTRIES
from laplacianshot.estimator import Engine, LaplacianShot, fit_large
from laplacianshot.inference.recipes import DefaultConstants
from laplacianshot.inference.transforms import base_mean, choose_centered, given_center, transform_features
from laplacianshot.labeling.calibration import Calibration, calibrate
from laplacianshot.labeling.disputes import find_disputes
from laplacianshot.labeling.errors import LabelingError, one_line
from laplacianshot.labeling.novelty import novelty_scores, rejected, seeds
from laplacianshot.labeling.result import ExpectedAccuracy, entries_at
from laplacianshot.labeling.suggestions import MAX_PAIRS, cover_affinity, neighbors_to_cover, suggest
from laplacianshot.neighbors.rows import Rows
from laplacianshot.runtime.limits import LARGE_ASSIGNMENTS, LARGE_ROWS, BudgetError, MemoryPlan, parse_bytes
from laplacianshot.runtime.progress import Watch, no_watch
from laplacianshot.runtime.types import CENTERED, Floats, Ints, Transform


@dataclass(frozen=True)
class LabelOptions:
    """Options of :func:`label_vectors`; those of :func:`~laplacianshot.label_source` of the same names."""

    balanced: bool = False
    suggest: int = 0
    reject: float = 0.0
    base_mean: ArrayLike | None = None
    graph: Any = "auto"  # how neighbors are searched, or affinities (n, n) as a csr_array
    memory: float | str | None = None
    transform: Transform | Literal["auto"] = "auto"  # that of the estimator
    names: Floats | None = None  # (C', D), vectors of class names
    named: Ints | None = None  # (C',), the classes that they are of
    prior: Floats | None = None  # (n, C)
    class_shares: Any = None  # (C,) or "equal"

    @property
    def knows(self) -> bool:
        """Whether something is known of the classes besides labels."""
        return self.names is not None or self.prior is not None

    def __post_init__(self) -> None:
        if not 0 <= self.reject <= 1:
            raise LabelingError(f"reject is {self.reject}; it must be a share of the unlabeled items, from 0 to 1.")
        if self.suggest < 0:
            raise LabelingError(f"suggest is {self.suggest}; it must be a number of items, 0 or more.")
        if self.memory is not None:
            with one_line():
                parse_bytes(self.memory)


@dataclass(frozen=True, repr=False)
class VectorLabels:
    """The labels of n rows, with C classes; fields as in :class:`~laplacianshot.labeling.result.LabelResult`."""

    codes: Ints
    rejected: Ints
    probabilities: Any
    confidence: Floats
    suggestions: Ints
    disputes: Ints
    novelty: Floats
    model: LaplacianShot | None  # fitted; None without labels
    given: NDArray[np.bool_]  # (n,), rows that have a label
    calibration: Calibration | None = None  # None without labels

    @property
    def shift(self) -> float:
        """What these data add to the log-odds of a label."""
        return 0.0 if self.calibration is None else self.calibration.shift

    @property
    def expected_accuracy(self) -> ExpectedAccuracy | None:
        """What share of the predicted labels is right; None where nothing is predicted."""
        if self.calibration is None:
            return None
        predicted = self.confidence[~self.given & (self.codes >= 0)]
        return ExpectedAccuracy.of_labels(predicted, self.calibration.spread, self.calibration.source)


def label_vectors(
    X: Floats,
    codes: Ints,
    n_classes: int,
    options: LabelOptions | None = None,
    *,
    watch: Watch | None = None,
    checkpoint: Path | None = None,
    engine: Engine | None = None,
) -> VectorLabels:
    """Label every row from the few that have a label.

    X (n, D) is finite. Codes (n,) are the given classes, ``0..C-1``, -1 for unlabeled rows. Each class has a labeled
    row, a name or a prior, or there is nothing at all: then only suggestions are made. For ``watch``, ``checkpoint``
    and ``engine``, of large sets, see :func:`~laplacianshot.estimator.fit_large`.
    """
    options = LabelOptions() if options is None else options
    given = codes >= 0
    if not (given.any() or options.knows):
        return _first_look(X, n_classes, options, watch, checkpoint)
    with _within_memory(options, codes, n_classes) as memory:
        model = LaplacianShot(
            transform=options.transform,
            balanced=options.balanced,
            class_shares=options.class_shares,
            base_mean=options.base_mean,
            graph=options.graph,
            memory=memory,
        )
        fit_large(
            model, X, codes, watch=watch, checkpoint=checkpoint, engine=engine,
            names=options.names, prior=options.prior,
            classes=options.named if options.prior is None else np.arange(n_classes),
        )  # fmt: skip
    report = watch if watch is not None and hasattr(model, "graph_report_") else no_watch
    report("Confidence")
    calibration = calibrate(model, codes)
    probabilities = calibration.probabilities
    # Classes are numbered, so that the label is the number.
    labels: Ints = model.transduction_.astype(np.int64)
    disputes = find_disputes(probabilities, codes)
    confidence = entries_at(probabilities, np.arange(len(X)), labels).astype(np.float64)
    confidence[given & (disputes < 0)] = 1.0
    novelty = novelty_scores(probabilities, seeds(probabilities, codes, n_classes), model.affinity_)
    left_out = rejected(novelty, codes, options.reject)
    if options.suggest:
        report("Suggestions")
    # Only the largest probability of an unlabeled row matters, that of its label.
    suggested = suggest(confidence[:, None], codes, options.suggest, affinity=model.affinity_)
    labels[left_out] = -1
    ranks = ranks_of(suggested, len(X))
    return VectorLabels(
        labels, left_out, probabilities, confidence, ranks, disputes, novelty, model, given, calibration
    )


def _first_look(
    X: Floats, n_classes: int, options: LabelOptions, watch: Watch | None, checkpoint: Path | None
) -> VectorLabels:
    """Suggest what to label first, which is all that can be done without labels."""
    n = len(X)
    transform, given = options.transform, options.base_mean
    if transform not in CENTERED:
        transform = choose_centered(X) if given is None else "cl2"
    center = base_mean(X, transform) if given is None else given_center(given, X.shape[1], transform)
    if n > LARGE_ROWS:
        k = neighbors_to_cover(n, options.suggest)
        affinity = scaled_affinity(Rows.transformed(X, transform, center), k, watch=watch, checkpoint=checkpoint)
    else:
        affinity = cover_affinity(transform_features(X, transform, center), options.suggest)
    nothing, confidence = np.full(n, -1), np.zeros(n)
    suggested = suggest(confidence[:, None], nothing, options.suggest, affinity=affinity)
    return VectorLabels(
        codes=nothing,
        rejected=np.zeros(0, dtype=np.int64),
        probabilities=np.zeros((n, n_classes), np.float32),
        confidence=confidence,
        suggestions=ranks_of(suggested, n),
        disputes=nothing.copy(),
        novelty=np.zeros(n),
        model=None,
        given=np.zeros(n, dtype=bool),
    )


def ranks_of(order: Ints, n: int) -> Ints:
    """Return the rank of each row in ``order``, from 1; 0 for rows that are not in it."""
    ranks = np.zeros(n, dtype=np.int64)
    ranks[order] = np.arange(1, len(order) + 1)
    return ranks


# Bytes per row for its id, label, origin and evidence, and its line of the output.
_ROW_BYTES = 700.0


@contextmanager
def _within_memory(options: LabelOptions, codes: Ints, n_classes: int) -> Iterator[int | None]:
    """Yield the bytes of a budget that the fit may use; raise BudgetError if the work needs more.

    After the fit there are assignments and probabilities, of C classes or of the largest entries, and edges three
    times: of the fit, in the order of the rows, and as they conduct. Suggestions look at pairs of edges.
    """
    if options.memory is None:
        yield None
        return
    budget, n, n_query = parse_bytes(options.memory), len(codes), int(np.sum(codes < 0))
    k = DefaultConstants.for_task(n - n_query, n_query, n_classes, balanced=options.balanced).n_neighbors
    entries = 8.0 * n_classes if n * n_classes <= LARGE_ASSIGNMENTS else 2 * 12.0 * ENTRIES[-1]
    rows = {"rows of the result": _ROW_BYTES * n}
    after = {"probabilities": n * entries, "graph": 36.0 * n * k, **rows}
    if options.suggest:
        after["suggestions"] = 12.0 * min(MAX_PAIRS, n * (2 * k) ** 2)
    MemoryPlan(after).check(budget)
    try:
        yield max(1, budget - int(_ROW_BYTES * n))
    except BudgetError as error:
        # Name the budget of the user, not what is left of it for the fit.
        raise BudgetError(budget, {**error.parts, **rows}) from None
