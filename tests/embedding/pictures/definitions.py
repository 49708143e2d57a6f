"""The augmentation as it is defined, in plain numpy: slow, and written apart from the package."""

from __future__ import annotations

from typing import Any

import numpy as np


def weights(n: int, start: float, stop: float, out: int) -> Any:
    """Triangle filter from n pixels to ``out`` (out, n), of which [start, stop) is spread over the result.

    Its half width is a source pixel when enlarging, and the distance of two new pixels when reducing (antialiasing).
    """
    step = (stop - start) / out
    reach = max(1.0, step)
    centers = start + step * (np.arange(out) + 0.5)
    distance = np.abs(np.arange(n)[None, :] + 0.5 - centers[:, None]) / reach
    triangle = np.maximum(0, 1 - distance)
    return triangle / triangle.sum(axis=1, keepdims=True)


def resize(picture: Any, height: int, width: int) -> Any:
    """Bilinear resize with antialiasing of (H, W, C)."""
    rows = weights(picture.shape[0], 0, picture.shape[0], height)
    columns = weights(picture.shape[1], 0, picture.shape[1], width)
    return np.moveaxis(rows @ np.moveaxis(picture.astype(np.float64), -1, 0) @ columns.T, 0, -1)


def gray(picture: Any) -> Any:
    """Luma of (..., 3), kept as a last axis of one."""
    return (picture @ np.array([0.2989, 0.587, 0.114]))[..., None]


def blend(picture: Any, other: Any, factor: float) -> Any:
    return np.clip(factor * picture + (1 - factor) * other, 0, 1)


def brightness(picture: Any, factor: float) -> Any:
    return blend(picture, np.zeros_like(picture), factor)


def contrast(picture: Any, factor: float) -> Any:
    shades = gray(picture) if picture.shape[-1] == 3 else picture
    return blend(picture, np.full_like(picture, shades.mean()), factor)


def saturation(picture: Any, factor: float) -> Any:
    return blend(picture, gray(picture), factor) if picture.shape[-1] == 3 else picture


STEPS = (brightness, contrast, saturation)


def crop_sizes(rng: np.random.Generator, width: int, height: int, count: int) -> Any:
    """(width, height) of ``count`` crops of scale 0.08 to 1 and ratio 3/4 to 4/3, drawn until one fits."""
    found = []
    while len(found) < count:
        area = width * height * rng.uniform(0.08, 1)
        ratio = np.exp(rng.uniform(np.log(3 / 4), np.log(4 / 3)))
        w, h = round(np.sqrt(area * ratio)), round(np.sqrt(area / ratio))
        if w <= width and h <= height:
            found.append((w, h))
    return np.array(found)
