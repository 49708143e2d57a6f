"""Files that are complete or absent, at whatever moment a process is killed."""

from __future__ import annotations

import contextlib
import os
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import IO

_PARTIAL = ".partial-"


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
    """Write the names of a folder to the disk, where the system supports it."""
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
