"""Vectors by the content of what they were made from, and the content of files by their state."""

from __future__ import annotations

import hashlib
import os
import time
from collections.abc import Sequence
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from numpy.typing import NDArray

from laplacianshot.embedding.segments import KEY_BYTES, Segments, pack_keys

if TYPE_CHECKING:
    from laplacianshot.runtime.types import Floats

# A file changed this short a time ago may change once more without its times showing it.
_SETTLED_NS = 2_000_000_000


def short_hash(content_hash: bytes) -> bytes:
    """A cryptographic hash of 16 bytes or more as 16 bytes."""
    if len(content_hash) == KEY_BYTES:
        return content_hash
    if len(content_hash) < KEY_BYTES:
        raise ValueError(f"a content hash must have at least {KEY_BYTES} bytes, got {len(content_hash)}.")
    return hashlib.blake2b(content_hash, digest_size=KEY_BYTES).digest()


class VectorCache:
    """Vectors (D,) of one encoder by content hash, kept on disk for good.

    Several processes may use a folder at once. What is damaged counts as absent.

    Parameters
    ----------
    folder : path or None
        Shared by all encoders; None keeps nothing.
    key : str
        Which encoder: ``Encoder.key``. Vectors of other keys are never seen.
    dim : int
        D.
    """

    def __init__(self, folder: str | PathLike[str] | None, key: str, dim: int) -> None:
        self._segments = Segments(None if folder is None else Path(folder) / key[:32], 4 * dim)
        self._dim = dim

    def get(self, hashes: Sequence[bytes]) -> tuple[NDArray[np.bool_], Floats]:
        """Which hashes have a vector (m,), and the vectors (m, D), arbitrary where there is none."""
        found, rows = self._segments.get(pack_keys([short_hash(content) for content in hashes]))
        return found, rows.view("<f4")

    def put(self, hashes: Sequence[bytes], vectors: Floats) -> None:
        """Keep vectors (m, D); they are on the disk when this returns."""
        rows = np.ascontiguousarray(vectors, dtype="<f4")
        if rows.shape != (len(hashes), self._dim):
            raise ValueError(f"vectors must have shape ({len(hashes)}, {self._dim}), got {rows.shape}.")
        self._segments.put(pack_keys([short_hash(content) for content in hashes]), rows.view(np.uint8))


class FileState(NamedTuple):
    """What tells a file from its other versions without reading it.

    Attributes
    ----------
    digest : bytes
        A hash of path, size, times and inode.
    is_settled : bool
        Whether any later change will show in the digest: times are coarse, and the last one is long enough ago.
    """

    digest: bytes
    is_settled: bool


class FileHashes:
    """Content hashes of files by their state, so that an unchanged file is not read again.

    Parameters
    ----------
    folder : path or None
        As for :class:`VectorCache`.
    """

    def __init__(self, folder: str | PathLike[str] | None) -> None:
        self._segments = Segments(None if folder is None else Path(folder) / "files", KEY_BYTES)

    def get(self, states: Sequence[FileState]) -> list[bytes | None]:
        """The content hash under each state, None where it is not known."""
        found, rows = self._segments.get(pack_keys([state.digest for state in states]))
        return [row.tobytes() if is_found else None for is_found, row in zip(found.tolist(), rows, strict=True)]

    def put(self, states: Sequence[FileState], hashes: Sequence[bytes]) -> None:
        """Keep content hashes, each computed after its state was taken; those of unsettled files are left out."""
        kept = [
            (state.digest, short_hash(found)) for state, found in zip(states, hashes, strict=True) if state.is_settled
        ]
        rows = np.frombuffer(b"".join(found for _, found in kept), dtype=np.uint8)
        self._segments.put(pack_keys([digest for digest, _ in kept]), rows.reshape(-1, KEY_BYTES))


def file_state(path: Path) -> FileState:
    """The state of a file now; an ``OSError`` where there is none."""
    found = os.stat(path)  # noqa: PTH116 - one call for each of a million files
    # The time of the inode's last change too: a copy or an archive may bring an older file's times along.
    changed = max(found.st_mtime_ns, found.st_ctime_ns)
    stamps = f"{found.st_size} {found.st_mtime_ns} {found.st_ctime_ns} {found.st_ino} ".encode()
    digest = hashlib.blake2b(stamps + os.fsencode(os.path.abspath(path)), digest_size=KEY_BYTES).digest()  # noqa: PTH100
    return FileState(digest, time.time_ns() - changed >= _SETTLED_NS)
