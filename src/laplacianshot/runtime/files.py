"""Files that are complete or absent whenever a process is killed, folder locks, and the cache folder of the user."""

from __future__ import annotations

import contextlib
import errno
import os
import socket
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import IO, Self

from laplacianshot.runtime.errors import InputError

VARIABLE = "LAPLACIANSHOT_CACHE"
_PARTIAL = ".partial-"
LOCK_NAME = ".lock"

# Folders that this process holds: the system's lock does not exclude a process from itself.
_held: set[Path] = set()
if hasattr(os, "register_at_fork"):
    # The lock itself stays with the parent.
    os.register_at_fork(after_in_child=_held.clear)


def put_file(path: Path, write: Callable[[IO[bytes]], object]) -> None:
    """Let ``write`` fill a file and put it at ``path``: complete and on the disk, or the file before it stays."""
    handle, name = tempfile.mkstemp(dir=path.parent, prefix=_PARTIAL, suffix=path.suffix)
    try:
        with os.fdopen(handle, "wb") as file:
            write(file)
            file.flush()
            os.fsync(file.fileno())
        # mkstemp makes files that only their owner can read.
        umask = os.umask(0)
        os.umask(umask)
        Path(name).chmod(0o666 & ~umask)
        Path(name).replace(path)
    except BaseException:
        Path(name).unlink(missing_ok=True)
        raise
    sync_folder(path.parent)


def sync_folder(folder: Path) -> None:
    """Write the names of a folder to the disk, if the system supports it."""
    with contextlib.suppress(OSError):
        handle = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)


def remove_partial(folder: Path, *, older: float = 0) -> None:
    """Remove the partial files that a killed process left.

    Where other processes may be writing, only files last changed more than ``older`` seconds ago are removed.
    """
    for path in folder.glob(f"{_PARTIAL}*"):
        with contextlib.suppress(FileNotFoundError):
            if not older or time.time() - path.stat().st_mtime > older:
                path.unlink()


class FolderInUse(InputError):
    """Another process, or another run of this one, is writing in the folder."""


class FolderLock:
    """Hold an existing folder for this process, from ``with`` or :meth:`acquire` to the end or :meth:`release`.

    The system's lock on the file ``.lock`` counts, not the file: it ends with its process, however that ends, so the
    file of a killed run is taken over. The file names its process and the ``holder``, such as ``the studio``: a second
    process raises ``error`` with a message that names them and gives the ``advice``.
    """

    def __init__(
        self,
        folder: Path,
        error: type[Exception] = FolderInUse,
        *,
        holder: str = "",
        advice: str = "wait for its end or choose another folder",
    ) -> None:
        self._folder, self._error, self._holder, self._advice = folder.resolve(), error, holder, advice
        self._handle = -1

    def acquire(self) -> Self:
        """Take the lock, or raise."""
        if self._folder in _held:
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
        _held.add(self._folder)
        return self

    def release(self) -> None:
        """Release the lock; a second call does nothing."""
        if self._handle < 0:
            return
        _held.discard(self._folder)
        os.ftruncate(self._handle, 0)
        # The file stays: another process may have opened it already, and would lock what no longer has a name.
        os.close(self._handle)
        self._handle = -1

    def _refusal(self, holder: str) -> Exception:
        return self._error(f"{self._folder}: {holder} is writing there; {self._advice}.")

    def __enter__(self) -> Self:
        return self.acquire()

    def __exit__(self, *error: object) -> None:
        self.release()


def take_lock(handle: int) -> bool:
    """Take the lock of an open file if it is free; unlike that of flock, worker processes do not inherit it."""
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


def usual_cache() -> Path:
    """Return ``LAPLACIANSHOT_CACHE`` if it is set, else the system's folder for caches of this user."""
    named = os.environ.get(VARIABLE)
    if named:
        return Path(named).expanduser()
    if sys.platform == "win32":
        base = os.environ.get("LOCALAPPDATA") or "~/AppData/Local"
    elif sys.platform == "darwin":
        base = "~/Library/Caches"
    else:
        base = os.environ.get("XDG_CACHE_HOME") or "~/.cache"
    with contextlib.suppress(RuntimeError):  # a user without a home
        return Path(base).expanduser() / "laplacianshot"
    return _temporary()


def user_cache() -> tuple[Path, str]:
    """Return a folder that can be written, and a note in one line if it is not the usual one, else ``""``."""
    usual = usual_cache()
    fault = _fault(usual)
    if not fault:
        return usual, ""
    instead = _temporary()
    if _fault(instead):
        instead = Path(tempfile.mkdtemp(prefix="laplacianshot-"))
    return instead, f"{usual} cannot be written ({fault}); keeping vectors in {instead}. Set {VARIABLE} to a folder."


def _temporary() -> Path:
    """A temporary folder for this user alone."""
    name = str(os.getuid()) if hasattr(os, "getuid") else os.environ.get("USERNAME", "user")
    return Path(tempfile.gettempdir()) / f"laplacianshot-{name}"


def _fault(folder: Path) -> str:
    """Why a folder cannot be written; empty if it can."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
        if hasattr(os, "getuid") and folder == _temporary():
            folder.chmod(0o700)  # fails where another user has taken the name
        with tempfile.TemporaryFile(dir=folder):
            return ""
    except OSError as error:
        return error.strerror or str(error)
