"""Threads over row blocks, and results computed ahead.

Kernels and matrix products release the GIL, so plain threads run them in parallel, each with a single-threaded BLAS.
Unlike numba's own threading layers this is safe when several threads fit at once and after a fork, and unlike a
threaded BLAS it does not stall on a busy machine, where its threads would wait for one another. Blocks are cut by the
number of rows alone and partial sums are added in order, so a result does not depend on the number of threads.
"""

from __future__ import annotations

import os
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor, wait
from contextlib import contextmanager
from functools import cache, partial
from threading import Lock, local
from typing import Any, Generic, Self, TypeVar

import numpy as np
from threadpoolctl import ThreadpoolController

Part = TypeVar("Part")
Result = TypeVar("Result")

# Below this many elementary operations a thread costs more than it saves.
_WORTH_A_THREAD = 200_000


def available_threads() -> int:
    """Threads to use: ``OMP_NUM_THREADS`` where it is set (joblib's workers set it), else the cores of this process."""
    requested = os.environ.get("OMP_NUM_THREADS", "").split(",")[0].strip()
    if requested.isdigit() and int(requested) > 0:
        return int(requested)
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


_mine = local()


@contextmanager
def in_this_thread() -> Iterator[None]:
    """Let :class:`Workers` of this thread use no other thread: for callers that spread whole tasks over threads."""
    before = getattr(_mine, "alone", False)
    _mine.alone = True
    try:
        yield
    finally:
        _mine.alone = before


def row_blocks(n_rows: int, rows: int) -> list[tuple[int, int]]:
    """``[0, n_rows)`` cut into consecutive blocks of at most ``rows`` rows."""
    return [(start, min(start + rows, n_rows)) for start in range(0, n_rows, max(1, rows))]


