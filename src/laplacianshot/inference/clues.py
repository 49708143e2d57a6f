"""What the labels say besides their prototypes: absent classes, a start along the graph, and a linear classifier.

Three questions are asked of a task before it is solved, each with an answer that is right whatever the size of the
task, from all labeled rows and at most 1,024 queries:

1. *Are classes absent among the queries?* A labeled row of a class that is present is as near to its nearest query as
   queries are to one another. See :func:`absent_classes`.
2. *Where do prototypes start?* From one label they are noise. The labels are spread along the graph first, and the
   prototypes of what they reach are the start. See :func:`spread_labels`.
3. *Prototypes, a linear classifier, labels along the graph, and how much of the graph?* From two labels a class on some
   are held back, and five candidates are asked for them (:data:`CANDIDATES`); the graph is given a lead where classes
   lie far apart or neighbors very near (:class:`~laplacianshot.inference.spreading.Paths`, :func:`nearness`). See
   :func:`shares_of`.

The second and third are asked where there are enough queries a class to learn from; few-shot episodes have fewer.
"""

from __future__ import annotations

import math
import warnings
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, TypeAlias

import numpy as np
import scipy.sparse as sp
from scipy.optimize import brentq
from scipy.stats import binomtest

from laplacianshot.inference.affinity import neighbor_affinity, normalize
from laplacianshot.inference.joint import NO_CLUES, Clues, Prior, joint_optimize, m_step
from laplacianshot.inference.prototypes import class_means, squared_distances
from laplacianshot.inference.recipes import ABSENCE, MIN_CONFIDENCE, DefaultConstants, is_rich
from laplacianshot.inference.spreading import MAX_PATHS, Paths, spread_labels
from laplacianshot.inference.temperature import divergence, mean_squared_distance
from laplacianshot.neighbors.knn import knn
from laplacianshot.runtime.types import Bools, Floats, Ints

if TYPE_CHECKING:
    from laplacianshot.inference.priors import Hints
# Who looks for held-back labels: prototypes that move and a linear classifier, both under the graph; labels spread
# along it; and without any graph the nearest prototype of the labels and the classifier.
CANDIDATES = ("moving prototypes", "classifier", "labels along the graph", "nearest prototype", "classifier alone")
Hits: TypeAlias = tuple[int, int, int, int, int]
Shares: TypeAlias = tuple[float, float, float, float, float]
_ALONG_GRAPH = 2

# Queries that the three questions are asked of.
SAMPLE_ROWS = ABSENCE.sample_rows
# Inverse penalty of the linear classifier.
_INVERSE_PENALTY = 10.0
# What a lead by one standard deviation of chance is worth; and the labels that chance always decides.
_AHEAD = 1.5
_CHANCE_LABELS = 4
# Weight of the classifier where no label can be held back: while labels of different classes lie as near to one another
# as any rows do, and once they lie farther apart by this many standard deviations.
_UNASKED_NEAR = 0.5
_UNASKED = 0.2
_APART = 1.5
# What a lead is worth where no label can be held back.
_UNASKED_LEAD = 0.5
# What distances, and labels that were spread along the graph, count for where these are to decide.
_FAINT = 0.05
_ALONG = 1.5
# Hits that the graph is ahead at first, for each time that the first edge between two classes is longer than a typical
# shortest one; how many at most, with a scale for all rows and with scales of their own; and the gap from which on one
# scale is right.
_LEAD = 6.0
_MAX_LEAD = 5.0
_MAX_LOCAL_LEAD = 3.0
_CLEAR_GAP = 5.0
# Hits that the candidates are ahead at first where neighbors are very near, as in tables and pixels; how near the tenth
# neighbor is, against two rows at random, where this begins, and by how much less it counts in full.
_NEAR_LEADS = (-2.0, 1.0, 2.0, 0.0, 0.0)
_NEAR = 0.55
_NEAR_WIDTH = 0.1
# The smallest share of the graph that is worth the work.
_MIN_GRAPH = 0.05
# Share of absent classes from which on labels that are spread along the graph do not count.
_MOSTLY_ABSENT = 0.5
# Weight that leaves a linear classifier to decide without distances.
_NO_DISTANCES = 0.99
_FOLDS = 3
_TRIAL_ROUNDS = 10
# Labels held back after which no more are.
_ENOUGH_HELD = 150
# KL divergence of the class shares, beyond that of the first ones, that only a collapse brings; and how many times as
# much labels then weigh in their prototypes.
_COLLAPSE = 0.7
_HOLD = 1000.0
# Labeled rows of a class that are held back in turn, and that the classifier learns from.
_MAX_LABELS = 50


