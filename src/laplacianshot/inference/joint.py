"""The default recipe: prototypes, assignments and graph solved jointly, with constants that need no tuning.

For queries Q (N rows), support S with labels clamped to ``Y_s``, prototypes M, origin o, normalized affinity W over all
rows, uniform u and class shares ``p = mean_q y_q``, minimize::

    F(Y, M) = sum y log y
            + tau [ sum_qc y_qc |x_q - m_c|^2 + beta sum_s |x_s - m_ys|^2 + kappa sum_c |m_c - o|^2 ]
            - sum_qc y_qc (v_c.x_q + h_c + u log t_qc)
            - lam [ e sum_q y_q.(W_qs Y_s) + 1/2 tr(Y^T W_qq Y) ]
            + N gamma delta (1 - exp(-K / delta)) - N eta int_0^K 1 - exp(-(t/s)^2) dt,    K = KL(p|u), s = 0.8

The third line is what else is known of the classes (:class:`Clues`). The last one draws the shares to equal ones as
long as they are nearly equal and, where eta > 0, away from them once they are far from equal: then some classes may
have no queries at all.

Each round minimizes F over M (:func:`m_step`), then an upper bound of F over Y that is tight at the current Y
(:func:`y_step`): F never rises.

:func:`joint_optimize` runs the formulas below as they are written. Faster ways to take the same steps, for large tasks,
are :class:`Rounds` of :mod:`laplacianshot.engine`; all of them go through :func:`descend`.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, Protocol

import numpy as np
import scipy.sparse as sp

from laplacianshot.inference.prototypes import class_sums, squared_distances
from laplacianshot.inference.recipes import ABSENT_SCALE, MIN_REACHED, TOLERANCE, DefaultConstants
from laplacianshot.inference.solution import Solution
from laplacianshot.inference.temperature import choose_tau, divergence, mean_squared_distance
from laplacianshot.runtime.types import Floats, Ints


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
        Their classes in ``0..C-1``, each at least once.
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
    prior = Prior.of_support(S, labels, origin - shift, n_classes, constants)
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
            tau=tau, bias=nothing, constants=constants, prior=prior,
        )  # fmt: skip
    Y_s = np.eye(n_classes, dtype=dtype)[labels]
    s = dtype.type(constants.e) * (W[n_support:, :n_support] @ Y_s)
    rounds = PlainRounds(Q, W[n_support:, n_support:], s, tau, clues.moved(-shift), prior.means, reached)
    solution = descend(rounds, prior, constants, n, tau, dtype, weight=clues.weight, tol=tol)
    return replace(
        solution,
        assignments=rounds.Y,
        prototypes=solution.prototypes + shift,
        prior=prior.moved(shift),
        clues=clues,
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
    """

    weight: float = 0.0
    slopes: Floats | None = None
    bias: Floats | None = None
    start: Floats | None = None
    along: float = 0.0
    local: bool = False

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

    def graph_logits(self, reached: Floats | None) -> Floats | None:
        """What labels that reached rows along the graph add to logits, ``u log t`` (N, C); None if nothing."""
        if reached is None or self.along == 0:
            return None
        logs: Floats = np.log(np.maximum(reached, MIN_REACHED))
        return logs * logs.dtype.type(self.along)

    def moved(self, offset: Floats) -> Clues:
        """The same after all rows have moved by ``offset`` (D,)."""
        start = None if self.start is None else self.start + offset
        if self.slopes is None:
            return replace(self, start=start)
        bias = -(self.slopes @ offset) + (0.0 if self.bias is None else self.bias)
        return replace(self, bias=bias, start=start)


NO_CLUES = Clues()


