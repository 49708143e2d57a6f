"""Small pictures for the page: made on request, cached, and never of a file outside the source."""

from __future__ import annotations

import contextlib
import io
import os
import tempfile
from dataclasses import dataclass
from pathlib import Path
from threading import Semaphore
from typing import TYPE_CHECKING, Any

from laplacianshot.datasets.decoding import CorruptPicture, thumbnail
from laplacianshot.embedding.vector_cache import file_state
from laplacianshot.runtime.errors import InputError
from laplacianshot.runtime.files import read_input
from laplacianshot.runtime.threads import available_threads
from laplacianshot.ui.thumbnails import TINY, picture_format

if TYPE_CHECKING:
    from PIL.Image import Image

    from laplacianshot.labeling.sources import Source

SIZES = (64, 128, 256, 512)
# Maximum width and height of the large picture in pixels.
LARGEST = 2048
_QUALITY = {64: 70, 128: 75, 256: 80, 512: 80, LARGEST: 85}
# Media types of pictures by their first bytes.
_TYPES = {b"\x89PNG": "image/png", b"RIFF": "image/webp", b"\xff\xd8\xff": "image/jpeg"}


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
    """Small pictures of a source's items, cached in a folder."""

    def __init__(self, source: Source, folder: Path) -> None:
        self._source, self._folder = source, folder
        self._root = source.path.resolve()
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
            place = self._folder / tag[:2] / tag
            try:
                content = read_input(place)
            except OSError:
                with self._decoding:
                    picture: Any = self._source.load(i) if path is None else thumbnail(path, self._source.ids[i], size)
                    content = _encoded(picture, size)
                _write(place, content)
        except CorruptPicture as error:
            raise NoPicture(str(error)) from error
        except OSError as error:
            raise NoPicture(f"the picture cannot be read: {error.strerror or error}") from error
        media_type = next(media_type for mark, media_type in _TYPES.items() if content.startswith(mark))
        return SmallPicture(content, media_type, tag)

    def _inside(self, file: Path) -> Path:
        """Return the file with all links followed, if it is inside the source."""
        real = file.resolve(strict=True)
        if not real.is_relative_to(self._root) or not real.is_file():
            raise NoPicture("the picture is a link to a file outside the folder and is not shown.")
        return real


def _write(place: Path, content: bytes) -> None:
    """Write atomically, but without flushing to disk, as it can be made again."""
    with contextlib.suppress(OSError):
        place.parent.mkdir(parents=True, exist_ok=True)
        handle, name = tempfile.mkstemp(dir=place.parent)
        with os.fdopen(handle, "wb") as file:
            file.write(content)
        Path(name).replace(place)


def _encoded(picture: Image, size: int) -> bytes:
    """Return a picture file. Very small pictures are stored without loss."""
    kind = "PNG" if max(picture.size) < TINY else picture_format()
    buffer = io.BytesIO()
    picture.save(buffer, kind, **({} if kind == "PNG" else {"quality": _QUALITY[size]}))
    return buffer.getvalue()