@dataclass(frozen=True)
class Answers:
    """What the three questions brought, in numbers.

    Attributes
    ----------
    absent : float
        Estimated share of the classes that no query belongs to.
    spread : bool
        Whether prototypes started from labels that were spread along the graph.
    held_back : int
        Labels that were held back and asked for.
    hits : (int, int, int, int, int)
        How many of them each of the :data:`CANDIDATES` found.
    lead : float
        Hits that the graph was given, as labels of different classes lie far apart or neighbors very near.
    shares : (float, float, float, float, float)
        What each of the candidates counts for.
    first_divergence : float
        ``KL(p|u)`` of the class shares that the spread labels give, and what absent classes add to it.
    prototypes_held : bool
        Whether the solution fell to few classes, and was made again with prototypes that hardly move.
    hints : Hints, optional
        What names and another model's scores said.
    """

    absent: float = 0.0
    spread: bool = False
    held_back: int = 0
    hits: Hits = (0, 0, 0, 0, 0)
    lead: float = 0.0
    shares: Shares = (1.0, 0.0, 0.0, 0.0, 0.0)
    first_divergence: float = 0.0
    prototypes_held: bool = False
    hints: Hints | None = None

    def collapsed(self, p: Floats) -> bool:
        """Whether the class shares p (C,) of a solution are far more unequal than those that the labels gave.

        Where class means hardly differ, a class that is a little too large becomes larger with every round.
        """
        return self.spread and divergence(p) > self.first_divergence + _COLLAPSE

    @property
    def graph_trust(self) -> float:
        """Which part of the graph's weight counts: the share of those that use it among all but the spread labels."""
        moving, linear, along = self.shares[:3]
        return (moving + linear) / (1 - along) if self.held_back and along < 1 else 1.0

    @property
    def accuracy(self) -> HeldBack | None:
        """What the best of the candidates made of the held-back labels; None without any."""
        return HeldBack(max(self.hits), self.held_back) if self.held_back else None


@dataclass(frozen=True)
class HeldBack:
    """How many of the labels that were held back were predicted right."""

    right: int
    checked: int

    @property
    def estimate(self) -> float:
        """Share of held-back labels that were predicted right."""
        return self.right / self.checked

    @property
    def interval(self) -> tuple[float, float]:
        """Wilson's 95% interval of the share."""
        low, high = binomtest(self.right, self.checked).proportion_ci(method="wilson")
        return float(low), float(high)


def hold_prototypes(constants: DefaultConstants, clues: Clues) -> tuple[DefaultConstants, Clues]:
    """The same with prototypes that start at those of the support, and hardly move from there."""
    held = constants._replace(beta=_HOLD * constants.beta, kappa=_HOLD * constants.kappa)
    return held, replace(clues, start=None)


def sample_rows(n_query: int) -> Ints:
    """Positions of at most SAMPLE_ROWS of the queries, ascending, always the same.

    Drawn at random: evenly spaced ones may be of a few classes only where rows come in a regular order.
    """
    if n_query <= SAMPLE_ROWS:
        return np.arange(n_query)
    return np.sort(np.random.default_rng(0).choice(n_query, SAMPLE_ROWS, replace=False))


