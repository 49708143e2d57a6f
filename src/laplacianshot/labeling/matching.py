"""From the names that a file of labels uses to the items of a source."""

from __future__ import annotations

import os
import re
from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass
from urllib.parse import unquote, urlsplit

from laplacianshot.labeling.errors import LabelingError, listed
from laplacianshot.labeling.sources.base import Source
from laplacianshot.labeling.sources.tables import composed

# The position of an item that is in the source but was skipped.
SKIPPED = -1

# Label Studio puts eight digits before the name of a file that was uploaded, and replaces some of its characters.
_UPLOADED = re.compile(r"[0-9a-f]{8}-(.+)", re.DOTALL)
_REPLACED = re.compile(r"[^-\w.]")


@dataclass(frozen=True)
class Entry:
    """A label of a file.

    Attributes
    ----------
    place : str
        Where it stands, as a message names it.
    name : str
        The item, as the file names it.
    positions : tuple of int
        The items of the source that it is about; none if it is about no item of the source.
    label : str
    """

    place: str
    name: str
    positions: tuple[int, ...]
    label: str


class Ids:
    """Positions of items by id, spelled as in the source or nearly so.

    An id counts as it stands if the source has it. If not: without blanks around, its accents composed, and of a
    whole number in floating point the number; for pictures also with backslashes, with ``./`` or the folder's own
    name before it, or as an absolute path.
    """

    def __init__(self, source: Source) -> None:
        self._positions = {name: i for i, name in enumerate(source.ids)} | {s.id: SKIPPED for s in source.skipped}
        # Names that differ only in how accents are written stay apart: neither is found but by its own spelling.
        alike: defaultdict[str, list[int]] = defaultdict(list)
        for name, i in self._positions.items():
            alike[composed(name)].append(i)
        self._composed = {name: found[0] for name, found in alike.items() if len(found) == 1}
        self._roots = _roots(source) if source.kind == "pictures" else None

    def find(self, name: str) -> int | None:
        """Position of the item, ``SKIPPED``, or None if there is no such item."""
        if name in self._positions:
            return self._positions[name]
        for spelling in self._spellings(composed(name.strip())):
            if spelling in self._composed:
                return self._composed[spelling]
        return None

    def _spellings(self, name: str) -> Iterable[str]:
        yield name
        if self._roots is None:
            if re.fullmatch(r"\d+\.0+", name):
                yield name.partition(".")[0]
            return
        path = name.replace("\\", "/")
        while path.startswith("./"):
            path = path[2:]
        yield path
        for root in self._roots:
            if path.startswith(root):
                yield path[len(root) :]


def _roots(source: Source) -> tuple[str, ...]:
    """What may stand before the path of a picture: the folder as it was given, its absolute path, and its name."""
    absolute = os.path.abspath(source.path)  # noqa: PTH100 - resolve follows links, which people do not write down
    roots = (str(source.path), absolute, str(source.path.resolve()), os.path.basename(absolute))  # noqa: PTH119
    return tuple(f"{composed(root).replace(os.sep, '/').rstrip('/')}/" for root in roots if root)


class Paths:
    """Positions of pictures by the address under which another program knows them.

    An address belongs to the picture with which it shares the most folders, counted from the file's name upwards; it
    must share all folders of the picture's path, or all of its own. ``?d=`` and what stands before it, the scheme and
    host of a URL, and percent signs are seen through. An upload is known by its name alone.
    """

    def __init__(self, source: Source) -> None:
        self._source = source
        folder = _parts(composed(str(source.path.resolve())).replace(os.sep, "/"))
        self._paths = [[*folder, *_parts(composed(name))] for name in source.ids]
        self._depths = [len(path) - len(folder) for path in self._paths]
        self._named: defaultdict[str, list[int]] = defaultdict(list)
        self._uploads: defaultdict[str, list[int]] = defaultdict(list)
        for i, path in enumerate(self._paths):
            self._named[path[-1]].append(i)
            self._uploads[_REPLACED.sub("", path[-1].strip().replace(" ", "_"))].append(i)

    def find(self, address: str) -> int | None:
        """Position of the picture, or None if there is none.

        Raises
        ------
        LabelingError
            It may be any of several.
        """
        for spelling in _spellings(address):
            found = self._best(_parts(composed(spelling)))
            if found:
                return self._only(found, address)
        return None

    def _best(self, parts: list[str]) -> list[int]:
        """Positions of the pictures that share the most of an address."""
        if not parts:
            return []
        shared = {i: _n_shared(self._paths[i], parts) for i in self._named.get(parts[-1], [])}
        enough = {i: n for i, n in shared.items() if n >= self._depths[i] or n == len(parts)}
        if enough:
            return [i for i, n in enough.items() if n == max(enough.values())]
        uploaded = _UPLOADED.fullmatch(parts[-1]) if "upload" in parts[-3:-2] else None
        return self._uploads.get(uploaded[1], []) if uploaded else []

    def _only(self, found: list[int], address: str) -> int:
        if len(found) > 1:
            raise LabelingError(
                f"{address!r} may be any of {listed(self._source.ids[i] for i in found)}; give the file a name of its "
                "own, or label by path in a CSV file with the columns id and label."
            )
        return found[0]


def _spellings(address: str) -> Iterable[str]:
    """The path in an address, as it stands and with its percent signs resolved."""
    _, mark, behind = address.partition("?d=")
    if mark:
        path = behind.partition("&")[0]
    elif "://" in address:
        path = urlsplit(address).path
    else:
        path = address
    yield path
    if "%" in path:
        yield unquote(path)


def _parts(path: str) -> list[str]:
    return [part for part in path.replace("\\", "/").split("/") if part not in ("", ".")]


def _n_shared(path: list[str], other: list[str]) -> int:
    """Number of parts that two paths share, from the end."""
    n = 0
    for one, two in zip(reversed(path), reversed(other), strict=False):
        if one != two:
            break
        n += 1
    return n
