"""Batches of tasks over threads: the loop that every evaluation goes through."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass
from time import perf_counter
from typing import Any

import numpy as np
from threadpoolctl import threadpool_limits

from laplacianshot.datasets.feature_set import FeatureSet
from laplacianshot.episodes.batch import GramSource, Placement
from laplacianshot.episodes.batch.grams import Buffers
from laplacianshot.episodes.methods import Batch
from laplacianshot.episodes.tasks import Tasks
from laplacianshot.runtime.prefetch import MadeAhead
from laplacianshot.runtime.threads import available_threads, row_blocks, single_threaded_blas
from laplacianshot.runtime.types import Floats, Ints

# Inner products of a batch stay in cache, and a batch is worth a thread.
_BATCH_BYTES = 4 * 2**20
_MOST_TASKS = 64

# Where only a batch will do.
TOO_FAR = (
    "the features lie too far from zero, and too close together, for float32 inner products; subtract their mean, or "
    "use transform='cl2' with a base mean among them."
)


@dataclass(frozen=True)
class Chunk:
    """Tasks of one shape that are run together.

    Attributes
    ----------
    numbers : int array of shape (B,)
        Which tasks.
    n_support : int
    n_rows : int
    """

    numbers: Ints
    n_support: int
    n_rows: int


class TaskRows:
    """The rows that tasks use, and their inner products at any placement.

    Parameters
    ----------
    feature_set : FeatureSet
    tasks : Tasks
    """

    def __init__(self, feature_set: FeatureSet, tasks: Tasks) -> None:
        self.tasks = tasks
        used = np.zeros(feature_set.n_rows, dtype=bool)
        used[tasks.rows] = True
        self._place = np.cumsum(used) - 1
        self.features: Floats = np.ascontiguousarray(feature_set.features[used])
        self._work = int(np.square(np.diff(tasks.offsets).astype(np.float64)).sum())
        self._sources: dict[Placement, GramSource] = {}
        self._seconds: dict[Placement, float] = {}
        self._local = threading.local()

    def prepare(self, placements: Sequence[Placement | None]) -> None:
        """Place the rows once for each placement."""
        for placement in placements:
            if placement is not None and placement not in self._sources:
                start = perf_counter()
                self._sources[placement] = GramSource(self.features, placement, self._work)
                self._seconds[placement] = perf_counter() - start

    def seconds_to_place(self, placement: Placement | None) -> float:
        """Time that :meth:`prepare` took for a placement."""
        return 0.0 if placement is None else self._seconds[placement]

    def chunks(self) -> list[Chunk]:
        """All tasks in batches of one shape."""
        result: list[Chunk] = []
        for shape in self.tasks.shapes():
            n_rows = shape.n_support + shape.n_query
            size = max(1, min(_MOST_TASKS, _BATCH_BYTES // (4 * n_rows * n_rows)))
            parts = row_blocks(len(shape.numbers), size)
            result += [Chunk(shape.numbers[start:stop], shape.n_support, n_rows) for start, stop in parts]
        # In the order of their first task, so that what has been run is nearly a run of tasks from the first on.
        return sorted(result, key=lambda chunk: int(chunk.numbers[0]))

    def batch(self, chunk: Chunk, placement: Placement | None) -> Batch:
        """The tasks of a chunk as a method at this placement sees them; inner products last until the next call.

        There are none without a placement, nor where they would be blunt (:attr:`GramSource.sharp`).
        """
        rows, labels = self.tasks.block(chunk.numbers)
        rows = self._place[rows]
        buffers = self._buffers()
        grams = None
        placed = self.features[:, :0]
        source = None if placement is None else self._sources[placement]
        if source is not None and source.sharp:
            grams = buffers.take("grams", (len(rows), chunk.n_rows, chunk.n_rows))
            support = np.ascontiguousarray(labels[:, : chunk.n_support])
            source.fill(rows, support, self.tasks.way, grams, buffers)
            placed = source.rows
        return Batch(rows, labels, chunk.n_support, self.tasks.way, self.features, grams, placed, buffers)

    def _buffers(self) -> Buffers:
        held: Buffers | None = getattr(self._local, "buffers", None)
        if held is None:
            held = self._local.buffers = Buffers()
        return held


@contextmanager
def over_threads(work: Callable[[Chunk], Any], chunks: Sequence[Chunk], threads: int | None) -> Iterator[Iterator[Any]]:
    """A context with ``work(chunk)`` of every chunk, in order, on threads with BLAS and OpenMP held to one.

    After an exception, KeyboardInterrupt among them, chunks not yet begun are dropped and those begun are waited for.
    """
    count = available_threads() if threads is None else threads
    if count < 1:
        raise ValueError(f"threads must be at least 1, got {threads}.")
    # A task that is all alone may have the threads of OpenMP; small ones would wait for them on a busy machine.
    alone = count > 1 and len(chunks) == 1 and len(chunks[0].numbers) == 1
    with single_threaded_blas(), nullcontext() if alone else threadpool_limits(1, user_api="openmp"):
        if count == 1 or len(chunks) == 1:
            yield map(work, chunks)
            return
        # A few ahead of the threads, not all: results are taken as they come and Ctrl-C drops little.
        with MadeAhead(work, chunks, count, 3 * count) as results:
            yield results