def gather_clues(
    support: Floats,
    labels: Ints,
    sample: Floats,
    origin: Floats,
    n_query: int,
    n_classes: int,
    constants: DefaultConstants,
    *,
    table: bool = False,
    along: bool = True,
    known: Clues = NO_CLUES,
) -> tuple[DefaultConstants, Clues, Answers]:
    """Ask the three questions.

    Parameters
    ----------
    support : array of shape (n_s, D)
        Transformed labeled rows.
    labels : int array of shape (n_s,)
    sample : array of shape (m, D)
        Transformed queries at :func:`sample_rows`.
    origin : array of shape (D,)
        What every prototype is drawn to.
    n_query, n_classes : int
    constants : DefaultConstants
        Of the whole task.
    table : bool
        Whether rows are of a table, with columns brought to one scale.
    along : bool
        Whether labels can be spread along the whole graph.
    known : Clues
        What is known of the classes already, from their names, say; the answers are added to it.

    Returns
    -------
    constants : DefaultConstants
        With the price eta of a class that is used, and the share below which it counts.
    clues : Clues
    answers : Answers
    """
    log_presence: Floats = np.zeros(n_classes)
    # Far from zero small numbers cancel less about the middle.
    middle = sample.mean(axis=0, dtype=np.float64).astype(sample.dtype) if len(sample) else np.zeros_like(origin)
    support, sample, origin = support - middle, sample - middle, origin - middle
    answers, clues = Answers(), known.moved(-middle)
    if math.isfinite(constants.delta):
        absent, log_presence = absent_classes(support, labels, sample, n_classes)
        if absent > 0:
            constants = constants.with_absent(absent, n_classes)
            log_presence = absent * np.maximum(log_presence, ABSENCE.least_log)
            answers, clues = replace(answers, absent=absent), clues.with_linear(None, ABSENCE.weight * log_presence)
    if len(sample) < 2 or not is_rich(n_query, n_classes, table=table):
        return constants, clues.moved(middle), answers
    few = _some_labels(labels)
    S, y = support[few], labels[few]
    rows = np.concatenate([S, sample])
    k = DefaultConstants.for_task(len(S), len(sample), n_classes).n_neighbors
    # Of a sample, the graph alone would have fewer edges than labels need to spread.
    near = knn(rows, max(k, MAX_PATHS), method="exact")
    graph = normalize(neighbor_affinity(replace(near, indices=near.indices[:, :k]), dtype=rows.dtype))
    paths = Paths.to_neighbors(near.indices, near.distances)
    gap = paths.gap(np.concatenate([y, np.full(len(sample), -1)]))
    # Labels of absent classes would take other rows along.
    found = spread_labels(graph, y, n_classes) * np.exp(log_presence).astype(sample.dtype)
    found /= found.sum(axis=1, keepdims=True)
    sizes = found * (n_query / len(sample))
    prior = Prior.of_support(support, labels, origin, n_classes, constants, clues)
    clues = replace(clues, start=m_step(prior, sizes.T @ sample, sizes.sum(axis=0)))
    first = divergence(found.mean(axis=0, dtype=np.float64)) - math.log(1 - answers.absent)
    answers = replace(answers, spread=True, first_divergence=first)
    local, close = gap <= _CLEAR_GAP, nearness(near.distances, rows)
    leads = close * np.array(_NEAR_LEADS)
    leads[_ALONG_GRAPH] = max(leads[_ALONG_GRAPH], min(_MAX_LOCAL_LEAD if local else _MAX_LEAD, _LEAD * gap))
    if not along or answers.absent >= _MOSTLY_ABSENT:
        leads[_ALONG_GRAPH] = -math.inf
    right = _Trial(S, y, sample, origin, n_classes, graph, paths, local).right()
    held, lead = right.shape[1], float(leads[_ALONG_GRAPH])
    shares = shares_of(right, leads) if held else unasked_shares(lead, separation(S, y, sample))
    hits: Hits = tuple(right.sum(axis=1).tolist())
    answers = replace(answers, shares=shares, held_back=held, hits=hits, lead=max(0.0, lead))
    if constants.lam == DefaultConstants.for_task(len(labels), n_query, n_classes).lam:
        # A weight that the user chose stays.
        constants = constants.with_graph_trust(answers.graph_trust)
    moving, linear, reached, unmoved, alone = shares
    weight = min(_NO_DISTANCES, 1 - moving - _FAINT * reached)
    clues = replace(clues, weight=weight, along=_ALONG * reached, local=local)
    for share, rule in ((linear + alone, linear_classifier), (unmoved, nearest_prototype)):
        v, h = rule(S, y, n_classes)
        scale = share * confident_scale(sample @ v.T.astype(sample.dtype) + h.astype(sample.dtype))
        clues = clues.with_linear(scale * v, scale * h)
    return constants, clues.moved(middle), answers


