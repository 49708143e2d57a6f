"""Pictures as tensors: the random and the fixed views of a picture, and batches of them."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import permutations
from typing import TYPE_CHECKING, NamedTuple, Protocol

import numpy as np
import torch
from numpy.typing import NDArray
from PIL.Image import Resampling, Transform

from laplacianshot.datasets.pictures import Pictures
from laplacianshot.embedding.encoders.preparing import IMAGENET_MEAN, IMAGENET_STD, resized_center
from laplacianshot.embedding.pictures._color_kernels import BRIGHTNESS, CONTRAST, SATURATION, to_floats
from laplacianshot.runtime.threads import Prefetch
from laplacianshot.runtime.types import Floats, Ints, Labels

if TYPE_CHECKING:
    from PIL.Image import Image

# Width over height of a random crop.
_RATIO = (3 / 4, 4 / 3)

# Attempts at a random crop before the central one is taken; each uses two random numbers, the place two more.
_TRIES = 10
CROP_DRAWS = 2 * _TRIES + 2

# The orders in which the three steps of the jitter can be taken.
_JITTERS = np.array(list(permutations((BRIGHTNESS, CONTRAST, SATURATION))))

# Random numbers of a picture: its crop, flip, three factors and their order, then turn, zoom and shift.
_FLIP = CROP_DRAWS
_FACTORS = slice(_FLIP + 1, _FLIP + 4)
_JITTER_ORDER = _FLIP + 4
_MOVE = slice(_JITTER_ORDER + 1, _JITTER_ORDER + 5)
_DRAWS = _JITTER_ORDER + 5

# Highest word of the counter of the stream that orders an epoch; pictures have their own number there.
_EPOCH_STREAM = 2**64 - 1


def stream(seed: int, epoch: int, index: int) -> np.random.Generator:
    """The stream of picture ``index`` in ``epoch``: Philox with key (seed, epoch) and the index in its counter.

    Streams of different pictures never meet: each has 2^192 numbers before the next one begins.
    """
    key, counter = np.array([seed, epoch], dtype=np.uint64), np.array([0, 0, 0, index], dtype=np.uint64)
    return np.random.Generator(np.random.Philox(key=key, counter=counter))


def epoch_order(seed: int, epoch: int, n: int) -> Ints:
    """A permutation of 0..n - 1 that depends on the seed, the epoch and n only."""
    # Sorted draws: numpy promises the bits of Philox for ever, but not the method of its shuffles.
    return np.argsort(stream(seed, epoch, _EPOCH_STREAM).random(n), kind="stable")


def uniforms(seed: int, epoch: int, indices: Ints, count: int) -> Floats:
    """``count`` uniform numbers of [0, 1) for each picture, (B, count)."""
    return np.array([stream(seed, epoch, int(i)).random(count) for i in indices]).reshape(len(indices), count)


class Crop(NamedTuple):
    """A rectangle of whole pixels."""

    left: int
    top: int
    width: int
    height: int


def random_crop(width: int, height: int, scale: tuple[float, float], draws: Sequence[float] | Floats) -> Crop:
    """A crop of random area and shape, at a random place, from CROP_DRAWS uniform numbers.

    ``area = width height U(scale)``, ``r = exp U(ln _RATIO)``, crop ``round(sqrt(area r)) x round(sqrt(area / r))``.
    The first of ten such sizes that fits the picture is placed uniformly. If none fits, the largest crop in the middle
    whose shape is within ``_RATIO``.
    """
    low, high = math.log(_RATIO[0]), math.log(_RATIO[1])
    for attempt in range(_TRIES):
        area = width * height * (scale[0] + (scale[1] - scale[0]) * draws[2 * attempt])
        shape = math.exp(low + (high - low) * draws[2 * attempt + 1])
        w, h = round(math.sqrt(area * shape)), round(math.sqrt(area / shape))
        if 0 < w <= width and 0 < h <= height:
            left, top = int((width - w + 1) * draws[2 * _TRIES]), int((height - h + 1) * draws[2 * _TRIES + 1])
            return Crop(left, top, w, h)
    w, h = width, height
    if width < _RATIO[0] * height:
        h = max(1, min(height, round(width / _RATIO[0])))
    elif width > _RATIO[1] * height:
        w = max(1, min(width, round(height * _RATIO[1])))
    return Crop((width - w) // 2, (height - h) // 2, w, h)


def resized_crop(picture: Image, crop: Crop, size: int) -> Image:
    """The crop at ``size x size``, bilinear with antialiasing; pixels outside the crop have no part in it."""
    if crop.width != picture.width or crop.height != picture.height:
        picture = picture.crop((crop.left, crop.top, crop.left + crop.width, crop.top + crop.height))
    return picture.resize((size, size), Resampling.BILINEAR)


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


class View(Protocol):
    """Turns pictures into what a network reads."""

    @property
    def channels(self) -> int:
        """3 for color, 1 for gray."""
        ...

    def __call__(
        self, pictures: Pictures, indices: Sequence[int] | Ints, *, seed: int = 0, epoch: int = 0
    ) -> torch.Tensor:
        """Pictures as float32 (B, C, H, W), in channels-last order in memory."""
        ...


@dataclass(frozen=True, kw_only=True)
class TrainView:
    """Random crop, flip and color jitter, then normalization.

    What happens to a picture depends on (seed, epoch, index) alone, whatever the batch, order or number of workers.

    Parameters
    ----------
    size : int
        Side of the result in pixels.
    scale : (low, high), or None
        Area of the random crop as a fraction of the picture's. None: no random crop, the middle square of the whole.
    flip : float
        Probability of a mirrored picture.
    jitter : float
        Brightness, contrast and saturation, in random order, by factors uniform in [max(0, 1 - jitter), 1 + jitter].
    degrees, zoom, shift : float
        For drawings: turned by up to ``degrees`` either way, magnified by a factor in [1 / (1 + zoom), 1 + zoom], moved
        by up to ``shift`` of each side. Done before the crop; black comes in from outside.
    channels : {3, 1}
        Color or gray.
    mean, std : sequence of float of length channels, optional
        For values in [0, 1]. By default ImageNet's for color, 0 and 1 for gray.
    """

    size: int = 84
    scale: tuple[float, float] | None = (0.08, 1.0)
    flip: float = 0.5
    jitter: float = 0.4
    degrees: float = 0.0
    zoom: float = 0.0
    shift: float = 0.0
    channels: int = 3
    mean: tuple[float, ...] | None = None
    std: tuple[float, ...] | None = None

    def __post_init__(self) -> None:
        _fill_normalization(self)

    def __call__(
        self, pictures: Pictures, indices: Sequence[int] | Ints, *, seed: int = 0, epoch: int = 0
    ) -> torch.Tensor:
        """Pictures as float32 (B, C, size, size), in channels-last order in memory."""
        rows = np.asarray(indices, dtype=np.int64)
        draws = uniforms(seed, epoch, rows, _DRAWS)
        cut = [self._cut(pictures.decoded(i), draws[b]) for b, i in enumerate(rows.tolist())]
        steps = _JITTERS[(draws[:, _JITTER_ORDER] * len(_JITTERS)).astype(np.int64)]
        low, high = max(0.0, 1 - self.jitter), 1 + self.jitter
        factors = low + (high - low) * draws[:, _FACTORS]
        flips = draws[:, _FLIP] < self.flip
        return _tensor(self, self.size, cut, flips, steps if self.jitter else steps[:, :0], factors)

    def _cut(self, picture: Image, draws: Floats) -> Image:
        picture = _with_channels(picture, self.channels)
        if self.degrees or self.zoom or self.shift:
            turn, power, right, down = 2 * draws[_MOVE] - 1
            zoom = (1 + self.zoom) ** power
            picture = moved(picture, turn * self.degrees, zoom, right * self.shift, down * self.shift)
        if self.scale is None:
            return resized_center(picture, self.size, self.size, "bilinear")
        crop = random_crop(picture.width, picture.height, self.scale, draws[:CROP_DRAWS].tolist())
        return resized_crop(picture, crop, self.size)


@dataclass(frozen=True, kw_only=True)
class EvalView:
    """Shorter side to ``resize``, the middle ``crop x crop`` of that, then normalization. Nothing is random.

    Parameters
    ----------
    resize, crop : int
        In pixels.
    channels, mean, std
        As in :class:`TrainView`.
    """

    resize: int = 96
    crop: int = 84
    channels: int = 3
    mean: tuple[float, ...] | None = None
    std: tuple[float, ...] | None = None

    def __post_init__(self) -> None:
        _fill_normalization(self)

    def __call__(
        self, pictures: Pictures, indices: Sequence[int] | Ints, *, seed: int = 0, epoch: int = 0
    ) -> torch.Tensor:
        """Pictures as float32 (B, C, crop, crop), in channels-last order in memory. Seed and epoch play no part."""
        cut = [self.cut(pictures.decoded(i)) for i in np.asarray(indices, dtype=np.int64).tolist()]
        none = np.empty((len(cut), 0))
        return _tensor(self, self.crop, cut, np.zeros(len(cut), dtype=bool), none, none)

    def cut(self, picture: Image) -> Image:
        """The middle of a picture, in color or gray."""
        return resized_center(_with_channels(picture, self.channels), self.resize, self.crop, "bilinear")


def _with_channels(picture: Image, channels: int) -> Image:
    mode = "RGB" if channels == 3 else "L"
    return picture if picture.mode == mode else picture.convert(mode)


def _tensor(
    view: TrainView | EvalView, side: int, cut: list[Image], flips: NDArray[np.bool_], steps: Labels, factors: Floats
) -> torch.Tensor:
    """Pictures of side x side pixels as a normalized tensor."""
    count, channels = len(cut), view.channels
    pixels = np.empty((count, side, side, channels), dtype=np.uint8)
    for b, picture in enumerate(cut):
        pixels[b] = np.asarray(picture).reshape(side, side, channels)
    images = torch.empty((count, channels, side, side), memory_format=torch.channels_last)
    out = images.permute(0, 2, 3, 1).numpy().reshape(count, side * side, channels)
    mean, std = np.array(view.mean, dtype=np.float32), np.array(view.std, dtype=np.float32)
    to_floats(pixels, flips, np.ascontiguousarray(steps, dtype=np.int64), factors.astype(np.float32), mean, std, out)
    return images


def _fill_normalization(view: TrainView | EvalView) -> None:
    defaults = {"mean": IMAGENET_MEAN, "std": IMAGENET_STD} if view.channels == 3 else {"mean": (0.0,), "std": (1.0,)}
    for name, default in defaults.items():
        if getattr(view, name) is None:
            object.__setattr__(view, name, default)


class Batch(NamedTuple):
    """What a network is given at once."""

    images: torch.Tensor  # float32 (B, C, H, W)
    labels: torch.Tensor  # int64 (B,)
    rows: Ints  # row numbers of the pictures, (B,)


def batches(
    pictures: Pictures,
    rows: Sequence[int] | Ints,
    view: View,
    batch_size: int,
    *,
    seed: int = 0,
    epoch: int = 0,
    workers: int = 1,
    start: int = 0,
) -> Prefetch[Ints, Batch]:
    """The pictures of ``rows`` in their order, in batches made by threads while the network works on those before.

    Each picture's view depends on (seed, epoch) and its row alone: any number of workers gives the same batches, and a
    run that starts at batch ``start`` sees what an uninterrupted one sees from there on. Batches before it are not
    decoded; 0 workers prepare each batch when it is needed. Decoding, resizing and color release the GIL.

    The iterator is also a context, whose end ends the threads. A picture that cannot be read raises ``CorruptPicture``
    at its batch.
    """
    chosen: Ints = np.asarray(rows, dtype=np.int64)
    parts = [chosen[first : first + batch_size] for first in range(start * batch_size, len(chosen), batch_size)]

    def make(part: Ints) -> Batch:
        images = view(pictures, part, seed=seed, epoch=epoch)
        return Batch(images, torch.from_numpy(pictures.labels[part]), part)

    return Prefetch(make, parts, workers, 2 * workers + 1, "pictures")
