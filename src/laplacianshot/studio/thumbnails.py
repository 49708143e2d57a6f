"""Small pictures for the page: made on request, cached, and never of a file outside the source."""

from __future__ import annotations

import contextlib
import io
import os
import tempfile
from collections import OrderedDict
from dataclasses import dataclass
from pathlib import Path
from threading import Lock, Semaphore
from typing import TYPE_CHECKING, Any

from laplacianshot.datasets.decoding import CorruptPicture, thumbnail
from laplacianshot.embedding.vector_cache import file_state
from laplacianshot.runtime.errors import InputError
from laplacianshot.runtime.threads import available_threads
from laplacianshot.ui.thumbnails import TINY, picture_format

if TYPE_CHECKING:
    from PIL.Image import Image

    from laplacianshot.labeling.sources import Source

SIZES = (64, 128, 256, 512)
# Maximum width and height of the large picture in pixels.
LARGEST = 2048
# Maximum number of bytes of pictures in memory.
_MEMORY = 64_000_000
_QUALITY = {64: 70, 128: 75, 256: 80, 512: 80, LARGEST: 85}
_TYPES = {"WEBP": "image/webp", "JPEG": "image/jpeg", "PNG": "image/png"}
_PNG_MARK = b"\x89PNG"


class NoPicture(InputError):
    """There is no picture to show; the message is one line."""

    code = 404  # HTTP status


@dataclass(frozen=True)
class SmallPicture:
    """The bytes of a picture file, its media type, and a tag that identifies it."""

    content: bytes
    media_type: str
    tag: str


class Thumbnails:
    """Small pictures of a source's items, cached in memory and in a folder."""

    def __init__(self, source: Source, folder: Path) -> None:
        self._source, self._folder = source, folder
        self._root = source.path.resolve()
        self._lock = Lock()
        self._kept: OrderedDict[str, SmallPicture] = OrderedDict()
        self._bytes = 0
        # Decoding takes memory: at most one picture per core.
        self._decoding = Semaphore(available_threads())

    def get(self, i: int, size: int) -> SmallPicture:
        """Return the picture of item i, at most ``size`` pixels wide and high, never enlarged.

        Raises :class:`NoPicture` if the item has no picture, it cannot be read, or it is outside the source.
        """
        if self._source.kind != "pictures":
            raise NoPicture("this item is not a picture.")
        file = self._source.file(i)
        try:
            path = None if file is None else self._inside(file)
            state = self._source.content_hash(i) if path is None else file_state(path).digest
            tag = f"{state.hex()}-{size}"
            found = self._recall(tag)
            if found is None:
                with self._decoding:
                    picture: Any = self._source.load(i) if path is None else thumbnail(path, self._source.ids[i], size)
                    found = SmallPicture(*_encoded(picture, size), tag)
                self._keep(found)
                self._write(found)
        except CorruptPicture as error:
            raise NoPicture(str(error)) from error
        except OSError as error:
            raise NoPicture(f"the picture cannot be read: {error.strerror or error}") from error
        return found

    def _inside(self, file: Path) -> Path:
        """Return the file with all links followed, if it is inside the source."""
        real = file.resolve(strict=True)
        if not real.is_relative_to(self._root) or not real.is_file():
            raise NoPicture("the picture is a link to a file outside the folder and is not shown.")
        return real

    def _recall(self, tag: str) -> SmallPicture | None:
        with self._lock:
            if tag in self._kept:
                self._kept.move_to_end(tag)
                return self._kept[tag]
        try:
            content = self._place(tag).read_bytes()
        except OSError:
            return None
        found = SmallPicture(content, _TYPES["PNG" if content.startswith(_PNG_MARK) else picture_format()], tag)
        self._keep(found)
        return found

    def _keep(self, picture: SmallPicture) -> None:
        with self._lock:
            if picture.tag not in self._kept:
                self._bytes += len(picture.content)
            self._kept[picture.tag] = picture
            while self._bytes > _MEMORY and len(self._kept) > 1:
                self._bytes -= len(self._kept.popitem(last=False)[1].content)

    def _write(self, picture: SmallPicture) -> None:
        """Write atomically, but without flushing to disk, as it can be made again."""
        place = self._place(picture.tag)
        with contextlib.suppress(OSError):
            place.parent.mkdir(parents=True, exist_ok=True)
            handle, name = tempfile.mkstemp(dir=place.parent)
            with os.fdopen(handle, "wb") as file:
                file.write(picture.content)
            Path(name).replace(place)

    def _place(self, tag: str) -> Path:
        return self._folder / tag[:2] / tag


def _encoded(picture: Image, size: int) -> tuple[bytes, str]:
    """Return a picture file and its media type. Very small pictures are stored without loss."""
    kind = "PNG" if max(picture.size) < TINY else picture_format()
    buffer = io.BytesIO()
    picture.save(buffer, kind, **({} if kind == "PNG" else {"quality": _QUALITY[size]}))
    return buffer.getvalue(), _TYPES[kind]
