"""Pictures from files, bytes and arrays: decoded, checked, or refused with a reason."""

from __future__ import annotations

import errno
import hashlib
import io
import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from threading import Lock
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from laplacianshot.runtime.errors import InputError
from laplacianshot.runtime.extras import require
from laplacianshot.runtime.files import open_input
from laplacianshot.runtime.types import Ints

if TYPE_CHECKING:
    from PIL.Image import Image

# Formats that Pillow decodes by itself. Others run programs (EPS) or are not for photographs.
_FORMATS = ("JPEG", "PNG", "BMP", "GIF", "WEBP", "TIFF", "PPM")

# A picture of more pixels than this is taken for a decompression bomb, unless the variable allows more.
_MAX_PIXELS = 89_478_485
MAX_PIXELS_VARIABLE = "LAPLACIANSHOT_MAX_PIXELS"
# Held while Pillow's own limit, which belongs to the whole process, gives way to ours.
_pillow_limit = Lock()

# Bytes of a file with a picture: more than any picture of that many pixels takes without compression.
MAX_PICTURE_BYTES = 1 << 30

# A shorter side that is enough for any network: photographs of twice that and more are halved until they are below.
_ENOUGH = 1024

# Faults of the machine, not of the picture: they must not let pictures be skipped.
MACHINE_FAULTS = {errno.EMFILE, errno.ENFILE, errno.ENOMEM}

# How whole files of these formats end. JPEG and PNG are the ones that data sets are made of.
_ENDINGS = {"JPEG": b"\xff\xd9", "PNG": b"IEND\xaeB`\x82"}

# What sets a picture upright, by the value of its orientation tag.
_ORIENTATION = 0x0112
_TURNS = ("FLIP_LEFT_RIGHT", "ROTATE_180", "FLIP_TOP_BOTTOM", "TRANSPOSE", "ROTATE_270", "TRANSVERSE", "ROTATE_90")
_UPRIGHT = dict(enumerate(_TURNS, start=2))
_ON_ITS_SIDE = ("TRANSPOSE", "ROTATE_270", "TRANSVERSE", "ROTATE_90")


class CorruptPicture(InputError):
    """A picture that cannot be read: its name, as in ``Pictures.names``, and the reason."""

    def __init__(self, name: str, reason: str) -> None:
        super().__init__(name, reason)
        self.name = name
        self.reason = reason

    def __str__(self) -> str:
        # A file name may hold a newline: repr keeps the message on one line.
        return f"picture {self.name!r} cannot be read: {self.reason}"


def decode(source: Path | bytes, name: str, *, enough: int = _ENOUGH, upright: bool = False) -> Image:
    """The picture as RGB, or L if it is gray, without what else is in the file.

    A shorter side of ``2 enough`` pixels or more is halved until it is below; for a JPEG that saves most of the
    decoding. The orientation tag is followed only if ``upright``.
    """
    with _faults_named(name), _opened(source) as picture:
        # Does nothing for formats other than JPEG.
        picture.draft(None, (enough, enough))
        return _halved(picture, enough, upright)


def decoded(picture: Image | NDArray[np.uint8], name: str, *, enough: int = _ENOUGH, upright: bool = False) -> Image:
    """The same for a picture in memory: of Pillow, or pixels of bytes (H, W) or (H, W, 3)."""
    with _faults_named(name):
        return _halved(_picture_of_array(picture) if isinstance(picture, np.ndarray) else picture, enough, upright)


def _halved(picture: Image, enough: int, upright: bool) -> Image:
    turn = _turn(picture) if upright else None
    plain = _plain(picture)
    while min(plain.size) >= 2 * enough:
        plain = plain.reduce(2)
    return _bare(plain, turn)


def thumbnail(source: Path | bytes, name: str, side: int) -> Image:
    """The picture for a person to look at, RGB or L, upright, at most ``side`` pixels wide and high, never enlarged.

    A JPEG is decoded at an eighth, a quarter or half of its size where that is enough.
    """
    image_module = require("PIL.Image", "train")
    with _faults_named(name), _opened(source) as picture:
        turn = _turn(picture)
        picture.draft(None, (2 * side, 2 * side))
        plain = _plain(picture)
        plain.thumbnail((side, side), image_module.Resampling.LANCZOS, reducing_gap=2.0)
        return _bare(plain, turn)


