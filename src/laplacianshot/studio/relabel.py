"""The labels of all items from those that are given, on a graph that is kept.

:func:`relabel` is the whole answer, that of :func:`~laplacianshot.labeling.core.label_vectors`. :func:`update` is the
answer of the next moment: the last one is taken up where it stood, the new label is clamped, and a few more rounds of
the same descent run at the same temperature. Confidence keeps its calibration, and what takes longer (the queue, what
is strange, disputes) stays as it was until the whole answer is there.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from laplacianshot.engine.rounds import DenseRounds, edges_of
from laplacianshot.inference.affinity import normalize
from laplacianshot.inference.joint import Prior, balance_weight, m_step
from laplacianshot.inference.recipes import DefaultConstants
from laplacianshot.labeling.calibration import class_probabilities, log_odds
from laplacianshot.labeling.core import LabelOptions, label_vectors, ranks_of
from laplacianshot.labeling.evidence import Margins, TaskEvidence
from laplacianshot.labeling.novelty import rejected
from laplacianshot.labeling.suggestions import suggest
from laplacianshot.runtime.threads import Workers
from laplacianshot.runtime.types import Floats, Ints, working_dtype
from laplacianshot.studio.graph_cache import FEW_NEIGHBORS, GraphCache, build_cache

# Items in the queue of what to label next.
QUEUE = 30
# Share of the unlabeled items that are shown as fitting no class: those that fit least.
STRANGE_SHARE = 0.02
# Rounds of the quick answer.
ROUNDS = 3

_MIN_ASSIGNMENT = 1e-30


@dataclass(frozen=True, repr=False)
class Fit:
    """Where the descent of an answer stood.

    Attributes
    ----------
    assignments : array of shape (m, C)
    labeled : bool array of shape (m,)
    tau : float
        Temperature of the unary terms.
    shift : float
        Of the calibration.
    """

    assignments: Floats
    labeled: NDArray[np.bool_]
    tau: float
    shift: float


@dataclass(frozen=True, repr=False)
class Predictions:
    """What is known of the m items of a :class:`~laplacianshot.studio.graph_cache.GraphCache` from C classes.

    Attributes
    ----------
    cache : GraphCache
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
    fit : Fit or None
    """

    cache: GraphCache
    class_ids: Ints
    codes: Ints
    probabilities: Floats
    confidence: Floats
    disputes: Ints
    strangeness: Floats
    strange: NDArray[np.bool_]
    suggestions: Ints
    fit: Fit | None = None

    def expected_accuracy(self, given: NDArray[np.bool_]) -> float | None:
        """Mean confidence of the items that have no given label; None without any."""
        sure = self.confidence[~given & (self.codes >= 0)]
        return float(sure.mean(dtype=np.float64)) if len(sure) else None


def columns_of(given: Ints) -> tuple[Ints, Ints]:
    """Class ids that occur in ``given`` (m,), -1 for none, and the column of each item's class, -1 for none."""
    class_ids = np.unique(given[given >= 0])
    codes = np.where(given >= 0, np.searchsorted(class_ids, given), -1)
    return class_ids, codes


def relabel(cache: GraphCache, given: Ints, *, queue: int = QUEUE) -> Predictions:
    """Label the items of ``cache`` from the class ids that are given (m,), -1 for none.

    The same as :func:`~laplacianshot.labeling.core.label_vectors` with ``base_mean=cache.center`` and the graph of
    ``cache``. With fewer than two classes nothing is predicted, and only the queue is filled.
    """
    class_ids, codes = columns_of(given)
    if len(class_ids) < 2:
        return _first_look(cache, codes, queue)
    graph = cache.class_graph(len(class_ids))
    options = LabelOptions(base_mean=cache.center, graph=graph)
    found = label_vectors(cache.vectors, codes, len(class_ids), options)
    assert found.model is not None
    wanted = suggest(found.probabilities, codes, queue, kernel=cache.cover_kernel(len(class_ids)))
    strange = np.zeros(len(cache), dtype=bool)
    strange[rejected(found.novelty, codes, STRANGE_SHARE)] = True
    return Predictions(
        cache,
        class_ids,
        found.codes,
        found.probabilities,
        found.confidence,
        found.disputes,
        found.novelty,
        strange,
        ranks_of(wanted, len(cache)),
        Fit(found.model.label_distributions_, codes >= 0, found.model.solution_.tau, found.shift),
    )


