"""The default recipe: prototypes, assignments and graph solved jointly, with constants that need no tuning.

For queries Q (N rows), support S with labels clamped to ``Y_s``, prototypes M, origin o, normalized affinity W over all
rows, uniform u and class shares ``p = mean_q y_q``, minimize::

    F(Y, M) = sum y log y
            + tau [ sum_qc y_qc |x_q - m_c|^2 + beta sum_s |x_s - m_ys|^2 + kappa sum_c |m_c - o|^2 ]
            - lam [ e sum_q y_q.(W_qs Y_s) + 1/2 tr(Y^T W_qq Y) ]
            + gamma N delta (1 - exp(-KL(p|u) / delta))

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
from scipy.special import log_softmax

from laplacianshot.inference.prototypes import class_sums, squared_distances
from laplacianshot.inference.recipes import TOLERANCE, DefaultConstants
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
    tol: float = TOLERANCE,
) -> Solution:
    """Minimize F over assignments and prototypes, in float64.

    From ``Y = softmax(-tau a)`` at the prototypes of the support alone, M and Y steps in turn.

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
    tol : float
        Stop when F changes by less than this, relatively.

    Returns
    -------
    Solution
    """
    dtype = query.dtype
    n_support, n = len(support), len(query)
    # F does not see a common shift of all rows, and small numbers cancel less.
    shift = query.mean(axis=0, dtype=np.float64) if n else np.zeros(len(origin))
    S, Q, W = support - shift, query - shift, affinity.astype(np.float64)
    prior = Prior.of_support(S, labels, origin - shift, n_classes, constants)
    a = squared_distances(Q, prior.means)
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
    Y_s = np.eye(n_classes)[labels]
    s = constants.e * (W[n_support:, :n_support] @ Y_s)
    rounds = PlainRounds(Q, W[n_support:, n_support:], s, tau, log_softmax(-tau * a, axis=1))
    solution = descend(rounds, prior, constants, n, tau, np.dtype(np.float64), tol=tol)
    return replace(
        solution,
        assignments=rounds.Y.astype(dtype),
        prototypes=(solution.prototypes + shift).astype(dtype),
        bias=solution.bias.astype(dtype),
        prior=prior.moved(shift),
    )


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


def y_step(log_Y: Floats, a: Floats, b: Floats, p: Floats, tau: float, lam: float, g: float) -> Floats:
    """Logarithms of the assignments (N, C) that minimize a bound of F that is tight at Y.

    ``y_q ~ exp{ [ -tau a_q + lam b_q + (g + r) log y_q - g log p ] / (1 + g + r) }`` with ``a_qc = |x_q - m_c|^2``,
    ``b = e W_qs Y_s + W_qq Y`` and the weights g and r of :func:`balance_weight` and :func:`proximal_weight`.
    """
    r = proximal_weight(lam, g)
    logits = (-tau * a + lam * b + (g + r) * log_Y - g * log_share(p)) / (1 + g + r)
    logs: Floats = log_softmax(logits, axis=1)
    return logs


def balance_weight(p: Floats, constants: DefaultConstants) -> float:
    """``g = gamma exp(-KL(p|u) / delta)``, the weight of the balance of the class shares at p (C,)."""
    return constants.gamma * math.exp(-divergence(p) / constants.delta)


def proximal_weight(lam: float, g: float) -> float:
    """``r = max(0, (lam/2 - 1 - g) / 2)``: how much a step holds on to the assignments that it starts from.

    W has eigenvalues >= -1 and ``KL(y'|y) >= |y' - y|^2``, so F falls by at least ``(1 + g + 2r - lam/2) |Y' - Y|^2``.
    """
    return max(0.0, (lam / 2 - 1 - g) / 2)


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

    ``smooth = sum_q y_q.(log y_q + tau a_q - lam e (W_qs Y_s)_q)`` and ``pairwise = tr(Y^T W_qq Y)``. The balance
    ``gamma N delta (1 - exp(-KL(p|u) / delta))`` is ``gamma N KL(p|u)`` in the limit of infinite delta.
    """
    kl, delta = divergence(p), constants.delta
    balance = constants.gamma * n * (kl if math.isinf(delta) else -delta * math.expm1(-kl / delta))
    return smooth - constants.lam / 2 * pairwise + tau * prior.cost(prototypes) + balance


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
    log_Y : array of shape (N, C)
        Logarithms of the first assignments.
    """

    def __init__(self, query: Floats, W: sp.csr_array, s: Floats, tau: float, log_Y: Floats) -> None:
        self._query, self._W, self._s, self._tau = query, W, s, tau
        self._squares = np.einsum("nd,nd->n", query, query)[:, None]
        self._next = log_Y, np.exp(log_Y)
        self.accept()

    def step(self, prototypes: Floats, lam: float, g: float, *, last: bool = False) -> Sums:
        """The Y step from the current assignments at these prototypes; :meth:`accept` makes its result current."""
        WY = self._W @ self.Y
        pairwise = float((self.Y * WY).sum())
        if last:
            return Sums(pairwise, math.nan)
        a = self._squares + np.einsum("cd,cd->c", prototypes, prototypes) - 2 * (self._query @ prototypes.T)
        log_Y = y_step(self._log_Y, a, self._s + WY, self.share, self._tau, lam, g)
        self._next = log_Y, np.exp(log_Y)
        smooth = float((self._next[1] * (log_Y + self._tau * a - lam * self._s)).sum())
        return Sums(pairwise, smooth)

    def accept(self) -> None:
        """Make the assignments of the last step the current ones."""
        self._log_Y, self.Y = self._next
        self.share: Floats = self.Y.mean(axis=0)
        self.class_features: Floats = self.Y.T @ self._query


def descend(
    rounds: Rounds,
    prior: Prior,
    constants: DefaultConstants,
    n: int,
    tau: float,
    dtype: np.dtype[Any],
    *,
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
    tol : float
    progress : callable, optional
        Called with the number of rounds done and their maximum.

    Returns
    -------
    Solution
        Without assignments: the rounds have them.
    """
    values: list[float] = []
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
            values.append(objective(smooth, sums.pairwise, prototypes, rounds.share, n, tau, prior, constants))
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