def picture_size(source: Path | bytes, name: str) -> tuple[int, int]:
    """Width and height of the picture when it is upright; only its header is read."""
    with _faults_named(name), _opened(source) as picture:
        turn, (width, height) = _turn(picture), picture.size
        return (height, width) if turn is not None and turn.name in _ON_ITS_SIDE else (width, height)


def _bare(picture: Image, turn: Any) -> Image:
    """The picture set upright, without color profiles and comments, which may be larger than the pixels."""
    picture = picture if turn is None else picture.transpose(turn)
    picture.info = {}
    return picture


def check(source: Path | bytes, name: str, *, whole: bool) -> None:
    """Raise :class:`CorruptPicture` for what :func:`decode` would refuse.

    ``whole=False`` reads the header and the end of the file, and decodes only a file that does not end as its format
    does. That finds what is empty, truncated, too large or not a picture; damage in the middle is found by decoding.
    """
    with _faults_named(name), _opened(source) as picture:
        if whole or not _ends_well(source, str(picture.format)):
            picture.load()


@contextmanager
def _opened(source: Path | bytes) -> Iterator[Image]:
    image_module: Any = require("PIL.Image", "train")
    # Opened here, not by Pillow: a text file named .jpg must be closed as well.
    with open_input(source) if isinstance(source, Path) else io.BytesIO(source) as file:
        if not file.read(1):
            raise _Refused("the file is empty")
        file.seek(0)
        with _pillow_limit:
            theirs, image_module.MAX_IMAGE_PIXELS = image_module.MAX_IMAGE_PIXELS, None
            try:
                # Reads the header; pixels are decoded later.
                opened = image_module.open(file, formats=_FORMATS)
            finally:
                image_module.MAX_IMAGE_PIXELS = theirs
        with opened as picture:
            (width, height), limit = picture.size, _max_pixels()
            if width * height > limit:
                raise _Refused(
                    f"it has {width} x {height} pixels, and {limit:,} are the most allowed; raise that with "
                    f"--max-pixels or {MAX_PIXELS_VARIABLE} if you trust it"
                )
            yield picture


def _max_pixels() -> int:
    given = os.environ.get(MAX_PIXELS_VARIABLE, "")
    return int(given) if given.isascii() and given.isdigit() else _MAX_PIXELS


class _Refused(Exception):
    """A reason of ours to refuse a picture."""


@contextmanager
def _faults_named(name: str) -> Iterator[None]:
    """Whatever Pillow raises on a damaged file, which may be nearly anything, as :class:`CorruptPicture`."""
    try:
        yield
    except (MemoryError, ModuleNotFoundError):
        raise
    except OSError as error:
        if error.errno in MACHINE_FAULTS:
            raise
        raise CorruptPicture(name, _reason(error)) from error
    except Exception as error:
        raise CorruptPicture(name, _reason(error)) from error


def _reason(error: Exception) -> str:
    if isinstance(error, FileNotFoundError):
        return "file not found"
    if isinstance(error, OSError) and error.strerror:
        return error.strerror
    if type(error).__name__ == "DecompressionBombError":
        return "it has more pixels than Pillow allows"
    if type(error).__name__ == "UnidentifiedImageError":
        return f"it is none of {', '.join(_FORMATS)}"
    return " ".join(str(error).split()) or type(error).__name__


def _ends_well(source: Path | bytes, kind: str) -> bool:
    ending = _ENDINGS.get(kind)
    if ending is None:
        return False
    if isinstance(source, bytes):
        return source.endswith(ending)
    with open_input(source) as file:
        file.seek(max(0, file.seek(0, os.SEEK_END) - len(ending)))
        return file.read() == ending


