"""Vectors in a folder, with the key of what they were made from, so that a stale one is never used."""

from __future__ import annotations

import dataclasses
import hashlib
import json
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property
from os import PathLike
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any, Self

import numpy as np
from numpy.typing import ArrayLike

from laplacianshot.runtime.errors import InputError
from laplacianshot.runtime.extras import require
from laplacianshot.runtime.files import LOCK_NAME, FolderLock, put_file, remove_partial
from laplacianshot.runtime.keyed_folder import arrays_hash

if TYPE_CHECKING:
    from laplacianshot.runtime.types import Floats, Labels

# Version of the format of the folder, which version 0.1 wrote too.
FORMAT = 1
# Raised by one whenever the same weights, view and data would give other vectors than before.
CODE_VERSION = 1

DTYPES = ("float16", "float32")
EXPORT_FORMATS = (".npz", ".parquet")

MANIFEST = "manifest.json"
VECTORS = "vectors.bin"
# Arrays beside the vectors, each in a .npy file of its name.
SIDES = ("labels", "split", "class_names", "names")
# All that a store may consist of; version 0.1 could also write the key of each row.
_FILES = (MANIFEST, VECTORS, LOCK_NAME, "item_keys.bin", *(f"{name}.npy" for name in SIDES))

# Rows written at once, and of a row group of Parquet: what a reader has to take in at once.
_BLOCK_ROWS = 4096

# Parts of a key in the words of a message.
_WORDS = {
    "weights": "other weights",
    "view": "another view",
    "data": "other data",
    "code": "another version of the code",
}


class StoreError(InputError):
    """A feature store that is missing, damaged, or does not hold what is requested."""


class StaleStore(StoreError):
    """A feature store that was made from something else.

    Attributes
    ----------
    changed : tuple of str
        Which parts differ: ``weights``, ``view``, ``data``, ``code``, ``dtype``, ``rows``.
    """

    def __init__(self, message: str, changed: tuple[str, ...]) -> None:
        super().__init__(message)
        self.changed = changed


class IncompleteStore(StoreError):
    """A feature store whose extraction has not finished."""


class StoreInUse(StoreError):
    """A feature store that another process is writing."""


@dataclass(frozen=True)
class StoreKey:
    """What vectors were made from. Stores with equal keys hold equal vectors.

    Attributes
    ----------
    weights : str
        Which encoder, such as the hash of a network's weights.
    view : str
        How a picture becomes the input of the encoder, such as :func:`view_text`.
    data : str
        Which items in which order, such as ``Pictures.content_key()``.
    code : int
        Version of the code between them.
    """

    weights: str
    view: str
    data: str
    code: int = CODE_VERSION

    @property
    def digest(self) -> str:
        """SHA-256 over all parts, in hexadecimal."""
        return hashlib.sha256(json.dumps(dataclasses.asdict(self), sort_keys=True).encode()).hexdigest()

    def changed(self, other: StoreKey) -> tuple[str, ...]:
        """Return the names of the parts in which two keys differ."""
        names = [field.name for field in dataclasses.fields(self)]
        return tuple(name for name in names if getattr(self, name) != getattr(other, name))

    def difference(self, other: StoreKey) -> str:
        """Return the parts in which this key differs from another, in words; a short view is spelled out."""
        parts = []
        for name in self.changed(other):
            text = _WORDS[name]
            if name == "view" and max(len(self.view), len(other.view)) <= 200:
                text = f"{text} ({self.view}, not {other.view})"
            parts.append(text)
        return " and ".join(parts)


@dataclass(frozen=True)
class Skipped:
    """An item that has no row: its number among all items, its name, and why."""

    item: int
    name: str
    reason: str


