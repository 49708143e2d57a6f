"""The page of a store that says what is in it. What it does not say is not there."""

from __future__ import annotations

import dataclasses
import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self

import numpy as np

from laplacianshot.embedding.store.errors import IncompleteStore, StaleStore, StoreError
from laplacianshot.embedding.store.files import MANIFEST
from laplacianshot.embedding.store.key import StoreKey
from laplacianshot.runtime.files import put_file

FORMAT = 1
DTYPES = ("float16", "float32")


@dataclass(frozen=True)
class Skipped:
    """An item that has no row: its number among all items, its name, and why."""

    item: int
    name: str
    reason: str


@dataclass(frozen=True)
class Manifest:
    """What is in a store.

    Items are taken in order, and rows are only ever added at the end. So what is done is a prefix, of ``items`` items
    and ``rows`` rows, and whatever bytes come after it were being written when the writer died.

    Attributes
    ----------
    key : StoreKey
    dtype : str
        ``"float16"`` or ``"float32"``, little-endian.
    dim : int
        Features of a row, D; 0 as long as there is no row.
    total : int or None
        Items that there will be; None for a store that may always grow.
    keyed : bool
        Whether every row has an item key.
    rows : int
        Rows that are on the disk.
    items : int
        Items that were looked at: rows and skipped ones.
    skipped : tuple of Skipped
    complete : bool
        Whether all that was promised is there. A store that may grow is complete after every commit.
    """

    key: StoreKey
    dtype: str
    dim: int
    total: int | None
    keyed: bool
    rows: int = 0
    items: int = 0
    skipped: tuple[Skipped, ...] = ()
    complete: bool = False

    @property
    def storage(self) -> np.dtype[Any]:
        """The dtype on the disk, little-endian on every machine."""
        return np.dtype(self.dtype).newbyteorder("<")

    @property
    def row_bytes(self) -> int:
        """Bytes of a row of vectors."""
        return self.storage.itemsize * self.dim

    def check_key(self, key: StoreKey, folder: Path) -> None:
        """Refuse another key with a :class:`StaleStore` that says which part changed."""
        changed = self.key.changed(key)
        if changed:
            message = f"{folder} was made with {self.key.difference(key)}; choose another folder, or overwrite it."
            raise StaleStore(message, changed)

    def check_complete(self, folder: Path) -> None:
        """Refuse an unfinished store with an :class:`IncompleteStore` that says how to go on."""
        if not self.complete:
            raise IncompleteStore(
                f"{folder} is not finished: {self.items} of {self.total} items are done; run the same extraction "
                "again, and it goes on from there."
            )

    def write(self, folder: Path) -> None:
        """Put the manifest into a folder, whole or not at all."""
        document = {"format": FORMAT, **dataclasses.asdict(self)}
        text = json.dumps(document, indent=2, allow_nan=False) + "\n"
        put_file(folder / MANIFEST, lambda file: file.write(text.encode()))

    @classmethod
    def read(cls, folder: Path) -> Self:
        """The manifest of a folder, or a :class:`StoreError`."""
        try:
            text = (folder / MANIFEST).read_bytes()
        except (FileNotFoundError, NotADirectoryError):
            raise StoreError(f"{folder} is no feature store: it has no {MANIFEST}.") from None
        try:
            document = json.loads(text)
            found = document["format"]
        except (ValueError, KeyError, TypeError) as error:
            raise _not_understood(folder) from error
        if found != FORMAT:
            raise StoreError(
                f"{folder}: the store has format {found}, and this version reads format {FORMAT}; extract again."
            )
        try:
            fields = {field.name: document[field.name] for field in dataclasses.fields(cls)}
            fields["key"] = StoreKey(**fields["key"])
            fields["skipped"] = tuple(Skipped(**item) for item in fields["skipped"])
        except (KeyError, TypeError) as error:
            raise _not_understood(folder) from error
        return cls(**fields)


def _not_understood(folder: Path) -> StoreError:
    return StoreError(f"{folder}: {MANIFEST} cannot be understood; extract again into another folder.")
