"""A feature store as it is read."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import cached_property
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

import numpy as np
from numpy.typing import ArrayLike

from laplacianshot.embedding.store.errors import StoreError
from laplacianshot.embedding.store.files import ITEM_KEYS, VECTORS
from laplacianshot.embedding.store.key import StoreKey, packed_keys
from laplacianshot.embedding.store.manifest import Manifest, Skipped
from laplacianshot.runtime.keyed_folder import arrays_hash

if TYPE_CHECKING:
    from laplacianshot.embedding.store.writer import StoreWriter
    from laplacianshot.runtime.types import Floats, Ints, Labels

# Rows written together when a store is made from arrays.
_BLOCK_ROWS = 4096


class FeatureStore:
    """Vectors in a folder, with the key of what they were made from.

    The vectors are memory-mapped: a store larger than memory opens at once, and nothing is copied. A store that is not
    finished, damaged or made from something else is refused. Made by :func:`~laplacianshot.embedding.extract`, by
    :meth:`create` or by :meth:`write`; opened by :meth:`open`.

    The folder holds ``manifest.json``, ``vectors.bin`` (rows one after the other, little-endian), where each row has an
    item key ``item_keys.bin`` (32 bytes a row), and ``labels.npy``, ``split.npy``, ``class_names.npy`` and
    ``names.npy`` as far as they were given.

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
            What the vectors have to be made from.

        Raises
        ------
        StaleStore
            They were made from something else; the message says which part changed.
        IncompleteStore
            The extraction has not come to its end.
        StoreError
            There is no store, or it is damaged.
        """
        folder = Path(path)
        manifest = Manifest.read(folder)
        if key is not None:
            manifest.check_key(key, folder)
        manifest.check_complete(folder)
        return cls(folder, manifest)

    @staticmethod
    def create(
        path: str | PathLike[str],
        key: StoreKey,
        n: int | None = None,
        dim: int | None = None,
        dtype: str = "float32",
        *,
        keyed: bool = False,
        overwrite: bool = False,
    ) -> StoreWriter:
        """A writer for a new store, or for one of this key that is there already: it goes on where that one stopped.

        Parameters
        ----------
        path : path of the folder
            Made if it is not there. A folder with other files in it is refused.
        key : StoreKey
        n : int, optional
            Items that there will be. Without it the store may grow for ever.
        dim : int, optional
            Features of a row; without it, those of the first rows.
        dtype : "float32" or "float16"
        keyed : bool
            Every row has an item key, and can be looked up by it.
        overwrite : bool
            Replace a store that was made from something else instead of refusing it.

        Raises
        ------
        StaleStore
            The store there was made from something else.
        StoreInUse
            Another process is writing it.
        """
        from laplacianshot.embedding.store.writer import StoreWriter

        return StoreWriter(Path(path), key, n, dim, dtype, keyed=keyed, overwrite=overwrite)

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
        item_keys: Sequence[str] | None = None,
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
            Without it, one of the arrays' own bytes.
        item_keys : sequence of str of length n, optional
        dtype : "float32" or "float16", optional
            Without it, float16 for float16 and else float32.
        overwrite : bool
            Replace a store that was made from something else instead of refusing it.
        """
        rows: Any = np.asanyarray(features)
        if rows.ndim != 2 or rows.dtype.kind not in "iuf":
            raise ValueError(f"features must be numbers of shape (n, D), got {rows.dtype} of shape {rows.shape}.")
        given = {"labels": labels, "split": split, "class_names": class_names, "names": names}
        sides = {name: side_array(name, values, len(rows)) for name, values in given.items() if values is not None}
        chosen = dtype or ("float16" if rows.dtype == np.float16 else "float32")
        made_from = key or StoreKey("", "", arrays_hash({"features": rows, **sides}))
        n, dim = rows.shape
        with cls.create(path, made_from, n, dim, chosen, keyed=item_keys is not None, overwrite=overwrite) as writer:
            while writer.items < len(rows):
                block = slice(writer.items, writer.items + _BLOCK_ROWS)
                writer.append(rows[block], None if item_keys is None else item_keys[block])
            writer.finish(**sides)
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
        """Features of a row, D; 0 where there is no row."""
        return self._manifest.dim

    @property
    def dtype(self) -> str:
        """``"float16"`` or ``"float32"``."""
        return self._manifest.dtype

    @property
    def complete(self) -> bool:
        """Whether all that was promised is there."""
        return self._manifest.complete

    @property
    def skipped(self) -> tuple[Skipped, ...]:
        """Items that could not be read and have no row."""
        return self._manifest.skipped

    @cached_property
    def features(self) -> Floats:
        """The vectors, (n, D), memory-mapped and read-only."""
        vectors: Floats = _mapped(self.path / VECTORS, self._manifest.storage, (self.n_rows, self.dim))
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

    @cached_property
    def item_keys(self) -> tuple[str, ...] | None:
        """Key of each row's item, or None."""
        return tuple(key.hex() for key in read_keys(self.path, self._manifest)) if self._manifest.keyed else None

    def lookup(self, keys: Iterable[str]) -> Ints:
        """Row of each item key, -1 where there is none."""
        if not self._manifest.keyed:
            raise StoreError(f"{self.path}: the rows of this store have no item keys.")
        return rows_of_keys(self._rows_by_key, packed_keys(keys))

    def export(self, path: str | PathLike[str]) -> None:
        """Write all rows to one file, ``.npz`` or ``.parquet``, whole or not at all.

        ``.npz`` holds ``features``, ``labels``, ``split``, ``class_names`` and ``names``, as far as they are there.
        ``.parquet`` has a line a row: ``name``, ``label``, ``class_name``, ``split`` and ``features``, a list of D
        float32. It needs pyarrow, extra ``parquet``.
        """
        from laplacianshot.embedding.store.export import export

        export(self, Path(path))

    @cached_property
    def _rows_by_key(self) -> dict[bytes, int]:
        return {key: row for row, key in enumerate(read_keys(self.path, self._manifest))}

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


def side_array(name: str, values: Any, n_rows: int) -> Labels:
    """An array to be put beside the vectors, checked."""
    array: Labels = np.asarray(values)
    if array.dtype.kind not in "iubU":
        raise ValueError(f"{name} must be integers, strings or bools, got {array.dtype}.")
    if array.ndim != 1 or (name != "class_names" and len(array) != n_rows):
        raise ValueError(f"{name} must have shape ({n_rows},), one for each row, got shape {array.shape}.")
    return array


def read_keys(folder: Path, manifest: Manifest) -> list[bytes]:
    """Item key of each row."""
    table = _mapped(folder / ITEM_KEYS, np.dtype("V32"), (manifest.rows,))
    return [key.tobytes() for key in table]


def rows_of_keys(rows_by_key: dict[bytes, int], keys: list[bytes]) -> Ints:
    """Row of each key, -1 where there is none."""
    return np.array([rows_by_key.get(key, -1) for key in keys], dtype=np.int64)


def _mapped(path: Path, dtype: np.dtype[Any], shape: tuple[int, ...]) -> Any:
    """The beginning of a file as an array, without reading it."""
    wanted = int(np.prod(shape)) * dtype.itemsize
    found = path.stat().st_size if path.exists() else 0
    if found < wanted:
        raise StoreError(f"{path} is damaged: it has {found} bytes of {wanted}; extract again into another folder.")
    if wanted == 0:
        # An empty file cannot be mapped.
        return np.empty(shape, dtype)
    return np.memmap(path, dtype=dtype, mode="r", shape=shape)