def even_blocks(n_rows: int, rows: int, max_blocks: int) -> list[tuple[int, int]]:
    """``[0, n_rows)`` cut into at most ``max_blocks`` blocks of equal size, of at least ``rows`` rows.

    Four or more come in multiples of four, so that two or four threads end together.
    """
    count = min(n_rows // rows, max_blocks)
    count -= count % 4 if count > 4 else 0
    return row_blocks(n_rows, -(-n_rows // max(1, count)))


def disjoint_pairs(n: int) -> list[list[tuple[int, int]]]:
    """Every pair of ``0..n-1`` once, in lists in which no number comes twice: a tournament of players in a ring."""
    seats = n + n % 2  # whoever meets the empty seat has no game
    rounds = []
    for turn in range(seats - 1):
        ring = [0, *(1 + (turn + i) % (seats - 1) for i in range(seats - 1))]
        games = [sorted((ring[i], ring[-1 - i])) for i in range(seats // 2)]
        rounds.append([(one, other) for one, other in games if other < n])
    return rounds


class _SingleThreadedBlas:
    """Holds every BLAS of the process to one thread while anyone asks for it.

    The limit is global to the process. Counting its holders keeps overlapping fits from restoring each other's limit.
    """

    def __init__(self) -> None:
        self._lock = Lock()
        self._holders = 0
        self._limiter: Any = None

    def acquire(self) -> None:
        with self._lock:
            if self._holders == 0:
                self._limiter = _controller().limit(limits=1, user_api="blas")
                self._limiter.__enter__()
            self._holders += 1

    def release(self) -> None:
        with self._lock:
            self._holders -= 1
            if self._holders == 0:
                self._limiter.__exit__(None, None, None)


@cache
def _controller() -> Any:
    return ThreadpoolController()


_blas = _SingleThreadedBlas()
if hasattr(os, "register_at_fork"):
    # A child forked in the middle of a fit must not inherit a lock that nobody will release.
    os.register_at_fork(after_in_child=lambda: _blas.__init__())  # type: ignore[misc]


@contextmanager
def single_threaded_blas() -> Iterator[None]:
    """Hold every BLAS of the process to one thread, for code that has threads of its own."""
    _blas.acquire()
    try:
        yield
    finally:
        _blas.release()


class Workers:
    """A short-lived pool of threads with a single-threaded BLAS.

    ``work`` is the rough number of elementary operations of one pass; for little work the caller is the only thread.
    """

    def __init__(self, work: int) -> None:
        alone = work < _WORTH_A_THREAD or getattr(_mine, "alone", False)
        self.threads = 1 if alone else available_threads()
        self._pool = ThreadPoolExecutor(self.threads - 1) if self.threads > 1 else None

    def __enter__(self) -> Self:
        _blas.acquire()
        return self

    def __exit__(self, *error: object) -> None:
        _blas.release()
        if self._pool is not None:
            self._pool.shutdown(wait=True, cancel_futures=True)

    def run(self, function: Callable[[int, int, int], object], blocks: list[tuple[int, int]]) -> None:
        """Call ``function(number, start, stop)`` for every block, in any order; an error ends the run."""
        left = iter([(number, start, stop) for number, (start, stop) in enumerate(blocks)])

        def work() -> None:
            # All threads take from the same list; its iterator gives each block to one of them.
            try:
                for block in left:
                    function(*block)
            except BaseException:
                for _ in left:
                    pass
                raise

        others = []
        if self._pool is not None:
            others = [self._pool.submit(work) for _ in range(min(self.threads, len(blocks)) - 1)]
        try:
            work()
        finally:
            wait(others)
        for other in others:
            other.result()

    def share(self, n_rows: int) -> list[tuple[int, int]]:
        """``[0, n_rows)`` cut into one block per thread; for work whose result does not depend on the cut."""
        return row_blocks(n_rows, max(1, -(-n_rows // self.threads)))

    def product(self, A: Any, B: Any) -> Any:
        """``A B`` of float arrays (n, D) and (D, m), the rows of A shared among the threads."""
        out = np.empty((A.shape[0], B.shape[1]), dtype=np.result_type(A, B))
        self.run(lambda _, start, stop: np.matmul(A[start:stop], B, out=out[start:stop]), self.share(len(A)))
        return out


class Prefetch(Generic[Part, Result]):
    """Compute ``work(part)`` of every part in order, each started before it is needed.

    An iterator and a context: leaving the context, an error, and the last result each end the threads. Parts that have
    started are waited for, the rest is dropped. If it is only forgotten, its threads end by themselves. It has no
    finalizer on purpose (and is not a generator, whose ``finally`` is one): the garbage collector may call that while
    its thread holds the locks that ending a thread takes.

    ``ahead`` is the number of parts to start before waiting for the first result, ``name`` the name of the threads.
    With 0 ``threads`` the calling thread does the work when a result is needed.
    """

    def __init__(
        self, work: Callable[[Part], Result], parts: Iterable[Part], threads: int, ahead: int, name: str = ""
    ) -> None:
        self._work, self._parts = work, iter(parts)
        self._pool = ThreadPoolExecutor(threads, thread_name_prefix=name) if threads else None
        self._waiting: deque[Callable[[], Result]] = deque()
        self._ahead = ahead if threads else 1

    def __iter__(self) -> Self:
        return self

    def __next__(self) -> Result:
        while len(self._waiting) < self._ahead:
            try:
                self._waiting.append(self._begin(next(self._parts)))
            except StopIteration:
                break
        if not self._waiting:
            self.close()
            raise StopIteration
        try:
            return self._waiting.popleft()()
        except BaseException:
            self.close()
            raise

    def _begin(self, part: Part) -> Callable[[], Result]:
        """Start the work on a part; returns a function that waits for its result."""
        if self._pool is None:
            return partial(self._work, part)
        return self._pool.submit(self._work, part).result

    def close(self) -> None:
        """Drop the parts that have not started and wait for the rest."""
        self._waiting.clear()
        self._parts = iter(())
        if self._pool is not None:
            self._pool.shutdown(cancel_futures=True)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()


@contextmanager
def torch_threads(number: int | None) -> Iterator[None]:
    """Let torch compute on a number of threads (all cores for 0 or None), and restore the number afterwards."""
    import torch

    before = torch.get_num_threads()
    torch.set_num_threads(number or available_threads())
    try:
        yield
    finally:
        torch.set_num_threads(before)
