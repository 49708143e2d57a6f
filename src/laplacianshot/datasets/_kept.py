"""Decoded pictures kept in memory, as many as fit."""

from __future__ import annotations

import os
from threading import Lock
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from PIL.Image import Image

# No more than this, and no more than a quarter of the machine's memory, unless a caller asks for it.
_MOST_BYTES = 4 << 30


def default_bytes() -> int:
    """Memory for decoded pictures where the caller names none."""
    try:
        memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    except (AttributeError, OSError, ValueError):
        return _MOST_BYTES // 4
    return min(_MOST_BYTES, memory // 4)


class KeptPictures:
    """Decoded pictures by number. What no longer fits is not kept; nothing is ever thrown out.

    Each picture is read once an epoch, in another order each time: under a full memory no rule of replacement is
    better than keeping the first ones.
    """

    def __init__(self, capacity: int | None = None) -> None:
        self.capacity = default_bytes() if capacity is None else capacity
        self.used = 0
        self._pictures: dict[int, Image] = {}
        self._lock = Lock()

    def get(self, i: int) -> Image | None:
        """Picture i, if it is kept. Not to be changed by the caller."""
        return self._pictures.get(i)

    def offer(self, i: int, picture: Image) -> None:
        """Keep picture i if it fits."""
        # Pillow holds a color pixel in four bytes.
        size = picture.width * picture.height * (1 if picture.mode == "L" else 4)
        with self._lock:
            if i not in self._pictures and self.used + size <= self.capacity:
                self._pictures[i] = picture
                self.used += size

    def __len__(self) -> int:
        return len(self._pictures)