@dataclass(frozen=True)
class Manifest:
    """What is in a store: ``manifest.json``, which is written last.

    Attributes
    ----------
    key : StoreKey
    dtype : str
        ``"float16"`` or ``"float32"``, little-endian.
    dim : int
        Features per row, D; 0 as long as there is no row.
    total : int or None
        Number of items. Version 0.1 wrote None for a store that could grow.
    keyed : bool
        Whether version 0.1 wrote a key for each row.
    rows : int
    items : int
        Items that are done: rows and skipped ones.
    skipped : tuple of Skipped
    complete : bool
        Whether all items are done.
    """

    key: StoreKey
    dtype: str
    dim: int
    total: int | None
    keyed: bool = False
    rows: int = 0
    items: int = 0
    skipped: tuple[Skipped, ...] = ()
    complete: bool = False

    @property
    def storage(self) -> np.dtype[Any]:
        """The dtype on the disk, little-endian on every machine."""
        return np.dtype(self.dtype).newbyteorder("<")

    def write(self, folder: Path) -> None:
        """Put the manifest into a folder, whole or not at all."""
        text = json.dumps({"format": FORMAT, **dataclasses.asdict(self)}, indent=2, allow_nan=False) + "\n"
        put_file(folder / MANIFEST, lambda file: file.write(text.encode()))

    @classmethod
    def read(cls, folder: Path) -> Self:
        """Read the manifest of a folder; raises :class:`StoreError` where there is none."""
        try:
            text = (folder / MANIFEST).read_bytes()
        except (FileNotFoundError, NotADirectoryError):
            raise StoreError(f"{folder} is not a feature store: it has no {MANIFEST}.") from None
        not_understood = f"{folder}: {MANIFEST} cannot be understood; extract again into another folder."
        try:
            document = json.loads(text)
            found = document["format"]
        except (ValueError, KeyError, TypeError) as error:
            raise StoreError(not_understood) from error
        if found != FORMAT:
            raise StoreError(
                f"{folder}: the store has format {found}, and this version reads format {FORMAT}; extract again."
            )
        try:
            fields = {field.name: document[field.name] for field in dataclasses.fields(cls)}
            fields["key"] = StoreKey(**fields["key"])
            fields["skipped"] = tuple(Skipped(**item) for item in fields["skipped"])
        except (KeyError, TypeError) as error:
            raise StoreError(not_understood) from error
        return cls(**fields)

    def check_same(self, key: StoreKey, folder: Path, dtype: str | None = None, total: int | None = None) -> None:
        """Raise :class:`StaleStore` where the store was made from something else."""
        changed = self.key.changed(key)
        if changed:
            message = f"{folder} was made with {self.key.difference(key)}; choose another folder, or overwrite it."
            raise StaleStore(message, changed)
        for name, old, new in (("dtype", self.dtype, dtype), ("rows", self.total, total)):
            if new is not None and old != new:
                message = f"{folder} was made with {name} {old}, not {new}; choose another folder, or overwrite it."
                raise StaleStore(message, (name,))


