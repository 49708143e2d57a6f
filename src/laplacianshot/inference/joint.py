"""The default recipe: prototypes, assignments and graph solved jointly, with constants that need no tuning.

For queries Q (N rows), support S with labels clamped to ``Y_s``, prototypes M, origin o, normalized affinity W over all
rows, uniform u and class shares ``p = mean_q y_q``, minimize::

    F(Y, M) = sum y log y
            + tau [ sum_qc y_qc |x_q - m_c|^2 + beta sum_s |x_s - m_ys|^2 + kappa sum_c |m_c - o|^2
                    + sum_c k_c |m_c - o_c|^2 ]
            - sum_qc y_qc (v_c.x_q + h_c + u log t_qc + l_qc)
            - lam [ e sum_q y_q.(W_qs Y_s) + 1/2 tr(Y^T W_qq Y) ]
            + mu [ (r |V|^2 + |X V|^2)/2 - sum_i y_i.(V^T x_i) ]
            + N gamma delta (1 - exp(-K / delta)) + N eta sum_c H_s(p_c),    K = KL(p|u)
    H_s(t) = (t + s) log(t + s) - t log t - s log s

The third line draws prototypes to what names or another model say of their classes, and the fourth is what else is
known of the classes (:class:`Clues`) or of single rows (l). The sixth one, of few-shot tasks with many classes, is a
linear classifier V of all rows x_i about their mean, given labels and assignments alike (:class:`Ridge`). The last one
draws the shares to equal ones as long as they are nearly equal (infinite gamma: makes them equal) and, where eta > 0 as
some classes seem to have no queries at all, takes a price for every class that is used: its slope
``log((p_c + s)/p_c)`` is high for shares below s and nearly nothing far above. If the shares of the classes are known,
u is not uniform but has these.

Each round minimizes F over M (:func:`m_step`) and V, then an upper bound of F over Y that is tight at the current Y
(:func:`y_step`): F never rises.

:func:`joint_optimize` runs the formulas below as they are written. Faster ways to take the same steps, for large tasks,
are :class:`Rounds` of :mod:`laplacianshot.engine`; all of them go through :func:`descend`.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, NamedTuple, Protocol

import numpy as np
import scipy.sparse as sp

from laplacianshot.inference.prototypes import class_sums, squared_distances
from laplacianshot.inference.recipes import MIN_REACHED, TOLERANCE, DefaultConstants
from laplacianshot.inference.solution import Solution
from laplacianshot.inference.temperature import choose_tau, divergence, mean_squared_distance
from laplacianshot.runtime.types import Floats, Ints

# Equal shares: relative error allowed in the sum of a class, the maximum number of steps to get there, and the longest
# of Newton's: where assignments are nearly certain, their curvature says little.
_BALANCED = 1e-13
_MAX_BALANCING = 200
_MAX_BALANCE_STEP = 5.0


def joint_optimize(
    support: Floats,
    labels: Ints,
    query: Floats,
    affinity: sp.csr_array,
    origin: Floats,
    n_classes: int,
    constants: DefaultConstants,
    *,
    clues: Clues | None = None,
    reached: Floats | None = None,
    known: Floats | None = None,
    first: Floats | None = None,
    tol: float = TOLERANCE,
) -> Solution:
    """Minimize F over assignments and prototypes, in the dtype of the queries; sums over queries are float64.

    From ``Y = softmax(-cost)`` at the prototypes of the support alone, or at those that the clues have, or from what
    labels reached along the graph, M and Y steps in turn.

    Parameters
    ----------
    support : array of shape (n_s, D)
        Transformed labeled rows.
    labels : int array of shape (n_s,)
        Their classes in ``0..C-1``, each at least once unless the clues have anchors.
    query : array of shape (N, D)
        Transformed unlabeled rows; assignments and prototypes are returned in their dtype.
    affinity : csr_array of shape (n_s + N, n_s + N)
        W: symmetric, normalized, support rows first.
    origin : array of shape (D,)
        o, what every prototype is drawn to.
    n_classes : int
    constants : DefaultConstants
    clues : Clues, optional
        What else is known of the classes.
    reached : array of shape (N, C), optional
        Shares of the labels that reach each query along the graph, where the clues say that they count.
    known : array of shape (N, C), optional
        l, what is known of each query: logarithms of probabilities, times their weight.
    first : array of shape (N, C), optional
        First assignments; default: from prototypes, or from what is reached.
    tol : float
        Stop when F changes by less than this, relatively.

    Returns
    -------
    Solution
    """
    clues = NO_CLUES if clues is None else clues
    dtype = query.dtype
    n_support, n = len(support), len(query)
    # F does not see a common shift of all rows, and small numbers cancel less.
    shift = query.mean(axis=0, dtype=np.float64).astype(dtype) if n else np.zeros(len(origin), dtype)
    S, Q, W = support - shift, query - shift, affinity.astype(dtype)
    near = clues.moved(-shift)
    prior = Prior.of_support(S, labels, origin - shift, n_classes, constants, near)
    a = squared_distances(Q, prior.means, wide=False)
    # With one query there is no pair of queries: take all rows.
    spread = mean_squared_distance(Q) or mean_squared_distance(np.concatenate([S, Q]))
    tau = choose_tau(a, spread, constants.pair_spread)
    if n == 0:
        # Only the prototypes are free, and one M step is exact.
        value = np.array([tau * prior.least_cost])
        nothing = np.zeros(n_classes, dtype)
        return Solution(
            a.astype(dtype), prior.means.astype(dtype), value, True, constants.lam,
            tau=tau, bias=nothing, constants=constants, prior=prior, clues=clues,
        )  # fmt: skip
    Y_s = np.eye(n_classes, dtype=dtype)[labels]
    s = dtype.type(constants.e) * (W[n_support:, :n_support] @ Y_s)
    ridge = Ridge.of_rows(S, Q, Y_s, constants.mu) if constants.mu > 0 else None
    equal = math.isinf(constants.gamma)
    rounds = PlainRounds(
        Q, W[n_support:, n_support:], s, tau, near, prior.means, reached, known, first=first, ridge=ridge, equal=equal
    )
    solution = descend(rounds, prior, constants, n, tau, dtype, clues=clues, tol=tol)
    if ridge is not None:
        clues = ridge.joined(rounds.Y, near).moved(shift)
    return replace(
        solution,
        assignments=rounds.Y,
        prototypes=solution.prototypes + shift,
        prior=prior.moved(shift),
        clues=clues,
        bias=rounds.potentials if equal else solution.bias,
    )


@dataclass(frozen=True)
class Clues:
    """What is known of the classes besides the prototypes of their labels.

    The cost of class c for row q is ``(1 - w) tau |x_q - m_c|^2 - v_c.x_q - h_c - u log t_qc``, with shares t of the
    labels that reach it along the graph.

    Attributes
    ----------
    weight : float
        w, below 1: how much of the distance the linear part stands for.
    slopes : array of shape (C, D), optional
        v, scaled by its weight.
    bias : array of shape (C,), optional
        h.
    start : array of shape (C, D), optional
        Prototypes that the first assignments are made from, in place of those of the support.
    along : float
        u, what labels count that were spread along the graph (:class:`~laplacianshot.inference.spreading.Paths`). Where
        it is above zero, these are also the first assignments.
    local : bool
        Whether every row has its own scale where they are spread.
    anchors : array of shape (C, D), optional
        o_c, where names or another model place the classes.
    pull : array of shape (C,), optional
        k_c, weight of each anchor in its prototype; given with the anchors.
    shares : array of shape (C,), optional
        u, class shares among the queries that are known; None: equal ones.
    """

    weight: float = 0.0
    slopes: Floats | None = None
    bias: Floats | None = None
    start: Floats | None = None
    along: float = 0.0
    local: bool = False
    anchors: Floats | None = None
    pull: Floats | None = None
    shares: Floats | None = None

    def costs(self, prototypes: Floats, tau: float) -> tuple[Floats, Floats]:
        """Directions d (C, D) and offsets (C,) of the linear cost ``(1 - w) tau |x|^2 - d_c.x + offset_c``."""
        tau *= 1 - self.weight
        directions = 2 * tau * prototypes
        offsets: Floats = tau * np.einsum("cd,cd->c", prototypes, prototypes, dtype=np.float64)
        if self.slopes is not None:
            directions += self.slopes.astype(directions.dtype, copy=False)
        return directions, offsets if self.bias is None else offsets - self.bias

    def as_prototypes(self, prototypes: Floats, tau: float) -> tuple[Floats, Floats]:
        """Prototypes m' (C, D) and a bias b (C,) with the same cost: ``(1 - w) tau |x - m'_c|^2 - b_c``."""
        directions, offsets = self.costs(prototypes.astype(np.float64), tau)
        tau *= 1 - self.weight
        moved = directions / (2 * tau)
        return moved.astype(prototypes.dtype), tau * np.einsum("cd,cd->c", moved, moved) - offsets

    def row_logits(self, reached: Floats | None, known: Floats | None = None) -> Floats | None:
        """What labels that reached rows along the graph, and what is known of rows, add to logits; None if nothing.

        ``u log t + l`` (N, C)
        """
        if reached is None or self.along == 0:
            return known
        logs: Floats = np.log(np.maximum(reached, MIN_REACHED))
        logs *= logs.dtype.type(self.along)
        return logs if known is None else logs + known

    def moved(self, offset: Floats) -> Clues:
        """The same after all rows have moved by ``offset`` (D,)."""
        start = None if self.start is None else self.start + offset
        anchors = None if self.anchors is None else self.anchors + offset
        moved = replace(self, start=start, anchors=anchors)
        if self.slopes is None:
            return moved
        bias = -(self.slopes @ offset) + (0.0 if self.bias is None else self.bias)
        return replace(moved, bias=bias)

    def of_classes(self, classes: Ints) -> Clues:
        """The same for some of the classes, by their numbers (C',)."""
        if len(classes) == 0:
            return self
        parts = {name: getattr(self, name) for name in ("slopes", "bias", "start", "anchors", "pull", "shares")}
        return replace(self, **{name: part[classes] for name, part in parts.items() if part is not None})

    def with_linear(self, slopes: Floats | None, bias: Floats | None) -> Clues:
        """The same with slopes (C, D) and a bias (C,) added."""
        return replace(self, slopes=_sum_of(self.slopes, slopes), bias=_sum_of(self.bias, bias))


def _sum_of(a: Floats | None, b: Floats | None) -> Floats | None:
    return b if a is None else a if b is None else a + b


NO_CLUES = Clues()


@dataclass(frozen=True, repr=False)
class Ridge:
    """A linear classifier that is fitted anew in each round, by ridge regression on all rows and their assignments.

    With rows X (n, D) about their mean, assignments A (n, C) of all of them and ``G = X X^T``, F is least over V at ::

        V = X^T (G + r I)^-1 A,        X V = H A,        H = G (G + r I)^-1

    and is then ``-mu/2 tr(A^T H A)``. The penalty r is the mean squared length of a row.

    Attributes
    ----------
    rows : array of shape (n, D)
        X, the support first.
    center : array of shape (D,)
        The mean that was taken away.
    inverse : array of shape (n, n)
        ``(G + r I)^-1``.
    penalty : float
        r.
    labels : array of shape (n_s, C)
        Assignments of the support.
    mu : float
    """

    rows: Floats
    center: Floats
    inverse: Floats
    penalty: float
    labels: Floats
    mu: float

    @classmethod
    def of_rows(cls, support: Floats, query: Floats, labels: Floats, mu: float) -> Ridge:
        """For labeled rows (n_s, D) with assignments (n_s, C), and queries (N, D)."""
        rows = np.concatenate([support, query]).astype(np.float64)
        center = rows.mean(axis=0)
        rows -= center
        gram = rows @ rows.T
        penalty = max(float(np.trace(gram)) / len(rows), np.finfo(np.float64).tiny)
        gram.flat[:: len(rows) + 1] += penalty
        return cls(rows, center, np.linalg.inv(gram), penalty, labels, mu)

    @cached_property
    def hat(self) -> Floats:
        """``mu`` times the rows of H that belong to queries, (N, n)."""
        whole: Floats = self.mu * (np.eye(len(self.rows)) - self.penalty * self.inverse)
        return whole[len(self.labels) :]

    def joined(self, Y: Floats, clues: Clues) -> Clues:
        """The clues with what V, at assignments Y (N, C) of the queries, says of a row."""
        A = np.concatenate([self.labels, Y]).astype(np.float64)
        slopes = self.mu * (A.T @ self.inverse) @ self.rows
        bias = -slopes @ self.center
        return replace(
            clues,
            slopes=slopes if clues.slopes is None else slopes + clues.slopes,
            bias=bias if clues.bias is None else bias + clues.bias,
        )


@dataclass(frozen=True)
class Prior:
    """What support and origin say of the prototypes.

    ``beta sum_s |x_s - m_ys|^2 + kappa sum_c |m_c - o|^2`` is, by completing the square,
    ``least_cost + sum_c mass_c |m_c - means_c|^2`` with ``mass_c = beta n_c + kappa``. Anchors add
    ``sum_c k_c |m_c - o_c|^2``, and k_c to the mass.
    """

    means: Floats
    mass: Floats
    least_cost: float

    @classmethod
    def of_support(
        cls,
        support: Floats,
        labels: Ints,
        origin: Floats,
        n_classes: int,
        constants: DefaultConstants,
        clues: Clues = NO_CLUES,
    ) -> Prior:
        """From transformed labeled rows (n_s, D), their classes (n_s,), the origin (D,) and the anchors of clues."""
        beta, kappa = constants.beta, constants.kappa
        mass = beta * np.bincount(labels, minlength=n_classes) + kappa
        sums = beta * class_sums(support, labels, n_classes) + kappa * origin
        if clues.anchors is not None and clues.pull is not None:
            mass = mass + clues.pull
            sums = sums + clues.pull[:, None] * clues.anchors
        means = sums / mass[:, None]
        least = beta * float(np.square(support - means[labels]).sum()) + kappa * float(np.square(means - origin).sum())
        if clues.anchors is not None and clues.pull is not None:
            least += float(clues.pull @ np.square(means - clues.anchors).sum(axis=1))
        return cls(means, mass, least)

    def moved(self, offset: Floats) -> Prior:
        """The same after all rows have moved by ``offset`` (D,)."""
        return Prior(self.means + offset, self.mass, self.least_cost)

    @cached_property
    def sums(self) -> Floats:
        """``mass_c means_c = beta sum_{s in c} x_s + kappa o + k_c o_c``, (C, D)."""
        return self.mass[:, None] * self.means

    def cost(self, prototypes: Floats) -> float:
        """``beta sum_s |x_s - m_ys|^2 + sum_c (kappa |m_c - o|^2 + k_c |m_c - o_c|^2)`` at prototypes (C, D)."""
        gaps = prototypes - self.means
        return self.least_cost + float(self.mass @ np.einsum("cd,cd->c", gaps, gaps))


def m_step(prior: Prior, class_features: Floats, counts: Floats) -> Floats:
    """Prototypes that minimize F at given assignments, from ``Y^T Q`` (C, D) and ``sum_q y_q`` (C,).

    ``m_c = (beta sum_{s in c} x_s + sum_q y_qc x_q + kappa o + k_c o_c) / (beta n_c + sum_q y_qc + kappa + k_c)``
    """
    prototypes: Floats = (prior.sums + class_features) / (prior.mass + counts)[:, None]
    return prototypes


def y_step(log_Y: Floats, cost: Floats, b: Floats, lam: float, balance: Balance) -> tuple[Floats, Floats]:
    """Assignments (N, C) that minimize a bound of F that is tight at Y: their logarithms, and themselves.

    ``y_q ~ exp{ [ -cost_q + lam b_q + h log y_q - d ] / (1 + h) }`` with ``b = e W_qs Y_s + W_qq Y``, d of
    :class:`Balance` and h of :func:`hold_weight`. The cost is ``tau |x_q - m_c|^2``, and what is known besides.
    """
    h = hold_weight(lam, balance.g)
    # Numbers of Python keep the dtype of the arrays.
    return softmax((-cost + lam * b + h * log_Y - balance.slopes.astype(cost.dtype)) / (1 + h))


def equal_shares(logits: Floats) -> tuple[Floats, Floats, Floats]:
    """Logarithms and values of ``Y = softmax(logits + f)`` (N, C) whose classes have equal sums, and f (C,).

    Such Y minimizes ``sum y (log y - logits)`` among assignments with equal class shares. The potentials f minimize the
    convex ``D(f) = sum_q log sum_c exp(logits_qc + f_c) - (N/C) sum_c f_c``; a step is Newton's if D falls by it, else
    ``f_c += log((N/C) / sum_q y_qc)``, by which D always falls.
    """
    n, n_classes = logits.shape
    target = n / n_classes
    wide = logits.astype(np.float64)
    wide -= wide.max(axis=1, keepdims=True)

    def at(f: Floats) -> tuple[Floats, Floats, float]:
        top = wide + f
        most = top.max(axis=1, keepdims=True)
        Y = np.exp(top - most)
        totals = Y.sum(axis=1, keepdims=True)
        Y /= totals
        return Y, Y.sum(axis=0), float((np.log(totals) + most).sum()) - target * float(f.sum())

    f = np.zeros(n_classes)
    Y, sums, value = at(f)
    for _ in range(_MAX_BALANCING):
        if np.abs(sums - target).max() <= _BALANCED * target:
            break
        curvature = np.diag(sums) - Y.T @ Y
        # Only differences of potentials count: the first one stays.
        step = np.zeros(n_classes)
        step[1:] = np.linalg.lstsq(curvature[1:, 1:], (target - sums)[1:], rcond=None)[0]
        step *= min(1.0, _MAX_BALANCE_STEP / max(float(np.abs(step).max()), _MAX_BALANCE_STEP))
        moved = at(f + step)
        if moved[2] < value:
            f = f + step
        else:
            f = f + np.log(target) - np.log(np.maximum(sums, np.finfo(np.float64).tiny))
            moved = at(f)
        Y, sums, value = moved
    log_Y, Y = softmax((wide + f).astype(logits.dtype))
    return log_Y, Y, f


def softmax(logits: Floats) -> tuple[Floats, Floats]:
    """Logarithms of ``Y = softmax(logits)``, and Y itself, (N, C).

    No entry is below the largest of its row times e^-70 in float32, e^-708 in float64: products of smaller ones would
    leave the range of normal numbers.
    """
    logs = logits - logits.max(axis=1, keepdims=True)
    np.maximum(logs, -70 if logs.dtype == np.float32 else -708, out=logs)
    Y = np.exp(logs)
    totals = Y.sum(axis=1, keepdims=True)
    Y /= totals
    logs -= np.log(totals)
    return logs, Y


class Balance(NamedTuple):
    """What the shares p (C,) of the classes add to a Y step."""

    g: float  # gamma exp(-K / delta), how strongly shares are drawn to equal ones, or to u
    slopes: Floats  # (C,): d_c = g log(p_c/u_c) + eta log((p_c + s)/p_c), the slope in p_c up to a constant

    @classmethod
    def at(cls, p: Floats, constants: DefaultConstants, u: Floats | None = None) -> Balance:
        """At the shares p (C,), drawn to equal ones or to u (C,)."""
        if math.isinf(constants.gamma):
            return cls.none(len(p))
        g = constants.gamma * math.exp(-divergence(p, u) / constants.delta)
        slopes = g * log_share(p, u)
        if constants.eta > 0:
            slopes += constants.eta * (np.log(p + constants.small) - log_share(p))
        return cls(g, slopes)

    @classmethod
    def none(cls, n_classes: int) -> Balance:
        """Whatever the shares."""
        return cls(0.0, np.zeros(n_classes))


def balance_cost(p: Floats, constants: DefaultConstants, u: Floats | None = None) -> float:
    """``gamma delta (1 - exp(-K/delta)) + eta sum_c [(p_c + s) log(p_c + s) - p_c log p_c - s log s]``, p (C,).

    Its first part is ``gamma K`` in the limit of infinite delta. Where gamma is infinite, K and the cost are zero.
    """
    if math.isinf(constants.gamma):
        return 0.0
    kl, delta, s = divergence(p, u), constants.delta, constants.small
    pull: float = constants.gamma * (kl if math.isinf(delta) else -delta * math.expm1(-kl / delta))
    if constants.eta == 0:
        return pull
    return pull + constants.eta * float(np.sum((p + s) * np.log(p + s) - p * log_share(p) - s * math.log(s)))


def hold_weight(lam: float, g: float) -> float:
    """``h = g + r``, ``r = max(0, (lam/2 - 1 - g) / 2)``: how much a step holds on to where it starts.

    W has eigenvalues >= -1 and ``KL(y'|y) >= |y' - y|^2``, so F falls by at least ``(1 + g + 2r - lam/2) |Y' - Y|^2``.
    For eigenvalues >= -delta it is the weight at ``lam delta``.
    The pull to equal shares is concave in K, so its tangent lies above it, and K itself lies below
    ``mean_q KL(y_q|y0_q)`` plus what is linear in y. The price of the classes in use is concave in p: its tangent lies
    above it and holds on to nothing.
    """
    return g + max(0.0, (lam / 2 - 1 - g) / 2)


def log_share(p: Floats, u: Floats | None = None) -> Floats:
    """``log(p / u)`` up to a constant, finite where a share has vanished; without u ``log p``."""
    logs: Floats = np.log(np.maximum(p, np.finfo(np.float64).tiny))
    return logs if u is None else logs - np.log(u)


@dataclass(frozen=True)
class Sums:
    """Sums of one pass: ``pairwise = tr(Y^T W_qq Y)`` before the step, ``smooth`` of :func:`objective` after it.

    ``linear = mu tr(Y^T H_qq Y)`` before the step, where a :class:`Ridge` is part of it.
    """

    pairwise: float
    smooth: float
    linear: float = 0.0


def objective(
    smooth: float,
    before: Sums,
    prototypes: Floats,
    p: Floats,
    n: int,
    tau: float,
    prior: Prior,
    constants: DefaultConstants,
    u: Floats | None = None,
) -> float:
    """F at assignments with shares p (C,) and prototypes (C, D), from sums over the n queries.

    ``smooth = sum_q y_q.(log y_q + cost_q - lam e (W_qs Y_s)_q - mu (H_qs Y_s)_q)``, and the sums that the next pass
    forms ``before`` its step. What only labels have part in is left out of the linear classifier's term.
    """
    pairs = constants.lam / 2 * before.pairwise + before.linear / 2
    return smooth - pairs + tau * prior.cost(prototypes) + n * balance_cost(p, constants, u)


class Rounds(Protocol):
    """The assignments of N queries, wherever they are kept, and one Y step after another."""

    @property
    def share(self) -> Floats:
        """``p = mean_q y_q`` of the current assignments, (C,)."""
        ...

    @property
    def class_features(self) -> Floats:
        """``Y^T Q`` of the current assignments, (C, D)."""
        ...

    def step(self, prototypes: Floats, lam: float, balance: Balance, *, last: bool = False) -> Sums:
        """The Y step from the current assignments at these prototypes; :meth:`accept` makes its result current.

        Only ``pairwise`` of the ``last`` step is used: the step itself may be left out.
        """
        ...

    def accept(self) -> None:
        """Make the assignments of the last step the current ones."""
        ...


class PlainRounds:
    """:class:`Rounds` as the formulas say, of arrays in memory.

    Parameters
    ----------
    query : array of shape (N, D)
        About their mean.
    W : csr_array of shape (N, N)
        Between queries.
    s : array of shape (N, C)
        ``e W_qs Y_s``.
    tau : float
    clues : Clues
    prototypes : array of shape (C, D)
        Of the first assignments, where the clues have none.
    reached : array of shape (N, C), optional
        Labels that reached each query along the graph, and the first assignments.
    known : array of shape (N, C), optional
        What is known of each query.
    first : array of shape (N, C), optional
        Other first assignments.
    ridge : Ridge, optional
    equal : bool
        Whether all classes have equal shares.

    Attributes
    ----------
    potentials : array of shape (C,)
        What equal shares add to the logits of each class.
    """

    def __init__(
        self,
        query: Floats,
        W: sp.csr_array,
        s: Floats,
        tau: float,
        clues: Clues,
        prototypes: Floats,
        reached: Floats | None = None,
        known: Floats | None = None,
        *,
        first: Floats | None = None,
        ridge: Ridge | None = None,
        equal: bool = False,
    ) -> None:
        self._query, self._W, self._s, self._tau, self._clues = query, W, s, tau, clues
        self._squares = np.einsum("nd,nd->n", query, query)[:, None]
        self._known = clues.row_logits(reached, known)
        self._equal = equal
        self._hat: Floats | None = None
        if ridge is not None:
            n_support = len(ridge.labels)
            self._hat = np.ascontiguousarray(ridge.hat[:, n_support:], query.dtype)
            self._by_labels = (ridge.hat[:, :n_support] @ ridge.labels).astype(query.dtype)
        start = reached if first is None else first
        if start is None:
            logits = -self._cost(prototypes if clues.start is None else clues.start)
        else:
            logits = np.log(np.maximum(start, np.finfo(start.dtype).tiny)).astype(query.dtype)
        self._next = self._assigned(logits, 0.0)
        self.accept()

    def _assigned(self, logits: Floats, hold: float) -> tuple[Floats, Floats]:
        """``softmax(logits)``, with equal shares where these are demanded; a step held on with weight ``hold``."""
        if not self._equal:
            return softmax(logits)
        log_Y, Y, f = equal_shares(logits)
        self.potentials: Floats = ((1 + hold) * f).astype(logits.dtype)
        return log_Y, Y

    def _cost(self, prototypes: Floats) -> Floats:
        """What a class costs each query, (N, C)."""
        dtype = self._query.dtype
        directions, offsets = self._clues.costs(prototypes.astype(dtype, copy=False), self._tau)
        tau = (1 - self._clues.weight) * self._tau
        cost: Floats = tau * self._squares + offsets.astype(dtype) - self._query @ directions.T
        return cost if self._known is None else cost - self._known.astype(dtype, copy=False)

    def step(self, prototypes: Floats, lam: float, balance: Balance, *, last: bool = False) -> Sums:
        """The Y step from the current assignments at these prototypes; :meth:`accept` makes its result current."""
        WY = self._W @ self.Y
        pairwise, linear = _inner(self.Y, WY), 0.0
        if self._hat is not None:
            HY = self._hat @ self.Y
            linear = _inner(self.Y, HY)
        if last:
            return Sums(pairwise, math.nan, linear)
        cost = self._cost(prototypes)
        if self._hat is not None:
            cost -= self._by_labels
        whole = cost if self._hat is None else cost - HY
        if self._equal:
            hold = hold_weight(lam, 0.0)
            logits = (-whole + lam * (self._s + WY) + hold * self._log_Y) / (1 + hold)
            self._next = self._assigned(logits, hold)
        else:
            self._next = y_step(self._log_Y, whole, self._s + WY, lam, balance)
        log_Y, Y = self._next
        return Sums(pairwise, _inner(Y, log_Y + cost - lam * self._s), linear)

    def accept(self) -> None:
        """Make the assignments of the last step the current ones."""
        self._log_Y, self.Y = self._next
        self.share: Floats = self.Y.mean(axis=0, dtype=np.float64)
        self.class_features: Floats = self.Y.T @ self._query


def _inner(A: Floats, B: Floats) -> float:
    """``sum_qc A_qc B_qc``, over rows in float64."""
    return float(np.einsum("nc,nc->n", A, B).sum(dtype=np.float64))


def descend(
    rounds: Rounds,
    prior: Prior,
    constants: DefaultConstants,
    n: int,
    tau: float,
    dtype: np.dtype[Any],
    *,
    clues: Clues = NO_CLUES,
    tol: float = TOLERANCE,
    progress: Callable[[int, int], object] | None = None,
) -> Solution:
    """M and Y steps in turn, until F no longer changes.

    Parameters
    ----------
    rounds : Rounds
        The assignments of the ``n > 0`` queries and their Y step.
    prior : Prior
    constants : DefaultConstants
    n : int
    tau : float
    dtype : dtype
        Of the prototypes.
    clues : Clues
        Their weight, which the distances have less, and the shares that are known.
    tol : float
    progress : callable, optional
        Called with the number of rounds done and their maximum.

    Returns
    -------
    Solution
        Without assignments: the rounds have them.
    """
    values: list[float] = []
    distance, u = (1 - clues.weight) * tau, clues.shares
    prototypes = prior.means
    smooth = math.nan
    converged = False
    done = 0
    # A round's F needs W Y at its new Y, which the next pass forms anyway: one pass more than rounds.
    while True:
        lam = constants.start_lam if done < constants.start_rounds else constants.lam
        candidates = m_step(prior, rounds.class_features, n * rounds.share).astype(dtype)
        last = done == constants.max_rounds
        sums = rounds.step(candidates, lam, Balance.at(rounds.share, constants, u), last=last)
        if done > constants.start_rounds:
            values.append(objective(smooth, sums, prototypes, rounds.share, n, distance, prior, constants, u))
            converged = len(values) > 1 and abs(values[-1] - values[-2]) < tol * abs(values[-2])
            if converged or last:
                break
        rounds.accept()
        prototypes, smooth = candidates, sums.smooth
        done += 1
        if progress is not None:
            progress(done, constants.max_rounds)
    bias = (-Balance.at(rounds.share, constants, u).slopes).astype(dtype)
    return Solution(
        None, prototypes, np.array(values), converged, constants.lam,
        tau=tau, bias=bias, constants=constants, prior=prior,
    )  # fmt: skip
