"""Kernels of several rooms, and parts that kernels share: exponentials, heaps, sums of rows, random bits."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numba import types
from numba.extending import overload

from laplacianshot.runtime.compilation import kernel, ordered_kernel
from laplacianshot.runtime.types import Floats, Ints

# e^x = 2^k e^r with k the integer nearest to x / ln 2 and |r| <= ln 2 / 2: a polynomial and a shift of the exponent,
# which the compiler vectorizes where it cannot vectorize a call of libm. ln 2 is split in two, the first part ending in
# zeros, so that k ln 2 is taken away without rounding. Constants have the type of x: one float64 would widen all lanes.
_F = np.float32
_LOG2_E_32, _HALF_32, _MIN_32 = _F(1.4426950408889634), _F(0.5), _F(-87.0)
_LN2_HIGH_32, _LN2_LOW_32 = _F(0.693359375), _F(-2.12194440e-4)
_C32 = tuple(_F(1 / factorial) for factorial in (1, 1, 2, 6, 24, 120, 720, 5040))
_LOG2_E, _MIN = 1.4426950408889634, -708.0
_LN2_HIGH, _LN2_LOW = 6.93147180369123816490e-01, 1.90821492927058770002e-10

# Entries tested together: a loop without a branch that counts from zero, which the compiler vectorizes.
LANE = 64


@ordered_kernel
def _exp_single(x: Any) -> Any:
    """``e^x`` of a float32 ``x <= 0``, to float32 rounding."""
    x = max(x, _MIN_32)
    k = np.floor(x * _LOG2_E_32 + _HALF_32)
    r = (x - k * _LN2_HIGH_32) - k * _LN2_LOW_32
    p = _C32[7]
    p = p * r + _C32[6]
    p = p * r + _C32[5]
    p = p * r + _C32[4]
    p = p * r + _C32[3]
    p = p * r + _C32[2]
    p = p * r + _C32[1]
    p = p * r + _C32[0]
    return p * np.int32((np.int32(k) + np.int32(127)) << np.int32(23)).view(np.float32)


@ordered_kernel
def _exp_double(x: float) -> float:
    """``e^x`` of a float64 ``x <= 0``, to 1e-14."""
    x = max(x, _MIN)
    k = np.floor(x * _LOG2_E + 0.5)
    r = (x - k * _LN2_HIGH) - k * _LN2_LOW
    p = 1 / 39916800
    p = p * r + 1 / 3628800
    p = p * r + 1 / 362880
    p = p * r + 1 / 40320
    p = p * r + 1 / 5040
    p = p * r + 1 / 720
    p = p * r + 1 / 120
    p = p * r + 1 / 24
    p = p * r + 1 / 6
    p = p * r + 0.5
    p = p * r + 1.0
    p = p * r + 1.0
    return p * np.int64((np.int64(k) + 1023) << 52).view(np.float64)  # type: ignore[no-any-return]


def exp_nonpositive(x: float) -> float:
    """``e^x`` for ``x <= 0``, in the type of x."""
    return math.exp(x)


@overload(exp_nonpositive)
def _exp_of_type(x):  # type: ignore[no-untyped-def]  # numba compares this signature with the lambdas'
    return (lambda x: _exp_single(x)) if x == types.float32 else (lambda x: _exp_double(x))


@kernel
def largest(x: Floats) -> Any:
    """The largest entry, by four running maxima: a single one would wait for itself at every step."""
    m0 = m1 = m2 = m3 = x[0]
    whole = len(x) // 4
    for i in range(whole):
        m0 = max(m0, x[4 * i])
        m1 = max(m1, x[4 * i + 1])
        m2 = max(m2, x[4 * i + 2])
        m3 = max(m3, x[4 * i + 3])
    for c in range(4 * whole, len(x)):
        m0 = max(m0, x[c])
    return max(max(m0, m1), max(m2, m3))


@kernel
def gather_rows(assignments: Floats, neighbors: Ints, weights: Floats, field: Floats) -> None:
    """``field <- sum_e weights_e assignments[neighbors_e]``, four neighbors to each pass over the field."""
    field[:] = 0
    n = len(neighbors)
    whole = n - n % 4
    for e in range(0, whole, 4):
        w0, w1, w2, w3 = weights[e], weights[e + 1], weights[e + 2], weights[e + 3]
        y0, y1 = assignments[neighbors[e]], assignments[neighbors[e + 1]]
        y2, y3 = assignments[neighbors[e + 2]], assignments[neighbors[e + 3]]
        for c in range(len(field)):
            field[c] += (w0 * y0[c] + w1 * y1[c]) + (w2 * y2[c] + w3 * y3[c])
    for e in range(whole, n):
        w0 = weights[e]
        y0 = assignments[neighbors[e]]
        for c in range(len(field)):
            field[c] += w0 * y0[c]


@kernel
def sift(keys: Floats, ids: Ints, hole: int, key: float, index: int) -> None:
    """Put (key, index) in the place of entry ``hole`` (0: the root), below which keys and ids are a max-heap."""
    size = keys.shape[0]
    while True:
        child = 2 * hole + 1
        if child >= size:
            break
        if child + 1 < size and keys[child + 1] > keys[child]:
            child += 1
        if keys[child] <= key:
            break
        keys[hole] = keys[child]
        ids[hole] = ids[child]
        hole = child
    keys[hole] = key
    ids[hole] = index


@kernel
def form_products(x: Floats, points: Floats, ids: Ints, products: Floats) -> None:
    """``products_e <- x.y_e`` for the points with these ids, four at a time."""
    zero: Any = x.dtype.type(0)
    whole = len(ids) - len(ids) % 4
    for e in range(0, whole, 4):
        y0, y1, y2, y3 = points[ids[e]], points[ids[e + 1]], points[ids[e + 2]], points[ids[e + 3]]
        s0 = s1 = s2 = s3 = zero
        for d in range(len(x)):
            s0 += x[d] * y0[d]
            s1 += x[d] * y1[d]
            s2 += x[d] * y2[d]
            s3 += x[d] * y3[d]
        products[e], products[e + 1], products[e + 2], products[e + 3] = s0, s1, s2, s3
    for e in range(whole, len(ids)):
        y0 = points[ids[e]]
        s0 = zero
        for d in range(len(x)):
            s0 += x[d] * y0[d]
        products[e] = s0


# SplitMix64 (Steele, Lea and Flood, 2014): a stream of random bits is mix64 of a state that grows by GOLDEN. All are
# uint64: with a signed one numba would compute in float.
_U = np.uint64
GOLDEN = _U(0x9E3779B97F4A7C15)
_FIRST, _SECOND = _U(0xBF58476D1CE4E5B9), _U(0x94D049BB133111EB)
_S27, _S30, _S31 = _U(27), _U(30), _U(31)


@kernel
def mix64(z: Any) -> Any:
    """A bijection of 64 bits that spreads each bit of its argument over all bits."""
    z = (z ^ (z >> _S30)) * _FIRST
    z = (z ^ (z >> _S27)) * _SECOND
    return z ^ (z >> _S31)


@kernel
def add_rows(rows: Floats, sums: Floats) -> None:
    """``sums <- sums + sum_i x_i`` in float64, of rows (n, D) and (D,); four rows to each pass over the sums."""
    n = len(rows)
    whole = n - n % 4
    for i in range(0, whole, 4):
        a, b, c, d = rows[i], rows[i + 1], rows[i + 2], rows[i + 3]
        for j in range(len(sums)):
            sums[j] += (np.float64(a[j]) + np.float64(b[j])) + (np.float64(c[j]) + np.float64(d[j]))
    for i in range(whole, n):
        a = rows[i]
        for j in range(len(sums)):
            sums[j] += np.float64(a[j])


@kernel
def squares_about(rows: Floats, center: Floats) -> Floats:
    """``|x_i - c|^2`` of rows (n, D) and (D,), added up in float64: (n,)."""
    squares = np.empty(len(rows), dtype=np.float64)
    for i in range(len(rows)):
        x = rows[i]
        square = 0.0
        for d in range(len(center)):
            gap = np.float64(x[d] - center[d])
            square += gap * gap
        squares[i] = square
    return squares
