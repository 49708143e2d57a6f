"""Items to vectors: what is known by content is taken from the cache, the rest is encoded and put there."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Executor, Future, ThreadPoolExecutor
from dataclasses import dataclass
from itertools import groupby
from operator import itemgetter
from os import PathLike
from pathlib import Path
from threading import Semaphore
from time import monotonic
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np

from laplacianshot.datasets.decoding import MACHINE_FAULTS, CorruptPicture, decode
from laplacianshot.embedding.encoders import EncoderError
from laplacianshot.embedding.vector_cache import FileHashes, FileState, VectorCache, file_state, short_hash
from laplacianshot.runtime.progress import Progress

if TYPE_CHECKING:
    from laplacianshot.embedding.encoders import Encoder
    from laplacianshot.runtime.types import Floats, Ints

# Items looked up together, hashed by one call of a worker, and yielded together.
_BLOCK = 8192
_TASK = 64
_STRETCH = 512

# Seconds of work that a kill may cost. Saving waits for the disk, so not after each batch.
SAVE_SECONDS = 2.0

# Maximum number of characters in a batch of texts: about a second of work.
_CHARACTERS = 20_000

# Batches that wait for a worker, for each worker.
_QUEUED = 2

# Workers that read while the others compute.
_READERS = 1


class Items(Protocol):
    """Pictures or texts by number. All methods may be called from several threads at once."""

    def __len__(self) -> int: ...

    def content_hash(self, i: int) -> bytes:
        """A cryptographic hash of item i's content, 16 bytes or more."""
        ...

    def load(self, i: int) -> Any:
        """Item i: a ``PIL.Image`` or a str; raises ``CorruptPicture`` where it cannot be read."""
        ...

    def file(self, i: int) -> Path | None:
        """The file that item i is all of, if there is one.

        It is not read again while it is unchanged. A picture is decoded from it, upright and at the size the encoder
        needs; ``load`` is not called.
        """
        ...


@dataclass(frozen=True)
class SomeItems:
    """The items at some positions of others."""

    items: Items
    positions: Sequence[int]

    def __len__(self) -> int:
        return len(self.positions)

    def content_hash(self, i: int) -> bytes:
        """As of the items."""
        return self.items.content_hash(self.positions[i])

    def load(self, i: int) -> Any:
        """As of the items."""
        return self.items.load(self.positions[i])

    def file(self, i: int) -> Path | None:
        """As of the items."""
        return self.items.file(self.positions[i])


@dataclass(frozen=True, repr=False)
class Encoded:
    """Vectors of the items that could be read."""

    vectors: Floats  # float32 (m, D)
    rows: Ints  # position of each vector's item, ascending, (m,)
    failed: tuple[tuple[int, str], ...] = ()  # (position, reason) of items that have no vector, ascending
    n_cached: int = 0  # items whose vector was in the cache
    notes: tuple[str, ...] = ()  # what the user should know: why vectors were not kept

    def __repr__(self) -> str:
        m, dim = self.vectors.shape
        return f"Encoded({m} vectors x {dim}, {self.n_cached} from the cache, {len(self.failed)} failed)"


def encode_items(
    items: Items,
    encoder: Encoder,
    cache_folder: str | PathLike[str] | None = None,
    *,
    progress: Progress | None = None,
) -> Encoded:
    """A vector for each item that can be read: ``vectors[r] = encoder(items[rows[r]])``.

    Vectors are kept by the content of their items. What was encoded before, by this call or another one, for this
    source or another one, is not encoded again; of equal items only the first is. Stopped or killed at any moment, a
    second call goes on from what the first had done but for the last seconds.

    Parameters
    ----------
    items : Items
    encoder : Encoder
    cache_folder : path, optional
        Where vectors are kept; None keeps nothing.
    progress : callable
        Called from this thread with the items done and all of them, at the beginning and as they are done.
    """
    cache = VectorCache(cache_folder, encoder.key, encoder.dim)
    hashes = FileHashes(cache_folder)
    try:
        return EncodingRun(items, encoder, cache, hashes=hashes, progress=progress).encode()
    finally:
        cache.close()
        hashes.close()


@dataclass(frozen=True)
class _Content:
    """What an item holds."""

    position: int
    hash: bytes  # 16 bytes; empty if the item cannot be read
    state: FileState | None = None  # of the item's file, taken before it was read
    fault: str = ""  # why it cannot be read


def _contents(items: Items, hashes: FileHashes, pool: Executor) -> Iterator[list[_Content]]:
    """Every item once, some at a time: those of known files first, the others as workers hash them.

    While the caller works on one list, the workers hash the next.
    """
    for start in range(0, len(items), _BLOCK):
        states = {position: _state(items, position) for position in range(start, min(start + _BLOCK, len(items)))}
        files = {position: state for position, state in states.items() if state is not None}
        found = zip(files.items(), hashes.known(list(files.values())), strict=True)
        known = [_Content(position, content, state) for (position, state), content in found if content is not None]
        if known:
            yield known
            for content in known:
                del states[content.position]
        unknown = list(states.items())
        ahead: list[Future[list[_Content]]] = []
        for first in range(0, len(unknown) + _STRETCH, _STRETCH):
            now, part = ahead, unknown[first : first + _STRETCH]
            ahead = [pool.submit(_hashed, items, part[low : low + _TASK]) for low in range(0, len(part), _TASK)]
            if now:
                contents = [content for future in now for content in future.result()]
                # Where this cannot be written, vectors are not kept either, and that is said.
                hashes.remember([(item.state, item.hash) for item in contents if item.state and not item.fault])
                yield contents


