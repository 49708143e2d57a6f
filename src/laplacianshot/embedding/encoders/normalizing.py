"""Bytes of pictures as the floating-point planes that most networks read."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

if TYPE_CHECKING:
    from laplacianshot.runtime.types import Floats

# Mean and standard deviation of the colors of ImageNet's training pictures.
IMAGENET_MEAN = (0.485, 0.456, 0.406)
IMAGENET_STD = (0.229, 0.224, 0.225)


@dataclass(frozen=True)
class Normalizing:
    """``(x / 255 - mean) / std`` for each color.

    Attributes
    ----------
    mean, std : tuple of 3 float
    """

    mean: tuple[float, ...] = IMAGENET_MEAN
    std: tuple[float, ...] = IMAGENET_STD

    def __call__(self, pixels: Sequence[NDArray[np.uint8]]) -> Floats:
        """B pictures (H, W, C) as float32 (B, C, H, W)."""
        scale = 1 / (255 * np.array(self.std, dtype=np.float32))
        shift = np.array(self.mean, dtype=np.float32) / np.array(self.std, dtype=np.float32)
        planes = np.stack(pixels).transpose(0, 3, 1, 2)
        return np.ascontiguousarray(planes * scale[:, None, None] - shift[:, None, None], dtype=np.float32)