class FeatureStore:
    """Vectors in a folder, with the key of what they were made from.

    The vectors are memory-mapped: a store larger than memory opens at once, and nothing is copied. A store that is not
    finished, damaged or made from something else is refused. Made by :func:`~laplacianshot.embedding.extract` or by
    :meth:`write`; opened by :meth:`open`.

    The folder holds ``manifest.json``, ``vectors.bin`` (one row after the other, little-endian), and ``labels.npy``,
    ``split.npy``, ``class_names.npy`` and ``names.npy`` as far as they were given.

    Attributes
    ----------
    path : Path
    key : StoreKey
    features : memory-mapped array of shape (n, D)
        float16 or float32, read-only.
    skipped : tuple of Skipped
        Items that could not be read and have no row.

    Examples
    --------
    >>> from tempfile import TemporaryDirectory
    >>> folder = TemporaryDirectory()
    >>> FeatureStore.write(folder.name, [[0.5, 1.0], [2.0, 3.0]], ["cat", "dog"])
    FeatureStore(2 rows x 2, float32)
    >>> FeatureStore.open(folder.name).labels.tolist()
    ['cat', 'dog']
    >>> folder.cleanup()
    """

    def __init__(self, path: Path, manifest: Manifest) -> None:
        self.path = path
        self._manifest = manifest

    @classmethod
    def open(cls, path: str | PathLike[str], key: StoreKey | None = None) -> Self:
        """Open a finished store.

        Parameters
        ----------
        path : path of the folder
        key : StoreKey, optional
            What the vectors must be made from.

        Raises
        ------
        StaleStore
            They were made from something else; the message says which part changed.
        IncompleteStore
            The extraction has not finished.
        StoreError
            There is no store, or it is damaged.
        """
        folder = Path(path)
        manifest = Manifest.read(folder)
        if key is not None:
            manifest.check_same(key, folder)
        if not manifest.complete:
            raise IncompleteStore(
                f"{folder} is not finished: {manifest.items} of {manifest.total} items are done; run the same "
                "extraction again, and it goes on from there."
            )
        return cls(folder, manifest)

    @classmethod
    def write(
        cls,
        path: str | PathLike[str],
        features: ArrayLike,
        labels: ArrayLike | None = None,
        split: ArrayLike | None = None,
        class_names: Sequence[str] | Labels | None = None,
        names: Sequence[str] | Labels | None = None,
        *,
        key: StoreKey | None = None,
        dtype: str | None = None,
        overwrite: bool = False,
    ) -> Self:
        """Make a store from arrays.

        Parameters
        ----------
        path : path of the folder
        features : array of shape (n, D)
        labels, split, names : arrays of shape (n,), optional
        class_names : sequence of str, optional
        key : StoreKey, optional
            Default: the hash of the arrays.
        dtype : "float32" or "float16", optional
            Default: float16 for float16, else float32.
        overwrite : bool
            Replace a store that was made from something else instead of refusing it.
        """
        rows: Any = np.asanyarray(features)
        if rows.ndim != 2 or rows.dtype.kind not in "iuf":
            raise ValueError(f"features must be numbers of shape (n, D), got {rows.dtype} of shape {rows.shape}.")
        given = {"labels": labels, "split": split, "class_names": class_names, "names": names}
        sides = {name: _side_array(name, values, len(rows)) for name, values in given.items() if values is not None}
        chosen = dtype or ("float16" if rows.dtype == np.float16 else "float32")
        made_from = key or StoreKey("", "", arrays_hash({"features": rows, **sides}))
        with lock_store(path, made_from, chosen, len(rows), overwrite=overwrite) as folder:
            if not (folder / MANIFEST).exists() or not Manifest.read(folder).complete:
                write_files(folder, Manifest(made_from, chosen, 0, len(rows)), rows, sides)
        return cls.open(path)

    @property
    def key(self) -> StoreKey:
        """What the vectors were made from."""
        return self._manifest.key

    @property
    def n_rows(self) -> int:
        """Number of rows, n."""
        return self._manifest.rows

    @property
    def dim(self) -> int:
        """Features per row, D; 0 where there is no row."""
        return self._manifest.dim

    @property
    def dtype(self) -> str:
        """``"float16"`` or ``"float32"``."""
        return self._manifest.dtype

    @property
    def skipped(self) -> tuple[Skipped, ...]:
        """Items that could not be read and have no row."""
        return self._manifest.skipped

    @cached_property
    def features(self) -> Floats:
        """The vectors, (n, D), memory-mapped and read-only."""
        path, shape, dtype = self.path / VECTORS, (self.n_rows, self.dim), self._manifest.storage
        expected = self.n_rows * self.dim * dtype.itemsize
        found = path.stat().st_size if path.exists() else 0
        if found < expected:
            raise StoreError(f"{path} is damaged: it has {found} bytes of {expected}; extract again elsewhere.")
        # An empty file cannot be mapped.
        vectors: Floats = np.memmap(path, dtype=dtype, mode="r", shape=shape) if expected else np.empty(shape, dtype)
        return vectors

    @cached_property
    def labels(self) -> Labels | None:
        """Label of each row, (n,), or None."""
        return self._side("labels")

    @cached_property
    def split(self) -> Labels | None:
        """Part that each row belongs to, (n,) of str, or None."""
        return self._side("split")

    @cached_property
    def class_names(self) -> Labels | None:
        """Name of each integer label, (C,) of str, or None."""
        return self._side("class_names")

    @cached_property
    def names(self) -> Labels | None:
        """Name of each row's item, (n,) of str, or None."""
        return self._side("names")

    def export(self, path: str | PathLike[str]) -> None:
        """Write all rows to one file, ``.npz`` or ``.parquet``, whole or not at all.

        ``.npz`` holds ``features``, ``labels``, ``split``, ``class_names`` and ``names``, as far as they exist.
        ``.parquet`` has one line per row: ``name``, ``label``, ``class_name``, ``split`` and ``features``, a list of D
        float32. It needs pyarrow, extra ``parquet``.
        """
        target = Path(path)
        check_export(target)
        write = self._write_npz if target.suffix.lower() == ".npz" else self._write_parquet
        put_file(target, write)

    def _write_npz(self, file: IO[bytes]) -> None:
        sides = {name: getattr(self, name) for name in SIDES}
        np.savez(file, features=self.features, **{name: array for name, array in sides.items() if array is not None})

    def _write_parquet(self, file: IO[bytes]) -> None:
        arrow, parquet = require("pyarrow", "parquet"), require("pyarrow.parquet", "parquet")
        class_name = None
        if self.class_names is not None and self.labels is not None and self.labels.dtype.kind in "iu":
            class_name = self.class_names[self.labels]
        known = {"name": self.names, "label": self.labels, "class_name": class_name, "split": self.split}
        columns = {name: column for name, column in known.items() if column is not None}
        # float32 also for float16, which it holds exactly: not every reader of Parquet knows the half.
        vectors = arrow.list_(arrow.float32(), self.dim)
        fields = [(name, arrow.array(column[:1]).type) for name, column in columns.items()]
        schema = arrow.schema([*fields, ("features", vectors)])
        with parquet.ParquetWriter(file, schema, use_dictionary=list(columns)) as writer:
            for start in range(0, self.n_rows, _BLOCK_ROWS):
                group = slice(start, start + _BLOCK_ROWS)
                flat = arrow.array(self.features[group].astype(np.float32).reshape(-1))
                arrays: list[Any] = [arrow.array(column[group]) for column in columns.values()]
                arrays.append(arrow.FixedSizeListArray.from_arrays(flat, self.dim))
                writer.write_table(arrow.table(arrays, schema=schema))

    def _side(self, name: str) -> Labels | None:
        path = self.path / f"{name}.npy"
        if not path.exists():
            return None
        try:
            array: Labels = np.load(path, allow_pickle=False)
        except (ValueError, EOFError) as error:
            raise StoreError(f"{path} is damaged ({error}); extract again into another folder.") from error
        if name != "class_names" and array.shape != (self.n_rows,):
            raise StoreError(f"{path} is damaged: it has shape {array.shape} for {self.n_rows} rows; extract again.")
        return array

    def __len__(self) -> int:
        return self.n_rows

    def __repr__(self) -> str:
        return f"FeatureStore({self.n_rows} rows x {self.dim}, {self.dtype})"


