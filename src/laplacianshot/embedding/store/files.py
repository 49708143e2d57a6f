"""What a store consists of, and the lock of its folder."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import IO
from weakref import WeakSet

from laplacianshot.embedding.store.errors import StoreError, StoreInUse

VECTORS = "vectors.bin"
ITEM_KEYS = "item_keys.bin"
MANIFEST = "manifest.json"
LOCK = ".lock"

# Arrays beside the vectors, each in a .npy file of its name.
SIDES = ("labels", "split", "class_names", "names")

# All that a store may consist of.
STORE_FILES = (MANIFEST, VECTORS, ITEM_KEYS, LOCK, *(f"{name}.npy" for name in SIDES))


def foreign_files(folder: Path) -> list[str]:
    """Names in a folder that no store has put there; hidden ones do not count, as file managers leave them about."""
    names = sorted(path.name for path in folder.iterdir())
    return [name for name in names if name not in STORE_FILES and not name.startswith(".")]


class FolderLock:
    """The right to write into a folder: one process at a time, given back when it ends, however it ends."""

    def __init__(self, folder: Path) -> None:
        self._file = (folder / LOCK).open("ab")
        try:
            _lock(self._file)
        except BlockingIOError:
            self._file.close()
            raise StoreInUse(f"{folder}: another process is writing this store; wait for its end, or end it.") from None
        except OSError as error:
            self._file.close()
            raise StoreError(
                f"{folder}: the store cannot be locked ({error.strerror}); put it on a local disk."
            ) from error
        _HELD.add(self)

    def release(self) -> None:
        """Let others write."""
        self._file.close()


_HELD: WeakSet[FolderLock] = WeakSet()


def _drop_inherited() -> None:
    """A forked child shares its parent's locks; it must not keep them when the parent is killed."""
    for lock in list(_HELD):
        lock.release()


if sys.platform == "win32":
    import msvcrt

    def _lock(file: IO[bytes]) -> None:
        try:
            msvcrt.locking(file.fileno(), msvcrt.LK_NBLCK, 1)
        except PermissionError as error:
            raise BlockingIOError from error
else:
    import fcntl

    def _lock(file: IO[bytes]) -> None:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)

    os.register_at_fork(after_in_child=_drop_inherited)
