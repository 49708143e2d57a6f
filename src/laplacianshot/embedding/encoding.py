"""Items to vectors: what is known by content is taken from the cache, the rest is encoded and put there."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:
    from laplacianshot.embedding.encoders import Encoder
    from laplacianshot.inference._types import Floats, Ints


class Items(Protocol):
    """Pictures or texts by number."""

    def __len__(self) -> int: ...

    def content_hash(self, i: int) -> bytes:
        """A cryptographic hash of item i's content, 16 bytes or more."""
        ...

    def load(self, i: int) -> Any:
        """Item i: a ``PIL.Image`` or a str; raises ``CorruptPicture`` where it cannot be read."""
        ...

    def file(self, i: int) -> Path | None:
        """The file that item i is all of, if there is one: it is not read again while it is unchanged."""
        ...


@dataclass(frozen=True, repr=False)
class Encoded:
    """Vectors of the items that could be read.

    Attributes
    ----------
    vectors : float32 array of shape (m, D)
    rows : int array of shape (m,)
        Position of each vector's item, ascending.
    failed : tuple of (position, reason)
        Items that could not be read.
    n_cached : int
        Items whose vector was there before.
    """

    vectors: Floats
    rows: Ints
    failed: tuple[tuple[int, str], ...]
    n_cached: int


def encode_items(
    items: Items,
    encoder: Encoder,
    cache_folder: str | PathLike[str] | None = None,
    *,
    progress: Callable[[int, int], object] | None = None,
    workers: int | None = None,
) -> Encoded:
    """A vector for each item that can be read: ``vectors[r] = encoder(items[rows[r]])``."""
    raise NotImplementedError
