"""Predict the labels of all items from those that are given, on a graph that is computed once.

:class:`GraphCache` holds what does not depend on the labels: the center of the vectors and the neighbors of each item.
:func:`relabel` makes the full predictions, those of :func:`~laplacianshot.labeling.core.label_vectors`. :func:`update`
is quick: it starts from the last predictions, clamps the new labels, and runs a few more iterations at the same
temperature. Confidence keeps its calibration, and what takes longer (the queue, novelty, disputes) stays as it was
until the next full predictions. :func:`hold_back` estimates the accuracy by cross-validation on the given labels.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from threading import Lock
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from laplacianshot.engine.rounds import DenseRounds, edges_of
from laplacianshot.estimator import LaplacianShot
from laplacianshot.inference.affinity import neighbor_affinity, normalize
from laplacianshot.inference.clues import HeldBack
from laplacianshot.inference.joint import Balance, Clues, Prior, m_step
from laplacianshot.inference.recipes import DefaultConstants
from laplacianshot.inference.spreading import Paths
from laplacianshot.inference.transforms import base_mean, choose_centered, transform_features
from laplacianshot.labeling.calibration import class_probabilities, log_odds
from laplacianshot.labeling.core import LabelOptions, label_vectors, ranks_of
from laplacianshot.labeling.evidence import Margins, TaskEvidence
from laplacianshot.labeling.novelty import rejected
from laplacianshot.labeling.suggestions import cover_kernel, suggest
from laplacianshot.neighbors.knn import knn
from laplacianshot.neighbors.types import Neighbors
from laplacianshot.runtime.threads import Workers
from laplacianshot.runtime.types import Floats, Ints, Transform, working_dtype

# Maximum number of neighbors. For more than 20,000 items with very few classes the recipe would take more.
MAX_NEIGHBORS = 100
# Number of neighbors for the map and for the first suggestions.
FEW_NEIGHBORS = 15
# Number of items in the queue of what to label next.
QUEUE = 30
# Share of the unlabeled items that are shown as fitting no class: those that fit least.
_NOVEL_SHARE = 0.02
# Number of iterations of an update.
_ITERATIONS = 3
_MIN_ASSIGNMENT = 1e-30

# Number of parts that labels are divided into to estimate the accuracy, and the number in sets of more items than this.
_PARTS, _FEWER_PARTS, _LARGE = 10, 5, 20_000
# Minimum number of held-back labels for an estimate.
MIN_CHECKED = 5


@dataclass(repr=False)
class GraphCache:
    """m items with their vectors and neighbors.

    The default recipe takes ``k = round(sqrt(n / C - 1))`` neighbors, so k falls as classes are added: neighbors are
    searched for two classes, nearest first, and the graph for C classes uses the first k of them.
    """

    positions: Ints  # (m,), positions of the items in the source, ascending
    vectors: Floats  # (m, D), before the transform
    transform: Transform  # cl2 or power
    center: Floats  # (D,), of the transform
    rows: Floats  # (m, D), transform_features(vectors, transform, center)
    neighbors: Neighbors  # of each item, nearest first; enough for two classes or more
    _graphs: dict[int, sp.csr_array] = field(default_factory=dict)
    _made: dict[str, tuple[sp.csr_array, sp.csr_array]] = field(default_factory=dict)
    _lock: Any = field(default_factory=Lock)
    # One lock each, so that the two do not wait for each other.
    _locks: dict[str, Any] = field(default_factory=lambda: {"normalized": Lock(), "cover": Lock()})

    def __len__(self) -> int:
        return len(self.positions)

    def graph(self, n_neighbors: int) -> sp.csr_array:
        """Return the symmetric affinity of the ``n_neighbors`` nearest neighbors, or of all that were searched."""
        k = min(n_neighbors, self.neighbors.indices.shape[1])
        with self._lock:
            if k not in self._graphs:
                # One for the labels, one for the map.
                for other in [held for held in self._graphs if held != FEW_NEIGHBORS]:
                    del self._graphs[other]
                self._graphs[k] = _affinity(self.neighbors.indices[:, :k], self.rows.dtype)
            return self._graphs[k]

    def class_graph(self, n_classes: int) -> sp.csr_array:
        """Return the graph of the default recipe for ``n_classes`` classes."""
        return self.graph(recipe_neighbors(len(self), n_classes))

    def normalized_graph(self, n_classes: int) -> sp.csr_array:
        """Return the normalized graph, ``D^-1/2 W D^-1/2``."""
        return self._kept("normalized", self.class_graph(n_classes), normalize)

    def cover_kernel(self, n_classes: int) -> sp.csr_array:
        """Return how much each item covers of the others; the queue is chosen by it."""
        return self._kept("cover", self.normalized_graph(n_classes), cover_kernel)

    def _kept(self, what: str, graph: sp.csr_array, make: Callable[[sp.csr_array], sp.csr_array]) -> sp.csr_array:
        """Return what ``make`` derives from a graph, computed once per graph."""
        with self._locks[what]:
            if what not in self._made or self._made[what][0] is not graph:
                self._made[what] = (graph, make(graph))
            return self._made[what][1]


def recipe_neighbors(n: int, n_classes: int) -> int:
    """Return the number of neighbors of the default recipe; it does not depend on the number of labels."""
    return DefaultConstants.for_task(0, n, n_classes).n_neighbors


def build_cache(positions: Ints, vectors: Floats, center: Floats | None = None) -> GraphCache:
    """Center the vectors (m, D) of the items at these positions (m,), and search the neighbors of each.

    There are two vectors or more, all finite. The default center (D,) is their mean, that of their unit roots where no
    entry is negative and the transform is ``power``.
    """
    transform = choose_centered(vectors)
    chosen = base_mean(vectors, transform) if center is None else center
    rows = transform_features(vectors, transform, chosen)
    n_neighbors = min(max(recipe_neighbors(len(rows), 2), FEW_NEIGHBORS), MAX_NEIGHBORS)
    return GraphCache(positions, vectors, transform, chosen, rows, knn(rows, n_neighbors))


def _affinity(indices: Ints, dtype: Any) -> sp.csr_array:
    """Return the affinity of neighbors (m, k), which are -1 where an approximate search saw fewer."""
    missing = indices < 0
    own = np.arange(len(indices), dtype=indices.dtype)[:, None]
    nearest = np.where(missing, own, indices)
    W = neighbor_affinity(Neighbors(nearest, np.zeros((len(indices), 0))), dtype=dtype)
    if missing.any():
        W.setdiag(0)
        W.eliminate_zeros()
    return W


@dataclass(frozen=True, repr=False)
class _Fit:
    """Where an update continues."""

    assignments: Floats  # (m, C)
    labeled: NDArray[np.bool_]  # (m,)
    tau: float  # temperature of the unary terms
    shift: float  # of the calibration
    clues: Clues  # what the labels said besides, at the last fit
    reached: Floats | None  # (m, C), shares of the labels that reached each row along the graph, where they count
    constants: DefaultConstants  # of the last fit
    graph_trust: float = 1.0  # part of the graph's weight that counted at the last fit


@dataclass(frozen=True, repr=False)
class Predictions:
    """Predictions for the m items of a :class:`GraphCache` from C classes."""

    cache: GraphCache
    class_ids: Ints  # (C,), class of each column of the probabilities; none while nothing can be predicted
    codes: Ints  # (m,), column of each item's class, -1 for none
    probabilities: Floats  # (m, C)
    confidence: Floats  # (m,)
    disputes: Ints  # (m,), column that the graph prefers to a given label, -1 elsewhere
    novelty: Floats  # (m,), how little each item fits any class
    novel: NDArray[np.bool_]  # (m,), items that fit no class
    suggestions: Ints  # (m,), ranks from 1, 0 for items that are not in the queue
    fit: _Fit | None = None

    def expected_accuracy(self, given: NDArray[np.bool_]) -> float | None:
        """Return the mean confidence of the items that have no given label; None if there are none."""
        confidence = self.confidence[~given & (self.codes >= 0)]
        return float(confidence.mean(dtype=np.float64)) if len(confidence) else None


def columns_of(given: Ints) -> tuple[Ints, Ints]:
    """Return the class ids that occur in ``given`` (m,), and the column of each item's class; -1 is no class."""
    class_ids = np.unique(given[given >= 0])
    codes = np.where(given >= 0, np.searchsorted(class_ids, given), -1)
    return class_ids, codes


