"""Kernels for color: bytes to flipped, jittered and normalized floats, a batch in one call.

A picture is worked on plane by plane, (C, H * W): plain loops over contiguous floats become vector instructions.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from laplacianshot.runtime.compilation import kernel

BRIGHTNESS, CONTRAST, SATURATION = 0, 1, 2

# Share of red, green and blue in gray (ITU-R BT.601).
_F = np.float32
_RED, _GREEN, _BLUE = _F(0.2989), _F(0.587), _F(0.114)
_ONE, _ZERO = _F(1), _F(0)


@kernel
def _mean_gray(planes: Any) -> Any:
    """Mean of the gray picture; gray is linear in the planes, so this is the gray of their means."""
    n = planes.shape[1]
    gray = 0.0
    for c in range(planes.shape[0]):
        total = 0.0
        for p in range(n):
            total += planes[c, p]
        share = 1.0 if planes.shape[0] == 1 else (_RED, _GREEN, _BLUE)[c]
        gray += share * total / n
    return _F(gray)


@kernel
def _blend(planes: Any, factor: Any, other: Any) -> None:
    """``x <- clamp(f x + other)``."""
    for c in range(planes.shape[0]):
        for p in range(planes.shape[1]):
            planes[c, p] = min(max(factor * planes[c, p] + other, _ZERO), _ONE)


@kernel
def _jitter(planes: Any, step: int, factor: Any) -> None:
    """One step on a picture (C, P) in place: ``x <- clamp(f x + (1 - f) other)``.

    ``other`` is black for brightness, the mean of the gray picture for contrast, the gray picture for saturation.
    """
    rest = _ONE - factor
    if step == BRIGHTNESS:
        _blend(planes, factor, _ZERO)
    elif step == CONTRAST:
        _blend(planes, factor, rest * _mean_gray(planes))
    elif planes.shape[0] == 1:
        # Gray is its own gray picture.
        return
    else:
        for p in range(planes.shape[1]):
            red, green, blue = planes[0, p], planes[1, p], planes[2, p]
            other = rest * (_RED * red + _GREEN * green + _BLUE * blue)
            planes[0, p] = min(max(factor * red + other, _ZERO), _ONE)
            planes[1, p] = min(max(factor * green + other, _ZERO), _ONE)
            planes[2, p] = min(max(factor * blue + other, _ZERO), _ONE)


@kernel
def _read(picture: Any, flip: bool, planes: Any) -> None:
    """Bytes (H, W, C) as planes of numbers in [0, 1], each row backwards if flipped."""
    height, width, channels = picture.shape
    share = _F(1 / 255)
    for c in range(channels):
        for y in range(height):
            row = planes[c, y * width : (y + 1) * width]
            for x in range(width):
                row[x] = _F(picture[y, width - 1 - x if flip else x, c]) * share


@kernel
def to_floats(
    pictures: NDArray[np.uint8],
    flips: NDArray[np.bool_],
    steps: NDArray[np.int64],
    factors: NDArray[np.float32],
    mean: NDArray[np.float32],
    std: NDArray[np.float32],
    out: NDArray[np.float32],
) -> None:
    """Pictures of bytes as floats, ``out = (jitter(flip(x / 255)) - mean) / std``.

    Parameters
    ----------
    pictures : uint8 array of shape (B, H, W, C)
    flips : bool array of shape (B,)
        Which are mirrored.
    steps : int array of shape (B, m)
        Steps of the jitter in their order; m = 0 for none.
    factors : float32 array of shape (B, m)
        Factor of each of these steps.
    mean, std : float32 arrays of shape (C,)
    out : float32 array of shape (B, H * W, C)
    """
    count, height, width, channels = pictures.shape
    n = height * width
    planes = np.empty((channels, n), dtype=np.float32)
    scale = _ONE / std
    for b in range(count):
        _read(pictures[b], flips[b], planes)
        for s in range(steps.shape[1]):
            _jitter(planes, steps[b, s], factors[b, s])
        for c in range(channels):
            plane = planes[c]
            for p in range(n):
                plane[p] = (plane[p] - mean[c]) * scale[c]
        if channels == 3:
            for p in range(n):
                out[b, p, 0] = planes[0, p]
                out[b, p, 1] = planes[1, p]
                out[b, p, 2] = planes[2, p]
        else:
            out[b, :, 0] = planes[0]
