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
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from laplacianshot.engine.large import scaled_affinity
from laplacianshot.engine.plan import ENTRIES
from laplacianshot.estimator import Engine, LaplacianShot, fit_large
from laplacianshot.inference.recipes import DefaultConstants
from laplacianshot.inference.transforms import base_mean, given_center, transform_features
from laplacianshot.labeling.calibration import calibrate
from laplacianshot.labeling.class_rows import entries_at
from laplacianshot.labeling.disputes import find_disputes
from laplacianshot.labeling.errors import LabelingError
from laplacianshot.labeling.novelty import novelty_scores, rejected
from laplacianshot.labeling.suggestions import MAX_PAIRS, neighbors_to_cover, suggest, suggest_first
from laplacianshot.neighbors.rows import Rows
from laplacianshot.runtime.limits import LARGE_ASSIGNMENTS, LARGE_ROWS, BudgetError, MemoryPlan, parse_bytes
from laplacianshot.runtime.progress import Watch
from laplacianshot.runtime.types import Floats, Ints


@dataclass(frozen=True)
class LabelOptions:
    """Options of :func:`label_vectors`.

    Attributes
    ----------
    balanced : bool
        All classes are known to be equally frequent among the unlabeled items.
    suggest : int
        Number of items to suggest for labeling next.
    reject : float
        Share of the unlabeled items to leave without a label: those with the highest novelty.
    relabel : bool
        Report given labels that similar items contradict. They are kept either way.
    base_mean : array of shape (D,), optional
        Center of the vectors (default: computed from them).
    graph : str or csr_array of shape (n, n), optional
        Neighbor search method, or affinities between the rows, as in :class:`~laplacianshot.LaplacianShot`.
    memory : int, float or str, optional
        Memory limit in bytes besides the vectors, or text such as ``"8GB"``.
    """

    balanced: bool = False
    suggest: int = 0
    reject: float = 0.0
    relabel: bool = False
    base_mean: ArrayLike | None = None
    graph: Any = None
    memory: float | str | None = None

    def __post_init__(self) -> None:
        if not 0 <= self.reject <= 1:
            raise LabelingError(f"reject is {self.reject}; it must be a share of the unlabeled items, from 0 to 1.")
        if self.suggest < 0:
            raise LabelingError(f"suggest is {self.suggest}; it must be a number of items, 0 or more.")
        if self.memory is not None:
            try:
                parse_bytes(self.memory)
            except ValueError as error:
                raise LabelingError(str(error)) from None