def relabel(cache: GraphCache, given: Ints) -> Predictions:
    """Predict the labels of the items of ``cache`` from the given class ids (m,), -1 for none.

    The same as :func:`~laplacianshot.labeling.core.label_vectors` with the transform, the center and the graph of
    ``cache``. With fewer than two classes nothing is predicted, and only the queue is filled.
    """
    class_ids, codes = columns_of(given)
    if len(class_ids) < 2:
        return _first_look(cache, codes)
    graph = cache.class_graph(len(class_ids))
    options = LabelOptions(base_mean=cache.center, graph=graph, transform=cache.transform)
    found = label_vectors(cache.vectors, codes, len(class_ids), options)
    assert found.model is not None
    queue = suggest(found.probabilities, codes, QUEUE, kernel=cache.cover_kernel(len(class_ids)))
    novel = np.zeros(len(cache), dtype=bool)
    novel[rejected(found.novelty, codes, _NOVEL_SHARE)] = True
    solution, reached = found.model.solution_, None
    assert solution.answers is not None
    clues = solution.clues
    if clues.along > 0:
        paths = Paths.between(cache.normalized_graph(len(class_ids)), cache.rows)
        reached = paths.spread(codes, len(class_ids), local=clues.local)
    return Predictions(
        cache,
        class_ids,
        found.codes,
        found.probabilities,
        found.confidence,
        found.disputes,
        found.novelty,
        novel,
        ranks_of(queue, len(cache)),
        _Fit(
            found.model.label_distributions_,
            codes >= 0,
            solution.tau,
            found.shift,
            clues,
            reached,
            solution.constants,
            solution.answers.graph_trust,
        ),
    )


