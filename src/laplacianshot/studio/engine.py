"""The work behind the page: vectors come, neighbors are found, the set is relabeled, a map is drawn.

Four threads. *feeder* gets the vectors; *labeler* gives the quick answer after each action; *settler* finds neighbors
when enough vectors are new, and the whole answer when people rest; *mapper* draws. All but the labeler are nice to it.
Whoever looks in between sees what was found last.
"""

from __future__ import annotations

import contextlib
import os
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from laplacianshot.inference.temperature import mean_squared_distance
from laplacianshot.inference.transforms import blended_center
from laplacianshot.runtime.threads import single_threaded_blas
from laplacianshot.runtime.types import Floats, Ints
from laplacianshot.studio.accuracy import HeldBack, hold_back
from laplacianshot.studio.graph_cache import FEW_NEIGHBORS, GraphCache, build_cache
from laplacianshot.studio.relabel import Predictions, columns_of, compile_kernels, relabel, update
from laplacianshot.studio.vectors import Stopped, Vectors
from laplacianshot.ui.map import map_2d

# The whole answer waits until there was no action for so many seconds, or until so many actions wait for it.
_REST = 0.4
_MAX_WAITING = 25
# Accuracy is asked for after a rest so many times as long: it takes several answers.
_LONGER = 4
# The center is moved when it should lie this much of a typical vector's length elsewhere; not for very many items,
# whose neighbors take long to find.
_CENTER_SHIFT = 0.1
_MAX_RECENTERED = 50_000
# Neighbors are sought anew when there are so many times as many vectors as last time, or all of them.
_GROWTH = 1.5
# Niceness of what people wait for less, and of what they hardly wait for. No more: on a busy machine a thread that gets
# no time may hold a lock, such as that of the compiler, which the others need.
_NICE, _NICER = 3, 5


@dataclass(frozen=True)
class GivenLabels:
    """The labels that people gave, at one version.

    Attributes
    ----------
    version : int
    classes : int array of shape (n,)
        Class ids, -1 for none.
    asked : bool array of shape (n,)
        Labels that came from people, not from accepting predictions.
    """

    version: int
    classes: Ints
    asked: NDArray[np.bool_]


@dataclass(frozen=True)
class Progress:
    """How far the work is.

    Attributes
    ----------
    predictions : Predictions or None
    predicted, whole, settled : int
        Versions that the labels, the last whole answer, and all that follows from it were made from; -1 before the
        first time.
    seconds : float or None
        Of the last relabeling.
    accuracy : HeldBack or None
    places : float32 array of shape (n, 2), or None
        NaN for items without a place on the map.
    map_revision : int
    problem : str or None
    """

    predictions: Predictions | None = None
    predicted: int = -1
    whole: int = -1
    settled: int = -1
    seconds: float | None = None
    accuracy: HeldBack | None = None
    places: Floats | None = None
    map_revision: int = 0
    problem: str | None = None