def absent_classes(support: Floats, labels: Ints, sample: Floats, n_classes: int) -> tuple[float, Floats]:
    """The estimated share f of classes that no query belongs to, and the log-probability (C,) that each is present.

    Let r be the rank, from 0 to 1, of a labeled row's distance to its nearest query among the distances of queries to
    their own nearest other query; equal distances do not count. A query has one row less of its class to look at, so
    the second nearest query counts for ``w = min(1/2, C/m)``, as if one of the class's m/C queries were left out::

        r = (1 - w) rank(d_1) + w rank(d_2)

    For a class that is present r is evenly distributed, for one that is absent near 1, here as ``8 r^7``. So
    ``mean r = (1 + f)/2``, with a standard deviation of ``s = 0.29 / sqrt(n_s)``. f is shrunk as far as it may be
    chance (James and Stein), and by Bayes::

        f = (2 mean r - 1) max(0, 1 - (2 / z)^2),    z = (mean r - 1/2) / s,    0 unless z > 0
        log odds of presence of class c = log((1 - f)/f) - sum_{i in c} log(8 r_i^7) / sqrt(n_c)
    """
    nothing = 0.0, np.zeros(n_classes)
    if n_classes < ABSENCE.min_classes or len(support) < ABSENCE.min_labels or len(sample) < 2:
        return nothing
    between = squared_distances(sample, sample, wide=False)
    np.fill_diagonal(between, np.inf)
    # Rounding must not tell equal distances apart.
    equal = between.dtype.type(ABSENCE.close * mean_squared_distance(sample))
    two = np.partition(squared_distances(support, sample, wide=False), 1, axis=1)[:, :2] - equal
    ranks = np.searchsorted(np.sort(between.min(axis=1)), two) / len(sample)
    left_out = min(ABSENCE.most_left_out, n_classes / len(sample))
    ranks = (1 - left_out) * ranks[:, 0] + left_out * ranks[:, 1]
    counts = np.bincount(labels, minlength=n_classes)
    mean = float((np.bincount(labels, ranks, n_classes) / counts).mean())
    chance = ABSENCE.chance / math.sqrt(12 * len(support))
    excess = mean - 0.5
    f = min(ABSENCE.most, 2 * (excess - chance**2 / excess)) if excess > chance else 0.0
    if f <= 0:
        return nothing
    power = ABSENCE.power
    ratios = math.log(power) + (power - 1) * np.log(np.maximum(ranks, ABSENCE.least_rank))
    odds = math.log((1 - f) / f) - np.bincount(labels, ratios, n_classes) / np.sqrt(counts)
    return f, -np.logaddexp(0, -odds)


def linear_classifier(support: Floats, labels: Ints, n_classes: int) -> tuple[Floats, Floats]:
    """Slopes (C, D) and intercepts (C,) of logistic regression on labeled rows (n_s, D)."""
    # Here, as episodes do not need it.
    from sklearn.linear_model import LogisticRegression

    rows = support.astype(np.float64)
    basis = None
    if rows.shape[1] > len(rows):
        # The slopes are sums of rows: as many coordinates as rows are enough.
        basis, corner = np.linalg.qr(rows.T)
        rows = corner.T
    with warnings.catch_warnings():
        # It stops early on purpose, and a class may have one label only.
        warnings.simplefilter("ignore", UserWarning)
        model = LogisticRegression(C=_INVERSE_PENALTY, max_iter=60, tol=1e-3).fit(rows, labels)
    slopes, bias = model.coef_, model.intercept_
    if n_classes == 2:
        slopes, bias = np.stack([-slopes[0], slopes[0]]) / 2, np.array([-bias[0], bias[0]]) / 2
    return slopes if basis is None else slopes @ basis.T, bias