def update(last: Predictions, given: Ints) -> Predictions | None:
    """Update the last predictions to the class ids that are given now (m,), -1 for none.

    Returns None if that is not possible: other classes have labels now, or too few items are left without one.
    """
    class_ids, codes = columns_of(given)
    labeled = codes >= 0
    n_query = len(codes) - int(np.count_nonzero(labeled))
    if last.fit is None or not np.array_equal(class_ids, last.class_ids) or n_query < 2:
        return None
    rows, n_classes = last.cache.rows, len(class_ids)
    support, labels = np.flatnonzero(labeled), codes[labeled]
    constants = DefaultConstants.for_task(len(support), n_query, n_classes)
    constants = constants._replace(eta=last.fit.constants.eta, small=last.fit.constants.small)
    constants = constants.with_graph_trust(last.fit.graph_trust)
    # As the estimator chooses its origin about a center.
    prior = Prior.of_support(rows[support], labels, np.zeros_like(rows[0]), n_classes, constants)
    assignments = last.fit.assignments
    freed = last.fit.labeled & ~labeled
    if freed.any():
        # A label was removed: start from the probabilities of the item without it.
        assignments = assignments.copy()
        assignments[freed] = last.probabilities[freed]
    assignments = _descend(last.cache, assignments, last.fit, prior, constants, codes)

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


def hold_back(
    cache: GraphCache, given: Ints, asked: NDArray[np.bool_], *, stopped: Callable[[], bool] = lambda: False
) -> HeldBack | None:
    """Divide the given labels into parts, and predict each part from the others.

    Labels that accepted a prediction are not held back, as they would agree with themselves.

    ``given`` (m,) are class ids of two classes or more, -1 for none; only labels that are ``asked`` (m,) are held back.
    Returns None if ``stopped``, or if there are too few labels.
    """
    class_ids, codes = columns_of(given)
    graph = cache.class_graph(len(class_ids))
    right = checked = 0
    for part in _held_back_parts(codes, asked, _FEWER_PARTS if len(cache) > _LARGE else _PARTS):
        if stopped():
            return None
        fewer = codes.copy()
        fewer[part] = -1
        model = LaplacianShot(transform=cache.transform, base_mean=cache.center, graph=graph)
        model.fit(cache.vectors, fewer)
        right += int(np.count_nonzero(model.label_distributions_[part].argmax(axis=1) == codes[part]))
        checked += len(part)
    return HeldBack(right, checked) if checked >= MIN_CHECKED else None


