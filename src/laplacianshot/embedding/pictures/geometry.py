"""Where to cut a picture, and how to bring it to size."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, NamedTuple

from PIL.Image import Resampling, Transform

from laplacianshot.runtime.types import Floats

if TYPE_CHECKING:
    from PIL.Image import Image

# Attempts at a random crop before the central one is taken; each uses two random numbers, the place two more.
TRIES = 10
CROP_DRAWS = 2 * TRIES + 2


class Crop(NamedTuple):
    """A rectangle of whole pixels."""

    left: int
    top: int
    width: int
    height: int


def random_crop(
    width: int, height: int, scale: tuple[float, float], ratio: tuple[float, float], draws: Sequence[float] | Floats
) -> Crop:
    """A crop of random area and shape, at a random place.

    ``area = width height U(scale)``, ``r = exp U(ln ratio)``, crop ``round(sqrt(area r)) x round(sqrt(area / r))``.
    The first of ten such sizes that fits the picture is placed uniformly. If none fits, the largest crop in the middle
    whose shape is within ``ratio``.

    Parameters
    ----------
    width, height : int
    scale : (low, high)
        Fraction of the picture's area.
    ratio : (low, high)
        Width over height.
    draws : CROP_DRAWS uniform numbers of [0, 1)
    """
    low, high = math.log(ratio[0]), math.log(ratio[1])
    for attempt in range(TRIES):
        area = width * height * (scale[0] + (scale[1] - scale[0]) * draws[2 * attempt])
        shape = math.exp(low + (high - low) * draws[2 * attempt + 1])
        w, h = round(math.sqrt(area * shape)), round(math.sqrt(area / shape))
        if 0 < w <= width and 0 < h <= height:
            left, top = int((width - w + 1) * draws[2 * TRIES]), int((height - h + 1) * draws[2 * TRIES + 1])
            return Crop(left, top, w, h)
    w, h = width, height
    if width < ratio[0] * height:
        h = max(1, min(height, round(width / ratio[0])))
    elif width > ratio[1] * height:
        w = max(1, min(width, round(height * ratio[1])))
    return Crop((width - w) // 2, (height - h) // 2, w, h)


def resized_crop(picture: Image, crop: Crop, size: int) -> Image:
    """The crop at ``size x size``, bilinear with antialiasing; pixels outside the crop have no part in it."""
    if crop.width != picture.width or crop.height != picture.height:
        picture = picture.crop((crop.left, crop.top, crop.left + crop.width, crop.top + crop.height))
    return picture.resize((size, size), Resampling.BILINEAR)


def resized_center(picture: Image, resize: int, crop: int) -> Image:
    """The middle ``crop x crop`` of the picture with its shorter side at ``resize``, bilinear with antialiasing."""
    width, height = picture.size
    if width <= height:
        new_width, new_height = resize, int(resize * height / width)
    else:
        new_width, new_height = int(resize * width / height), resize
    left, top = round((new_width - crop) / 2), round((new_height - crop) / 2)
    # Only the crop is computed. Pillow's filter reaches beyond the box, so the pixels are those of the whole.
    x, y = width / new_width, height / new_height
    box = (left * x, top * y, min((left + crop) * x, width), min((top + crop) * y, height))
    return picture.resize((crop, crop), Resampling.BILINEAR, box=box)


def moved(picture: Image, degrees: float, zoom: float, right: float, down: float) -> Image:
    """The picture turned about its middle, magnified by ``zoom`` and shifted by fractions of its sides.

    ``out(x) = in(c + R(-degrees) (x - c - shift) / zoom)``, bilinear; black where the picture does not reach.
    """
    width, height = picture.size
    cosine, sine = math.cos(math.radians(degrees)) / zoom, math.sin(math.radians(degrees)) / zoom
    x, y = width / 2, height / 2
    to_x, to_y = x + right * width, y + down * height
    matrix = (cosine, -sine, x - cosine * to_x + sine * to_y, sine, cosine, y - sine * to_x - cosine * to_y)
    return picture.transform(picture.size, Transform.AFFINE, matrix, Resampling.BILINEAR)
