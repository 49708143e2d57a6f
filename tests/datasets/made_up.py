"""Pictures made up byte by byte."""

from __future__ import annotations

import zlib
from typing import Any

import numpy as np


def pixels(seed: int, width: int = 12, height: int = 10, channels: int = 3) -> Any:
    """Random bytes (H, W, C), or (H, W) for one channel."""
    shape = (height, width, 3) if channels == 3 else (height, width)
    return np.random.default_rng(seed).integers(0, 256, shape, dtype=np.uint8)


def png_of_size(width: int, height: int) -> bytes:
    """A PNG whose header promises that many pixels, and whose data holds none."""

    def chunk(kind: bytes, data: bytes) -> bytes:
        return len(data).to_bytes(4, "big") + kind + data + zlib.crc32(kind + data).to_bytes(4, "big")

    header = width.to_bytes(4, "big") + height.to_bytes(4, "big") + bytes([8, 2, 0, 0, 0])
    parts = chunk(b"IHDR", header) + chunk(b"IDAT", zlib.compress(b"")) + chunk(b"IEND", b"")
    return b"\x89PNG\r\n\x1a\n" + parts
