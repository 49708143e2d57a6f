"""The work behind the page: vectors come, neighbours are found, the set is relabelled, a map is drawn.

Three threads. *feeder* gets the vectors, *labeller* finds neighbours when enough of them are new and relabels after
each action, *mapper* draws. Whoever looks in between sees what was found last.
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

from laplacianshot.inference._types import Floats, Ints
from laplacianshot.labeling.map import map_2d
from laplacianshot.studio.accuracy import HeldBack, hold_back
from laplacianshot.studio.relabel import Found, columns_of, relabel
from laplacianshot.studio.vectors import Stopped, Vectors
from laplacianshot.studio.warm import FEW_NEIGHBORS, Warm, warm_up

# Neighbours are sought anew when there are so many times as many vectors as last time, or all of them.
_GROWTH = 1.5
# Niceness of what nobody waits for.
_NICE = 10


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
    found : Found or None
    predicted, settled : int
        Versions that the labels, and all that follows from them, were made from; -1 before the first time.
    seconds : float or None
        Of the last relabelling.
    accuracy : HeldBack or None
    places : float32 array of shape (n, 2), or None
        NaN for items without a place on the map.
    map_revision : int
    problem : str or None
    """

    found: Found | None = None
    predicted: int = -1
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
        self._warm: Warm | None = None
        self._mapped: Warm | None = None
        self._closing = threading.Event()
        self._changed = threading.Condition()
        self._threads = [
            threading.Thread(target=self._run, args=(work,), name=name, daemon=True)
            for name, work in (("feeder", self._feed), ("labeller", self._label), ("mapper", self._draw))
        ]

    def start(self) -> None:
        """Begin."""
        for thread in self._threads:
            thread.start()

    def wake(self) -> None:
        """There are new labels."""
        with self._changed:
            self._changed.notify_all()

    def close(self, timeout: float = 10) -> None:
        """End; what is half done is dropped."""
        self._closing.set()
        self.wake()
        for thread in self._threads:
            thread.join(timeout)

    def wait_until_settled(self, timeout: float) -> bool:
        """Wait until nothing is left to do, or for so many seconds; whether nothing is."""
        with self._changed:
            return self._changed.wait_for(lambda: self._closing.is_set() or self.is_settled, timeout)

    @property
    def is_settled(self) -> bool:
        """Whether all vectors are there and all that follows from the labels is known."""
        if self.progress.problem is not None:
            return True
        done = self.vectors.finished and not self._is_outgrown() and self.progress.settled == self._given().version
        return done and (self._warm is None or self._mapped is self._warm)

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
        _be_nice()
        self.vectors.fill(self._arrived, self._closing.is_set)

    def _arrived(self) -> None:
        with self._changed:
            self._changed.notify_all()
        self._published()

    def _is_outgrown(self) -> bool:
        ready = int(np.count_nonzero(self.vectors.ready))
        held = 0 if self._warm is None else len(self._warm)
        return ready >= 2 and (ready > _GROWTH * held or (self.vectors.finished and ready > held))

    def _label(self) -> None:
        while not self._closing.is_set():
            if self._is_outgrown():
                self._warm = warm_up(*self.vectors.known())
                self._relabel(self._warm)
            elif self._warm is not None and self.progress.settled != self._given().version:
                self._relabel(self._warm)
            elif self._warm is None and self.vectors.finished and self.progress.settled != self._given().version:
                # A single item: there is nothing to find out about it.
                self._publish(predicted=self._given().version, settled=self._given().version)
            else:
                with self._changed:
                    # Also looked at without a word, in case one was missed.
                    self._changed.wait(1.0)

    def _relabel(self, warm: Warm) -> None:
        start = time.perf_counter()
        given = self._given()
        found = relabel(warm, given.classes[warm.positions])
        self._publish(found=found, predicted=given.version, seconds=time.perf_counter() - start)
        class_ids, codes = columns_of(given.classes[warm.positions])
        accuracy = None
        if len(class_ids) >= 2:
            accuracy = hold_back(
                warm.vectors,
                codes,
                given.asked[warm.positions],
                warm.center,
                warm.class_graph(len(class_ids)),
                stopped=lambda: self._closing.is_set() or self._given().version != given.version,
            )
        if self._given().version == given.version:
            self._publish(accuracy=accuracy, settled=given.version)

    def _draw(self) -> None:
        _be_nice()
        while not self._closing.is_set():
            warm = self._warm
            if warm is None or warm is self._mapped:
                with self._changed:
                    self._changed.wait(1.0)
                continue
            places = np.full((len(self.vectors.ready), 2), np.nan, dtype=np.float32)
            places[warm.positions] = map_2d(warm.rows, warm.graph(FEW_NEIGHBORS))
            self._mapped = warm
            self._publish(places=places, map_revision=self.progress.map_revision + 1)


def _be_nice() -> None:
    """Let what people wait for go first; threads that this one starts are as nice (Linux; nothing elsewhere)."""
    with contextlib.suppress(AttributeError, OSError):
        os.setpriority(os.PRIO_PROCESS, threading.get_native_id(), _NICE)
