"""One run at a time in an output folder."""

from __future__ import annotations

import errno
import os
import socket
import sys
from pathlib import Path
from types import TracebackType
from typing import Self

from laplacianshot.training.errors import OutputInUse

LOCK_NAME = ".lock"

# Folders this very process works in: the system's lock does not keep a process from itself.
_mine: set[Path] = set()


class FolderLock:
    """Hold a folder for this process, from ``with`` to its end.

    The system's lock on the file ``.lock`` counts, not the file: it goes with its process however that ends, so the
    file of a killed run is simply taken over. The file names the process for whoever comes second.

    Parameters
    ----------
    folder : Path
        An existing folder.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder.resolve()
        self._handle = -1

    def __enter__(self) -> Self:
        if self._folder in _mine:
            raise OutputInUse(f"{self._folder}: another run of this process is writing there; choose another folder.")
        self._handle = os.open(self._folder / LOCK_NAME, os.O_RDWR | os.O_CREAT, 0o666)
        if not _locked(self._handle):
            holder = os.read(self._handle, 200).decode("utf-8", "replace").strip() or "another process"
            os.close(self._handle)
            raise OutputInUse(f"{self._folder}: {holder} is writing there; wait for its end or choose another folder.")
        os.ftruncate(self._handle, 0)
        os.write(self._handle, f"process {os.getpid()} on {socket.gethostname()}\n".encode())
        _mine.add(self._folder)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        _mine.discard(self._folder)
        os.ftruncate(self._handle, 0)
        # The file stays: another process may have opened it already, and would lock what no longer has a name.
        os.close(self._handle)


def _locked(handle: int) -> bool:
    """Take the lock if it is free. Unlike that of flock it is not inherited by worker processes that outlive a kill."""
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
        # Disks that know no locks are used without.
        return error.errno not in (errno.EACCES, errno.EAGAIN, errno.EDEADLK)
    return True
