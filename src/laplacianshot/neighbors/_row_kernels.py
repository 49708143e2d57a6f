"""Kernels that form transformed rows: one pass over the source for each."""

from __future__ import annotations

import numpy as np

from laplacianshot.runtime.compilation import kernel
from laplacianshot.runtime.types import Floats, Ints

# Moves the exponent of a half, read as a float32's, to where it belongs: also of subnormal halves.
_REBIAS = np.float32(2.0**112)


@kernel
def form_rows(X: Floats, rows: Ints, origin: Floats, scale: Floats, out: Floats) -> None:
    """``out_i = (x_r - origin) scale_r`` with ``r = rows_i``, over the rows of out (m, D)."""
    for i in range(out.shape[0]):
        source = X[rows[i]]
        factor = scale[rows[i]]
        target = out[i]
        for d in range(out.shape[1]):
            target[d] = np.float32(source[d] - origin[d]) * factor


@kernel
def squared_norms(X: Floats, origin: Floats, out: Floats) -> None:
    """``out_i = |x_i - origin|^2`` in float64, over the rows of X (m, D)."""
    for i in range(X.shape[0]):
        source = X[i]
        total = 0.0
        for d in range(X.shape[1]):
            gap = np.float64(source[d] - origin[d])
            total += gap * gap
        out[i] = total


@kernel
def halves_to_single(bits: Ints, out: Floats) -> None:
    """Finite float16 numbers, given by their bits as uint16 (m, D), as float32. No branch, so that it is vectorized."""
    for i in range(out.shape[0]):
        source = bits[i]
        target = out[i]
        for d in range(out.shape[1]):
            half = np.uint32(source[d])
            size = np.uint32((half & np.uint32(0x7FFF)) << np.uint32(13)).view(np.float32) * _REBIAS
            sign = np.uint32((half & np.uint32(0x8000)) << np.uint32(16))
            target[d] = np.uint32(np.float32(size).view(np.uint32) | sign).view(np.float32)
