"""One process at a time in a folder."""

from __future__ import annotations

import errno
import os
import socket
import sys
from pathlib import Path
from types import TracebackType
from typing import Self

from laplacianshot.runtime.errors import InputError

LOCK_NAME = ".lock"

# Folders that this process holds: the system's lock does not exclude a process from itself.
_mine: set[Path] = set()
if hasattr(os, "register_at_fork"):
    # The lock itself stays with the parent.
    os.register_at_fork(after_in_child=_mine.clear)


class FolderInUse(InputError):
    """Another process, or another run of this one, is writing in the folder."""


class FolderLock:
    """Hold a folder for this process, from ``with`` or :meth:`acquire` to the end or :meth:`release`.

    The system's lock on the file ``.lock`` counts, not the file: it ends with its process, however that ends, so the
    file of a killed run is taken over. The file names its process, for the message of the second one.

    Parameters
    ----------
    folder : Path
        An existing folder.
    error : type of exception
        Raised where the folder is held already.
    holder : str, optional
        Who holds the folder, such as ``the studio``, for the message of the second process.
    advice : str
        What the user can do where it is held already.
    """

    def __init__(
        self,
        folder: Path,
        error: type[Exception] = FolderInUse,
        *,
        holder: str = "",
        advice: str = "wait for its end or choose another folder",
    ) -> None:
        self._folder = folder.resolve()
        self._error = error
        self._holder = holder
        self._advice = advice
        self._handle = -1

    def acquire(self) -> Self:
        """Take the lock, or raise."""
        if self._folder in _mine:
            raise self._refusal(f"{self._holder or 'another run'} of this process")
        self._handle = os.open(self._folder / LOCK_NAME, os.O_RDWR | os.O_CREAT, 0o666)
        if not take_lock(self._handle):
            holder = os.read(self._handle, 200).decode("utf-8", "replace").strip() or "another process"
            os.close(self._handle)
            self._handle = -1
            raise self._refusal(holder)
        os.ftruncate(self._handle, 0)
        process = f"process {os.getpid()} on {socket.gethostname()}"
        os.write(self._handle, f"{self._holder} ({process})\n".encode() if self._holder else f"{process}\n".encode())
        _mine.add(self._folder)
        return self

    def release(self) -> None:
        """Release the lock; a second call does nothing."""
        if self._handle < 0:
            return
        _mine.discard(self._folder)
        os.ftruncate(self._handle, 0)
        # The file stays: another process may have opened it already, and would lock what no longer has a name.
        os.close(self._handle)
        self._handle = -1

    def _refusal(self, holder: str) -> Exception:
        return self._error(f"{self._folder}: {holder} is writing there; {self._advice}.")

    def __enter__(self) -> Self:
        return self.acquire()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.release()


def take_lock(handle: int) -> bool:
    """Take the lock of an open file if it is free.

    Unlike that of flock it is not inherited by worker processes that outlive a kill.
    """
    try:
        if sys.platform == "win32":
            import msvcrt

            # A byte far behind the text, which others must be able to read.
            os.lseek(handle, 1 << 20, os.SEEK_SET)
            msvcrt.locking(handle, msvcrt.LK_NBLCK, 1)
            os.lseek(handle, 0, os.SEEK_SET)
        else:
            import fcntl

            fcntl.lockf(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError as error:
        # Disks without locks are used without them.
        return error.errno not in (errno.EACCES, errno.EAGAIN, errno.EDEADLK)
    return True