@contextmanager
def lock_store(
    path: str | PathLike[str], key: StoreKey, dtype: str, total: int, *, overwrite: bool = False
) -> Iterator[Path]:
    """Hold the folder of a store of a key: a new one, or one of the same key.

    A file, a folder with other files in it, and a store of another key are refused; with ``overwrite`` the last is
    emptied.
    """
    if dtype not in DTYPES:
        raise ValueError(f"dtype must be one of {', '.join(DTYPES)}, got {dtype!r}.")
    folder = Path(path)
    if folder.exists() and not folder.is_dir():
        raise StoreError(f"{folder} is a file; a store is a folder of its own.")
    # Hidden files do not count, as file managers leave them about.
    others = [] if not folder.is_dir() else [one.name for one in folder.iterdir() if one.name[0] != "."]
    foreign = sorted(name for name in others if name not in _FILES)
    if foreign:
        raise StoreError(f"{folder} holds other files, such as {foreign[0]!r}; give a store a folder of its own.")
    folder.mkdir(parents=True, exist_ok=True)
    with FolderLock(folder, StoreInUse):
        remove_partial(folder)
        try:
            if (folder / MANIFEST).exists():
                Manifest.read(folder).check_same(key, folder, dtype, total)
        except StoreError:
            if not overwrite:
                raise
            # The manifest first: without it the rest is not a store.
            for name in _FILES:
                if name != LOCK_NAME:
                    (folder / name).unlink(missing_ok=True)
        yield folder


