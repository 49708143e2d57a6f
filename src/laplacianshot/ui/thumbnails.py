"""Pictures inside a page: small, each decoded once, as data that needs no other file."""

from __future__ import annotations

import base64
import io
from collections.abc import Container, Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import TYPE_CHECKING

from laplacianshot.datasets.decoding import CorruptPicture, thumbnail
from laplacianshot.runtime.extras import require
from laplacianshot.runtime.progress import Progress
from laplacianshot.runtime.threads import available_threads

if TYPE_CHECKING:
    from PIL.Image import Image

    from laplacianshot.labeling.sources import Source

# Pixels of the longer side.
SIDE = 112
# Smaller pictures than this are drawn as squares of pixels, and kept exactly.
TINY = 48
# A picture of more bytes is compressed harder.
_LARGE = 4500
# Pixels of a cell of the sheet of pictures, its columns, and its maximum size in bytes.
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
    """Pictures in cells of one picture, row by row, each in the upper left corner of its cell."""

    src: str
    columns: int
    cell: int  # pixels of a side of a cell
    items: tuple[int, ...]  # whose picture each cell holds
    sizes: tuple[tuple[int, int], ...]  # width and height of each picture


def read_pictures(
    source: Source, rows: Mapping[int, int], progress: Progress, *, large: Container[int] = (), large_side: int = SIDE
) -> dict[int, Image]:
    """Return small pictures of items, by item; those that can no longer be read are left out.

    ``rows`` has the position of each item in a source of pictures; items that are ``large`` may have a longer side.
    """

    def read(item: int) -> Image | None:
        row = rows[item]
        file = source.file(row)
        try:
            return None if file is None else thumbnail(file, source.ids[row], large_side if item in large else SIDE)
        except CorruptPicture:
            return None

    found: dict[int, Image] = {}
    with ThreadPoolExecutor(available_threads()) as pool:
        for done, (item, picture) in enumerate(zip(rows, pool.map(read, rows), strict=True), 1):
            if picture is not None:
                found[item] = picture
            if done % 20 == 0 or done == len(rows):
                progress(done, len(rows))
    return found


def inline_picture(picture: Image) -> Thumbnail:
    """Return a picture as data inside a page, small."""
    is_tiny = max(picture.size) < TINY
    if max(picture.size) > SIDE:
        picture = picture.copy()
        picture.thumbnail((SIDE, SIDE), require("PIL.Image", "label").Resampling.LANCZOS)
    return Thumbnail(data_of(picture, None if is_tiny else _LARGE), is_tiny)


def sheet_of(pictures: Mapping[int, Image], items: Iterable[int]) -> Sheet | None:
    """Return one picture of many; None where there are none."""
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
    return Sheet(data_of(sheet, _SHEET_BYTES if cell >= TINY else None), columns, cell, tuple(shown), tuple(sizes))


def picture_format() -> str:
    """Return WebP, which is a third smaller, where Pillow was built with it; else JPEG."""
    return "WEBP" if require("PIL.features", "label").check("webp") else "JPEG"


def data_of(picture: Image, max_bytes: int | None) -> str:
    """A picture as ``src`` of an element: exact for None, else of at most ``max_bytes`` if any quality allows that."""
    kind = "PNG" if max_bytes is None else picture_format()
    for quality in _QUALITIES:
        buffer = io.BytesIO()
        # PNG has no quality: it is always exact.
        picture.save(buffer, kind, quality=quality, optimize=max_bytes is None)
        if max_bytes is None or buffer.tell() <= max_bytes:
            break
    return f"data:image/{kind.lower()};base64,{base64.b64encode(buffer.getvalue()).decode('ascii')}"