def update(last: Predictions, given: Ints) -> Predictions | None:
    """What the last answer becomes with the class ids that are given now (m,), -1 for none.

    None where it cannot be taken up: other classes have labels now, or too few items are left without one.
    """
    class_ids, codes = columns_of(given)
    labeled = codes >= 0
    n_query = len(codes) - int(np.count_nonzero(labeled))
    if last.fit is None or not np.array_equal(class_ids, last.class_ids) or n_query < 2:
        return None
    rows, n_classes = last.cache.rows, len(class_ids)
    support, labels = np.flatnonzero(labeled), codes[labeled]
    constants = DefaultConstants.for_task(len(support), n_query, n_classes)
    # As the estimator chooses its origin about a center.
    prior = Prior.of_support(rows[support], labels, np.zeros_like(rows[0]), n_classes, constants)
    assignments = last.fit.assignments
    freed = last.fit.labeled & ~labeled
    if freed.any():
        # A label was taken away: what the graph said of the item without it.
        assignments = assignments.copy()
        assignments[freed] = last.probabilities[freed]
    assignments = _descended(last.cache, assignments, last.fit.tau, prior, constants, codes)

    queries = np.flatnonzero(~labeled)
    assigned = assignments[queries]
    logits = np.log(np.maximum(assigned, _MIN_ASSIGNMENT))
    margins = Margins.of_logits(logits, _first_logits(rows, prior.means, last.fit.tau)[queries])
    task = TaskEvidence.of(margins, assigned.mean(axis=0, dtype=np.float64), len(support))
    probabilities = last.probabilities.copy()
    probabilities[queries] = class_probabilities(assigned, log_odds(task.columns(margins)) + last.fit.shift)
    found = codes.copy()
    found[queries] = margins.predicted
    disputes = np.where(labeled & (last.codes == codes), last.disputes, -1)
    confidence = probabilities[np.arange(len(found)), found].astype(np.float64)
    confidence[labeled & (disputes < 0)] = 1.0
    return replace(
        last,
        codes=found,
        probabilities=probabilities,
        confidence=confidence,
        disputes=disputes,
        fit=replace(last.fit, assignments=assignments, labeled=labeled),
    )


def compile_kernels(dtype: Any) -> None:
    """Both answers to a made-up task, so that kernels are compiled, or read from the disk, before anybody waits."""
    X = np.random.default_rng(0).standard_normal((40, 4)).astype(working_dtype(np.zeros(0, dtype)))
    given = np.full(len(X), -1)
    given[:6] = [1, 1, 1, 2, 2, 2]
    last = relabel(build_cache(np.arange(len(X)), X), given)
    given[6] = 1
    update(last, given)


def _first_logits(rows: Floats, prototypes: Floats, tau: float) -> Floats:
    """``-tau |x - m|^2`` of all rows (m, D) at the first prototypes (C, D), up to what depends on the row alone."""
    columns = np.ascontiguousarray(prototypes.T.astype(rows.dtype))
    products = np.empty((len(rows), columns.shape[1]), rows.dtype)
    with Workers(rows.size) as workers:
        workers.run(
            lambda _, start, stop: np.matmul(rows[start:stop], columns, out=products[start:stop]),
            workers.share(len(rows)),
        )
    products *= rows.dtype.type(2 * tau)
    products -= (tau * np.einsum("cd,cd->c", prototypes, prototypes)).astype(rows.dtype)
    return products


def _descended(
    cache: GraphCache, assignments: Floats, tau: float, prior: Prior, constants: DefaultConstants, codes: Ints
) -> Floats:
    """Assignments (m, C) after a few more rounds from those of unlabeled rows; codes (m,) are -1 for them."""
    n_query, n_classes = int(np.count_nonzero(codes < 0)), assignments.shape[1]
    rows, W = cache.rows, cache.normalized_graph(n_classes)
    with Workers((W.nnz + 10 * len(cache)) * n_classes) as workers:
        rounds = DenseRounds(workers, rows, edges_of(W, codes, rows.dtype), n_classes, tau, e=constants.e)
        rounds.resume(assignments)
        for _ in range(ROUNDS):
            prototypes = m_step(prior, rounds.class_features, n_query * rounds.share).astype(rows.dtype)
            rounds.step(prototypes, constants.lam, balance_weight(rounds.share, constants))
            rounds.accept()
        return rounds.assignments()


def _first_look(cache: GraphCache, codes: Ints, queue: int) -> Predictions:
    """Only what to label next, as nothing can be predicted yet."""
    m = len(cache)
    wanted = suggest(np.zeros((m, 1)), codes, queue, affinity=normalize(cache.graph(FEW_NEIGHBORS)))
    nothing = np.full(m, -1)
    return Predictions(
        cache,
        class_ids=np.zeros(0, dtype=np.int64),
        codes=nothing,
        probabilities=np.zeros((m, 0), np.float32),
        confidence=np.zeros(m),
        disputes=nothing,
        strangeness=np.full(m, np.nan),
        strange=np.zeros(m, dtype=bool),
        suggestions=ranks_of(wanted, m),
    )
