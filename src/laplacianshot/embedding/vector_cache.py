"""Vectors by the content of what they were made from, and content hashes of files by their state, in SQLite files."""

from __future__ import annotations

import errno
import hashlib
import os
import sqlite3
import time
import warnings
from collections.abc import Callable, Sequence
from contextlib import suppress
from os import PathLike
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

import numpy as np
from numpy.typing import NDArray

from laplacianshot.runtime.files import make_private, open_input

_KEY_BYTES = 16

# A file changed this short a time ago may change once more without its times showing it.
_SETTLED_NS = 2_000_000_000

# Seconds to wait for the write transaction of another process; each is short.
_TIMEOUT = 60.0
# Rows per write transaction and per query.
_TRANSACTION_ROWS = 4096
_QUERY_ROWS = 1000

_Result = TypeVar("_Result")


def short_hash(content_hash: bytes) -> bytes:
    """Shorten a cryptographic hash of 16 bytes or more to 16 bytes."""
    if len(content_hash) == _KEY_BYTES:
        return content_hash
    if len(content_hash) < _KEY_BYTES:
        raise ValueError(f"a content hash must have at least {_KEY_BYTES} bytes, got {len(content_hash)}.")
    return hashlib.blake2b(content_hash, digest_size=_KEY_BYTES).digest()


class RowFile:
    """Rows of a fixed number of values of a dtype under 16-byte keys, in one SQLite file.

    Several processes may read and write at once, and any of them may be killed at any moment. Each row has a checksum;
    a damaged row counts as absent. A damaged file is replaced by a new one, with a warning. The file is made with the
    first :meth:`put`; without a path nothing is kept.
    """

    def __init__(self, path: Path | None, width: int, dtype: str = "<u1") -> None:
        self._path, self._width, self._dtype = path, width, np.dtype(dtype)
        self._row_bytes = width * self._dtype.itemsize
        self._connection: sqlite3.Connection | None = None
        self._identity: tuple[int, int] | None = None

    def get(self, keys: Sequence[bytes]) -> tuple[NDArray[np.bool_], NDArray[Any]]:
        """Return which keys have a row (m,), and the rows (m, width), arbitrary where there is none."""
        rows = np.empty((len(keys), self._row_bytes), dtype=np.uint8)
        found = np.zeros(len(keys), dtype=bool)
        if self._path is None or not len(keys) or not self._path.exists():
            return found, rows.view(self._dtype)
        first: dict[bytes, int] = {}
        again = [(place, first[key]) for place, key in enumerate(keys) if first.setdefault(key, place) != place]

        def read(connection: sqlite3.Connection) -> None:
            unique = list(first)
            for start in range(0, len(unique), _QUERY_ROWS):
                some = unique[start : start + _QUERY_ROWS]
                query = f"SELECT key, row FROM rows WHERE key IN ({','.join('?' * len(some))})"
                keys, table = self._undamaged(connection.execute(query, some).fetchall())
                places = [first[key] for key in keys]
                rows[places], found[places] = table, True

        # A file that cannot be opened, or that is still empty, holds nothing.
        with suppress(sqlite3.OperationalError):
            self._run(self._path, read)
        for place, other in again:
            found[place], rows[place] = found[other], rows[other]
        return found, rows.view(self._dtype)

    def put(self, keys: Sequence[bytes], values: NDArray[Any]) -> None:
        """Add rows (m, width) or replace them. They are on the disk when this returns."""
        if values.shape != (len(keys), self._width):
            raise ValueError(f"rows must have shape ({len(keys)}, {self._width}), got {values.shape}.")
        if self._path is None or not len(keys):
            return
        rows = np.ascontiguousarray(values, dtype=self._dtype).view(np.uint8)
        sums = _checksums(keys, rows).astype("<u8")

        def write(connection: sqlite3.Connection) -> None:
            connection.execute("CREATE TABLE IF NOT EXISTS rows (key BLOB PRIMARY KEY, row BLOB NOT NULL)")
            for start in range(0, len(keys), _TRANSACTION_ROWS):
                some = range(start, min(start + _TRANSACTION_ROWS, len(keys)))
                values = [(keys[i], sums[i].tobytes() + rows[i].tobytes()) for i in some]
                connection.execute("BEGIN IMMEDIATE")
                connection.executemany("INSERT OR REPLACE INTO rows VALUES (?, ?)", values)
                connection.execute("COMMIT")

        make_private(self._path.parent)
        try:
            self._run(self._path, write)
        except sqlite3.Error as error:
            number = errno.ENOSPC if "full" in str(error) else errno.EIO
            raise OSError(number, str(error), str(self._path)) from error

    def __len__(self) -> int:
        with suppress(sqlite3.OperationalError):
            if self._path is not None and self._path.exists():
                return int(self._run(self._path, lambda rows: rows.execute("SELECT count(*) FROM rows").fetchone()[0]))
        return 0

    def close(self) -> None:
        """Close the file; it is opened again when it is needed."""
        connection, self._connection = self._connection, None
        if connection is not None:
            with suppress(sqlite3.Error):
                connection.close()

    def __del__(self) -> None:
        self.close()

    def _undamaged(self, answers: list[tuple[bytes, bytes]]) -> tuple[list[bytes], NDArray[np.uint8]]:
        """Keys and rows of an answer whose checksum is right."""
        answers = [(key, blob) for key, blob in answers if len(blob) == 8 + self._row_bytes]
        keys = [key for key, _ in answers]
        table = np.frombuffer(b"".join(blob for _, blob in answers), np.uint8).reshape(-1, 8 + self._row_bytes)
        is_whole = np.ascontiguousarray(table[:, :8]).view("<u8")[:, 0] == _checksums(keys, table[:, 8:])
        return [key for key, whole in zip(keys, is_whole.tolist(), strict=True) if whole], table[is_whole, 8:]

    def _run(self, path: Path, work: Callable[[sqlite3.Connection], _Result]) -> _Result:
        """Do work on the file; where that is damaged, put a new one in its place and do it there."""
        try:
            return work(self._open(path))
        except sqlite3.OperationalError:
            # The next call opens the file again, and a transaction that has begun is given up.
            self.close()
            raise
        except sqlite3.DatabaseError as error:
            self.close()
            warnings.warn(f"{path} is damaged ({error}) and starts anew; its rows are computed again.", stacklevel=4)
        for name in (f"{path.name}-wal", f"{path.name}-shm", path.name):
            path.with_name(name).unlink(missing_ok=True)
        return work(self._open(path))

    def _open(self, path: Path) -> sqlite3.Connection:
        # Another process that found the file damaged may have put a new one in its place.
        if self._connection is not None and _identity(path) != self._identity:
            self.close()
        if self._connection is None:
            self._connection = _connect(path)
            self._identity = _identity(path)
        return self._connection


