"""Vectors in a folder, with the key of what they were made from, so that a stale one is never used."""

from __future__ import annotations

import dataclasses
import hashlib
import json
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from os import PathLike
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any, Self

import numpy as np

from laplacianshot.runtime.errors import InputError
from laplacianshot.runtime.extras import require
from laplacianshot.runtime.files import (
    LOCK_NAME,
    FolderLock,
    check_input,
    load_npy,
    put_file,
    read_input,
    remove_partial,
)

if TYPE_CHECKING:
    from laplacianshot.runtime.types import Floats, Labels

# Version of the format of the folder, which version 0.1 wrote too.
_FORMAT = 1
# Raised by one whenever the same weights, view and data would give other vectors than before.
_CODE_VERSION = 1

EXPORT_FORMATS = (".npz", ".parquet")

_MANIFEST = "manifest.json"
_VECTORS = "vectors.bin"
# Arrays beside the vectors, each in a .npy file of its name.
_SIDES = ("labels", "split", "class_names", "names")
# All that a store may consist of; version 0.1 could also write the key of each row.
_FILES = (_MANIFEST, _VECTORS, LOCK_NAME, "item_keys.bin", *(f"{name}.npy" for name in _SIDES))

# Rows of a row group of Parquet: what a reader has to take in at once.
_BLOCK_ROWS = 4096


class StoreError(InputError):
    """A feature store that is missing, damaged, unfinished, in use, or made from something else than is requested."""


@dataclass(frozen=True)
class StoreKey:
    """What vectors were made from. Stores with equal keys hold equal vectors."""

    weights: str  # which encoder, such as the hash of a network's weights
    view: str  # how a picture becomes the input of the encoder
    data: str  # which items in which order, such as Pictures.content_key()
    code: int = _CODE_VERSION  # version of the code between them

    @property
    def digest(self) -> str:
        """SHA-256 over all parts, in hexadecimal."""
        return hashlib.sha256(json.dumps(dataclasses.asdict(self), sort_keys=True).encode()).hexdigest()

    def difference(self, other: StoreKey) -> str:
        """Return the parts in which this key differs from another, in words; the view is spelled out."""
        words = {
            "other weights": self.weights != other.weights,
            f"another view ({self.view}, not {other.view})": self.view != other.view,
            "other data": self.data != other.data,
            "another version of the code": self.code != other.code,
        }
        return " and ".join(word for word, differs in words.items() if differs)


@dataclass(frozen=True)
class Skipped:
    """An item that has no row: its number among all items, its name, and why."""

    item: int
    name: str
    reason: str


@dataclass(frozen=True)
class Manifest:
    """What is in a store: ``manifest.json``, which is written last. Version 0.1 wrote the same fields."""

    key: StoreKey
    dtype: str
    dim: int  # D; 0 as long as there is no row
    total: int | None  # number of items; None in stores of version 0.1 that could grow
    keyed: bool = False  # whether version 0.1 wrote a key for each row
    rows: int = 0
    items: int = 0  # items that are done: rows and skipped ones
    skipped: tuple[Skipped, ...] = ()
    complete: bool = False  # whether all items are done

    def write(self, folder: Path) -> None:
        """Put the manifest into a folder, whole or not at all."""
        text = json.dumps({"format": _FORMAT, **dataclasses.asdict(self)}, indent=2, allow_nan=False) + "\n"
        put_file(folder / _MANIFEST, lambda file: file.write(text.encode()))

    @classmethod
    def read(cls, folder: Path) -> Self:
        """Read the manifest of a folder; raises :class:`StoreError` where there is none."""
        try:
            document = json.loads(read_input(folder / _MANIFEST))
            if document["format"] != _FORMAT:
                raise StoreError(
                    f"{folder}: the store has format {document['format']}, and this version reads format {_FORMAT}; "
                    "extract again."
                )
            fields = {field.name: document[field.name] for field in dataclasses.fields(cls)}
            fields["key"] = StoreKey(**fields["key"])
            fields["skipped"] = tuple(Skipped(**item) for item in fields["skipped"])
            return cls(**fields)
        except (FileNotFoundError, NotADirectoryError):
            raise StoreError(f"{folder} is not a feature store: it has no {_MANIFEST}.") from None
        except StoreError:
            raise
        except (ValueError, KeyError, TypeError) as error:
            raise StoreError(
                f"{folder}: {_MANIFEST} cannot be understood; extract again into another folder."
            ) from error

    def check_same(self, key: StoreKey, folder: Path, dtype: str | None = None) -> None:
        """Refuse a store that was made from something else."""
        differs = self.key.difference(key)
        if not differs and dtype not in (None, self.dtype):
            differs = f"dtype {self.dtype}, not {dtype}"
        if differs:
            raise StoreError(f"{folder} was made with {differs}; choose another folder, or overwrite it.")