@dataclass(frozen=True)
class Prior:
    """What support and origin say of the prototypes.

    ``beta sum_s |x_s - m_ys|^2 + kappa sum_c |m_c - o|^2`` is, by completing the square,
    ``least_cost + sum_c mass_c |m_c - means_c|^2`` with ``mass_c = beta n_c + kappa``.
    """

    means: Floats
    mass: Floats
    least_cost: float

    @classmethod
    def of_support(
        cls, support: Floats, labels: Ints, origin: Floats, n_classes: int, constants: DefaultConstants
    ) -> Prior:
        """From transformed labeled rows (n_s, D), their classes (n_s,) and the origin (D,)."""
        beta, kappa = constants.beta, constants.kappa
        mass = beta * np.bincount(labels, minlength=n_classes) + kappa
        means = (beta * class_sums(support, labels, n_classes) + kappa * origin) / mass[:, None]
        least = beta * float(np.square(support - means[labels]).sum()) + kappa * float(np.square(means - origin).sum())
        return cls(means, mass, least)

    def moved(self, offset: Floats) -> Prior:
        """The same after all rows have moved by ``offset`` (D,)."""
        return Prior(self.means + offset, self.mass, self.least_cost)

    @cached_property
    def sums(self) -> Floats:
        """``mass_c means_c = beta sum_{s in c} x_s + kappa o``, (C, D)."""
        return self.mass[:, None] * self.means

    def cost(self, prototypes: Floats) -> float:
        """``beta sum_s |x_s - m_ys|^2 + kappa sum_c |m_c - o|^2`` at these prototypes (C, D)."""
        gaps = prototypes - self.means
        return self.least_cost + float(self.mass @ np.einsum("cd,cd->c", gaps, gaps))


def m_step(prior: Prior, class_features: Floats, counts: Floats) -> Floats:
    """Prototypes that minimize F at given assignments, from ``Y^T Q`` (C, D) and ``sum_q y_q`` (C,).

    ``m_c = (beta sum_{s in c} x_s + sum_q y_qc x_q + kappa o) / (beta n_c + sum_q y_qc + kappa)``
    """
    prototypes: Floats = (prior.sums + class_features) / (prior.mass + counts)[:, None]
    return prototypes


def y_step(log_Y: Floats, cost: Floats, b: Floats, p: Floats, lam: float, g: float) -> tuple[Floats, Floats]:
    """Assignments (N, C) that minimize a bound of F that is tight at Y: their logarithms, and themselves.

    ``y_q ~ exp{ [ -cost_q + lam b_q + h log y_q - g log p ] / (1 + h) }`` with ``b = e W_qs Y_s + W_qq Y``, g of
    :func:`balance_weight` and h of :func:`hold_weight`. The cost is ``tau |x_q - m_c|^2``, and what is known besides.
    """
    h = hold_weight(lam, g)
    # Numbers of Python keep the dtype of the arrays.
    return softmax((-cost + lam * b + h * log_Y - (g * log_share(p)).astype(cost.dtype)) / (1 + h))


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


def balance_weight(p: Floats, constants: DefaultConstants) -> float:
    """``g = gamma exp(-K / delta) - eta (1 - exp(-(K/s)^2))``, the slope of the balance at ``K = KL(p|u)``, p (C,)."""
    kl = divergence(p)
    pull = constants.gamma * math.exp(-kl / constants.delta)
    return pull if constants.eta == 0 else pull + constants.eta * math.expm1(-((kl / ABSENT_SCALE) ** 2))


def balance_cost(p: Floats, constants: DefaultConstants) -> float:
    """The integral of g up to ``K = KL(p|u)``: ``gamma delta (1 - exp(-K/delta)) - eta (K - s sqrt(pi)/2 erf(K/s))``.

    Its first part is ``gamma K`` in the limit of infinite delta.
    """
    kl, delta, s = divergence(p), constants.delta, ABSENT_SCALE
    pull = constants.gamma * (kl if math.isinf(delta) else -delta * math.expm1(-kl / delta))
    return pull - constants.eta * (kl - s * math.sqrt(math.pi) / 2 * math.erf(kl / s))


def hold_weight(lam: float, g: float) -> float:
    """``h = max(g, 0) + r``, ``r = max(0, (lam/2 - 1 - max(g, 0)) / 2)``: how much a step holds on to where it starts.

    W has eigenvalues >= -1 and ``KL(y'|y) >= |y' - y|^2``, so F falls by at least ``(1 + g + 2r - lam/2) |Y' - Y|^2``.
    For eigenvalues >= -delta it is the weight at ``lam delta``.
    The balance is concave in K, so its tangent lies above it. Where g > 0, K itself lies below ``mean_q KL(y_q|y0_q)``
    plus what is linear in y; where g < 0, -K is concave in p, and its tangent lies above it.
    """
    g = max(g, 0.0)
    return g + max(0.0, (lam / 2 - 1 - g) / 2)


