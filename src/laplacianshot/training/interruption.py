"""Ctrl-C and SIGTERM that wait for the end of a step."""

from __future__ import annotations

import signal
import threading
from pathlib import Path
from types import FrameType, TracebackType
from typing import Any, Self


class TrainingInterrupted(KeyboardInterrupt):
    """Training was stopped between two steps; the checkpoint holds everything up to there.

    Attributes
    ----------
    checkpoint : Path
    signal : int
        Which signal it was.
    """

    def __init__(self, checkpoint: Path, number: int) -> None:
        super().__init__(f"stopped; {checkpoint} holds everything so far.")
        self.checkpoint = checkpoint
        self.signal = number


class StopRequest:
    """Within ``with``, note the first Ctrl-C or SIGTERM instead of breaking off in the middle of a step.

    A second one breaks off at once. Outside the main thread, where Python handles no signals, nothing is changed.

    Attributes
    ----------
    number : int
        The signal that came, or 0.
    """

    def __init__(self) -> None:
        self.number = 0
        self._before: dict[int, Any] = {}

    def __enter__(self) -> Self:
        if threading.current_thread() is threading.main_thread():
            for number in (signal.SIGINT, signal.SIGTERM):
                self._before[number] = signal.signal(number, self._note)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for number, handler in self._before.items():
            signal.signal(number, handler)
        self._before.clear()

    def _note(self, number: int, frame: FrameType | None) -> None:
        if self.number:
            raise KeyboardInterrupt
        self.number = number
