"""The background work: make vectors, search neighbors, predict labels, lay out the map.

Four threads. *feeder* makes the vectors. *labeler* updates the predictions after each action. *settler* searches
neighbors when enough vectors are new, and makes the full predictions when people pause. *mapper* lays out the map.
All but the labeler run at lower priority; readers see the last published result.
"""

from __future__ import annotations

import contextlib
import os
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from laplacianshot.estimator import LaplacianShot, center_of, hints_of
from laplacianshot.inference.priors import Knowledge
from laplacianshot.inference.temperature import mean_squared_distance
from laplacianshot.inference.transforms import before_center
from laplacianshot.runtime.errors import LaplacianShotError
from laplacianshot.runtime.threads import single_threaded_blas
from laplacianshot.runtime.types import Floats, Ints
from laplacianshot.studio.relabel import (
    FEW_NEIGHBORS,
    NO_NAMES,
    GraphCache,
    NamedClasses,
    Predictions,
    build_cache,
    columns_of,
    compile_kernels,
    relabel,
    update,
)
from laplacianshot.ui.map import map_2d

if TYPE_CHECKING:
    from laplacianshot.embedding.encoders import Encoder
    from laplacianshot.labeling.sources import Source

# The full predictions wait for this many seconds without an action, or for this many actions.
_PAUSE = 0.4
_MAX_WAITING = 25
# The center is checked after a pause this many times as long, as a new one needs a new search for neighbors.
_LONGER = 4
# The center is moved when the better one is this share of a typical vector's length away; not in large sets, whose
# neighbors take long to search.
_CENTER_SHIFT = 0.1
_MAX_RECENTERED = 50_000
# Neighbors are searched again when the number of vectors has grown by this factor, or all vectors are ready.
_GROWTH = 1.5
# Niceness of the settler, and of feeder and mapper. No higher: on a busy machine a thread that gets no time may hold a
# lock, such as that of the compiler, which the others need.
_NICE, _NICER = 3, 5
# Size of the first batch of vectors, maximum size of a batch, and the seconds that a batch should take.
_FIRST, _LARGEST = 64, 8192
_BATCH_SECONDS = 10.0
# Maximum number of seconds that closing waits for a thread.
_CLOSE_SECONDS = 5.0
# Size of the first part of a source that contains vectors: small enough for predictions within a second.
_FIRST_LOOK = 4000


@dataclass(frozen=True)
class GivenLabels:
    """The given labels of n items at one version, and the classes whose names count."""

    version: int
    classes: Ints  # (n,), class ids of labels from people, -1 for none: what predictions are made from
    accepted: Ints  # (n,), class ids of accepted predictions, -1 for none: these teach nothing
    named: NamedClasses = NO_NAMES


@dataclass(frozen=True)
class Progress:
    """The results so far.

    ``predicted``, ``whole`` and ``settled`` are the versions of the given labels behind the predictions, the last full
    predictions, and everything derived from them; -1 before the first.
    """

    predictions: Predictions | None = None
    predicted: int = -1
    whole: int = -1
    settled: int = -1
    seconds: float | None = None  # time of the last predictions
    places: Floats | None = None  # (n, 2), positions on the map; NaN for items without one
    map_revision: int = 0
    problem: str | None = None


class _Stopped(LaplacianShotError):
    """The work was stopped from outside."""


class Vectors:
    """Vectors of the n items of a source, which become ready one after the other.

    The order is random, so that the first items represent all: folders are often sorted by class. A source that
    contains vectors has no encoder; ``cache`` is the folder of the vector cache.
    """

    def __init__(self, source: Source, encoder: Encoder | None, cache: Path | None) -> None:
        self._source, self.encoder, self._cache = source, encoder, cache
        self._order = np.random.default_rng(0).permutation(len(source))
        self._lock = threading.Lock()
        own = source.vectors
        if encoder is not None:
            own = np.empty((len(source), encoder.dim), np.float32)
        if own is None:
            raise ValueError(f"{source!r} has no vectors, and there is no encoder to make them.")
        self._array: Floats = own
        self.ready = np.zeros(len(source), dtype=bool)  # which items have a vector
        self.failed: dict[int, str] = {}
        self.done = 0
        self.finished = False

    @property
    def dtype(self) -> Any:
        """Type of the vectors."""
        return self._array.dtype

    def known(self) -> tuple[Ints, Floats]:
        """Return the positions of the items that have a vector, ascending, and the vectors."""
        with self._lock:
            positions = np.flatnonzero(self.ready)
        if len(positions) == len(self.ready):
            return positions, np.asarray(self._array)
        return positions, self._array[positions]

    def fill(self, progress: Callable[[], object], stopped: Callable[[], bool]) -> None:
        """Make the vectors of all items; calls ``progress`` on the way, and gives up if ``stopped()``."""
        if self.encoder is None:
            for some in (self._order[:_FIRST_LOOK], self._order[_FIRST_LOOK:]):
                self.done += len(some)
                self._add(some, progress)
        else:
            self._encode(self.encoder, progress, stopped)
        self.finished = True
        progress()

    def _encode(self, encoder: Encoder, progress: Callable[[], object], stopped: Callable[[], bool]) -> None:
        from laplacianshot.embedding.encoding import SomeItems, encode_items

        start, size = 0, _FIRST
        while start < len(self._order):
            some = self._order[start : start + size]

            def advance(done: int, total: int, before: int = start) -> None:
                if stopped():
                    raise _Stopped
                self.done = before + done
                progress()

            began = time.monotonic()
            encoded = encode_items(SomeItems(self._source, some.tolist()), encoder, self._cache, progress=advance)
            for place, reason in encoded.failed:
                self.failed[int(some[place])] = reason
            with self._lock:
                self._array[some[encoded.rows]] = encoded.vectors
            self._add(some[encoded.rows], progress)
            start += len(some)
            fitting = size * _BATCH_SECONDS / max(time.monotonic() - began, 1e-3)
            size = int(min(max(fitting, _FIRST), 2 * size, _LARGEST))

    def _add(self, positions: Ints, progress: Callable[[], object]) -> None:
        with self._lock:
            self.ready[positions] = True
        progress()


