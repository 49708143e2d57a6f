"""Each formula of the default recipe once, compiled; every solver is made of these.

Letters as in :mod:`laplacianshot.inference.joint`: shares ``p = mean_q y_q`` (C,), uniform u, unary terms ``a_q``,
temperature tau, weight of the graph lam, balance gamma and delta. The Y step of a query q, with ``b_q = (W Y)_q``, is::

    y_q ~ exp{ [ lam b_q - cost_q - d + h log y_q ] / (1 + h) }
    g = gamma exp(-K / delta),    d_c = g log p_c + eta log((p_c + s)/p_c),    h = g + max(0, (lam/2 - 1 - g)/2)

Arrays are float32 or float64; what is added up over queries is float64.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from laplacianshot.runtime.compilation import inlined_kernel, kernel
from laplacianshot.runtime.kernel_parts import exp_nonpositive, largest
from laplacianshot.runtime.types import Floats

# The smallest normal float64: log p stays finite where a share has vanished.
TINY = 2.2250738585072014e-308
# Logarithm of the smallest entry of an assignment, relative to its largest: in float32 e^-70 (4e-31), as smaller ones
# would make denormal products, which are slow; in float64 the smallest normal number.
_DEEPEST_SINGLE, _DEEPEST_DOUBLE = -70.0, -708.0
# Relative width at which the search for the temperature stops, and the number of doublings it starts with at most.
_TAU_TOLERANCE = 1.2e-6
_MAX_DOUBLINGS = 60
_MAX_HALVINGS = 100


@kernel
def divergence(p: Floats) -> float:
    """``KL(p|u) = sum_c p_c log(C p_c)`` of shares (C,), with ``0 log 0 = 0``."""
    total = 0.0
    for c in range(len(p)):
        if p[c] > 0:
            total += p[c] * math.log(p[c] * len(p))
    return max(0.0, total)


@kernel
def balance(p: Floats, gamma: float, delta: float) -> float:
    """``g = gamma exp(-K / delta)`` with ``K = KL(p|u)``."""
    return gamma * math.exp(-divergence(p) / delta)


@kernel
def balance_cost(p: Floats, gamma: float, delta: float, eta: float, small: float) -> float:
    """``gamma delta (1 - exp(-K/delta)) + eta sum_c [(p_c + s) log(p_c + s) - p_c log p_c - s log s]``.

    The first part is ``gamma K`` for infinite delta.
    """
    kl = divergence(p)
    cost = gamma * kl if math.isinf(delta) else -gamma * delta * math.expm1(-kl / delta)
    if eta > 0:
        for c in range(len(p)):
            above = p[c] + small
            cost += eta * (above * math.log(above) - p[c] * math.log(max(p[c], TINY)) - small * math.log(small))
    return cost


@kernel
def hold_weight(lam: float, g: float) -> float:
    """``h = g + max(0, (lam/2 - 1 - g)/2)``: with it the Y step never raises F."""
    return g + max(0.0, (lam / 2 - 1 - g) / 2)


@kernel
def share_slope(p: float, g: float, eta: float, small: float) -> float:
    """``d_c = g log p_c + eta log((p_c + s)/p_c)``."""
    slope = g * math.log(max(p, TINY))
    return slope + eta * (math.log(p + small) - math.log(max(p, TINY))) if eta > 0 else slope


@kernel
def step_logit(lam_b: Any, cost: Any, slope: Any, hold: Any, log_y: Any, scale: Any) -> Any:
    """One logit of the Y step; ``cost`` up to what depends on q alone, ``scale = 1 / (1 + h)``."""
    return scale * (lam_b - cost - slope + hold * log_y)


@inlined_kernel
def y_row(logits: Floats, cost: Floats, y: Floats) -> Any:
    """``y <- softmax(logits)`` and ``logits <- log y``, (C,): gives ``sum y.(log y + cost)`` and the largest entry."""
    top = largest(logits)
    deepest = y.dtype.type(_DEEPEST_SINGLE if y.itemsize == 4 else _DEEPEST_DOUBLE)
    total = y.dtype.type(0)
    for c in range(len(logits)):
        # Logarithm and entry are cut together: the next step starts from the entry that is stored.
        logits[c] = max(logits[c] - top, deepest)
        value = exp_nonpositive(logits[c])
        y[c] = value
        total += value
    log_total = np.log(total)
    inverse = y.dtype.type(1) / total
    inner = y.dtype.type(0)
    for c in range(len(logits)):
        y[c] *= inverse
        logits[c] -= log_total
        inner += y[c] * (logits[c] + cost[c])
    return inner, inverse


@kernel
def fill_gaps(unary: Floats, gaps: Floats) -> None:
    """``a_q - min_c a_q``, both (n, C); they may be one array."""
    n_classes = unary.shape[1]
    for q in range(len(unary)):
        least = unary[q, 0]
        for c in range(1, n_classes):
            least = min(least, unary[q, c])
        for c in range(n_classes):
            gaps[q, c] = unary[q, c] - least


@kernel
def confidence_sum(gaps: Floats, tau: float, scratch: Floats) -> float:
    """``sum_q max_c softmax(-tau a_q)`` from :func:`fill_gaps` (n, C), a tile of queries at a time in scratch."""
    n, n_classes = gaps.shape
    slope = gaps.dtype.type(-tau)
    one: Any = gaps.dtype.type(1)
    each = len(scratch)
    total: Any = 0.0
    for first in range(0, n, each):
        count = min(each, n - first)
        # All entries in one loop: rows of few classes would not fill a vector.
        flat = gaps[first : first + count].ravel()
        values = scratch.ravel()
        for i in range(len(flat)):
            values[i] = exp_nonpositive(slope * flat[i])
        for q in range(count):
            partition: Any = gaps.dtype.type(0)
            for c in range(n_classes):
                partition += scratch[q, c]
            total += one / partition
    return float(total)


@kernel
def choose_tau(unary: Floats, spread: float, pair_spread: float, min_confidence: float, scratch: Floats) -> float:
    """The temperature of :func:`laplacianshot.inference.temperature.choose_tau` for one small task.

    unary (n, C); scratch (2, n, C) is overwritten.
    """
    if spread <= 0:
        return 1.0
    low = pair_spread / spread
    n, n_classes = unary.shape
    if n == 0 or n_classes < 2:
        return low
    target = n * (1 / n_classes + min_confidence * (1 - 1 / n_classes))
    gaps, values = scratch[0], scratch[1]
    fill_gaps(unary, gaps)
    below = confidence_sum(gaps, low, values) - target
    if below >= 0:
        return low
    first = low
    high = 2 * low
    above = confidence_sum(gaps, high, values) - target
    doublings = 0
    while above < 0:
        doublings += 1
        if doublings >= _MAX_DOUBLINGS:
            # Queries as near to one prototype as to another never become sure.
            return first
        low, below = high, above
        high = 2 * high
        above = confidence_sum(gaps, high, values) - target
    # False position with Illinois' halving: the end that stays behind counts half.
    side = 0
    tau = high
    for _ in range(_MAX_HALVINGS):
        last = tau
        tau = (low * above - high * below) / (above - below)
        if abs(tau - last) <= 0.1 * _TAU_TOLERANCE * tau or high - low <= _TAU_TOLERANCE * low:
            break
        value = confidence_sum(gaps, tau, values) - target
        if value == 0:
            break
        if value > 0:
            high, above = tau, value
            if side == 1:
                below /= 2
            side = 1
        else:
            low, below = tau, value
            if side == -1:
                above /= 2
            side = -1
    return tau
