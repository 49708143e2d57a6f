"""Kernels for colour: jitter and normalisation of a batch in one call."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from laplacianshot.inference._compile import ordered_kernel

BRIGHTNESS, CONTRAST, SATURATION = 0, 1, 2

# Share of red, green and blue in grey (ITU-R BT.601).
_F = np.float32
_RED, _GREEN, _BLUE = _F(0.2989), _F(0.587), _F(0.114)
_ONE, _ZERO = _F(1), _F(0)


@ordered_kernel
def _clamped(value: Any) -> Any:
    return min(max(value, _ZERO), _ONE)


@ordered_kernel
def _grey(pixels: Any, p: int) -> Any:
    """Grey value of pixel p of (P, C)."""
    if pixels.shape[1] == 1:
        return pixels[p, 0]
    return _RED * pixels[p, 0] + _GREEN * pixels[p, 1] + _BLUE * pixels[p, 2]


@ordered_kernel
def _jitter(pixels: Any, step: int, factor: Any) -> None:
    """One step on a picture (P, C) in place: ``clamp(f x + (1 - f) other)``.

    ``other`` is black for brightness, the mean of the grey picture for contrast, the grey picture for saturation.
    """
    n, channels = pixels.shape
    rest = _ONE - factor
    if step == SATURATION:
        for p in range(n):
            other = rest * _grey(pixels, p)
            for c in range(channels):
                pixels[p, c] = _clamped(factor * pixels[p, c] + other)
        return
    other = _ZERO
    if step == CONTRAST:
        total = 0.0
        for p in range(n):
            total += _grey(pixels, p)
        other = rest * _F(total / n)
    for p in range(n):
        for c in range(channels):
            pixels[p, c] = _clamped(factor * pixels[p, c] + other)


@ordered_kernel
def to_floats(
    pictures: NDArray[np.uint8],
    steps: NDArray[np.int64],
    factors: NDArray[np.float32],
    mean: NDArray[np.float32],
    std: NDArray[np.float32],
    out: NDArray[np.float32],
) -> None:
    """Pictures of bytes as jittered and normalised floats, ``out = (jitter(x / 255) - mean) / std``.

    Parameters
    ----------
    pictures : uint8 array of shape (B, P, C)
    steps : int array of shape (B, m)
        Steps of the jitter in their order; m = 0 for none.
    factors : float32 array of shape (B, m)
        Factor of each of these steps.
    mean, std : float32 arrays of shape (C,)
    out : float32 array of shape (B, P, C)
    """
    count, n, channels = pictures.shape
    for b in range(count):
        pixels = out[b]
        for p in range(n):
            for c in range(channels):
                pixels[p, c] = _F(pictures[b, p, c]) / _F(255)
        for s in range(steps.shape[1]):
            _jitter(pixels, steps[b, s], factors[b, s])
        for p in range(n):
            for c in range(channels):
                pixels[p, c] = (pixels[p, c] - mean[c]) / std[c]
