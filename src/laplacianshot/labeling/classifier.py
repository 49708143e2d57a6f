"""Vectors that come after the fit to calibrated probabilities and novelty, with all fitted rows or with a core of them.

A new row x takes part in one update of the fitted graph (:class:`~laplacianshot.inference.induction.InductiveRule`)::

    y = softmax(-tau |x - m_c|^2 + lam g(x) + bias),    g(x) = sum_{p in kNN(x)} v_p y_p

Its label is calibrated by the rule of the fit (:mod:`~laplacianshot.labeling.calibration`): the same evidence on the
row, and what all rows of the task share.

The compact form keeps the prototypes and a core of the rows. Each core row keeps what all rows said there, g(p), and a
new row takes the mean of the three nearest ones: rows that are left out still count through the core rows near them.
Neighbors are found in the directions in which the core varies most, from one byte per number. What that costs in
accuracy is measured by ``benchmarks/model.py``.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
import scipy.linalg
import scipy.sparse as sp

from laplacianshot.estimator import LaplacianShot
from laplacianshot.inference.induction import InductiveRule
from laplacianshot.inference.prototypes import squared_distances
from laplacianshot.inference.transforms import transform_features
from laplacianshot.labeling.calibration import INTERCEPT, Calibration, class_probabilities, log_odds
from laplacianshot.labeling.evidence import MIN_ASSIGNMENT, WEIGHTS, Margins, TaskEvidence
from laplacianshot.neighbors.small import SmallIndex
from laplacianshot.runtime.threads import row_blocks, single_threaded_blas
from laplacianshot.runtime.types import Floats, Ints, Transform

# Of the compact form: rows, directions, neighbors whose mean is taken, and entries of the votes of a row. Chosen on
# CUB, BANKING77 and GoEmotions; Snips and PlantDoc were seen in the same runs (docs/results/model.md).
CORE_ROWS = 8000
CORE_DIRECTIONS = 128
CORE_NEIGHBORS = 3
CORE_ENTRIES = 8

# Rows whose votes or distances are computed at a time, and fitted rows that novelty is compared with.
_BLOCK_ROWS = 2048
_COMPARED_ROWS = 2000
# Neighbors that novelty looks at, and the quantiles that it is compared by.
_NOVELTY_NEIGHBORS = 3
_QUANTILES = np.linspace(0, 1, 201)
_LARGEST_BYTE = 127


@dataclass(frozen=True, repr=False, eq=False)
class CoreSearch:
    """The core rows nearest to new ones: ``z = (x - origin) directions / scale`` is compared with rows of bytes.

    Without directions, as there are few columns, rows are compared as they are.
    """

    rows: Any  # (m, d), int8; or (m, D), floating point, without directions
    directions: Floats | None = None  # (D, d), float32
    origin: Floats | None = None  # (D,), float32
    scale: float = 1.0

    @classmethod
    def of_rows(cls, rows: Floats) -> CoreSearch:
        """Project rows (m, D) to the directions in which they vary most, in bytes."""
        count = min(CORE_DIRECTIONS, max(1, len(rows) - 1))
        if rows.shape[1] <= count:
            return cls(rows)
        wide = rows.astype(np.float64)
        origin = wide.mean(axis=0)
        wide -= origin
        width = rows.shape[1]
        _, found = scipy.linalg.eigh(wide.T @ wide, subset_by_index=(width - count, width - 1))
        directions = np.ascontiguousarray(found[:, ::-1], dtype=np.float32)
        seen = wide @ directions
        scale = float(np.abs(seen).max(initial=0.0)) / _LARGEST_BYTE or 1.0
        return cls(np.rint(seen / scale).astype(np.int8), directions, origin.astype(np.float32), scale)

    @cached_property
    def _index(self) -> SmallIndex:
        # Without a compiler: a server answers its first request at once.
        return SmallIndex(np.ascontiguousarray(self.own))

    def projected(self, rows: Floats) -> Floats:
        """Rows (m, D) as they are compared with those of the core."""
        if self.directions is None or self.origin is None:
            return rows
        seen: Floats = (rows.astype(np.float32) - self.origin) @ self.directions
        return seen / np.float32(self.scale)

    def __call__(self, rows: Floats, k: int) -> Ints:
        """The nearest core rows of each row (m, D): (m, k)."""
        return self._index.neighbors_of(self.projected(rows), k).indices

    def distances(self, projected: Floats, k: int) -> tuple[Ints, Floats]:
        """The nearest core rows of each projected row and their distances, in units of the rows: (m, k)."""
        found = self._index.neighbors_of(np.ascontiguousarray(projected), k)
        return found.indices, np.sqrt(found.distances) * self.scale

    @property
    def own(self) -> Floats:
        """The core rows, projected: (m, d)."""
        rows: Floats = self.rows if self.directions is None else self.rows.astype(np.float32)
        return rows


@dataclass(frozen=True)
class ConfidenceRule:
    """How the assignments of a new row become probabilities: the calibration of a fit, for rows that come later.

    Attributes
    ----------
    weights : mapping of str to (float, float, float)
        Weight of each column of evidence, and the range it is clipped to.
    intercept, shift : float
        What is added to the log-odds for all data, and for these.
    task : TaskEvidence
        What all rows share, and the class shares (C,).
    first : array of shape (C, D)
        Prototypes of the given rows alone.
    tau : float
        Temperature of the fit.
    """

    weights: Mapping[str, tuple[float, float, float]]
    intercept: float
    shift: float
    task: TaskEvidence
    first: Floats
    tau: float

    def __call__(self, rows: Floats, assignments: Floats) -> Floats:
        """Probabilities (m, C), float32, of transformed rows (m, D) with assignments (m, C)."""
        logits = np.log(np.maximum(assignments, MIN_ASSIGNMENT))
        of_first = -self.tau * squared_distances(rows, self.first.astype(rows.dtype, copy=False))
        margins = Margins.of_logits(logits, of_first)
        z = log_odds(self.task.columns(margins), self.weights, self.intercept) + self.shift
        return class_probabilities(assignments, z).astype(np.float32)


@dataclass(frozen=True, repr=False, eq=False)
class Nearness:
    """How like the fitted rows a new one is.

    Of its three nearest core rows, the mean novelty and the mean distance are compared with those of fitted rows.
    """

    search: CoreSearch
    novelties: Floats  # (m,), float32, of the core rows
    limits: Floats  # (2, Q), float32: quantiles, over fitted rows, of the mean novelty and distance

    @classmethod
    def of_rows(cls, search: CoreSearch, novelties: Floats) -> Nearness:
        """Compare core rows with one another."""
        novelties = novelties.astype(np.float32)
        m = len(novelties)
        places = np.sort(np.random.default_rng(0).permutation(m)[:_COMPARED_ROWS])
        k = min(_NOVELTY_NEIGHBORS + 1, m)
        near, distances = search.distances(search.own[places], k)
        # Others than the row itself; where several are equal to it, the last one stands for it.
        others = near != places[:, None]
        others[others.all(axis=1), -1] = False
        shape = (len(places), k - 1)
        seen = (values[others].reshape(shape) for values in (novelties[near], distances))
        means = [values.mean(axis=1) if k > 1 else np.zeros(m) for values in seen]
        limits = np.stack([np.quantile(values, _QUANTILES) for values in means])
        return cls(search, novelties, limits.astype(np.float32))

    def __call__(self, rows: Floats) -> Floats:
        """Novelty (m,) of transformed rows (m, D), from 0 to 1."""
        near, distances = self.search.distances(self.search.projected(rows), _NOVELTY_NEIGHBORS)
        seen = self.novelties[near].mean(axis=1), distances.mean(axis=1)
        return np.maximum(*(_share_below(*pair) for pair in zip(seen, self.limits, strict=True)))


def _share_below(values: Floats, limits: Floats) -> Floats:
    """The share of fitted rows with smaller values, from their quantiles (Q,): of equal ones half."""
    low, high = (np.searchsorted(limits, values, side=side) for side in ("left", "right"))
    between = np.interp(values, limits, _QUANTILES)
    equal = (_QUANTILES[np.minimum(low, len(limits) - 1)] + _QUANTILES[np.maximum(high - 1, 0)]) / 2
    return np.where(high > low, equal, between)


@dataclass(frozen=True, repr=False, eq=False)
class Classifier:
    """Vectors (m, D) to probabilities (m, C) and novelty (m,).

    Attributes
    ----------
    transform, center, scale
        As of :class:`~laplacianshot.inference.solution.Solution`.
    rule : InductiveRule
        Its points are in the order of its assignments.
    confidence : ConfidenceRule
    nearness : Nearness, optional
        None after a fit: made where it is first needed.
    novelties : array of shape (n,), optional
        After a fit: novelty of its rows, in the order of the assignments.
    given : int array of shape (g,), optional
        After a fit: which rows have a given label.
    """

    transform: Transform
    center: Floats | None
    scale: Floats | None
    rule: InductiveRule
    confidence: ConfidenceRule
    nearness: Nearness | None = None
    novelties: Floats | None = None
    given: Ints | None = None

    @classmethod
    def of_fit(cls, model: LaplacianShot, codes: Ints, calibration: Calibration, novelty: Floats) -> Classifier:
        """The classifier of a fit with class numbers (n,), -1 for unlabeled rows, and the novelty of its rows (n,)."""
        solution = model.solution_
        given = np.flatnonzero(codes >= 0)
        rule = solution.rule
        if rule.search is None:
            # The rows of small fits are ordered: given ones first.
            novelty = novelty[np.concatenate([given, np.flatnonzero(codes < 0)])]
            given = np.arange(len(given))
        else:
            rule = replace(rule, points=rule.search.rows)
        first = solution.prior.means.astype(solution.prototypes.dtype)
        confidence = ConfidenceRule(
            dict(WEIGHTS), INTERCEPT, calibration.shift, calibration.task, first, float(solution.tau)
        )
        shape = (solution.transform, solution.center, solution.scale)
        return cls(*shape, rule, confidence, novelties=novelty, given=given)

    @property
    def n_features(self) -> int:
        """D."""
        return int(self.rule.prototypes.shape[1])

    @property
    def n_rows(self) -> int:
        """Fitted rows that are kept."""
        return len(self.rule.weights)

    @property
    def is_compact(self) -> bool:
        """Whether only a core of the rows is kept."""
        return isinstance(self.rule.search, CoreSearch)

    def transformed(self, X: Floats) -> Floats:
        """Rows as prototypes and neighbors are compared with them, (m, D)."""
        return transform_features(X, self.transform, self.center, scale=self.scale)

    def assignments(self, X: Floats) -> Floats:
        """What ``LaplacianShot.predict_proba`` returns for rows X (m, D): (m, C), not calibrated."""
        with single_threaded_blas():
            return self.rule(self.transformed(X))

    def probabilities(self, X: Floats) -> Floats:
        """Calibrated probabilities (m, C) of rows X (m, D), float32; the largest is that of the most probable class."""
        out = np.empty((len(X), len(self.rule.prototypes)), np.float32)
        with single_threaded_blas():
            for start, stop in row_blocks(len(X), _BLOCK_ROWS):
                rows = self.transformed(X[start:stop])
                out[start:stop] = self.confidence(rows, self.rule(rows))
        return out

    def novelty(self, X: Floats) -> Floats:
        """How little each row of X (m, D) is like the fitted ones, from 0 to 1: (m,).

        The share of fitted rows that are nearer to their nearest others, or whose nearest others are less novel,
        whichever is larger.
        """
        with single_threaded_blas():
            return self.closeness(self.transformed(X))

    @cached_property
    def closeness(self) -> Nearness:
        """The nearness, made if there is none yet."""
        if self.nearness is not None:
            return self.nearness
        core = self.core()
        assert self.novelties is not None
        return Nearness.of_rows(CoreSearch.of_rows(self.rule.points[core]), self.novelties[core])

    def complete(self) -> Classifier:
        """The same with nearness and without what only a fit has: what a file holds."""
        return replace(self, nearness=self.closeness, novelties=None, given=None)

    def compact(self, n_rows: int = CORE_ROWS) -> Classifier:
        """The same with the prototypes and a core of the rows; itself if that is what it is."""
        if self.is_compact:
            return self
        core = self.core(n_rows)
        points = self.rule.points[core]
        blocks = row_blocks(len(core), _BLOCK_ROWS)
        k = min(CORE_NEIGHBORS, len(core))
        # Divided for a mean, and in half precision, as they are written.
        votes = [_largest(self.rule.votes(points[a:b]) / k, CORE_ENTRIES).astype(np.float16) for a, b in blocks]
        summed = sp.csr_array(np.concatenate(votes).astype(np.float32))
        search = CoreSearch.of_rows(points)
        assert self.novelties is not None
        rule = replace(
            self.rule, points=None, assignments=summed, weights=np.ones(len(core)), n_neighbors=k, search=search
        )
        nearness = Nearness.of_rows(search, self.novelties[core])
        return replace(self, rule=rule, nearness=nearness, novelties=None, given=None)

    def core(self, n_rows: int = CORE_ROWS) -> Ints:
        """Positions of core rows: given ones, up to half, and others, as many of each class as possible; ascending."""
        n = self.n_rows
        if n <= n_rows or self.given is None:
            return np.arange(n)
        rng = np.random.default_rng(0)
        given = rng.permutation(self.given)[: n_rows // 2]
        others = rng.permutation(np.setdiff1d(np.arange(n), self.given))
        classes = np.asarray(self.rule.assignments[others].argmax(axis=1)).ravel()
        order = np.argsort(classes, kind="stable")
        # The rank of each among those of its class, in the random order.
        ranks = np.empty(len(others), np.int64)
        ranks[order] = np.arange(len(others)) - np.searchsorted(classes[order], classes[order])
        chosen = others[np.argsort(ranks, kind="stable")[: n_rows - len(given)]]
        return np.sort(np.concatenate([given, chosen]))


def _largest(votes: Floats, count: int) -> Floats:
    """Votes (m, C) with all but the largest entries of each row set to zero."""
    if votes.shape[1] > count:
        places = np.argpartition(-votes, count, axis=1)[:, count:]
        votes = votes.copy()
        np.put_along_axis(votes, places, 0, axis=1)
    return votes
