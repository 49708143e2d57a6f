"""A picture as the pixels that a network reads."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from laplacianshot.runtime.extras import require

if TYPE_CHECKING:
    from PIL.Image import Image


@dataclass(frozen=True)
class PictureInput:
    """The middle ``crop x crop`` of a picture whose shorter side was brought to ``resize``, as bytes (crop, crop, 3).

    Attributes
    ----------
    resize, crop : int
        In pixels.
    filter : str
        Of Pillow's resampling, all with antialiasing: ``"bicubic"``, ``"bilinear"``, ``"lanczos"`` or ``"box"``.
    """

    resize: int = 256
    crop: int = 224
    filter: str = "bicubic"

    @property
    def enough(self) -> int:
        """A shorter side in pixels from which the result hardly depends on more."""
        return self.resize * 9 // 8

    def __call__(self, picture: Image) -> NDArray[np.uint8]:
        """Bytes (crop, crop, 3); gray pictures have three equal channels."""
        resampling = require("PIL.Image", "label").Resampling[self.filter.upper()]
        width, height = picture.size
        shorter = min(width, height)
        # The longer side is rounded down, and the crop begins at a whole pixel, as is usual.
        new_width, new_height = (self.resize * side // shorter for side in (width, height))
        left, top = round((new_width - self.crop) / 2), round((new_height - self.crop) / 2)
        # Only what is wanted is computed. Pillow's filter reaches beyond the box, so the pixels are those of the whole.
        x, y = width / new_width, height / new_height
        box = (left * x, top * y, min((left + self.crop) * x, width), min((top + self.crop) * y, height))
        cut = picture.resize((self.crop, self.crop), resampling, box=box)
        # After the resizing, where there are fewer pixels.
        return np.asarray(cut if cut.mode == "RGB" else cut.convert("RGB"))
