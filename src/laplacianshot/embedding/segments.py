"""Rows on disk under 16-byte keys, in files that are added whole and never changed.

A segment is ``head | n keys, ascending | n checksums | n rows``. It appears under its name complete and on the disk, so
any number of processes may add and read at once. A file that is damaged is as good as absent: a lost row is one that
has to be made again.
"""

from __future__ import annotations

import contextlib
import os
import struct
import time
import zlib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

import numpy as np
from numpy.typing import NDArray

from laplacianshot.runtime.files import put_file, remove_partial, sync_folder
from laplacianshot.runtime.locks import FolderInUse, FolderLock

KEY_BYTES = 16
Keys = np.dtype(f"S{KEY_BYTES}")

# Magic, bytes of a row, rows, checksum of these and of the two tables.
_HEAD = struct.Struct("<8sQQI4x")
_MAGIC = b"LSHOTSG1"
_SUFFIX = ".segment"

# So many segments of like size become one: n rows are copied log_8(n) times at most, and few files are ever open.
_FAN = 8

_BLOCK_BYTES = 8_000_000

# A partial file this old was left by a kill; a younger one may belong to another process.
STALE_SECONDS = 3600


@dataclass(frozen=True)
class _Segment:
    path: Path
    keys: NDArray[np.bytes_]
    checksums: NDArray[np.uint64]
    rows: NDArray[np.uint8]

    @classmethod
    def open(cls, path: Path, row_bytes: int) -> _Segment | None:
        """A segment, or None for a file that is not whole."""
        try:
            with path.open("rb") as file:
                magic, width, n, checksum = _HEAD.unpack(file.read(_HEAD.size))
                tables = n * (KEY_BYTES + 8)
                size = os.fstat(file.fileno()).st_size
                if (magic, width) != (_MAGIC, row_bytes) or n == 0 or size != _HEAD.size + tables + n * width:
                    return None
                mapped: Any = np.memmap(file, dtype=np.uint8, mode="r")
        except (OSError, ValueError, struct.error):
            return None
        keys, checksums, rows = np.split(mapped[_HEAD.size :], [n * KEY_BYTES, tables])
        if checksum != _head_checksum(width, n, keys, checksums):
            return None
        return cls(path, keys.view(Keys), checksums.view("<u8"), rows.reshape(n, width))

    def find(self, keys: NDArray[np.bytes_]) -> NDArray[np.int64]:
        """Row of each key, -1 where there is none."""
        at = np.minimum(np.searchsorted(self.keys, keys), len(self.keys) - 1)
        return np.where(self.keys[at] == keys, at, -1)