class Engine:
    """The background work of a session.

    ``given`` returns the current labels; ``published`` is called, from any thread, after :attr:`progress` or the
    vectors have changed. ``compares_names``: whether vectors of names lie in the space of the items'.
    """

    def __init__(
        self,
        vectors: Vectors,
        given: Callable[[], GivenLabels],
        published: Callable[[], object],
        *,
        compares_names: bool = False,
    ) -> None:
        self.vectors, self._given, self._published = vectors, given, published
        self._compares_names = compares_names
        self.progress = Progress()
        self._cache: GraphCache | None = None
        self._mapped: GraphCache | None = None
        # Predictions are published one after the other.
        self._answering = threading.Lock()
        self._making = threading.Lock()
        self._acted = time.monotonic()
        self._closing = threading.Event()
        self._changed = threading.Condition()
        self._threads = [
            threading.Thread(target=self._run, args=(work,), name=name, daemon=True)
            for name, work in (
                ("feeder", self._feed),
                ("labeler", self._label),
                ("settler", self._settle),
                ("mapper", self._draw),
            )
        ]

    def start(self) -> None:
        """Start the threads."""
        # Searches for BLAS libraries once, which must not happen while another thread loads one.
        with single_threaded_blas():
            pass
        for thread in self._threads:
            thread.start()

    def wake(self) -> None:
        """Tell the threads about new labels."""
        self._acted = time.monotonic()
        with self._changed:
            self._changed.notify_all()

    def close(self) -> None:
        """Stop the threads; unfinished work is dropped."""
        self._closing.set()
        self.wake()
        for thread in self._threads:
            if thread.is_alive():
                thread.join(_CLOSE_SECONDS)

    def wait_until_settled(self, timeout: float) -> bool:
        """Wait up to ``timeout`` seconds until no work is left; return whether that is so."""
        with self._changed:
            return self._changed.wait_for(lambda: self._closing.is_set() or self.is_settled, timeout)

    def wait_until_whole(self, timeout: float) -> None:
        """Wait up to ``timeout`` seconds for full predictions from all labels."""

        def is_whole() -> bool:
            stopped = self._closing.is_set() or self.progress.problem is not None
            return stopped or self._cache is None or self.progress.whole == self._given().version

        with self._changed:
            self._changed.wait_for(is_whole, timeout)

    @property
    def is_settled(self) -> bool:
        """Whether all vectors are ready and everything derived from the labels is up to date."""
        if self.progress.problem is not None:
            return True
        done = self.vectors.finished and not self._is_outgrown() and self.progress.settled == self._given().version
        if self._cache is None or not done:
            return done
        # New neighbors may be on the map before they are in the predictions.
        predictions = self.progress.predictions
        return self._mapped is self._cache and predictions is not None and predictions.cache is self._cache

    def _run(self, work: Callable[[], None]) -> None:
        try:
            with contextlib.suppress(_Stopped):
                work()
        except Exception as error:
            # Without a message the page would wait forever.
            self._publish(problem=" ".join(f"{type(error).__name__}: {error}".split())[:500])

    def _publish(self, **changes: Any) -> None:
        """Publish changes of the progress, or none if only the vectors have changed."""
        with self._changed:
            self.progress = replace(self.progress, **changes)
            self._changed.notify_all()
        self._published()

    def _feed(self) -> None:
        _be_nice(_NICER)
        self.vectors.fill(self._publish, self._closing.is_set)

    def _is_outgrown(self) -> bool:
        ready = int(np.count_nonzero(self.vectors.ready))
        held = 0 if self._cache is None else len(self._cache)
        return ready >= 2 and (ready > _GROWTH * held or (self.vectors.finished and ready > held))

    def _label(self) -> None:
        compile_kernels(self.vectors.dtype)
        while not self._closing.is_set():
            if self.progress.predictions is None or self.progress.predicted == self._given().version:
                self._wait()
                continue
            start = time.perf_counter()
            with self._answering:
                given, last = self._given(), self.progress.predictions
                found = update(last, given.classes[last.cache.positions], given.named)
                if found is not None:
                    self._publish(predictions=found, predicted=given.version, seconds=time.perf_counter() - start)
            if found is None:
                # The classes have changed, so the last predictions cannot be updated.
                self._answer(self._cache or last.cache)

    def _settle(self) -> None:
        _be_nice(_NICE)
        while not self._closing.is_set():
            version, progress = self._given().version, self.progress
            if self._is_outgrown():
                self._cache = build_cache(*self.vectors.known(), named=self._compares_names)
                self._answer(self._cache)
            elif self._cache is None:
                if self.vectors.finished and progress.settled != version:
                    # A single item: there is nothing to predict.
                    self._publish(predicted=version, settled=version)
                self._wait()
            elif progress.settled == version or not self._is_resting(version):
                self._wait(_PAUSE / 4 if progress.settled != version else 1.0)
            elif progress.whole != version:
                self._answer(self._cache)
            elif time.monotonic() - self._acted < _LONGER * _PAUSE:
                self._wait(_PAUSE / 4)
            else:
                self._check(self._cache)

    def _is_resting(self, version: int) -> bool:
        waiting = version - self.progress.whole
        return waiting > _MAX_WAITING or time.monotonic() - self._acted >= _PAUSE

    def _wait(self, seconds: float = 1.0) -> None:
        """Wait for a change, or for some seconds in case one was missed."""
        with self._changed:
            self._changed.wait(seconds)

    def _answer(self, cache: GraphCache) -> None:
        """Make full predictions, and update them if labels were given meanwhile. One thread at a time."""
        with self._making:
            start = time.perf_counter()
            given, last = self._given(), self.progress.predictions
            if self.progress.whole == given.version and last is not None and last.cache is cache:
                return
            found = relabel(cache, given.classes[cache.positions], given.named)
            seconds = time.perf_counter() - start
        with self._answering:
            now = self._given()
            newer = None if now.version == given.version else update(found, now.classes[cache.positions], now.named)
            if newer is not None:
                self._publish(predictions=newer, predicted=now.version, whole=given.version)
            else:
                self._publish(predictions=found, predicted=given.version, whole=given.version, seconds=seconds)

    def _check(self, cache: GraphCache) -> None:
        """Move the center if there is a better one."""
        given = self._given()
        class_ids, codes = columns_of(given.classes[cache.positions], given.named)
        if len(class_ids) >= 2:
            center = self._better_center(cache, codes, class_ids, given.named)
            if center is not None:
                self._cache = build_cache(cache.positions, cache.vectors, center, named=self._compares_names)
                self._answer(self._cache)
        self._publish(settled=given.version)

    def _better_center(self, cache: GraphCache, codes: Ints, class_ids: Ints, named: NamedClasses) -> Floats | None:
        """Return the center of ``laplacianshot label`` if it is far from the current one, else None."""
        if len(cache) > _MAX_RECENTERED or (codes >= 0).all():
            return None
        hints = None
        if len(named.class_ids):
            names = np.zeros((len(class_ids), cache.vectors.shape[1]))
            names[np.searchsorted(class_ids, named.class_ids)] = named.vectors
            hints = hints_of(cache.vectors, codes, len(class_ids), Knowledge(names))
        better = center_of(LaplacianShot(transform=cache.transform), cache.vectors, codes, len(class_ids), hints)
        assert better is not None
        spread = mean_squared_distance(before_center(cache.vectors, cache.transform)) / 2
        moved = float(np.square(better - cache.center).sum())
        return better if moved > _CENTER_SHIFT**2 * spread else None

    def _draw(self) -> None:
        _be_nice(_NICER)
        while not self._closing.is_set():
            cache = self._cache
            if cache is None or cache is self._mapped:
                self._wait()
                continue
            places = np.full((len(self.vectors.ready), 2), np.nan, dtype=np.float32)
            places[cache.positions] = map_2d(cache.rows, cache.graph(FEW_NEIGHBORS))
            self._mapped = cache
            self._publish(places=places, map_revision=self.progress.map_revision + 1)


def _be_nice(value: int) -> None:
    """Lower the priority of this thread and of those it starts (on Linux; elsewhere nothing happens)."""
    with contextlib.suppress(AttributeError, OSError):
        os.setpriority(os.PRIO_PROCESS, threading.get_native_id(), value)
