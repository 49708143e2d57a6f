"""The temperature of the unary terms, chosen without labels or scale."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from scipy.optimize import brentq

from laplacianshot.inference.recipes import MIN_CONFIDENCE
from laplacianshot.runtime.types import Floats

# Relative width at which the search for the temperature stops, and the maximum number of doublings it starts with.
_TAU_TOLERANCE = 1e-8
_TAU_DOUBLINGS = 60


def mean_squared_distance(X: Floats) -> float:
    """Mean of ``|x_q - x_p|^2`` over pairs of different rows of (n, D), 0 for fewer than two rows.

    ``= 2 / (n - 1) sum_q |x_q - mean|^2``
    """
    if len(X) < 2:
        return 0.0
    gaps = X - X.mean(axis=0, dtype=np.float64).astype(X.dtype)
    return float(2 / (len(X) - 1) * np.einsum("nd,nd->n", gaps, gaps).sum(dtype=np.float64))


def choose_tau(a: Floats, spread: float, pair_spread: float) -> float:
    """Temperature of the unary terms.

    ``tau = max(pair_spread / spread, tau_conf)``, where at ``tau_conf`` the mean confidence in the nearest prototype is
    ``mean_q max_c softmax(-tau a_q) = 1/C + 0.6 (1 - 1/C)``. Where all rows are equal any temperature will do: 1.

    Parameters
    ----------
    a : array of shape (N, C)
        Squared distances of the queries to the first prototypes.
    spread : float
        Mean squared distance of two rows (:func:`mean_squared_distance`).
    pair_spread : float
        Minimum of tau times the spread.
    """
    held, kind = [a - a.min(axis=1, keepdims=True) if a.size else a], a.dtype.type

    def confidence(tau: float) -> float:
        return float((1 / np.exp(held[0] * -kind(tau)).sum(axis=1)).mean(dtype=np.float64))

    tau = find_tau(confidence, a, spread, pair_spread)
    # The root finder keeps its function in a cycle, and with it all that the function holds.
    held.clear()
    return tau


def find_tau(confidence: Callable[[float], float], a: Floats, spread: float, pair_spread: float) -> float:
    """The temperature of :func:`choose_tau`, given how the mean confidence depends on it."""
    if spread <= 0:
        return 1.0
    low = pair_spread / spread
    n, n_classes = a.shape
    if n == 0 or n_classes < 2:
        return low
    target = 1 / n_classes + MIN_CONFIDENCE * (1 - 1 / n_classes)
    if confidence(low) >= target:
        return low
    high = 2 * low
    for _ in range(_TAU_DOUBLINGS):
        if confidence(high) >= target:
            break
        low, high = high, 2 * high
    else:
        # Queries as near to one prototype as to another never become sure.
        return pair_spread / spread
    rtol = max(_TAU_TOLERANCE, 10 * float(np.finfo(a.dtype).eps))
    return float(brentq(lambda tau: confidence(tau) - target, low, high, rtol=rtol, xtol=rtol * low))


def divergence(share: Floats, u: Floats | None = None) -> float:
    """``KL(p|u) = sum_c p_c log(p_c / u_c)`` of class shares (C,), with ``0 log 0 = 0``; None: ``u_c = 1/C``."""
    present = share > 0
    p = share[present]
    return max(0.0, float(p @ np.log(p * len(share) if u is None else p / u[present])))
