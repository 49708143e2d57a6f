"""Pictures and texts as the arrays that networks read."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from laplacianshot.embedding.encoders import EncoderError
from laplacianshot.runtime.extras import require

if TYPE_CHECKING:
    from PIL.Image import Image

    from laplacianshot.runtime.types import Floats


# Mean and standard deviation of the colors of ImageNet's training pictures.
IMAGENET_MEAN = (0.485, 0.456, 0.406)
IMAGENET_STD = (0.229, 0.224, 0.225)


def resized_center(picture: Image, resize: int, crop: int, resampling: str) -> Image:
    """The middle ``crop x crop`` of the picture with its shorter side at ``resize``, with antialiasing."""
    width, height = picture.size
    # The longer side is rounded down, and the crop begins at a whole pixel, as is usual.
    new_width, new_height = (resize * side // min(width, height) for side in (width, height))
    left, top = round((new_width - crop) / 2), round((new_height - crop) / 2)
    # Only the crop is computed. Pillow's filter reaches beyond the box, so the pixels are those of the whole.
    x, y = width / new_width, height / new_height
    box = (left * x, top * y, min((left + crop) * x, width), min((top + crop) * y, height))
    return picture.resize((crop, crop), require("PIL.Image", "label").Resampling[resampling.upper()], box=box)


@dataclass(frozen=True)
class PictureInput:
    """The middle of a picture as bytes (crop, crop, 3); see :func:`resized_center`. Its repr is part of keys."""

    resize: int = 256
    crop: int = 224
    filter: str = "bicubic"

    @property
    def enough(self) -> int:
        """A shorter side in pixels from which the result hardly depends on more."""
        return self.resize * 9 // 8

    def __call__(self, picture: Image) -> NDArray[np.uint8]:
        """Bytes (crop, crop, 3); gray pictures have three equal channels."""
        cut = resized_center(picture, self.resize, self.crop, self.filter)
        # After the resizing, where there are fewer pixels.
        return np.asarray(cut if cut.mode == "RGB" else cut.convert("RGB"))


@dataclass(frozen=True)
class Normalizing:
    """``(x / 255 - mean) / std`` for each color: B pictures (H, W, C) of bytes as float32 (B, C, H, W)."""

    mean: tuple[float, ...] = IMAGENET_MEAN
    std: tuple[float, ...] = IMAGENET_STD

    def __call__(self, pixels: Sequence[NDArray[np.uint8]]) -> Floats:
        """Normalize a batch."""
        scale = 1 / (255 * np.array(self.std, dtype=np.float32))
        shift = np.array(self.mean, dtype=np.float32) / np.array(self.std, dtype=np.float32)
        planes = np.stack(pixels).transpose(0, 3, 1, 2)
        return np.ascontiguousarray(planes * scale[:, None, None] - shift[:, None, None], dtype=np.float32)


# Tokens of one run of the network: what lies between two layers then fits the processor's cache.
_RUN_TOKENS = 1024

# Tokenizers go through the whole of a text before they cut it.
_MAX_CHARACTERS = 50_000


def open_tokenizer(path: Path, max_tokens: int) -> Any:
    """The tokenizer of a ``tokenizer.json``, which cuts long texts and does not pad."""
    try:
        tokenizer = require("tokenizers", "label").Tokenizer.from_file(str(path))
    except ModuleNotFoundError:
        raise
    except Exception as error:
        raise EncoderError(f"{path} cannot be read as a tokenizer: {' '.join(str(error).split())}") from error
    tokenizer.enable_truncation(max_tokens)
    tokenizer.no_padding()
    return tokenizer


def readable(text: str) -> str:
    """A text without halves of surrogate pairs, which no tokenizer takes, and not longer than any network reads."""
    return text[:_MAX_CHARACTERS].encode("utf-8", "replace").decode("utf-8")


def runs_of_equal_length(texts: Sequence[NDArray[np.int64]]) -> Iterator[NDArray[np.int64]]:
    """Places of texts that are run together: the same number of tokens, and not too many in all."""
    lengths = np.array([len(tokens) for tokens in texts])
    for length in np.unique(lengths):
        places = np.flatnonzero(lengths == length)
        step = max(1, _RUN_TOKENS // max(1, int(length)))
        for start in range(0, len(places), step):
            yield places[start : start + step]
