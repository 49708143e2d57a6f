"""Rounds of the default recipe: the M step, the Y step and the objective, wherever the assignments are kept.

What is minimized is F of :mod:`laplacianshot.inference.joint`. Assignments are in memory there, in blocks or sparse in
:mod:`laplacianshot.engine`: each kind brings its own Y step, and all descend in the same way.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Protocol

import numpy as np

from laplacianshot.inference.prototypes import class_sums
from laplacianshot.inference.recipes import TOLERANCE, DefaultConstants
from laplacianshot.inference.temperature import divergence
from laplacianshot.runtime.row_kernels import posterior_rows, prior_cost
from laplacianshot.runtime.types import Floats, Ints


class Rounds(Protocol):
    """The assignments of N queries, wherever they are kept, and one Y step after another.

    Attributes
    ----------
    share : array of shape (C,)
        ``p = mean_q y_q`` of the current assignments.
    class_features : array of shape (C, D)
        ``Y^T Q`` of the current assignments.
    """

    share: Floats
    class_features: Floats

    def step(self, prototypes: Floats, lam: float, pull: float, *, last: bool = False) -> Sums:
        """The Y step from the current assignments at these prototypes; :meth:`accept` makes its result current.

        Of the ``last`` step only the first of the sums is asked for: the step itself may be left out.
        """
        ...

    def accept(self) -> None:
        """Make the assignments of the last step the current ones."""
        ...


@dataclass(frozen=True)
class Sums:
    """What F needs of one pass: ``sum y.(W y)`` before the step, and ``sum y.(log y + tau a - lam s)`` after it."""

    pairwise: float
    smooth: float


@dataclass(frozen=True, repr=False)
class Descent:
    """Where the rounds ended; fields as in :class:`~laplacianshot.inference.joint.JointResult`."""

    prototypes: Floats
    objective: Floats
    converged: bool
    class_bias: Floats


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
) -> Descent:
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
        Called with rounds done and the most that there may be.

    Returns
    -------
    Descent
    """
    objective: list[float] = []
    smooth = math.nan
    converged = False
    done = 0
    # A round's F needs W Y at its new Y, which the next pass forms anyway: one pass more than rounds.
    while True:
        lam = constants.start_lam if done < constants.start_rounds else constants.lam
        candidates = prior.posterior_means(rounds.class_features, n * rounds.share, dtype)
        last = done == constants.max_rounds
        sums = rounds.step(candidates, lam, balance_pull(rounds.share, constants), last=last)
        if done > constants.start_rounds:
            objective.append(smooth - constants.lam / 2 * sums.pairwise)
            converged = len(objective) > 1 and abs(objective[-1] - objective[-2]) < tol * abs(objective[-2])
            if converged or last:
                break
        rounds.accept()
        prototypes = candidates
        done += 1
        smooth = sums.smooth + tau * prior.cost(prototypes) + _balance_cost(rounds.share, n, constants)
        if progress is not None:
            progress(done, constants.max_rounds)
    bias = (-balance_pull(rounds.share, constants) * log_share(rounds.share)).astype(dtype)
    return Descent(prototypes, np.array(objective), converged, bias)


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
        beta, kappa = constants.support_weight, constants.origin_weight
        mass = beta * np.bincount(labels, minlength=n_classes) + kappa
        means = (beta * class_sums(support, labels, n_classes) + kappa * origin) / mass[:, None]
        least = beta * float(np.square(support - means[labels]).sum()) + kappa * float(np.square(means - origin).sum())
        return cls(means, mass, least)

    def posterior_means(self, sums: Floats, counts: Floats, dtype: np.dtype[Any]) -> Floats:
        """The M step: prototypes (C, D) from the queries' sums (C, D) and counts (C,) by class."""
        prototypes = np.empty(sums.shape, dtype)
        posterior_rows(self.sums, sums, self.mass + counts, prototypes)
        return prototypes

    @cached_property
    def sums(self) -> Floats:
        """``mass_c means_c``, (C, D)."""
        return self.mass[:, None] * self.means

    def cost(self, prototypes: Floats) -> float:
        """Their part of F, over tau."""
        return self.least_cost + prior_cost(prototypes, self.means, self.mass)


def log_share(share: Floats) -> Floats:
    """``log p``, finite where a share has vanished."""
    logs: Floats = np.log(np.maximum(share, np.finfo(np.float64).tiny))
    return logs


def balance_pull(share: Floats, constants: DefaultConstants) -> float:
    """``g = gamma exp(-KL(p|u) / delta)``."""
    return constants.balance * math.exp(-divergence(share) / constants.fade)


def _balance_cost(share: Floats, n: int, constants: DefaultConstants) -> float:
    """``gamma N delta (1 - exp(-KL(p|u) / delta))``, and its limit ``gamma N KL(p|u)`` for infinite delta."""
    found = divergence(share)
    if math.isinf(constants.fade):
        return constants.balance * n * found
    return -constants.balance * n * constants.fade * math.expm1(-found / constants.fade)
