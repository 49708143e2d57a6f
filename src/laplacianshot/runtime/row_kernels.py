"""Kernels that read rows once: sums of them and of their squares."""

from __future__ import annotations

from typing import Any

import numpy as np

from laplacianshot.runtime.compilation import kernel
from laplacianshot.runtime.types import Floats


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
def squares_about(rows: Floats, center: Floats) -> float:
    """``sum_i |x_i - c|^2`` of rows (n, D) and (D,): in their type within a row, in float64 over the rows."""
    total = 0.0
    for i in range(len(rows)):
        x = rows[i]
        square: Any = rows.dtype.type(0)
        for d in range(len(center)):
            gap = x[d] - center[d]
            square += gap * gap
        total += square
    return total


@kernel
def squared_lengths(rows: Floats, squares: Floats) -> None:
    """``|x_i|^2`` of rows (n, D) in float64, into (n,)."""
    for i in range(len(rows)):
        square = 0.0
        for d in range(rows.shape[1]):
            square += np.float64(rows[i, d]) * np.float64(rows[i, d])
        squares[i] = square