@dataclass(frozen=True, repr=False, eq=False)
class FeatureStore:
    """Vectors in a folder, with the key of what they were made from.

    All arrays are memory-mapped and read-only: a store larger than memory opens at once. The folder holds
    ``manifest.json``, ``vectors.bin`` (one row after the other, little-endian), and a ``.npy`` file for each of
    ``labels``, ``split``, ``class_names`` and ``names`` that exists. An extraction makes it.
    """

    path: Path
    key: StoreKey
    features: Floats  # (n, D), float16 or float32
    labels: Labels | None  # (n,)
    split: Labels | None  # (n,) of str
    class_names: Labels | None  # name of each integer label, (C,) of str
    names: Labels | None  # (n,) of str
    skipped: tuple[Skipped, ...]  # items that could not be read and have no row

    @classmethod
    def open(cls, path: str | PathLike[str], key: StoreKey | None = None) -> Self:
        """Open a finished store, whose vectors must be made from ``key`` if one is given."""
        folder = Path(path)
        manifest = Manifest.read(folder)
        if key is not None:
            manifest.check_same(key, folder)
        if not manifest.complete:
            raise StoreError(
                f"{folder} is not finished: {manifest.items} of {manifest.total} items are done; run the same "
                "extraction again, and it goes on from there."
            )
        sides = {name: _read_side(folder / f"{name}.npy", name, manifest.rows) for name in _SIDES}
        return cls(folder, manifest.key, _read_vectors(folder / _VECTORS, manifest), skipped=manifest.skipped, **sides)

    @property
    def dim(self) -> int:
        """Features per row, D; 0 where there is no row."""
        return int(self.features.shape[1])

    @property
    def dtype(self) -> str:
        """``"float16"`` or ``"float32"``."""
        return self.features.dtype.name

    def export(self, path: str | PathLike[str]) -> None:
        """Write all rows to one file, ``.npz`` or ``.parquet``, whole or not at all.

        ``.npz`` holds ``features``, ``labels``, ``split``, ``class_names`` and ``names``, as far as they exist.
        ``.parquet`` has one line per row: ``name``, ``label``, ``class_name``, ``split`` and ``features``, a list of D
        float32. It needs pyarrow, extra ``parquet``.
        """
        target = Path(path)
        check_export(target)
        put_file(target, self._write_npz if target.suffix.lower() == ".npz" else self._write_parquet)

    def _write_npz(self, file: IO[bytes]) -> None:
        sides = {name: getattr(self, name) for name in _SIDES}
        np.savez(file, features=self.features, **{name: array for name, array in sides.items() if array is not None})

    def _write_parquet(self, file: IO[bytes]) -> None:
        arrow, parquet = require("pyarrow", "parquet"), require("pyarrow.parquet", "parquet")
        class_name = None
        if self.class_names is not None and self.labels is not None and self.labels.dtype.kind in "iu":
            class_name = self.class_names[self.labels]
        known = {"name": self.names, "label": self.labels, "class_name": class_name, "split": self.split}
        columns = {name: np.asarray(column) for name, column in known.items() if column is not None}
        # float32 also for float16, which it holds exactly: not every reader of Parquet knows the half.
        vectors = arrow.list_(arrow.float32(), self.dim)
        fields = [(name, arrow.array(column[:1]).type) for name, column in columns.items()]
        schema = arrow.schema([*fields, ("features", vectors)])
        with parquet.ParquetWriter(file, schema, use_dictionary=list(columns)) as writer:
            for start in range(0, len(self), _BLOCK_ROWS):
                group = slice(start, start + _BLOCK_ROWS)
                flat = arrow.array(self.features[group].astype(np.float32).reshape(-1))
                arrays: list[Any] = [arrow.array(column[group]) for column in columns.values()]
                arrays.append(arrow.FixedSizeListArray.from_arrays(flat, self.dim))
                writer.write_table(arrow.table(arrays, schema=schema))

    def __len__(self) -> int:
        return len(self.features)

    def __repr__(self) -> str:
        return f"FeatureStore({len(self)} rows x {self.dim}, {self.dtype})"