@dataclass(frozen=True, repr=False)
class VectorLabels:
    """The labels of n rows, with C classes; fields as in :class:`~laplacianshot.labeling.result.LabelResult`.

    ``model`` is the fitted estimator, None without labels; ``shift`` is what these data add to the log-odds of a label
    (:class:`~laplacianshot.labeling.calibration.Calibration`).
    """

    codes: Ints
    rejected: Ints
    probabilities: Any
    confidence: Floats
    suggestions: Ints
    disputes: Ints
    novelty: Floats
    model: LaplacianShot | None
    shift: float = 0.0


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

    Parameters
    ----------
    X : array of shape (n, D)
        Finite numbers.
    codes : int array of shape (n,)
        Given class of each row in ``0..C-1``, -1 where none is given. Each class has a row, or none has any: then only
        suggestions are made.
    n_classes : int
    options : LabelOptions, optional
    watch : callable, optional
        Called with the stages of a large set; see :func:`~laplacianshot.estimator.fit_large`.
    checkpoint : Path, optional
        Folder where finished stages of a large set are kept, to continue from.
    engine : callable, optional
        Fits on another machine; see :func:`~laplacianshot.estimator.fit_large`.

    Returns
    -------
    VectorLabels
    """
    options = LabelOptions() if options is None else options
    given = codes >= 0
    if not given.any():
        return _first_look(X, n_classes, options, watch, checkpoint)
    graph = "auto" if options.graph is None else options.graph
    n_given = int(given.sum())
    k = DefaultConstants.for_task(n_given, len(X) - n_given, n_classes, balanced=options.balanced).n_neighbors
    with within_memory(options.memory, len(X), n_classes, k, suggestions=options.suggest > 0) as memory:
        model = LaplacianShot(balanced=options.balanced, base_mean=options.base_mean, graph=graph, memory=memory)
        fit_large(model, X, codes, watch=watch, checkpoint=checkpoint, engine=engine)
    tell = watch if watch is not None and hasattr(model, "graph_report_") else None
    if tell is not None:
        tell("Confidence")
    calibration = calibrate(model, codes)
    probabilities = calibration.probabilities
    # Classes are numbered, so that the label is the number.
    found: Ints = model.transduction_.astype(np.int64)
    disputes = find_disputes(probabilities, codes)
    confidence = entries_at(probabilities, np.arange(len(X)), found).astype(np.float64)
    confidence[given & (disputes < 0)] = 1.0
    strange = novelty_scores(probabilities, codes, model.affinity_)
    out = rejected(strange, codes, options.reject)
    if tell is not None and options.suggest:
        tell("Suggestions")
    # Of an unlabeled row only the largest probability matters, that of its label.
    wanted = suggest(None, confidence[:, None], codes, options.suggest, affinity=model.affinity_)
    final = found.copy()
    final[out] = -1
    ranks = ranks_of(wanted, len(X))
    return VectorLabels(final, out, probabilities, confidence, ranks, disputes, strange, model, calibration.shift)


def _first_look(
    X: Floats, n_classes: int, options: LabelOptions, watch: Watch | None, checkpoint: Path | None
) -> VectorLabels:
    """Suggest what to label first, which is all that can be done without labels."""
    n = len(X)
    center = base_mean(X) if options.base_mean is None else given_center(options.base_mean, X.shape[1])
    if n > LARGE_ROWS:
        rows = Rows.transformed(X, "cl2", center)
        k = neighbors_to_cover(n, options.suggest)
        affinity = scaled_affinity(rows, k, watch=watch, checkpoint=checkpoint)
        wanted = suggest_first(None, options.suggest, affinity=affinity)
    else:
        wanted = suggest_first(transform_features(X, "cl2", center), options.suggest)
    nothing = np.full(n, -1)
    return VectorLabels(
        codes=nothing,
        rejected=np.zeros(0, dtype=np.int64),
        probabilities=np.zeros((n, n_classes), np.float32),
        confidence=np.zeros(n),
        suggestions=ranks_of(wanted, n),
        disputes=nothing.copy(),
        novelty=np.zeros(n),
        model=None,
    )


def ranks_of(order: Ints, n: int) -> Ints:
    """Return the rank of each row in ``order``, from 1; 0 for rows that are not in it."""
    ranks = np.zeros(n, dtype=np.int64)
    ranks[order] = np.arange(1, len(order) + 1)
    return ranks


# Bytes per row for its id, label, origin and evidence, and its line of the output.
_OF_A_ROW = 700.0


@contextmanager
def within_memory(
    memory: float | str | None, n: int, n_classes: int, n_neighbors: int, *, suggestions: bool
) -> Iterator[int | None]:
    """Yield the bytes of a budget that the fit of n rows may use; raise BudgetError if the work needs more.

    After the fit there are assignments and probabilities, of C classes or of the largest entries, and edges three
    times: of the fit, in the order of the rows, and as they conduct. Suggestions look at pairs of edges.
    """
    if memory is None:
        yield None
        return
    budget = parse_bytes(memory)
    entries = 8.0 * n_classes if n * n_classes <= LARGE_ASSIGNMENTS else 2 * 12.0 * ENTRIES[-1]
    rows = {"rows of the result": _OF_A_ROW * n}
    after = {"probabilities": n * entries, "graph": 36.0 * n * n_neighbors, **rows}
    if suggestions:
        after["suggestions"] = 12.0 * min(MAX_PAIRS, n * (2 * n_neighbors) ** 2)
    MemoryPlan(after).check(budget)
    try:
        yield max(1, budget - int(_OF_A_ROW * n))
    except BudgetError as error:
        # What the fit may take is not what was asked for.
        raise BudgetError(budget, {**error.parts, **rows}) from None