def nearest_prototype(support: Floats, labels: Ints, n_classes: int) -> tuple[Floats, Floats]:
    """Slopes ``2 m_c`` (C, D) and intercepts ``-|m_c|^2`` (C,): the largest score is that of the nearest class mean."""
    means = class_means(support, labels, n_classes).astype(np.float64)
    return 2 * means, -np.einsum("cd,cd->c", means, means)


def confident_scale(logits: Floats) -> float:
    """The s for which the mean of ``max_c softmax(s logits)``, (m, C), is the least mean confidence of the recipe."""
    n_classes = logits.shape[1]
    target: float = 1 / n_classes + MIN_CONFIDENCE * (1 - 1 / n_classes)
    held = [logits.astype(np.float64) - logits.max(axis=1, keepdims=True)]

    def above(log_scale: float) -> float:
        return float((1 / np.exp(math.exp(log_scale) * held[0]).sum(axis=1)).mean()) - target

    low, high = -15.0, 15.0
    if above(low) >= 0 or above(high) <= 0:
        return 1.0
    found: float = brentq(above, low, high, xtol=1e-6)
    # The root finder keeps its function in a cycle, and with it all that the function holds.
    held.clear()
    return math.exp(found)


def separation(support: Floats, labels: Ints, sample: Floats) -> float:
    """How much farther apart labels of different classes lie than any rows do, in standard deviations.

    Of labeled row i let f be the share of the sample (m, D) that is nearer to it than all n labels of other classes. If
    these lay like any other rows, ``r_i = 1 - (1 - f)^n`` would be evenly distributed; where classes are apart it is
    near 1. Returned is ``(mean r - 1/2) sqrt(12 n_s)``.
    """
    others = labels[:, None] != labels
    nearest = np.where(others, squared_distances(support, support, wide=False), np.inf).min(axis=1)
    f = (squared_distances(support, sample, wide=False) < nearest[:, None]).mean(axis=1)
    ranks = 1 - (1 - f) ** others.sum(axis=1)
    return float((ranks.mean() - 0.5) * math.sqrt(12 * len(labels)))


def nearness(distances: Floats, rows: Floats) -> float:
    """How near neighbors are to one another, from 0 to 1: ``(0.55 - r) / 0.1``.

    r is the median squared distance (n, k) of rows (n, D) to their tenth neighbor, against the mean of all pairs. In
    tables and pixels neighbors are much nearer than any two rows; in vectors of an encoder, of many dimensions, they
    are not.
    """
    tenth = float(np.median(distances[:, min(MAX_PATHS, distances.shape[1]) - 1]))
    apart = mean_squared_distance(rows)
    return min(1.0, max(0.0, (_NEAR - tenth / apart) / _NEAR_WIDTH)) if apart > 0 else 0.0


def shares_of(right: Bools, leads: Floats) -> Shares:
    """What each of the candidates counts for, from the labels that each found (5, held) and the leads (5,) of each.

    With s the hits and the lead of a candidate, s* those of the best, and d the number of labels that only one of the
    two found, which chance alone would give a standard deviation of ``sqrt(d)``::

        share ~ exp(1.5 (s - s*) / sqrt(4 + d))
    """
    scores = right.sum(axis=1) + leads
    best = int(scores.argmax())
    chance = np.sqrt(_CHANCE_LABELS + (right != right[best]).sum(axis=1))
    counts = np.exp(_AHEAD * (scores - scores[best]) / chance)
    if counts[_ALONG_GRAPH] < _MIN_GRAPH * counts.sum():
        counts[_ALONG_GRAPH] = 0
    shares: Shares = tuple((counts / counts.sum()).tolist())
    return shares


def unasked_shares(lead: float = 0.0, apart: float = math.inf) -> Shares:
    """What each of the candidates counts for where no labels could be held back.

    The graph gets ``1 - e^(-lead/2)``. The classifier gets 1/5 of the rest where labels of different classes lie
    ``apart`` by 1.5 standard deviations (:func:`separation`), rising to 1/2 where they do not lie apart at all, and
    prototypes that move get what remains.
    """
    graph = 1 - math.exp(-_UNASKED_LEAD * max(0.0, lead))
    if graph < _MIN_GRAPH:
        graph = 0.0
    near = max(0.0, 1 - max(0.0, apart) / _APART)
    classifier = _UNASKED + near * (_UNASKED_NEAR - _UNASKED)
    return (1 - graph) * (1 - classifier), (1 - graph) * classifier, graph, 0.0, 0.0