class VectorCache(RowFile):
    """Vectors (D,) of one encoder by content hash, kept in a folder that all encoders share; None keeps nothing.

    Several processes may use a folder at once. Vectors of an encoder with another ``Encoder.key`` are never seen.
    """

    def __init__(self, folder: str | PathLike[str] | None, key: str, dim: int) -> None:
        super().__init__(None if folder is None else Path(folder) / f"{key[:32]}.sqlite", dim, "<f4")


class FileState(NamedTuple):
    """What distinguishes a file from its other versions without reading it."""

    digest: bytes  # a hash of path, size, times and inode
    is_settled: bool  # whether any later change will show in the digest: times are coarse


class FileHashes(RowFile):
    """Content hashes of files by their state, so that an unchanged file is not read again; None keeps nothing."""

    def __init__(self, folder: str | PathLike[str] | None) -> None:
        super().__init__(None if folder is None else Path(folder) / "files.sqlite", _KEY_BYTES)

    def known(self, states: Sequence[FileState]) -> list[bytes | None]:
        """Return the content hash under each state, None where it is not known."""
        found, rows = self.get([state.digest for state in states])
        return [row.tobytes() if is_found else None for is_found, row in zip(found.tolist(), rows, strict=True)]

    def remember(self, files: Sequence[tuple[FileState, bytes]]) -> None:
        """Keep content hashes, each computed after its state was taken; those of unsettled files are left out.

        Where nothing can be written, nothing is kept.
        """
        kept = [(state.digest, content) for state, content in files if state.is_settled]
        rows = np.frombuffer(b"".join(content for _, content in kept), dtype=np.uint8)
        with suppress(OSError):
            self.put([digest for digest, _ in kept], rows.reshape(-1, _KEY_BYTES))


def file_state(path: Path) -> FileState:
    """Return the state of a file now; raises ``OSError`` where there is none."""
    found = os.stat(path)  # noqa: PTH116 - one call for each of a million files
    # The time of the inode's last change too: a copy or an archive may bring an older file's times along.
    changed = max(found.st_mtime_ns, found.st_ctime_ns)
    stamps = f"{found.st_size} {found.st_mtime_ns} {found.st_ctime_ns} {found.st_ino} ".encode()
    digest = hashlib.blake2b(stamps + os.fsencode(os.path.abspath(path)), digest_size=_KEY_BYTES).digest()  # noqa: PTH100
    return FileState(digest, time.time_ns() - changed >= _SETTLED_NS)


def file_hash(path: Path, folder: Path) -> bytes:
    """Return the SHA-256 of a file, shortened to 16 bytes; kept in ``folder`` while the file is unchanged."""
    hashes, state = FileHashes(folder), file_state(path)
    (found,) = hashes.known([state])
    if found is None:
        with open_input(path) as file:
            found = short_hash(hashlib.file_digest(file, "sha256").digest())
        hashes.remember([(state, found)])
    hashes.close()
    return found


def _identity(path: Path) -> tuple[int, int] | None:
    try:
        found = path.stat()
    except OSError:
        return None
    return found.st_dev, found.st_ino


def _connect(path: Path) -> sqlite3.Connection:
    connection = sqlite3.connect(path, timeout=_TIMEOUT, isolation_level=None, check_same_thread=False)
    give_up = time.monotonic() + _TIMEOUT
    while True:
        try:
            # For a new file: rows of the usual encoders then leave little of a page empty.
            connection.execute("PRAGMA page_size = 16384")
            # Readers do not wait for writers. The change of a new file does not wait for other processes by itself.
            connection.execute("PRAGMA journal_mode = WAL")
            # What was put is on the disk, also when the whole machine stops.
            connection.execute("PRAGMA synchronous = FULL")
        except sqlite3.Error as error:
            if "locked" not in str(error) or time.monotonic() > give_up:
                connection.close()
                raise
            time.sleep(0.02)
        else:
            return connection


def _checksums(keys: Sequence[bytes], rows: NDArray[np.uint8]) -> NDArray[np.uint64]:
    """Sum of the 8-byte words of key and row, modulo 2^64: far faster than a CRC, and no page of zeros passes it."""
    whole = rows.shape[1] // 8 * 8
    sums: NDArray[np.uint64] = np.ascontiguousarray(rows[:, :whole]).view("<u8").sum(axis=1, dtype=np.uint64)
    sums += rows[:, whole:].sum(axis=1, dtype=np.uint64)
    words = np.frombuffer(b"".join(keys), dtype="<u8").reshape(-1, _KEY_BYTES // 8)
    # The key of 16 zeros has no words of its own: 1 distinguishes a row of zeros from an empty page.
    sums += words.sum(axis=1, dtype=np.uint64) + np.uint64(1)
    return sums
