"""How far a search is, told in rows."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from threading import Lock
from typing import TypeAlias

# Called with (done, total) on the way.
Progress: TypeAlias = Callable[[int, int], object]


class RowCounter:
    """Rows done by several threads, in any order."""

    def __init__(self, total: int, progress: Progress | None) -> None:
        self._total, self._progress = total, progress
        self._done = 0
        self._lock = Lock()

    def add(self, rows: int) -> None:
        """So many more are done."""
        if self._progress is None:
            return
        with self._lock:
            self._done += rows
            self._progress(self._done, self._total)


@dataclass(frozen=True)
class Shares:
    """Parts of a search of n rows as shares of its progress."""

    progress: Progress | None
    n: int

    def part(self, start: float, stop: float) -> Progress | None:
        """What a part is told that goes from one share of the whole to another."""
        if self.progress is None:
            return None
        progress, n = self.progress, self.n
        return lambda done, total: progress(round(n * (start + (stop - start) * done / max(1, total))), n)
