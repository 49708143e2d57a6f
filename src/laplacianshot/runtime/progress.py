"""Progress of long work: one kind of callback for all rooms."""

from __future__ import annotations

from collections.abc import Callable
from threading import Lock
from typing import TypeAlias

# Called with (done, total) while work goes on.
Progress: TypeAlias = Callable[[int, int], object]

# Called with the name of a stage when it starts; returns the callback for the progress of that stage.
Watch: TypeAlias = Callable[[str], Progress]


def no_watch(_: str) -> Progress:
    """A watch that reports nothing."""
    return lambda done, total: None


class RowCounter:
    """Count rows that several threads finish in any order; ``progress`` is called after each :meth:`add`."""

    def __init__(self, total: int, progress: Progress | None) -> None:
        self._total, self._progress = total, progress
        self._done, self._lock = 0, Lock()

    def add(self, rows: int) -> None:
        """Count ``rows`` more rows as done."""
        if self._progress is None:
            return
        with self._lock:
            self._done += rows
            self._progress(self._done, self._total)
