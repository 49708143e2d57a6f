"""What every source can do: name its items, tell the labels it holds, and give an item when it is asked for."""

from __future__ import annotations

import hashlib
from abc import ABC, abstractmethod
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Literal, TypeAlias

from laplacianshot.labeling.errors import LabelingError, listed
from laplacianshot.labeling.result import Skipped
from laplacianshot.runtime.types import Floats

if TYPE_CHECKING:
    from PIL.Image import Image

Kind: TypeAlias = Literal["pictures", "texts", "vectors"]

# Bytes of a content hash.
_HASH_BYTES = 16


@dataclass(frozen=True, eq=False, repr=False)
class Source(ABC):
    """n items to be labeled. Made by :func:`laplacianshot.labeling.sources.open_source`.

    Attributes
    ----------
    path : Path
    ids : tuple of n str
        All different: path below the folder with ``/``, row number from 0, or the value of the id column.
    given : tuple of n (str or None)
        Labels that the source itself holds.
    skipped : tuple of Skipped
        Items that are known not to be readable before any is read. They are not among the n.
    id_name : str
        What the ids are, in words.
    id_column : str or None
        The column that the ids come from.
    rows : tuple of n int, or None
        Row number of each item in a table; None for pictures.
    """

    path: Path
    ids: tuple[str, ...]
    given: tuple[str | None, ...]
    skipped: tuple[Skipped, ...] = ()
    id_name: str = "row numbers from 0"
    id_column: str | None = None
    rows: tuple[int, ...] | None = None

    kind: ClassVar[Kind]

    def __post_init__(self) -> None:
        if not self.ids:
            why = f"; the first of {len(self.skipped)}: {self.skipped[0].reason}" if self.skipped else ""
            raise LabelingError(f"{self.path}: there is nothing to label{why}.")

    def __len__(self) -> int:
        return len(self.ids)

    def __repr__(self) -> str:
        return f"{type(self).__name__}({str(self.path)!r}, {len(self)} {self.kind})"

    @abstractmethod
    def content_hash(self, i: int) -> bytes:
        """16 bytes that tell the content of item i from any other, wherever it lies.

        Raises
        ------
        CorruptPicture
            The file cannot be read.
        """

    @abstractmethod
    def load(self, i: int) -> Image | str | Any:
        """Item i: a picture, RGB or L; a text; or a row (D,).

        Raises
        ------
        CorruptPicture
            The picture cannot be read.
        """

    @abstractmethod
    def preview(self, i: int) -> str | Path:
        """What a page shows of item i: the file of a picture, a text, or the id of a row."""

    def file(self, i: int) -> Path | None:
        """The file that is item i, if it is a file of its own."""
        return None

    @property
    def vectors(self) -> Floats | None:
        """Rows (n, D) of a source of vectors, else None."""
        return None


def hash_of(content: bytes, kind: str) -> bytes:
    """Blake2b of a content, the same for the same content of the same kind."""
    return hashlib.blake2b(content, digest_size=_HASH_BYTES, person=kind.encode()).digest()


def checked_ids(path: Path, ids: list[str], column: str) -> tuple[str, ...]:
    """The ids, if all are there, different and can be written; else an error that names the rows."""
    blank = [row for row, name in enumerate(ids) if not name.strip()]
    if blank:
        raise LabelingError(f"{path}: column {column!r} is blank in rows {listed(blank)}; give every row an id.")
    odd = [row for row, name in enumerate(ids) if not encodable(name)]
    if odd:
        raise LabelingError(f"{path}: column {column!r} holds half characters in rows {listed(odd)}; repair them.")
    if len(set(ids)) < len(ids):
        first: dict[str, int] = {}
        twice = [(first[name], row, name) for row, name in enumerate(ids) if first.setdefault(name, row) != row]
        rows = "; ".join(f"rows {a} and {b} are both {name!r}" for a, b, name in twice[:3])
        more = f"; {len(twice) - 3} more" if len(twice) > 3 else ""
        raise LabelingError(
            f"{path}: column {column!r} holds ids more than once ({rows}{more}); repair them or choose another column."
        )
    return tuple(ids)


def encodable(name: str) -> bool:
    """Whether a string can be written as UTF-8: not with bytes of a file name that no encoding gives a meaning."""
    try:
        name.encode("utf-8")
    except UnicodeEncodeError:
        return False
    return True