def _plain(picture: Image) -> Image:
    """Any mode as RGB, or as L if it has no color. Transparency is dropped; 16 bits are scaled to 8."""
    mode = picture.mode
    if mode in ("RGB", "L"):
        picture.load()
        return picture.copy()
    if mode == "I" or mode.startswith("I;16"):
        return _picture_of_array((np.asarray(picture).astype(np.int64) >> 8).clip(0, 255).astype(np.uint8))
    if mode in ("1", "LA", "F"):
        return picture.convert("L")
    if "transparency" in picture.info:
        picture = picture.convert("RGBA")
    return picture.convert("RGB")


def _turn(picture: Image) -> Any:
    """What sets the picture upright, None if it is."""
    try:
        name = _UPRIGHT.get(picture.getexif().get(_ORIENTATION, 1))
    except Exception:
        # A tag that cannot be read is no reason to refuse the picture.
        return None
    return None if name is None else require("PIL.Image", "train").Transpose[name]


def _picture_of_array(pixels: Any) -> Image:
    """Return uint8 pixels (H, W) or (H, W, 3) as a picture."""
    image: Image = require("PIL.Image", "train").fromarray(pixels)
    return image


class Source:
    """Pictures by number; ``name`` is for errors. By default they have to be decoded."""

    # Whether reading is a mere copy, so that keeping decoded pictures would gain nothing.
    in_memory = False

    def _encoded(self, i: int) -> Path | bytes:
        """Picture i as a file or its content."""
        raise NotImplementedError

    def identity(self, rows: Ints) -> bytes:
        """Bytes that change when one of these pictures does."""
        raise NotImplementedError

    def read(self, i: int, name: str) -> Image:
        """Picture i, RGB or L."""
        return decode(self._encoded(i), name)

    def check(self, i: int, name: str, *, whole: bool) -> None:
        """Raise ``CorruptPicture`` if picture i is unreadable."""
        check(self._encoded(i), name, whole=whole)


class Files(Source):
    """Pictures in files below a folder; their identity is size and time of change."""

    def __init__(self, root: Path, paths: Sequence[str]) -> None:
        self._root, self._paths = root, tuple(paths)

    def _encoded(self, i: int) -> Path:
        return self._root / self._paths[i]

    def identity(self, rows: Ints) -> bytes:
        """Return bytes that change when one of these pictures does."""
        stamps = np.empty((len(rows), 2), dtype="<i8")
        for n, i in enumerate(rows.tolist()):
            state = os.stat(self._root / self._paths[i])  # noqa: PTH116 - one call for each of a million files
            stamps[n] = state.st_size, state.st_mtime_ns
        return hashlib.sha256(stamps.tobytes()).digest()


class EncodedBytes(Source):
    """Encoded pictures one after another in a buffer: picture i is ``buffer[offsets[i]:offsets[i + 1]]``."""

    def __init__(self, buffer: NDArray[np.uint8], offsets: Ints) -> None:
        self._buffer, self._offsets = buffer, offsets

    def _encoded(self, i: int) -> bytes:
        return self._buffer[self._offsets[i] : self._offsets[i + 1]].tobytes()

    def identity(self, rows: Ints) -> bytes:
        """Return bytes that change when one of these pictures does."""
        digest = hashlib.sha256(self._offsets.astype("<i8").tobytes())
        digest.update(self._buffer.data)
        return digest.digest()


class Pixels(Source):
    """Pictures as an array, uint8 (n, H, W) or (n, H, W, 3)."""

    in_memory = True

    def __init__(self, images: NDArray[np.uint8]) -> None:
        self._images = images

    def read(self, i: int, name: str) -> Image:
        """Picture i."""
        return _picture_of_array(self._images[i])

    def check(self, i: int, name: str, *, whole: bool) -> None:
        """Pixels are always readable."""

    def identity(self, rows: Ints) -> bytes:
        """Return bytes that change when one of these pictures does."""
        digest = hashlib.sha256(repr(self._images.shape).encode())
        contiguous: Any = np.ascontiguousarray(self._images)
        digest.update(contiguous.data)
        return digest.digest()
