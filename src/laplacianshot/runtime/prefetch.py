"""Results in order, computed ahead by threads."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from types import TracebackType
from typing import Generic, Self, TypeVar

Part = TypeVar("Part")
Result = TypeVar("Result")


class Prefetch(Generic[Part, Result]):
    """Compute ``work(part)`` of every part in order, each started before it is needed.

    An iterator and a context: leaving the context, an error, and the last result each end the threads. Parts that have
    started are waited for, the rest is dropped. If it is only forgotten, its threads end by themselves. It has no
    finalizer on purpose (and is not a generator, whose ``finally`` is one): the garbage collector may call that while
    its thread holds the locks that ending a thread takes.

    Parameters
    ----------
    work : callable
    parts : iterable
    threads : int
        0 does the work in the calling thread, when a result is needed.
    ahead : int
        Number of parts to start before waiting for the first result.
    name : str
        Name of the threads.
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

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()
