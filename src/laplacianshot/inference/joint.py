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
    """Minimize F over assignments and prototypes, in the dtype of the queries; sums over queries are float64.

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
    rounds = PlainRounds(Q, W[n_support:, n_support:], s, tau, -dtype.type(tau) * a)
    solution = descend(rounds, prior, constants, n, tau, dtype, tol=tol)
    return replace(solution, assignments=rounds.Y, prototypes=solution.prototypes + shift, prior=prior.moved(shift))


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


def y_step(log_Y: Floats, a: Floats, b: Floats, p: Floats, tau: float, lam: float, g: float) -> tuple[Floats, Floats]:
    """Assignments (N, C) that minimize a bound of F that is tight at Y: their logarithms, and themselves.

    ``y_q ~ exp{ [ -tau a_q + lam b_q + (g + r) log y_q - g log p ] / (1 + g + r) }`` with ``a_qc = |x_q - m_c|^2``,
    ``b = e W_qs Y_s + W_qq Y`` and the weights g and r of :func:`balance_weight` and :func:`proximal_weight`.
    """
    r = proximal_weight(lam, g)
    # Numbers of Python keep the dtype of the arrays.
    return softmax((-tau * a + lam * b + (g + r) * log_Y - (g * log_share(p)).astype(a.dtype)) / (1 + g + r))


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
    """``g = gamma exp(-KL(p|u) / delta)``, the weight of the balance of the class shares at p (C,)."""
    return constants.gamma * math.exp(-divergence(p) / constants.delta)


def proximal_weight(lam: float, g: float) -> float:
    """``r = max(0, (lam/2 - 1 - g) / 2)``: how much a step holds on to the assignments that it starts from.

    W has eigenvalues >= -1 and ``KL(y'|y) >= |y' - y|^2``, so F falls by at least ``(1 + g + 2r - lam/2) |Y' - Y|^2``.
    For eigenvalues >= -delta it is the weight at ``lam delta``.
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
    logits : array of shape (N, C)
        Of the first assignments.
    """

    def __init__(self, query: Floats, W: sp.csr_array, s: Floats, tau: float, logits: Floats) -> None:
        self._query, self._W, self._s, self._tau = query, W, s, tau
        self._squares = np.einsum("nd,nd->n", query, query)[:, None]
        self._next = softmax(logits)
        self.accept()

    def step(self, prototypes: Floats, lam: float, g: float, *, last: bool = False) -> Sums:
        """The Y step from the current assignments at these prototypes; :meth:`accept` makes its result current."""
        WY = self._W @ self.Y
        pairwise = _inner(self.Y, WY)
        if last:
            return Sums(pairwise, math.nan)
        a = self._squares + np.einsum("cd,cd->c", prototypes, prototypes) - 2 * (self._query @ prototypes.T)
        self._next = log_Y, Y = y_step(self._log_Y, a, self._s + WY, self.share, self._tau, lam, g)
        return Sums(pairwise, _inner(Y, log_Y + self._tau * a - lam * self._s))

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
