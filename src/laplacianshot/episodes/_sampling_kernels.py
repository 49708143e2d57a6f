"""Kernels that draw tasks: a counter-based generator, subsets without replacement, Dirichlet counts.

Each task has its own stream of random numbers (SplitMix64), started from a hash of the seed and the task's number and
kept in ``states`` (T,) between kernels. What a task holds thus depends on neither the other tasks nor their number.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray

from laplacianshot.runtime.compilation import kernel, ordered_kernel, part_kernel
from laplacianshot.runtime.kernel_parts import GOLDEN, mix64
from laplacianshot.runtime.types import Floats, Ints

# All are uint64: with a signed one numba would compute in float.
_U = np.uint64
_S11, _S32 = _U(11), _U(32)
_LOW = _U(0xFFFFFFFF)
_TWO32 = _U(1 << 32)


@kernel
def _next(states: NDArray[np.uint64], t: int) -> Any:
    """The next 64 random bits of stream t."""
    states[t] += GOLDEN
    return mix64(states[t])


@kernel
def _below(states: NDArray[np.uint64], t: int, n: int) -> Any:
    """A uniform integer of [0, n), ``n < 2^32``, by multiplication; the few draws that would be biased are repeated."""
    size = np.uint64(n)
    product = (_next(states, t) >> _S32) * size
    if (product & _LOW) < size:
        least = (_TWO32 - size) % size
        while (product & _LOW) < least:
            product = (_next(states, t) >> _S32) * size
    return np.int64(product >> _S32)


@ordered_kernel
def _uniform(states: NDArray[np.uint64], t: int) -> float:
    """A uniform number of (0, 1): the middles of 2^53 equal steps."""
    return (np.float64(np.int64(_next(states, t) >> _S11)) + 0.5) * 2.0**-53


@ordered_kernel
def _log_gamma_variate(states: NDArray[np.uint64], t: int, alpha: float) -> float:
    """Logarithm of a Gamma(alpha, 1) number (Marsaglia and Tsang, 2000); as such it cannot underflow at small alpha.

    For alpha < 1, ``Gamma(alpha) = Gamma(alpha + 1) U^(1/alpha)``.
    """
    boost = 0.0
    if alpha < 1:
        boost = math.log(_uniform(states, t)) / alpha
        alpha += 1
    d = alpha - 1 / 3
    c = 1 / math.sqrt(9 * d)
    while True:
        normal = math.sqrt(-2 * math.log(_uniform(states, t))) * math.cos(2 * math.pi * _uniform(states, t))
        root = 1 + c * normal
        if root <= 0:
            continue
        log_v = 3 * math.log(root)
        if math.log(_uniform(states, t)) < 0.5 * normal * normal + d - d * math.exp(log_v) + d * log_v:
            return math.log(d) + log_v + boost


@part_kernel
def _draw(states: NDArray[np.uint64], t: int, pool: Ints, first: int, end: int, count: int, swaps: Ints) -> None:
    """Bring ``count`` of ``pool[first:end]``, drawn without replacement, to its beginning in random order."""
    for i in range(count):
        at = first + i
        j = at + _below(states, t, end - at)
        pool[at], pool[j] = pool[j], pool[at]
        swaps[i] = j


@part_kernel
def _undo(pool: Ints, first: int, count: int, swaps: Ints) -> None:
    """Put back what :func:`_draw` moved, so that the next task starts from the same pool."""
    for i in range(count - 1, -1, -1):
        at, j = first + i, swaps[i]
        pool[at], pool[j] = pool[j], pool[at]


@kernel
def draw_classes(seed: Any, states: NDArray[np.uint64], n_classes: int, chosen: Ints) -> None:
    """Draw the classes ``chosen`` (T, m) of each task out of ``n_classes``, without replacement, in random order.

    The stream of a task starts here, from the seed (uint64) and the task's number.
    """
    m = chosen.shape[1]
    pool = np.arange(n_classes)
    swaps = np.empty(m, dtype=np.int64)
    key = mix64(seed + GOLDEN)
    for t in range(chosen.shape[0]):
        states[t] = mix64(mix64(np.uint64(t) + key) + GOLDEN)
        _draw(states, t, pool, 0, n_classes, m, swaps)
        for i in range(m):
            chosen[t, i] = pool[i]
        _undo(pool, 0, m, swaps)


@kernel
def draw_shots(states: NDArray[np.uint64], low: int, high: int, shots: Ints) -> None:
    """Draw each of ``shots`` (T, way) uniformly from low..high."""
    for t in range(shots.shape[0]):
        for c in range(shots.shape[1]):
            shots[t, c] = low + _below(states, t, high - low + 1)


@ordered_kernel
def _share_out(log_shares: Floats, caps: Ints, total: int, quotas: Floats, counts: Ints) -> None:
    """Split ``total <= sum caps`` in proportion to ``exp(log_shares)``, no count above its cap.

    Classes whose share exceeds their cap get the cap and the others share the rest; then largest remainders.
    """
    way = log_shares.shape[0]
    counts[:] = -1  # not yet at its cap
    rest = total
    full = True
    while full:
        full = False
        largest = -np.inf
        for c in range(way):
            if counts[c] < 0 and log_shares[c] > largest:
                largest = log_shares[c]
        mass = 0.0
        for c in range(way):
            if counts[c] < 0:
                quotas[c] = math.exp(log_shares[c] - largest)
                mass += quotas[c]
        scale = rest / mass if mass > 0 else 0.0
        for c in range(way):
            if counts[c] < 0:
                quotas[c] *= scale
                if quotas[c] >= caps[c]:
                    counts[c] = caps[c]
                    rest -= caps[c]
                    full = True
    for c in range(way):
        if counts[c] < 0:
            counts[c] = np.int64(quotas[c])
            quotas[c] -= counts[c]
            rest -= counts[c]
        else:
            quotas[c] = -1.0
    for _ in range(rest):
        best = 0
        for c in range(1, way):
            if quotas[c] > quotas[best]:
                best = c
        counts[best] += 1
        quotas[best] = -1.0


@ordered_kernel
def draw_query_counts(states: NDArray[np.uint64], alpha: float, total: int, caps: Ints, counts: Ints) -> None:
    """Queries of each class, ``counts`` (T, way): ``total`` shared out in proportions of Dirichlet(alpha).

    caps (T, way) are the rows that a class can give; where all have fewer than ``total``, they give all.
    """
    way = counts.shape[1]
    log_shares = np.empty(way)
    quotas = np.empty(way)
    for t in range(counts.shape[0]):
        for c in range(way):
            log_shares[c] = _log_gamma_variate(states, t, alpha)
        _share_out(log_shares, caps[t], min(total, caps[t].sum()), quotas, counts[t])


@ordered_kernel
def draw_present_counts(states: NDArray[np.uint64], present: int, total: int, caps: Ints, counts: Ints) -> None:
    """Queries of each class, ``counts`` (T, way): ``total`` shared out evenly among ``present`` classes of each task.

    The classes are drawn without replacement, the others get none. caps (T, way) are the rows that a class can give;
    where the drawn classes have fewer than ``total``, they give all.
    """
    way = counts.shape[1]
    pool, swaps = np.arange(way), np.empty(present, dtype=np.int64)
    log_shares, quotas, left = np.zeros(way), np.empty(way), np.empty(way, dtype=np.int64)
    for t in range(counts.shape[0]):
        _draw(states, t, pool, 0, way, present, swaps)
        left[:] = 0
        for i in range(present):
            left[pool[i]] = caps[t, pool[i]]
        _undo(pool, 0, present, swaps)
        _share_out(log_shares, left, min(total, left.sum()), quotas, counts[t])


@kernel
def draw_rows(
    states: NDArray[np.uint64],
    order: Ints,
    starts: Ints,
    chosen: Ints,
    shots: Ints,
    queries: Ints,
    offsets: Ints,
    n_support: Ints,
    rows: Ints,
    labels: Ints,
) -> None:
    """Draw the rows of each task: all support rows class by class, then all queries class by class.

    Rows of class c are ``order[starts[c]:starts[c + 1]]``. chosen and queries are (T, m), shots (T, way) with
    ``way <= m``: the classes after the first ``way`` are outside the task, their queries are labeled -1. Task t fills
    ``rows[offsets[t]:offsets[t + 1]]`` and the same part of ``labels``, support first.
    """
    way = shots.shape[1]
    pool = order.copy()
    swaps = np.empty(order.shape[0], dtype=np.int64)
    for t in range(chosen.shape[0]):
        support = offsets[t]
        query = support + n_support[t]
        for c in range(chosen.shape[1]):
            shot = shots[t, c] if c < way else 0
            label = c if c < way else -1
            first = starts[chosen[t, c]]
            end = starts[chosen[t, c] + 1]
            drawn = shot + queries[t, c]
            _draw(states, t, pool, first, end, drawn, swaps)
            for i in range(drawn):
                place = support + i if i < shot else query + i - shot
                rows[place] = pool[first + i]
                labels[place] = label
            support += shot
            query += queries[t, c]
            _undo(pool, first, drawn, swaps)
