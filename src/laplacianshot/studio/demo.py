"""scikit-learn's digits as pictures to label."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar

import numpy as np

from laplacianshot.datasets import load_digits
from laplacianshot.labeling.sources import Kind, Source, hash_of
from laplacianshot.runtime.extras import require
from laplacianshot.runtime.types import Floats

if TYPE_CHECKING:
    from PIL.Image import Image

# Pixels are 0 to 16; dark is high.
_FULL = 16


@dataclass(frozen=True, eq=False, repr=False)
class DigitSource(Source):
    """Pictures of 8 x 8 pixels that are their own vectors: no encoder is needed."""

    vectors: Floats = field(default_factory=lambda: np.zeros((0, 64)))

    kind: ClassVar[Kind] = "pictures"

    def content_hash(self, i: int) -> bytes:
        """Hash of the pixels."""
        return hash_of(self.vectors[i].tobytes(), self.kind)

    def load(self, i: int) -> Image:
        """Picture i, ink on paper."""
        ink = 255 - np.rint(self.vectors[i].reshape(8, 8) * (255 / _FULL)).astype(np.uint8)
        picture: Image = require("PIL.Image", "label").fromarray(ink)
        return picture


def digit_source() -> DigitSource:
    """The 1,797 digits, without their labels."""
    digits = load_digits()
    n = digits.n_rows
    ids = tuple(f"digit-{i:04d}" for i in range(n))
    # Not a file; the same project wherever the command is run.
    return DigitSource(Path("/laplacianshot-demo/digits"), ids, (None,) * n, vectors=digits.features)
