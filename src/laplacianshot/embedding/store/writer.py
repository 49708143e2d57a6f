"""A feature store as it is written: rows added at the end, on the disk before the manifest speaks of them."""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence
from dataclasses import replace
from pathlib import Path
from types import TracebackType
from typing import IO, TYPE_CHECKING, Any, Self

import numpy as np
from numpy.typing import ArrayLike

from laplacianshot.embedding.store.errors import IncompleteStore, StaleStore, StoreError, StoreInUse
from laplacianshot.embedding.store.files import (
    ITEM_KEYS,
    MANIFEST,
    SIDES,
    STORE_FILES,
    VECTORS,
    foreign_files,
)
from laplacianshot.embedding.store.key import StoreKey, packed_keys
from laplacianshot.embedding.store.manifest import DTYPES, Manifest, Skipped
from laplacianshot.embedding.store.reader import read_keys, rows_of_keys, side_array
from laplacianshot.runtime.files import put_file, remove_partial, sync_folder
from laplacianshot.runtime.locks import LOCK_NAME, FolderLock

if TYPE_CHECKING:
    from laplacianshot.runtime.types import Floats, Ints, Labels

_KEY_BYTES = 32


class StoreWriter:
    """Adds rows to a store; a context manager, made by :meth:`FeatureStore.create`.

    :meth:`append` writes rows, :meth:`commit` puts them on the disk and then says so in the manifest, and
    :meth:`finish` does so for the last time. A writer that is killed leaves the rows of its last commit. Leaving the
    ``with`` block commits, also when an exception ends it.

    Vectors go through plain writes and not through the memory map: a full disk is an ``OSError`` there, and the end of
    the process here.
    """

    def __init__(
        self,
        path: Path,
        key: StoreKey,
        n: int | None,
        dim: int | None,
        dtype: str,
        *,
        keyed: bool,
        overwrite: bool,
    ) -> None:
        if dtype not in DTYPES:
            raise ValueError(f"dtype must be one of {', '.join(DTYPES)}, got {dtype!r}.")
        self.path = path
        self._files: dict[str, IO[bytes]] = {}
        self._failed = False
        wanted = Manifest(key, dtype, dim or 0, n, keyed)
        _check_folder(path)
        path.mkdir(parents=True, exist_ok=True)
        self._lock = FolderLock(path, StoreInUse).acquire()
        try:
            self._state = self._committed = self._begin(wanted, overwrite)
            self._rows_by_key = (
                {row_key: row for row, row_key in enumerate(read_keys(path, self._state))} if keyed else {}
            )
            self._files[VECTORS] = self._opened(VECTORS, self._state.rows * self._state.row_bytes)
            if keyed:
                self._files[ITEM_KEYS] = self._opened(ITEM_KEYS, self._state.rows * _KEY_BYTES)
        except BaseException:
            self.close()
            raise

    def _begin(self, wanted: Manifest, overwrite: bool) -> Manifest:
        """The state to go on from: that of the store that is there, or an empty one."""
        remove_partial(self.path)
        if (self.path / MANIFEST).exists():
            try:
                found = Manifest.read(self.path)
                _check_same(found, wanted, self.path)
            except StoreError:
                if not overwrite:
                    raise
            else:
                return found if found.dim else replace(found, dim=wanted.dim)
            # First of all: without it, the rest is no store.
            (self.path / MANIFEST).unlink()
            sync_folder(self.path)
        for name in STORE_FILES:
            if name != LOCK_NAME:
                (self.path / name).unlink(missing_ok=True)
        wanted.write(self.path)
        return wanted

    def _opened(self, name: str, size: int) -> IO[bytes]:
        path = self.path / name
        found = path.stat().st_size if path.exists() else 0
        if found < size:
            raise StoreError(f"{path} is damaged: it has {found} bytes of {size}; extract again into another folder.")
        file = path.open("r+b" if path.exists() else "x+b")
        if found > size:
            # Bytes after the last commit are the beginning of rows that were not finished.
            file.truncate(size)
        return file

    @property
    def rows(self) -> int:
        """Rows so far."""
        return self._state.rows

    @property
    def items(self) -> int:
        """Items so far: rows and skipped ones. The next item to be added is this one."""
        return self._state.items

    @property
    def skipped(self) -> tuple[Skipped, ...]:
        """Items so far that have no row."""
        return self._state.skipped

    @property
    def complete(self) -> bool:
        """Whether the store is finished; nothing can be added then. A store that may grow never is."""
        return self._state.complete and self._state.total is not None

    def append(self, vectors: ArrayLike, keys: Sequence[str] | None = None, *, skipped: Iterable[Skipped] = ()) -> None:
        """Add rows, and the items among them that have none.

        Parameters
        ----------
        vectors : array of shape (b, D)
            Finite numbers, and finite in the dtype of the store.
        keys : sequence of str of length b
            Item keys, for a store that has them; each is new to the store.
        skipped : Skipped, several
            Items of the same stretch that have no row.

        Raises
        ------
        ValueError
            The rows do not fit. Nothing has been added.
        OSError
            The rows cannot be written, as on a full disk. What was committed stays.
        """
        state = self._state
        block = self._checked(vectors)
        packed = self._checked_keys(keys, len(block))
        left_out = tuple(skipped)
        items = state.items + len(block) + len(left_out)
        if state.total is not None and items > state.total:
            raise ValueError(f"{self.path}: {items} items are more than the {state.total} of the store.")
        new = replace(
            state,
            dim=block.shape[1] if len(block) else state.dim,
            rows=state.rows + len(block),
            items=items,
            skipped=state.skipped + left_out,
        )
        if len(block):
            try:
                self._put(VECTORS, state.rows * new.row_bytes, block.tobytes())
                if state.keyed:
                    self._put(ITEM_KEYS, state.rows * _KEY_BYTES, b"".join(packed))
            except OSError as error:
                raise self._failure(error) from error
        # One assignment: an interrupt comes before it or after it.
        self._state = new
        self._rows_by_key.update({key: state.rows + i for i, key in enumerate(packed)})

    def _put(self, name: str, start: int, content: bytes) -> None:
        """Write after the last whole row, whatever an interrupted call has left there."""
        self._files[name].seek(start)
        self._files[name].write(content)

    def commit(self) -> None:
        """Put all rows on the disk, and then the manifest that counts them."""
        state = self._state
        if state.total is None:
            state = replace(state, complete=True)
        if state == self._committed:
            return
        try:
            for file in self._files.values():
                file.flush()
                os.fsync(file.fileno())
            state.write(self.path)
        except OSError as error:
            raise self._failure(error) from error
        self._state = self._committed = state

    def finish(
        self,
        labels: ArrayLike | None = None,
        split: ArrayLike | None = None,
        class_names: Sequence[str] | Labels | None = None,
        names: Sequence[str] | Labels | None = None,
    ) -> None:
        """Write what goes beside the vectors, and say that the store is complete.

        Parameters
        ----------
        labels, split, names : arrays of shape (n,), optional
            One for each row.
        class_names : sequence of str, optional
        """
        state = self._state
        if state.total is None:
            raise ValueError(f"{self.path}: a store without a number of items may always grow; it has no end.")
        if state.complete:
            return
        if state.items < state.total:
            raise IncompleteStore(f"{self.path}: {state.items} of {state.total} items are done.")
        sides = {"labels": labels, "split": split, "class_names": class_names, "names": names}
        arrays = {name: side_array(name, values, self.rows) for name, values in sides.items() if values is not None}
        self.commit()
        try:
            for name in SIDES:
                if name in arrays:
                    _put_array(self.path / f"{name}.npy", arrays[name])
                else:
                    (self.path / f"{name}.npy").unlink(missing_ok=True)
        except OSError as error:
            raise self._failure(error) from error
        self._state = replace(state, complete=True)
        self.commit()

    def lookup(self, keys: Iterable[str]) -> Ints:
        """Row of each item key, -1 where there is none."""
        if not self._state.keyed:
            raise StoreError(f"{self.path}: the rows of this store have no item keys.")
        return rows_of_keys(self._rows_by_key, packed_keys(keys))

    def close(self) -> None:
        """Close the files and let others write. What was not committed is lost."""
        for file in self._files.values():
            try:
                file.close()
            except OSError:
                # The rest of a buffer that a full disk did not take: rows that were never committed.
                continue
        self._files = {}
        self._lock.release()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        try:
            if not self._failed:
                self.commit()
        except OSError:
            # What ended the block is the better thing to hear of.
            if error is None:
                raise
        finally:
            self.close()

    def _checked(self, vectors: ArrayLike) -> Floats:
        """Rows in the dtype of the store, (b, D), all finite."""
        given: Any = np.asarray(vectors)
        if given.ndim != 2 or given.dtype.kind not in "iuf":
            raise ValueError(f"vectors must be numbers of shape (b, D), got {given.dtype} of shape {given.shape}.")
        if self._failed:
            raise StoreError(f"{self.path}: writing has failed before; open the store again to go on.")
        dim = self._state.dim
        if len(given) and (given.shape[1] == 0 or dim not in (0, given.shape[1])):
            raise ValueError(f"{self.path}: vectors have {given.shape[1]} features a row, the store has {dim}.")
        if self.complete and len(given):
            raise ValueError(f"{self.path}: the store is complete; nothing can be added to it.")
        with np.errstate(over="ignore"):
            block: Floats = given.astype(self._state.storage)
        finite = np.isfinite(block).all(axis=1)
        if not finite.all():
            row = int(np.argmin(finite))
            largest = np.abs(given[row]).max()
            if np.isfinite(largest):
                raise ValueError(
                    f"row {self.rows + row} holds {largest:g}, which is too large for {self._state.dtype}; "
                    "choose dtype float32, or scale the vectors."
                )
            raise ValueError(f"row {self.rows + row} holds NaN or infinity; every feature must be a finite number.")
        return block

    def _checked_keys(self, keys: Sequence[str] | None, n_rows: int) -> list[bytes]:
        if not self._state.keyed:
            if keys is not None:
                raise ValueError(f"{self.path}: the store was made without item keys; leave keys out.")
            return []
        packed = packed_keys(() if keys is None else keys)
        if len(packed) != n_rows:
            raise ValueError(f"keys: {len(packed)} item keys for {n_rows} rows; give one for each row.")
        seen: set[bytes] = set()
        for key in packed:
            if key in self._rows_by_key or key in seen:
                raise ValueError(f"keys: {key.hex()} would be in the store twice; look keys up before adding them.")
            seen.add(key)
        return packed

    def _failure(self, error: OSError) -> OSError:
        self._failed = True
        kept = self._committed
        of_all = "" if kept.total is None else f" of {kept.total}"
        return OSError(
            error.errno,
            f"{error.strerror}; {kept.items}{of_all} items are done and kept: mend this and run it again to go on",
            str(self.path),
        )


def _put_array(path: Path, array: Labels) -> None:
    put_file(path, lambda file: np.lib.format.write_array(file, array, allow_pickle=False))


def _check_folder(path: Path) -> None:
    if path.exists() and not path.is_dir():
        raise StoreError(f"{path} is a file; a store is a folder of its own.")
    foreign = foreign_files(path) if path.is_dir() else []
    if foreign:
        raise StoreError(f"{path} holds other files, such as {foreign[0]!r}; give a store a folder of its own.")


def _check_same(found: Manifest, wanted: Manifest, folder: Path) -> None:
    """Whether the store that is there is the one that is wanted."""
    found.check_key(wanted.key, folder)
    facts = {
        "dtype": (found.dtype, wanted.dtype),
        "dim": (found.dim or wanted.dim, wanted.dim or found.dim),
        "rows": (found.total, wanted.total),
        "item keys": (found.keyed, wanted.keyed),
    }
    for name, (old, new) in facts.items():
        if old != new:
            message = f"{folder} was made with {name} {old}, not {new}; choose another folder, or overwrite it."
            raise StaleStore(message, (name,))