class Engine:
    """Work in the background.

    Parameters
    ----------
    vectors : Vectors
    given : callable
        Gives the labels as they are now.
    published : callable
        Called, from any thread, when :attr:`progress` or the vectors have changed.
    """

    def __init__(self, vectors: Vectors, given: Callable[[], GivenLabels], published: Callable[[], object]) -> None:
        self.vectors, self._given, self._published = vectors, given, published
        self.progress = Progress()
        self._cache: GraphCache | None = None
        self._mapped: GraphCache | None = None
        # One answer is published after the other.
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
        """Begin."""
        # Looks for libraries once, which must not happen while another thread loads one.
        with single_threaded_blas():
            pass
        for thread in self._threads:
            thread.start()

    def wake(self) -> None:
        """There are new labels."""
        self._acted = time.monotonic()
        with self._changed:
            self._changed.notify_all()

    def close(self, timeout: float = 5) -> None:
        """End; what is half done is dropped."""
        self._closing.set()
        self.wake()
        for thread in self._threads:
            if thread.is_alive():
                thread.join(timeout)

    def wait_until_settled(self, timeout: float) -> bool:
        """Wait until nothing is left to do, or for so many seconds; whether nothing is."""
        with self._changed:
            return self._changed.wait_for(lambda: self._closing.is_set() or self.is_settled, timeout)

    def wait_until_whole(self, timeout: float) -> bool:
        """Wait until the labels are those of a whole answer to all actions, not of a quick one; whether they are."""

        def is_whole() -> bool:
            stopped = self._closing.is_set() or self.progress.problem is not None
            return stopped or self._cache is None or self.progress.whole == self._given().version

        with self._changed:
            return self._changed.wait_for(is_whole, timeout)

    @property
    def is_settled(self) -> bool:
        """Whether all vectors are there and all that follows from the labels is known."""
        if self.progress.problem is not None:
            return True
        done = self.vectors.finished and not self._is_outgrown() and self.progress.settled == self._given().version
        return done and (self._cache is None or self._mapped is self._cache)

    def _run(self, work: Callable[[], None]) -> None:
        try:
            with contextlib.suppress(Stopped):
                work()
        except Exception as error:
            # A thread that ended without a word would leave the page waiting for ever.
            self._publish(problem=" ".join(f"{type(error).__name__}: {error}".split())[:500])

    def _publish(self, **changes: object) -> None:
        with self._changed:
            self.progress = Progress(**(self.progress.__dict__ | changes))
            self._changed.notify_all()
        self._published()

    def _feed(self) -> None:
        _be_nice(_NICER)
        self.vectors.fill(self._arrived, self._closing.is_set)

    def _arrived(self) -> None:
        with self._changed:
            self._changed.notify_all()
        self._published()

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
                found = update(last, given.classes[last.cache.positions])
                if found is not None:
                    self._publish(predictions=found, predicted=given.version, seconds=time.perf_counter() - start)
            if found is None:
                # Other classes than before: there is no answer to go on from.
                self._answer(self._cache or last.cache)

    def _settle(self) -> None:
        _be_nice(_NICE)
        while not self._closing.is_set():
            version, progress = self._given().version, self.progress
            if self._is_outgrown():
                self._cache = build_cache(*self.vectors.known())
                self._answer(self._cache)
            elif self._cache is None:
                if self.vectors.finished and progress.settled != version:
                    # A single item: there is nothing to find out about it.
                    self._publish(predicted=version, settled=version)
                self._wait()
            elif progress.settled == version or not self._is_resting(version):
                self._wait(_REST / 4 if progress.settled != version else 1.0)
            elif progress.whole != version:
                self._answer(self._cache)
            elif time.monotonic() - self._acted < _LONGER * _REST:
                self._wait(_REST / 4)
            else:
                self._check(self._cache)

    def _is_resting(self, version: int) -> bool:
        waiting = version - self.progress.whole
        return waiting > _MAX_WAITING or time.monotonic() - self._acted >= _REST

    def _wait(self, seconds: float = 1.0) -> None:
        """Until something has changed; also looked at without a word, in case one was missed."""
        with self._changed:
            self._changed.wait(seconds)

    def _answer(self, cache: GraphCache) -> None:
        """The whole answer, brought up to date if there were labels meanwhile. One is made at a time."""
        with self._making:
            start = time.perf_counter()
            given, last = self._given(), self.progress.predictions
            if self.progress.whole == given.version and last is not None and last.cache is cache:
                return
            found = relabel(cache, given.classes[cache.positions])
            seconds = time.perf_counter() - start
        with self._answering:
            now = self._given()
            newer = None if now.version == given.version else update(found, now.classes[cache.positions])
            if newer is not None:
                self._publish(predictions=newer, predicted=now.version, whole=given.version)
            else:
                self._publish(predictions=found, predicted=given.version, whole=given.version, seconds=seconds)

    def _check(self, cache: GraphCache) -> None:
        """How often the graph is right, and whether the center is where it should be."""
        given = self._given()
        class_ids, codes = columns_of(given.classes[cache.positions])
        accuracy = None
        if len(class_ids) >= 2:
            accuracy = hold_back(
                cache.vectors,
                codes,
                given.asked[cache.positions],
                cache.center,
                cache.class_graph(len(class_ids)),
                stopped=lambda: self._closing.is_set() or self._given().version != given.version,
            )
            if self._given().version != given.version:
                return
            center = self._better_center(cache, codes, len(class_ids))
            if center is not None:
                self._cache = build_cache(cache.positions, cache.vectors, center)
                self._answer(self._cache)
        self._publish(accuracy=accuracy, settled=given.version)

    def _better_center(self, cache: GraphCache, codes: Ints, n_classes: int) -> Floats | None:
        """Where ``laplacianshot label`` would put the center, if that is far from where it is."""
        if len(cache) > _MAX_RECENTERED or (codes >= 0).all():
            return None
        wanted = blended_center(cache.vectors, codes, n_classes)
        spread = mean_squared_distance(cache.vectors) / 2
        moved = float(np.square(wanted - cache.center).sum())
        return wanted if moved > _CENTER_SHIFT**2 * spread else None

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
    """Let what people wait for go first; threads that this one starts are as nice (Linux; nothing elsewhere)."""
    with contextlib.suppress(AttributeError, OSError):
        os.setpriority(os.PRIO_PROCESS, threading.get_native_id(), value)
