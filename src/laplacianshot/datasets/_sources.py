"""Where pictures come from: files, JPEG bytes in one buffer, or arrays of pixels."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np
from numpy.typing import NDArray

from laplacianshot.datasets._decoding import _from_array, check, decode
from laplacianshot.runtime.types import Ints

if TYPE_CHECKING:
    from PIL.Image import Image


class Source(Protocol):
    """Pictures by number."""

    def read(self, i: int, name: str) -> Image:
        """Picture i, RGB or L; ``name`` is for the error."""
        ...

    def check(self, i: int, name: str, *, whole: bool) -> None:
        """Raise ``CorruptPicture`` if picture i is unreadable."""
        ...

    def identity(self, rows: Ints) -> bytes:
        """Bytes that change when one of these pictures does."""
        ...

    @property
    def in_memory(self) -> bool:
        """Whether reading is a mere copy, so that keeping decoded pictures would gain nothing."""
        ...


class Files:
    """Pictures in files below a folder; their identity is size and time of change."""

    in_memory = False

    def __init__(self, root: Path, paths: Sequence[str]) -> None:
        self._root = root
        self._paths = tuple(paths)

    def read(self, i: int, name: str) -> Image:
        return decode(self._root / self._paths[i], name)

    def check(self, i: int, name: str, *, whole: bool) -> None:
        check(self._root / self._paths[i], name, whole=whole)

    def identity(self, rows: Ints) -> bytes:
        stamps = np.empty((len(rows), 2), dtype="<i8")
        for n, i in enumerate(rows.tolist()):
            state = os.stat(self._root / self._paths[i])  # noqa: PTH116 - one call for each of a million files
            stamps[n] = state.st_size, state.st_mtime_ns
        return hashlib.sha256(stamps.tobytes()).digest()


class EncodedBytes:
    """Encoded pictures one after another in a buffer: picture i is ``buffer[offsets[i]:offsets[i + 1]]``."""

    in_memory = False

    def __init__(self, buffer: NDArray[np.uint8], offsets: Ints) -> None:
        self._buffer = buffer
        self._offsets = offsets

    def _encoded(self, i: int) -> bytes:
        return self._buffer[self._offsets[i] : self._offsets[i + 1]].tobytes()

    def read(self, i: int, name: str) -> Image:
        return decode(self._encoded(i), name)

    def check(self, i: int, name: str, *, whole: bool) -> None:
        check(self._encoded(i), name, whole=whole)

    def identity(self, rows: Ints) -> bytes:
        digest = hashlib.sha256(self._offsets.astype("<i8").tobytes())
        digest.update(self._buffer.data)
        return digest.digest()


class Pixels:
    """Pictures as an array, uint8 (n, H, W) or (n, H, W, 3)."""

    in_memory = True

    def __init__(self, images: NDArray[np.uint8]) -> None:
        self._images = images

    def read(self, i: int, name: str) -> Image:
        return _from_array(self._images[i])

    def check(self, i: int, name: str, *, whole: bool) -> None:
        """Pixels are always readable."""

    def identity(self, rows: Ints) -> bytes:
        digest = hashlib.sha256(repr(self._images.shape).encode())
        contiguous: Any = np.ascontiguousarray(self._images)
        digest.update(contiguous.data)
        return digest.digest()
