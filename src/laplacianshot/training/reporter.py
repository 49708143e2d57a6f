"""What a progress display is told, and how often."""

from __future__ import annotations

import math
import time
from collections.abc import Callable

from laplacianshot.training.meter import Meter
from laplacianshot.training.plan import Plan
from laplacianshot.training.state import TrainState, TrainStatus

_SECONDS = 0.2


class Reporter:
    """Calls a progress display a few times a second, with the time that is left.

    Parameters
    ----------
    progress : callable or None
    plan : Plan
    processes : int
        How many train; a meter counts the pictures of one.
    """

    def __init__(self, progress: Callable[[TrainStatus], object] | None, plan: Plan, processes: int) -> None:
        self._progress = progress
        self._plan = plan
        self._processes = processes
        self._told = -math.inf
        self.rate = plan.config.learning_rate
        self.validation_seconds = 0.0

    def tell(self, phase: str, step: int, steps: int, state: TrainState, meter: Meter, *, now: bool = False) -> None:
        """Tell how far it is, unless it was told just before."""
        if self._progress is None or (not now and time.monotonic() - self._told < _SECONDS):
            return
        self._told = time.monotonic()
        if phase == "train":
            meter.read()
        epochs = self._plan.config.epochs
        last = state.history[-1] if state.history else None
        # Between two epochs the numbers are those of the one before.
        loss, accuracy = (meter.loss, meter.accuracy) if meter.seen or last is None else (last.loss, last.accuracy)
        speed = self._processes * meter.images_per_second or (0.0 if last is None else last.images_per_second)
        self._progress(
            TrainStatus(
                phase=phase,
                epoch=min(state.epoch + 1, epochs),
                epochs=epochs,
                step=step,
                steps=steps,
                loss=loss,
                accuracy=accuracy,
                learning_rate=self.rate,
                images_per_second=speed,
                seconds_left=self._seconds_left(speed, state, meter),
                latest=last,
                best=state.best,
            )
        )

    def _seconds_left(self, speed: float, state: TrainState, meter: Meter) -> float:
        if not speed:
            return math.nan
        epochs = self._plan.config.epochs - state.epoch
        pictures = epochs * len(self._plan.rows) - self._processes * meter.seen
        validations = math.ceil(epochs / self._plan.config.validate_every)
        return pictures / speed + validations * self.validation_seconds
