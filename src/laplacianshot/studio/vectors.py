"""The vectors of a source: its own at once, those of pictures and texts batch by batch."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from threading import Lock
from time import monotonic
from typing import TYPE_CHECKING, Any

import numpy as np

from laplacianshot.runtime.errors import LaplacianShotError
from laplacianshot.runtime.types import Floats, Ints

if TYPE_CHECKING:
    from laplacianshot.embedding.encoders import Encoder
    from laplacianshot.labeling.sources import Source

# Size of the first batch, maximum size of a batch, and the seconds that a batch should take.
_FIRST, _LARGEST = 64, 8192
_BATCH_SECONDS = 10.0
# Size of the first part of a source that contains vectors: small enough for predictions within a second.
_FIRST_LOOK = 4000


class Stopped(LaplacianShotError):
    """The work was stopped from outside."""


class Vectors:
    """Vectors of the n items of a source, which become ready one after the other.

    The order is random, so that the first items represent all: folders are often sorted by class.

    Parameters
    ----------
    source : Source
    encoder : Encoder or None
        None if the source contains vectors.
    cache : Path or None
        Folder of the vector cache.
    """

    def __init__(self, source: Source, encoder: Encoder | None, cache: Path | None) -> None:
        self._source, self._encoder, self._cache = source, encoder, cache
        self._order = np.random.default_rng(0).permutation(len(source))
        self._lock = Lock()
        own = source.vectors
        if encoder is not None:
            own = np.empty((len(source), encoder.dim), np.float32)
        if own is None:
            raise ValueError(f"{source!r} has no vectors, and there is no encoder to make them.")
        self._array: Floats = own
        self._ready = np.zeros(len(source), dtype=bool)
        self.failed: dict[int, str] = {}
        self.done = 0
        self.finished = False
        self.problem: str | None = None

    @property
    def dtype(self) -> Any:
        """Type of the vectors."""
        return self._array.dtype

    @property
    def ready(self) -> Any:
        """Which items have a vector (n,); read only."""
        return self._ready

    def known(self) -> tuple[Ints, Floats]:
        """Return the positions of the items that have a vector, ascending, and the vectors."""
        with self._lock:
            positions = np.flatnonzero(self._ready)
        if len(positions) == len(self._ready):
            return positions, np.asarray(self._array)
        return positions, self._array[positions]

    def fill(self, progress: Callable[[], object], stopped: Callable[[], bool]) -> None:
        """Make the vectors of all items; calls ``progress`` on the way, raises :class:`Stopped` if ``stopped()``."""
        if self._encoder is None:
            for some in (self._order[:_FIRST_LOOK], self._order[_FIRST_LOOK:]):
                self._add(some, progress)
        else:
            self._encode(self._encoder, progress, stopped)
        self.finished = True
        progress()

    def _encode(self, encoder: Encoder, progress: Callable[[], object], stopped: Callable[[], bool]) -> None:
        from laplacianshot.embedding.encoding import encode_items

        start, size = 0, _FIRST
        while start < len(self._order):
            some = self._order[start : start + size]

            def advance(done: int, total: int, before: int = start) -> None:
                if stopped():
                    raise Stopped
                self.done = before + done
                progress()

            began = monotonic()
            encoded = encode_items(_Some(self._source, some), encoder, self._cache, progress=advance)
            for place, reason in encoded.failed:
                self.failed[int(some[place])] = reason
            with self._lock:
                self._array[some[encoded.rows]] = encoded.vectors
            self._add(some[encoded.rows], progress, len(some))
            start += len(some)
            wanted = size * _BATCH_SECONDS / max(monotonic() - began, 1e-3)
            size = int(min(max(wanted, _FIRST), 2 * size, _LARGEST))

    def _add(self, positions: Ints, progress: Callable[[], object], n_done: int | None = None) -> None:
        with self._lock:
            self._ready[positions] = True
        if self._encoder is None:
            self.done += len(positions) if n_done is None else n_done
        progress()


class _Some:
    """Some items of a source, as :func:`~laplacianshot.embedding.encoding.encode_items` takes them."""

    def __init__(self, source: Source, positions: Ints) -> None:
        self._source, self._positions = source, positions.tolist()

    def __len__(self) -> int:
        return len(self._positions)

    def content_hash(self, i: int) -> bytes:
        return self._source.content_hash(self._positions[i])

    def load(self, i: int) -> Any:
        return self._source.load(self._positions[i])

    def file(self, i: int) -> Path | None:
        return self._source.file(self._positions[i])
