"""Files of the user opened safely, files that are complete or absent whenever a process is killed, and folder locks.

A path of the user may lead anywhere: to a pipe that nobody writes to, a device that never ends, a link, a folder.
:func:`open_input` and :func:`put_file` are the two doors through which such a path goes.
"""

from __future__ import annotations

import contextlib
import errno
import os
import socket
import stat
import sys
import tempfile
import time
from collections.abc import Callable
from io import BufferedReader
from pathlib import Path
from typing import IO, Any, Self

from laplacianshot.runtime.errors import InputError
from laplacianshot.runtime.limits import written_bytes

VARIABLE = "LAPLACIANSHOT_CACHE"
_PARTIAL = ".partial-"
LOCK_NAME = ".lock"

# Files and folders that hold labels, or what people labeled: for their owner alone.
PRIVATE_FILE, PRIVATE_FOLDER = 0o600, 0o700
# Letters of an ending that a partial file takes over; names have at most 255 bytes.
_MAX_SUFFIX = 16
# Bytes of a file that is read whole. More would not fit the memory of most machines once it is parsed.
MAX_INPUT = 8 << 30
# Never wait for a pipe, never make a terminal ours. Windows has neither, and would translate line ends.
_READING = os.O_RDONLY | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_NOCTTY", 0) | getattr(os, "O_BINARY", 0)

# Folders that this process holds: the system's lock does not exclude a process from itself.
_held: set[Path] = set()
if hasattr(os, "register_at_fork"):
    # The lock itself stays with the parent.
    os.register_at_fork(after_in_child=_held.clear)


def open_input(path: str | os.PathLike[str]) -> BufferedReader:
    """Open a file of the user to read it: a regular file or a link to one; OSError for a pipe, a device or a folder."""
    handle = os.open(path, _READING)
    try:
        _refuse_special(os.fstat(handle), path)
        return open(handle, "rb")  # noqa: PTH123 - by its number
    except BaseException:
        os.close(handle)
        raise


def check_input(path: str | os.PathLike[str]) -> None:
    """Raise what :func:`open_input` would, for a file that another package opens by its name."""
    open_input(path).close()


def read_input(path: str | os.PathLike[str], limit: int = MAX_INPUT) -> bytes:
    """Content of a file of the user; OSError if it is not a regular file, or has more than ``limit`` bytes."""
    with open_input(path) as file:
        size = os.fstat(file.fileno()).st_size
        if size > limit:
            raise OSError(
                errno.EFBIG, f"it has {written_bytes(size)}, more than the {written_bytes(limit)} allowed", path
            )
        # What is appended meanwhile is left alone.
        return file.read(size)


def load_npy(path: Path, *, mapped: bool = False) -> Any:
    """The array of a ``.npy`` file of the user, in memory or ``mapped``; nothing is unpickled.

    InputError if it is not such a file or is damaged, OSError if it cannot be read.
    """
    # Here, as the command line does not wait for numpy to print its help.
    import numpy as np

    check_input(path)
    try:
        array = np.load(path, mmap_mode="r" if mapped else None, allow_pickle=False)
    except OSError:
        raise
    except Exception as error:  # a damaged header may fail in any way, also with SyntaxError or MemoryError
        raise InputError(f"not an array of numbers, or damaged ({' '.join(str(error).split())})") from error
    if not isinstance(array, np.ndarray):
        array.close()
        raise InputError("it holds several arrays; call it .npz")
    if min(array.shape, default=0) < 0:
        raise InputError(f"damaged: its header says shape {array.shape}")
    return array


def _refuse_special(found: os.stat_result, path: str | os.PathLike[str]) -> None:
    if stat.S_ISDIR(found.st_mode):
        raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), os.fspath(path))
    if not stat.S_ISREG(found.st_mode):
        raise OSError(errno.EINVAL, "not a regular file", os.fspath(path))


def output_place(path: Path) -> Path:
    """Where a file of this name is written: links are followed. OSError for a pipe, a device, a folder or a loop."""
    place = Path(os.path.realpath(path))
    with contextlib.suppress(FileNotFoundError, NotADirectoryError):
        _refuse_special(place.stat(), path)
    return place


def put_file(path: Path, write: Callable[[IO[bytes]], object], *, private: bool = False) -> None:
    """Let ``write`` fill a file and put it at ``path``: complete and on the disk, or the file before it stays.

    A link stays a link, and the file it leads to is written. A file that exists keeps its permissions; a new one has
    those of the process's umask, or is its owner's alone if ``private``.
    """
    place = output_place(path)
    try:
        mode = stat.S_IMODE(place.stat().st_mode)
    except FileNotFoundError:
        mode = PRIVATE_FILE if private else 0o666 & ~_umask()
    # mkstemp makes files that only their owner can read.
    handle, name = tempfile.mkstemp(dir=place.parent, prefix=_PARTIAL, suffix=place.suffix[:_MAX_SUFFIX])
    try:
        with os.fdopen(handle, "wb") as file:
            write(file)
            file.flush()
            os.fsync(file.fileno())
        Path(name).chmod(mode)
        Path(name).replace(place)
    except BaseException:
        Path(name).unlink(missing_ok=True)
        raise
    sync_folder(place.parent)


def _umask() -> int:
    """The process's umask, which can only be read by setting it."""
    umask = os.umask(0o077)
    os.umask(umask)
    return umask


def make_private(folder: Path) -> None:
    """Make a folder, with its parents, that only its owner can enter; one that exists keeps its permissions."""
    if not folder.is_dir():
        folder.parent.mkdir(parents=True, exist_ok=True)
        folder.mkdir(mode=PRIVATE_FOLDER, exist_ok=True)


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
        place = self._folder / LOCK_NAME
        self._handle = os.open(place, os.O_RDWR | os.O_CREAT | getattr(os, "O_NONBLOCK", 0), 0o666)
        try:
            _refuse_special(os.fstat(self._handle), place)
        except OSError:
            os.close(self._handle)
            self._handle = -1
            raise
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
        make_private(folder)
        if hasattr(os, "getuid") and folder == _temporary():
            folder.chmod(0o700)  # fails where another user has taken the name
        with tempfile.TemporaryFile(dir=folder):
            return ""
    except OSError as error:
        return error.strerror or str(error)