class Segments:
    """Rows of ``row_bytes`` bytes by key, in a folder of its own.

    Parameters
    ----------
    folder : Path or None
        Made with the first :meth:`put`; None keeps nothing.
    row_bytes : int
    """

    def __init__(self, folder: Path | None, row_bytes: int) -> None:
        self._folder = folder
        self._row_bytes = row_bytes
        self._open: dict[str, _Segment | None] = {}

    def get(self, keys: NDArray[np.bytes_]) -> tuple[NDArray[np.bool_], NDArray[np.uint8]]:
        """Which keys are there (m,), and their rows (m, row_bytes), arbitrary where they are not."""
        out = np.empty((len(keys), self._row_bytes), dtype=np.uint8)
        found = np.zeros(len(keys), dtype=bool)
        order = np.argsort(keys, kind="stable")
        for segment in self._segments():
            left = order[~found[order]]
            if not len(left):
                break
            at = segment.find(keys[left])
            for places in _blocks(np.flatnonzero(at >= 0), self._row_bytes):
                rows = segment.rows[at[places]]
                whole = _checksums(rows) == segment.checksums[at[places]]
                out[left[places[whole]]] = rows[whole]
                found[left[places[whole]]] = True
        return found, out

    def put(self, keys: NDArray[np.bytes_], rows: NDArray[np.uint8]) -> None:
        """Add rows (m, row_bytes); they are on the disk when this returns."""
        if self._folder is None or not len(keys):
            return
        self._folder.mkdir(parents=True, exist_ok=True)
        keys, first = np.unique(keys, return_index=True)
        self._write(self._folder, keys, _checksums(rows[first]), iter([rows[first]]))
        self._merge(self._folder)

    def _write(
        self,
        folder: Path,
        keys: NDArray[np.bytes_],
        checksums: NDArray[np.uint64],
        blocks: Iterator[NDArray[np.uint8]],
    ) -> None:
        head = _HEAD.pack(
            _MAGIC, self._row_bytes, len(keys), _head_checksum(self._row_bytes, len(keys), keys, checksums)
        )

        def write(file: IO[bytes]) -> None:
            file.write(head)
            file.write(keys.tobytes())
            file.write(checksums.astype("<u8").tobytes())
            for block in blocks:
                file.write(np.ascontiguousarray(block).data)

        name = f"{time.time_ns():020d}-{os.getpid()}-{os.urandom(4).hex()}{_SUFFIX}"
        put_file(folder / name, write)

    def _segments(self) -> list[_Segment]:
        """All segments there are now, those of other processes too; the largest first."""
        if self._folder is None:
            return []
        folder = self._folder
        try:
            # Names that begin with a dot are files in the making, perhaps of another process.
            names = [path.name for path in folder.iterdir() if path.suffix == _SUFFIX and path.name[0] != "."]
        except OSError:
            names = []
        self._open = {
            name: self._open[name] if name in self._open else _Segment.open(folder / name, self._row_bytes)
            for name in names
        }
        whole = [segment for segment in self._open.values() if segment is not None]
        return sorted(whole, key=lambda segment: (-len(segment.keys), segment.path.name))

    def _merge(self, folder: Path) -> None:
        """Make one segment of every eight of like size."""
        tiers: dict[int, list[_Segment]] = {}
        for segment in self._segments():
            tiers.setdefault(len(segment.keys).bit_length() // 3, []).append(segment)
        if all(len(tier) < _FAN for tier in tiers.values()):
            return
        try:
            lock = FolderLock(folder).acquire()
        except FolderInUse:
            # Another process is at it.
            return
        try:
            remove_partial(folder, older=STALE_SECONDS)
            for tier in tiers.values():
                # Another process may have merged some of them before the lock was ours.
                if len(tier) >= _FAN and all(segment.path.exists() for segment in tier):
                    self._join(folder, tier)
        finally:
            lock.release()

    def _join(self, folder: Path, segments: list[_Segment]) -> None:
        keys = np.concatenate([segment.keys for segment in segments])
        checksums = np.concatenate([segment.checksums for segment in segments])
        whole = np.concatenate([_whole(segment) for segment in segments])
        places = np.flatnonzero(whole)
        kept, first = np.unique(keys[places], return_index=True)
        places = places[first]
        starts = np.cumsum([0, *(len(segment.keys) for segment in segments)])

        def blocks() -> Iterator[NDArray[np.uint8]]:
            for block in _blocks(places, self._row_bytes):
                owner = np.searchsorted(starts, block, side="right") - 1
                rows = np.empty((len(block), self._row_bytes), dtype=np.uint8)
                for number, segment in enumerate(segments):
                    mine = owner == number
                    rows[mine] = segment.rows[block[mine] - starts[number]]
                yield rows

        if len(kept):
            self._write(folder, kept, checksums[places], blocks())
        for segment in segments:
            # On Windows a file that another process reads cannot be removed; it then stays, twice there.
            with contextlib.suppress(OSError):
                segment.path.unlink(missing_ok=True)
        sync_folder(folder)


def pack_keys(hashes: list[bytes]) -> NDArray[np.bytes_]:
    """Hashes of 16 bytes each as an array (m,)."""
    return np.frombuffer(b"".join(hashes), dtype=Keys)


def _blocks(places: NDArray[np.int64], row_bytes: int) -> Iterator[NDArray[np.int64]]:
    step = max(1, _BLOCK_BYTES // row_bytes)
    for start in range(0, len(places), step):
        yield places[start : start + step]


def _whole(segment: _Segment) -> NDArray[np.bool_]:
    """Which rows are as they were written."""
    blocks = _blocks(np.arange(len(segment.keys)), segment.rows.shape[1])
    return np.concatenate([_checksums(segment.rows[block]) == segment.checksums[block] for block in blocks])


def _checksums(rows: NDArray[np.uint8]) -> NDArray[np.uint64]:
    """Sum of a row's 8-byte words, modulo 2^64: twenty times as fast as a CRC, and no page of zeros passes it."""
    whole = rows.shape[1] // 8 * 8
    sums: NDArray[np.uint64] = rows[:, :whole].view("<u8").sum(axis=1, dtype=np.uint64)
    sums += rows[:, whole:].sum(axis=1, dtype=np.uint64)
    return sums


def _head_checksum(width: int, n: int, keys: Any, checksums: Any) -> int:
    start = zlib.crc32(struct.pack("<QQ", width, n))
    return zlib.crc32(checksums.view(np.uint8), zlib.crc32(keys.view(np.uint8), start))