def write_files(folder: Path, manifest: Manifest, rows: Floats, sides: dict[str, Any]) -> None:
    """Write the files of a store into a folder that is held, the manifest last.

    Parameters
    ----------
    folder : Path
    manifest : Manifest
        With key, dtype, total and skipped items; the rest is filled in.
    rows : array of shape (n, D)
    sides : dict of arrays
        Of :data:`SIDES`, as far as they exist.
    """
    stored = as_stored(rows, manifest.dtype)
    arrays = {name: _side_array(name, values, len(stored)) for name, values in sides.items()}
    blocks = [stored[start : start + _BLOCK_ROWS] for start in range(0, len(stored), _BLOCK_ROWS)]
    put_file(folder / VECTORS, lambda file: file.writelines(block.tobytes() for block in blocks))
    for name in SIDES:
        path = folder / f"{name}.npy"
        if name in arrays:
            array = arrays[name]
            put_file(path, lambda file, array=array: np.lib.format.write_array(file, array, allow_pickle=False))  # type: ignore[misc]
        else:
            path.unlink(missing_ok=True)
    n, dim = stored.shape
    items = n + len(manifest.skipped)
    dataclasses.replace(manifest, dim=dim, rows=n, items=items, complete=True).write(folder)


def as_stored(rows: Floats, dtype: str, first: int = 0) -> Floats:
    """Return rows in the dtype of a store; raises ``ValueError`` where one is not finite in it.

    Parameters
    ----------
    rows : array of shape (n, D)
    dtype : "float32" or "float16"
    first : int
        Number of the first row, for the message.
    """
    with np.errstate(over="ignore"):
        block: Floats = rows.astype(np.dtype(dtype).newbyteorder("<"), copy=False)
    finite = np.isfinite(block).all(axis=1)
    if not finite.all():
        row = int(np.argmin(finite))
        largest = np.abs(rows[row]).max()
        if np.isfinite(largest):
            raise ValueError(
                f"row {first + row} holds {largest:g}, which is too large for {dtype}; "
                "choose dtype float32, or scale the vectors."
            )
        raise ValueError(f"row {first + row} holds NaN or infinity; every feature must be a finite number.")
    return block


def check_export(path: Path) -> None:
    """Refuse, before any work, a name of another ending or a format whose package is missing."""
    if path.suffix.lower() not in EXPORT_FORMATS:
        raise ValueError(f"{path}: the name must end in {' or '.join(EXPORT_FORMATS)}.")
    if path.suffix.lower() == ".parquet":
        require("pyarrow.parquet", "parquet")


def view_text(view: Any) -> str:
    """Return a view as text: its class and all its parameters, the same for equal views.

    Examples
    --------
    >>> @dataclass(frozen=True)
    ... class Center:
    ...     resize: int = 96
    ...     crop: int = 84
    >>> view_text(Center(crop=80))
    'Center(resize=96, crop=80)'
    """
    if not dataclasses.is_dataclass(view) or isinstance(view, type):
        raise TypeError(f"view must be a data class whose fields are its parameters; got {view!r}.")
    fields = [f"{field.name}={getattr(view, field.name)!r}" for field in dataclasses.fields(view)]
    return f"{type(view).__name__}({', '.join(fields)})"


def _side_array(name: str, values: Any, n_rows: int) -> Labels:
    """Check an array that goes beside the vectors."""
    array: Labels = np.asarray(values)
    if array.dtype.kind not in "iubU":
        raise ValueError(f"{name} must be integers, strings or bools, got {array.dtype}.")
    if array.ndim != 1 or (name != "class_names" and len(array) != n_rows):
        raise ValueError(f"{name} must have shape ({n_rows},), one for each row, got shape {array.shape}.")
    return array