def _held_back_parts(codes: Ints, asked: NDArray[np.bool_], n_parts: int) -> Iterator[Ints]:
    """Yield the positions of the labels to hold back, part by part, the same share of each class in each.

    Codes (n,) are -1 for unlabeled items; only labels that are ``asked`` (n,) are held back. A class keeps at least one
    label.
    """
    counts = np.bincount(codes[codes >= 0], minlength=1)
    held = np.flatnonzero(asked & (codes >= 0) & (counts[codes] >= 2))
    held = held[np.argsort(codes[held], kind="stable")]
    for part in range(min(n_parts, len(held))):
        yield held[part::n_parts]


def compile_kernels(dtype: Any) -> None:
    """Predict a made-up task, so that kernels are compiled, or read from the disk, before anybody waits."""
    X = np.random.default_rng(0).standard_normal((40, 4)).astype(working_dtype(np.zeros(0, dtype)))
    given = np.full(len(X), -1)
    given[:6] = [1, 1, 1, 2, 2, 2]
    last = relabel(build_cache(np.arange(len(X)), X), given)
    given[6] = 1
    update(last, given)


def _first_logits(rows: Floats, prototypes: Floats, tau: float) -> Floats:
    """Return ``-tau |x - m|^2`` of all rows (m, D) and prototypes (C, D), up to what depends on the row alone."""
    columns = np.ascontiguousarray(prototypes.T.astype(rows.dtype))
    with Workers(rows.size) as workers:
        products: Floats = workers.product(rows, columns)
    products *= rows.dtype.type(2 * tau)
    products -= (tau * np.einsum("cd,cd->c", prototypes, prototypes)).astype(rows.dtype)
    return products


def _descend(
    cache: GraphCache, assignments: Floats, fit: _Fit, prior: Prior, constants: DefaultConstants, codes: Ints
) -> Floats:
    """Return the assignments (m, C) after a few more iterations; codes (m,) are -1 for unlabeled rows."""
    n_query, n_classes = int(np.count_nonzero(codes < 0)), assignments.shape[1]
    rows, W = cache.rows, cache.normalized_graph(n_classes)
    with Workers((W.nnz + 10 * len(cache)) * n_classes) as workers:
        edges = edges_of(W, codes, rows.dtype)
        rounds = DenseRounds(workers, rows, edges, n_classes, fit.tau, fit.clues, constants.e)
        if fit.reached is not None:
            rounds.know(fit.reached)
        rounds.resume(assignments)
        for _ in range(_ITERATIONS):
            prototypes = m_step(prior, rounds.class_features, n_query * rounds.share).astype(rows.dtype)
            rounds.step(prototypes, constants.lam, Balance.at(rounds.share, constants))
            rounds.accept()
        return rounds.assignments()


def _first_look(cache: GraphCache, codes: Ints) -> Predictions:
    """Return only what to label next, as nothing can be predicted yet."""
    m = len(cache)
    queue = suggest(np.zeros((m, 1)), codes, QUEUE, affinity=normalize(cache.graph(FEW_NEIGHBORS)))
    nothing = np.full(m, -1)
    return Predictions(
        cache,
        class_ids=np.zeros(0, dtype=np.int64),
        codes=nothing,
        probabilities=np.zeros((m, 0), np.float32),
        confidence=np.zeros(m),
        disputes=nothing,
        novelty=np.full(m, np.nan),
        novel=np.zeros(m, dtype=bool),
        suggestions=ranks_of(queue, m),
    )