def log_share(p: Floats) -> Floats:
    """``log p``, finite where a share has vanished."""
    logs: Floats = np.log(np.maximum(p, np.finfo(np.float64).tiny))
    return logs


@dataclass(frozen=True)
class Sums:
    """Sums of one pass: ``pairwise = tr(Y^T W_qq Y)`` before the step, ``smooth`` of :func:`objective` after it."""

    pairwise: float
    smooth: float


def objective(
    smooth: float,
    pairwise: float,
    prototypes: Floats,
    p: Floats,
    n: int,
    tau: float,
    prior: Prior,
    constants: DefaultConstants,
) -> float:
    """F at assignments with shares p (C,) and prototypes (C, D), from two sums over the n queries.

    ``smooth = sum_q y_q.(log y_q + cost_q - lam e (W_qs Y_s)_q)`` and ``pairwise = tr(Y^T W_qq Y)``.
    """
    return smooth - constants.lam / 2 * pairwise + tau * prior.cost(prototypes) + n * balance_cost(p, constants)


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

    def step(self, prototypes: Floats, lam: float, g: float, *, last: bool = False) -> Sums:
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
    ) -> None:
        self._query, self._W, self._s, self._tau, self._clues = query, W, s, tau, clues
        self._squares = np.einsum("nd,nd->n", query, query)[:, None]
        self._known = clues.graph_logits(reached)
        if reached is None:
            self._next = softmax(-self._cost(prototypes if clues.start is None else clues.start))
        else:
            self._next = softmax(np.log(reached).astype(query.dtype))
        self.accept()

    def _cost(self, prototypes: Floats) -> Floats:
        """What a class costs each query, (N, C)."""
        dtype = self._query.dtype
        directions, offsets = self._clues.costs(prototypes.astype(dtype, copy=False), self._tau)
        tau = (1 - self._clues.weight) * self._tau
        cost: Floats = tau * self._squares + offsets.astype(dtype) - self._query @ directions.T
        return cost if self._known is None else cost - self._known.astype(dtype, copy=False)

    def step(self, prototypes: Floats, lam: float, g: float, *, last: bool = False) -> Sums:
        """The Y step from the current assignments at these prototypes; :meth:`accept` makes its result current."""
        WY = self._W @ self.Y
        pairwise = _inner(self.Y, WY)
        if last:
            return Sums(pairwise, math.nan)
        cost = self._cost(prototypes)
        self._next = log_Y, Y = y_step(self._log_Y, cost, self._s + WY, self.share, lam, g)
        return Sums(pairwise, _inner(Y, log_Y + cost - lam * self._s))

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
    weight: float = 0.0,
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
    weight : float
        That of the clues, which the distances have less.
    tol : float
    progress : callable, optional
        Called with the number of rounds done and their maximum.

    Returns
    -------
    Solution
        Without assignments: the rounds have them.
    """
    values: list[float] = []
    distance = (1 - weight) * tau
    prototypes = prior.means
    smooth = math.nan
    converged = False
    done = 0
    # A round's F needs W Y at its new Y, which the next pass forms anyway: one pass more than rounds.
    while True:
        lam = constants.start_lam if done < constants.start_rounds else constants.lam
        candidates = m_step(prior, rounds.class_features, n * rounds.share).astype(dtype)
        last = done == constants.max_rounds
        sums = rounds.step(candidates, lam, balance_weight(rounds.share, constants), last=last)
        if done > constants.start_rounds:
            values.append(objective(smooth, sums.pairwise, prototypes, rounds.share, n, distance, prior, constants))
            converged = len(values) > 1 and abs(values[-1] - values[-2]) < tol * abs(values[-2])
            if converged or last:
                break
        rounds.accept()
        prototypes, smooth = candidates, sums.smooth
        done += 1
        if progress is not None:
            progress(done, constants.max_rounds)
    bias = (-balance_weight(rounds.share, constants) * log_share(rounds.share)).astype(dtype)
    return Solution(
        None, prototypes, np.array(values), converged, constants.lam,
        tau=tau, bias=bias, constants=constants, prior=prior,
    )  # fmt: skip