def _read_vectors(path: Path, manifest: Manifest) -> Floats:
    shape, dtype = (manifest.rows, manifest.dim), _storage(manifest.dtype)
    expected = manifest.rows * manifest.dim * dtype.itemsize
    found = path.stat().st_size if path.exists() else 0
    if found < expected:
        raise StoreError(f"{path} is damaged: it has {found} bytes of {expected}; extract again elsewhere.")
    if expected:
        check_input(path)
    # An empty file cannot be mapped.
    return np.memmap(path, dtype=dtype, mode="r", shape=shape) if expected else np.empty(shape, dtype)


def _read_side(path: Path, name: str, n_rows: int) -> Any:
    """An array beside the vectors, None if there is none."""
    if not path.exists():
        return None
    try:
        array = load_npy(path, mapped=True)
    except (ValueError, OSError) as error:
        raise StoreError(f"{path} is damaged ({error}); extract again into another folder.") from error
    if name != "class_names" and array.shape != (n_rows,):
        raise StoreError(f"{path} is damaged: it has shape {array.shape} for {n_rows} rows; extract again.")
    return array


@contextmanager
def lock_store(path: str | PathLike[str], key: StoreKey, dtype: str, *, overwrite: bool = False) -> Iterator[Path]:
    """Hold the folder of a store of a key: a new one, or one of the same key.

    A file, a folder with other files in it, and a store of another key are refused; with ``overwrite`` the last is
    emptied.
    """
    folder = Path(path)
    if folder.exists() and not folder.is_dir():
        raise StoreError(f"{folder} is a file; a store is a folder of its own.")
    # Hidden files do not count, as file managers leave them about.
    others = [] if not folder.is_dir() else [one.name for one in folder.iterdir() if one.name[0] != "."]
    foreign = sorted(name for name in others if name not in _FILES)
    if foreign:
        raise StoreError(f"{folder} holds other files, such as {foreign[0]!r}; give a store a folder of its own.")
    folder.mkdir(parents=True, exist_ok=True)
    with FolderLock(folder, StoreError):
        remove_partial(folder)
        try:
            if (folder / _MANIFEST).exists():
                Manifest.read(folder).check_same(key, folder, dtype)
        except StoreError:
            if not overwrite:
                raise
            # The manifest first: without it the rest is not a store.
            for name in _FILES:
                if name != LOCK_NAME:
                    (folder / name).unlink(missing_ok=True)
        yield folder


def write_files(folder: Path, manifest: Manifest, rows: Floats, sides: dict[str, Labels]) -> None:
    """Write the files of a store into a folder that is held, the manifest last.

    ``manifest`` has key, dtype, total and skipped items, the rest is filled in; ``sides`` has arrays of :data:`_SIDES`.
    """
    stored = rows.astype(_storage(manifest.dtype), copy=False)
    blocks = (stored[start : start + _BLOCK_ROWS] for start in range(0, len(stored), _BLOCK_ROWS))
    put_file(folder / _VECTORS, lambda file: file.writelines(block.tobytes() for block in blocks))
    for name in _SIDES:
        path = folder / f"{name}.npy"
        if name in sides:
            array = np.asarray(sides[name])
            put_file(path, lambda file, array=array: np.lib.format.write_array(file, array, allow_pickle=False))  # type: ignore[misc]
        else:
            path.unlink(missing_ok=True)
    n, dim = stored.shape
    items = n + len(manifest.skipped)
    dataclasses.replace(manifest, dim=dim, rows=n, items=items, complete=True).write(folder)


def _storage(dtype: str) -> np.dtype[Any]:
    """The dtype on the disk, little-endian on every machine."""
    return np.dtype(dtype).newbyteorder("<")


def check_export(path: Path) -> None:
    """Refuse, before any work, a name of another ending or a format whose package is missing."""
    if path.suffix.lower() not in EXPORT_FORMATS:
        raise ValueError(f"{path}: the name must end in {' or '.join(EXPORT_FORMATS)}.")
    if path.suffix.lower() == ".parquet":
        require("pyarrow.parquet", "parquet")