@dataclass(frozen=True)
class _Trial:
    """Labels held back in turn, for the candidates to find."""

    support: Floats
    labels: Ints
    sample: Floats
    origin: Floats
    n_classes: int
    graph: sp.csr_array  # over support and sample
    paths: Paths
    local: bool

    def right(self) -> Bools:
        """Whether each of the candidates finds each of the labels that are held back (5, held)."""
        turns, folds = _turns(self.support, self.labels)
        found, held = [np.zeros((len(CANDIDATES), 0), bool)], 0
        for turn in range(folds):
            out = np.flatnonzero(turns == turn)
            if len(out) == 0 or held >= _ENOUGH_HELD:
                continue
            found.append(np.stack(self._solved(np.flatnonzero(turns != turn), out)) == self.labels[out])
            held += len(out)
        return np.concatenate(found, axis=1)

    def _solved(self, kept: Ints, out: Ints) -> list[Ints]:
        """Classes of the rows ``out`` by each candidate, from the labels of the rows ``kept``."""
        n_s, n_classes = len(self.support), self.n_classes
        order = np.concatenate([kept, out, np.arange(n_s, n_s + len(self.sample))])
        W = sp.csr_array(self.graph[order][:, order])
        support, labels = self.support[kept], self.labels[kept]
        query = np.concatenate([self.support[out], self.sample])
        sizes = DefaultConstants.for_task(len(kept), len(query), n_classes)
        constants = sizes._replace(max_rounds=sizes.start_rounds + _TRIAL_ROUNDS)
        prior = Prior.of_support(support, labels, self.origin, n_classes, constants)
        classes = np.full(len(order), -1)
        classes[kept] = labels
        reached = spread_labels(W, labels, n_classes)
        start = Clues(start=m_step(prior, reached.T @ query, reached.sum(axis=0)))
        by_prototypes = joint_optimize(support, labels, query, W, self.origin, n_classes, constants, clues=start)

        slopes, bias = (part.astype(query.dtype) for part in linear_classifier(support, labels, n_classes))
        # In the space of the classifier's scores, where rows have as many numbers as there are classes.
        given, scores, origin = (rows @ slopes.T + bias for rows in (support, query, self.origin))
        linear = Clues(weight=_NO_DISTANCES, slopes=confident_scale(scores) * np.eye(n_classes))
        by_classifier = joint_optimize(given, labels, scores, W, origin, n_classes, constants, clues=linear)

        along = self.paths.spread(classes, n_classes, local=self.local)[out]
        found = (by_prototypes.assignments[: len(out)], by_classifier.assignments[: len(out)], along)
        nearest = squared_distances(self.support[out], class_means(support, labels, n_classes)).argmin(axis=1)
        return [*(shares.argmax(axis=1) for shares in found), nearest, scores[: len(out)].argmax(axis=1)]


def _turns(support: Floats, labels: Ints) -> tuple[Ints, int]:
    """When each labeled row is held back (-1: never, being the only one of its class), and how many turns there are.

    The rows of a class take turns by their distance from the middle, so that the order in which they are given does not
    matter.
    """
    counts = np.bincount(labels)
    order = np.lexsort((np.einsum("nd,nd->n", support, support), labels))
    position = np.empty(len(labels), np.int64)
    position[order] = np.arange(len(labels)) - np.repeat(np.cumsum(counts) - counts, counts)
    folds = int(min(_FOLDS, counts.max()))
    turns = np.where(counts[labels] > 1, position % np.minimum(folds, counts[labels]), -1)
    return turns, folds


def _some_labels(labels: Ints) -> Ints:
    """Positions of at most _MAX_LABELS labeled rows of each class, evenly spaced."""
    kept = [np.flatnonzero(labels == c) for c in range(int(labels.max()) + 1)]
    return np.sort(np.concatenate([rows[:: max(1, -(-len(rows) // _MAX_LABELS))] for rows in kept]))
