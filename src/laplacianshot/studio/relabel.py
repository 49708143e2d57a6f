"""The labels of all items from those that are given, on a graph that is kept."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from laplacianshot.inference._types import Floats, Ints
from laplacianshot.inference.affinity import normalize
from laplacianshot.labeling.core import LabelOptions, label_vectors
from laplacianshot.labeling.rejection import rejected
from laplacianshot.labeling.suggestions import suggest
from laplacianshot.studio.warm import FEW_NEIGHBORS, Warm

# Items in the queue of what to label next.
QUEUE = 30
# Share of the unlabelled items that are shown as fitting no class: those that fit least.
STRANGE_SHARE = 0.02


@dataclass(frozen=True, repr=False)
class Found:
    """What is known of the m items of a :class:`~laplacianshot.studio.warm.Warm` from C classes.

    Attributes
    ----------
    warm : Warm
    class_ids : int array of shape (C,)
        Of the columns of ``probabilities``; none while nothing can be predicted.
    codes : int array of shape (m,)
        Column of each item's class, -1 for none.
    probabilities : float32 array of shape (m, C)
    confidence : float array of shape (m,)
    disputes : int array of shape (m,)
        Column that the graph prefers to a given label, -1 elsewhere.
    strangeness : float array of shape (m,)
    strange : bool array of shape (m,)
    suggestions : int array of shape (m,)
        Ranks from 1, 0 for items that are not in the queue.
    """

    warm: Warm
    class_ids: Ints
    codes: Ints
    probabilities: Floats
    confidence: Floats
    disputes: Ints
    strangeness: Floats
    strange: NDArray[np.bool_]
    suggestions: Ints

    def expected_accuracy(self, given: NDArray[np.bool_]) -> float | None:
        """Mean confidence of the items that have no given label; None without any."""
        sure = self.confidence[~given & (self.codes >= 0)]
        return float(sure.mean(dtype=np.float64)) if len(sure) else None


def columns_of(given: Ints) -> tuple[Ints, Ints]:
    """Class ids that occur in ``given`` (m,), -1 for none, and the column of each item's class, -1 for none."""
    class_ids = np.unique(given[given >= 0])
    codes = np.where(given >= 0, np.searchsorted(class_ids, given), -1)
    return class_ids, codes


def relabel(warm: Warm, given: Ints, *, queue: int = QUEUE) -> Found:
    """Label the items of ``warm`` from the class ids that are given (m,), -1 for none.

    The same as :func:`~laplacianshot.labeling.core.label_vectors` with ``base_mean=warm.center`` and the graph of
    ``warm``. With fewer than two classes nothing is predicted, and only the queue is filled.
    """
    class_ids, codes = columns_of(given)
    if len(class_ids) < 2:
        return _first_look(warm, codes, queue)
    graph = warm.class_graph(len(class_ids))
    options = LabelOptions(base_mean=warm.center, graph=graph, suggest=queue)
    found = label_vectors(warm.vectors, codes, len(class_ids), options)
    strange = np.zeros(len(warm), dtype=bool)
    strange[rejected(found.strangeness, codes, STRANGE_SHARE)] = True
    return Found(
        warm,
        class_ids,
        found.codes,
        found.probabilities,
        found.confidence,
        found.disputes,
        found.strangeness,
        strange,
        found.suggestions,
    )


def _first_look(warm: Warm, codes: Ints, queue: int) -> Found:
    """Only what to label next, as nothing can be predicted yet."""
    m = len(warm)
    wanted = suggest(None, np.zeros((m, 1)), codes, queue, affinity=normalize(warm.graph(FEW_NEIGHBORS)))
    ranks = np.zeros(m, dtype=np.int64)
    ranks[wanted] = np.arange(1, len(wanted) + 1)
    nothing = np.full(m, -1)
    return Found(
        warm,
        class_ids=np.zeros(0, dtype=np.int64),
        codes=nothing,
        probabilities=np.zeros((m, 0), np.float32),
        confidence=np.zeros(m),
        disputes=nothing,
        strangeness=np.full(m, np.nan),
        strange=np.zeros(m, dtype=bool),
        suggestions=ranks,
    )
