"""Pictures inside a page: small, each decoded once, as data that needs no other file."""

from __future__ import annotations

import base64
import io
from collections.abc import Callable, Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from laplacianshot.datasets.decoding import CorruptPicture, thumbnail
from laplacianshot.runtime.extras import require
from laplacianshot.runtime.threads import available_threads

if TYPE_CHECKING:
    from PIL.Image import Image

    from laplacianshot.labeling.sources import Source

# Pixels of the longer side.
SIDE = 112
# Smaller pictures than this are drawn as squares of pixels, and kept exactly.
TINY = 48
# Bytes of a picture before it is compressed harder.
_LARGE = 4500
# Pixels and columns of a cell of the sheet of pictures, and the bytes it may have.
CELL = 64
COLUMNS = 45
_SHEET_BYTES = 2_000_000
_QUALITIES = (75, 50, 25, 5)


@dataclass(frozen=True)
class Thumbnail:
    """A picture as ``src`` of an element; ``tiny`` if its pixels should be seen."""

    src: str
    tiny: bool


@dataclass(frozen=True)
class Sheet:
    """Pictures in cells of one picture, row by row, each in the upper left corner of its cell.

    Attributes
    ----------
    src : str
    columns : int
    cell : int
        Pixels of a side of a cell.
    items : tuple of int
        Whose picture each cell holds.
    sizes : tuple of (int, int)
        Width and height of each.
    """

    src: str
    columns: int
    cell: int
    items: tuple[int, ...]
    sizes: tuple[tuple[int, int], ...]


def read_pictures(
    source: Source, rows: Mapping[int, int], progress: Callable[[int, int], object] | None = None
) -> dict[int, Image]:
    """Small pictures of items, decoded by several threads; those that can no longer be read are left out.

    Parameters
    ----------
    source : Source
        Of pictures.
    rows : mapping of int to int
        Position in the source of each item.
    progress : callable, optional
        Called with how many are done, and how many there are.
    """

    def read(row: int) -> Image | None:
        file = source.file(row)
        try:
            return None if file is None else thumbnail(file, source.ids[row], SIDE)
        except CorruptPicture:
            return None

    found: dict[int, Image] = {}
    with ThreadPoolExecutor(available_threads()) as pool:
        for done, (item, picture) in enumerate(zip(rows, pool.map(read, rows.values()), strict=True), 1):
            if picture is not None:
                found[item] = picture
            if progress is not None and (done % 20 == 0 or done == len(rows)):
                progress(done, len(rows))
    return found


def inline_picture(picture: Image) -> Thumbnail:
    """A picture inside a page."""
    if max(picture.size) < TINY:
        return Thumbnail(_data(_encoded(picture, "PNG"), "PNG"), tiny=True)
    return Thumbnail(_data(*_within(picture, _LARGE)), tiny=False)


def sheet_of(pictures: Mapping[int, Image], items: Iterable[int]) -> Sheet | None:
    """One picture of many; None where there are none."""
    shown = [item for item in items if item in pictures]
    if not shown:
        return None
    image_module = require("PIL.Image", "label")
    cell = min(CELL, max(max(pictures[item].size) for item in shown))
    columns = min(COLUMNS, len(shown))
    sheet = image_module.new("RGB", (columns * cell, -(-len(shown) // columns) * cell))
    sizes = []
    for place, item in enumerate(shown):
        small = pictures[item].copy()
        small.thumbnail((cell, cell), image_module.Resampling.LANCZOS)
        sheet.paste(small, (place % columns * cell, place // columns * cell))
        sizes.append(small.size)
    content, kind = _within(sheet, _SHEET_BYTES) if cell >= TINY else (_encoded(sheet, "PNG"), "PNG")
    return Sheet(_data(content, kind), columns, cell, tuple(shown), tuple(sizes))


def picture_format() -> str:
    """WebP, which is a third smaller, where Pillow was built with it; else JPEG."""
    return "WEBP" if require("PIL.features", "label").check("webp") else "JPEG"


def _within(picture: Image, most: int) -> tuple[bytes, str]:
    """A picture as a file of at most so many bytes, if any quality allows that, and its format."""
    kind = picture_format()
    content = b""
    for quality in _QUALITIES:
        content = _encoded(picture, kind, quality=quality)
        if len(content) <= most:
            break
    return content, kind


def _encoded(picture: Image, kind: str, **options: Any) -> bytes:
    buffer = io.BytesIO()
    if kind == "PNG":
        options["optimize"] = True
    picture.save(buffer, kind, **options)
    return buffer.getvalue()


def _data(content: bytes, kind: str) -> str:
    return f"data:image/{kind.lower()};base64,{base64.b64encode(content).decode('ascii')}"