def _state(items: Items, position: int) -> FileState | None:
    path = items.file(position)
    try:
        return None if path is None else file_state(path)
    except OSError:
        # Reading it will say what is wrong.
        return None


def _hashed(items: Items, places: list[tuple[int, FileState | None]]) -> list[_Content]:
    contents = []
    for position, state in places:
        try:
            contents.append(_Content(position, short_hash(items.content_hash(position)), state))
        except (CorruptPicture, OSError) as error:
            contents.append(_Content(position, b"", state, _reason(error)))
    return contents


def _reason(error: CorruptPicture | OSError) -> str:
    """Why an item cannot be read, in one line. A fault of the machine is raised: no item is skipped for it."""
    if isinstance(error, CorruptPicture):
        return error.reason
    if error.errno in MACHINE_FAULTS:
        raise error
    return error.strerror or " ".join(str(error).split()) or type(error).__name__


@dataclass(frozen=True)
class _Batch:
    """What a worker has done: items that have a vector, the others with the reason, and which vectors to keep."""

    items: list[_Content]
    vectors: Floats
    failed: dict[int, str]
    kept: list[bool]


class EncodingRun:
    """One run over items, with a cache that the caller opens and closes.

    Parameters
    ----------
    items, encoder, progress
        As for :func:`encode_items`.
    cache : VectorCache
    hashes : FileHashes, optional
        Default: files are hashed anew.
    workers : int, optional
        Threads that read and prepare items and run the network. Default: one more than the encoder computes on, so
        that none of these waits for the disk.
    on_saved : callable, optional
        Called after each time that vectors were put into the cache.
    strict : bool
        Raise ``OSError`` where vectors cannot be put into the cache, instead of a note.
    skip : bool
        List pictures that cannot be read, instead of raising ``CorruptPicture`` at the first.
    """

    def __init__(
        self,
        items: Items,
        encoder: Encoder,
        cache: VectorCache,
        *,
        hashes: FileHashes | None = None,
        progress: Progress | None = None,
        workers: int | None = None,
        on_saved: Callable[[], object] = lambda: None,
        strict: bool = False,
        skip: bool = True,
    ) -> None:
        self._workers = encoder.parallel + _READERS if workers is None else max(1, workers)
        self._items, self._encoder, self._progress = items, encoder, progress or (lambda done, total: None)
        self._cache, self._hashes = cache, FileHashes(None) if hashes is None else hashes
        self._on_saved, self._strict, self._skip = on_saved, strict, skip
        self._vectors: Floats = np.empty((len(items), encoder.dim), dtype=np.float32)
        self._failed: dict[int, str] = {}
        # Equal items: the first of them by its content, and the others with the first.
        self._first: dict[bytes, int] = {}
        self._equal: list[tuple[int, int]] = []
        self._under_way: deque[Future[_Batch]] = deque()
        self._unsaved: list[tuple[list[bytes], Floats]] = []
        self._saved_at = monotonic()
        self._notes: list[str] = []
        self._done = self._cached = 0
        self._computing = Semaphore(encoder.parallel)

    def encode(self) -> Encoded:
        """Encode all items that are not in the cache."""
        pool = ThreadPoolExecutor(self._workers, thread_name_prefix="encode")
        try:
            self._work(pool)
        finally:
            # Also when interrupted: what has not begun is dropped, and what is done is kept.
            pool.shutdown(wait=True, cancel_futures=True)
            self._keep_rest()
        return self._result()

    def _work(self, pool: ThreadPoolExecutor) -> None:
        self._progress(0, len(self._items))
        for some in _contents(self._items, self._hashes, pool):
            for batch in self._batches(self._look_up(some)):
                self._under_way.append(pool.submit(self._encode, batch))
                while len(self._under_way) > _QUEUED * self._workers:
                    self._take()
        while self._under_way:
            self._take()

    def _keep_rest(self) -> None:
        """Save what is done and not yet saved, also after an interrupt or an error."""
        for future in self._under_way:
            if future.done() and not future.cancelled() and future.exception() is None:
                self._add(future.result())
        self._under_way.clear()
        self._save()

    def _result(self) -> Encoded:
        """All vectors, in the order of the items."""
        for position, first in self._equal:
            if first in self._failed:
                self._failed[position] = self._failed[first]
            else:
                self._vectors[position] = self._vectors[first]
        has_vector = np.ones(len(self._items), dtype=bool)
        has_vector[list(self._failed)] = False
        rows = np.flatnonzero(has_vector)
        vectors = self._vectors if has_vector.all() else self._vectors[rows]
        return Encoded(vectors, rows, tuple(sorted(self._failed.items())), self._cached, tuple(self._notes))

    def _look_up(self, some: list[_Content]) -> list[_Content]:
        """Take the vectors of the cache, set apart broken and equal items, and return the rest."""
        whole = []
        for item in some:
            if item.fault:
                self._failed[item.position] = item.fault
            elif item.hash in self._first:
                self._equal.append((item.position, self._first[item.hash]))
            else:
                whole.append(item)
        found, vectors = self._cache.get([item.hash for item in whole])
        self._vectors[[item.position for item in whole]] = vectors
        new = []
        for item, is_found in zip(whole, found.tolist(), strict=True):
            if is_found:
                self._cached += 1
            elif item.hash in self._first:
                self._equal.append((item.position, self._first[item.hash]))
            else:
                self._first[item.hash] = item.position
                new.append(item)
        self._advance(len(some) - len(new))
        return new

    def _batches(self, new: list[_Content]) -> Iterator[list[_Content]]:
        """Yield what is encoded together.

        Pictures are encoded with those beside them: a run that was stopped and continues then has the same batches as
        one that was not, and so the same bits. Texts are encoded with those of similar length, few long ones together,
        so that a kill costs little.
        """
        size = self._encoder.batch_size
        if self._encoder.kind == "pictures":
            yield from (list(batch) for _, batch in groupby(new, lambda item: item.position // size))
            return
        batch: list[_Content] = []
        total = 0
        for length, item in sorted(((len(self._items.load(item.position)), item) for item in new), key=itemgetter(0)):
            total += length
            if batch and (len(batch) == size or total > _CHARACTERS):
                yield batch
                batch, total = [], length
            batch.append(item)
        if batch:
            yield batch

    def _encode(self, batch: list[_Content]) -> _Batch:
        """Read, prepare and encode some items; runs in the pool."""
        prepared, read, failed = [], [], {}
        for item in batch:
            try:
                prepared.append(self._encoder.prepare(self._load(item.position)))
                read.append(item)
            except (CorruptPicture, OSError) as error:
                failed[item.position] = _reason(error)
                if not self._skip:
                    raise
        if not read:
            return _Batch([], np.empty((0, self._encoder.dim), np.float32), failed, [])
        with self._computing:
            vectors: Floats = np.asarray(self._encoder.encode(prepared), dtype=np.float32)
        expected = (len(read), self._encoder.dim)
        if vectors.shape != expected:
            raise EncoderError(
                f"encoder {self._encoder.name!r} gives vectors of shape {vectors.shape}, not {expected}."
            )
        finite = np.isfinite(vectors).all(axis=1)
        for place in np.flatnonzero(~finite):
            failed[read[place].position] = "the encoder gives NaN or infinity for it"
        done = [read[place] for place in np.flatnonzero(finite)]
        return _Batch(done, vectors[finite], failed, [self._is_unchanged(item) for item in done])

    def _is_unchanged(self, item: _Content) -> bool:
        """Whether the item's file, if it is one, is as it was when it was hashed."""
        path = self._items.file(item.position)
        try:
            return path is None or item.state is None or file_state(path).digest == item.state.digest
        except OSError:
            return False

    def _load(self, position: int) -> Any:
        path = self._items.file(position)
        if path is None or self._encoder.kind != "pictures":
            return self._items.load(position)
        # Upright: cameras write down how they were held and leave the pixels as they are.
        size = {} if self._encoder.enough is None else {"enough": self._encoder.enough}
        return decode(path, path.name, **size, upright=True)

    def _take(self) -> None:
        """Wait for the oldest batch under way."""
        batch = self._under_way[0].result()
        self._under_way.popleft()
        self._add(batch)
        self._advance(len(batch.items) + len(batch.failed))
        if monotonic() - self._saved_at >= SAVE_SECONDS:
            self._save()

    def _add(self, batch: _Batch) -> None:
        self._failed.update(batch.failed)
        self._vectors[[item.position for item in batch.items]] = batch.vectors
        hashes = [item.hash for item, is_kept in zip(batch.items, batch.kept, strict=True) if is_kept]
        self._unsaved.append((hashes, batch.vectors[batch.kept]))

    def _save(self) -> None:
        """Put what is done on the disk."""
        unsaved, self._unsaved = self._unsaved, []
        hashes = [content for part, _ in unsaved for content in part]
        if hashes:
            try:
                self._cache.put(hashes, np.concatenate([vectors for _, vectors in unsaved]))
            except OSError as error:
                if self._strict:
                    raise
                # Such as a full disk: the work goes on without the cache.
                note = f"vectors cannot be kept for the next run ({error.strerror or error})"
                self._notes += [] if note in self._notes else [note]
            self._on_saved()
        self._saved_at = monotonic()

    def _advance(self, count: int) -> None:
        if count:
            self._done += count
            self._progress(self._done, len(self._items))
