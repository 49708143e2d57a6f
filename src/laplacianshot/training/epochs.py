"""The epochs of a run, with what is written and reported on the way."""

from __future__ import annotations

import csv
import dataclasses
import io
import math
import signal
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch import Tensor, nn

from laplacianshot.embedding.pictures import Batch, View, batches
from laplacianshot.runtime.extras import require
from laplacianshot.runtime.files import put_file
from laplacianshot.runtime.threads import Prefetch
from laplacianshot.runtime.types import Floats, Ints
from laplacianshot.training.checkpoint import BEST, LAST, MODEL
from laplacianshot.training.plan import Plan, Score, eval_view, train_view
from laplacianshot.training.state import Best, EpochRecord, TrainError, TrainingInterrupted, TrainState, TrainStatus
from laplacianshot.training.trainer import Meter, Trainer, World

if TYPE_CHECKING:
    from laplacianshot.datasets.pictures import Pictures

# Steps after which several processes ask one another whether to stop or to write.
_AGREE_STEPS = 10

# Seconds between two reports.
_SECONDS = 0.2


class StopRequest:
    """The first Ctrl-C or SIGTERM, noted instead of breaking off in the middle of a step; a second one breaks off."""

    number = 0  # the signal that came

    def note(self, number: int, frame: object) -> None:
        """Handle a signal."""
        if self.number:
            raise KeyboardInterrupt
        self.number = number


@contextmanager
def stop_request() -> Iterator[StopRequest]:
    """Note signals until the end. Outside the main thread, where Python handles no signals, nothing is changed."""
    request, before = StopRequest(), {}
    if threading.current_thread() is threading.main_thread():
        before = {number: signal.signal(number, request.note) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield request
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def log_text(history: Sequence[EpochRecord]) -> str:
    """The log as CSV: one line per epoch under a line of names; a validation that was not made is empty."""
    text = io.StringIO()
    writer = csv.DictWriter(text, [field.name for field in dataclasses.fields(EpochRecord)], lineterminator="\n")
    writer.writeheader()
    writer.writerows(dataclasses.asdict(record) for record in history)
    return text.getvalue()


class Log:
    """Writes ``log.csv``, which is always whole, and optionally events for TensorBoard.

    What a killed run has left behind of epochs other than those of ``history`` is taken back.
    """

    def __init__(self, folder: Path, history: Sequence[EpochRecord], events: bool) -> None:
        self._folder = folder
        self._writer: Any = None
        if events:
            require("tensorboard", "train")
            from torch.utils.tensorboard import SummaryWriter

            self._writer = SummaryWriter(str(folder / "tensorboard"), purge_step=len(history))
        if history:
            self.write(history)

    def write(self, history: Sequence[EpochRecord]) -> None:
        """After an epoch: all of the log anew, and the events of the last epoch."""
        put_file(self._folder / "log.csv", lambda file: file.write(log_text(history).encode()))
        if self._writer is not None:
            record = dataclasses.asdict(history[-1])
            for name, value in record.items():
                if name != "epoch" and value is not None:
                    self._writer.add_scalar(name, value, record["epoch"])
            self._writer.flush()

    def close(self) -> None:
        """Close the file of events."""
        if self._writer is not None:
            self._writer.close()


class Reporter:
    """Reports the status of a run a few times per second, with the time left."""

    def __init__(self, progress: Callable[[TrainStatus], object] | None, plan: Plan, processes: int) -> None:
        self._progress, self._plan = progress, plan
        self._processes = processes  # how many train; a meter counts the pictures of one
        self._reported = -math.inf
        self.rate = plan.config.learning_rate
        self.validation_seconds = 0.0

    def report(self, phase: str, step: int, steps: int, state: TrainState, meter: Meter, *, now: bool) -> None:
        """Report the status, unless it was reported just before."""
        if self._progress is None or (not now and time.monotonic() - self._reported < _SECONDS):
            return
        self._reported = time.monotonic()
        if phase == "train":
            meter.read()
        epochs = self._plan.config.epochs
        last = state.history[-1] if state.history else None
        # Between two epochs the numbers are those of the one before.
        loss, accuracy = (meter.loss, meter.accuracy) if meter.seen or last is None else (last.loss, last.accuracy)
        speed = self._processes * meter.images_per_second or (0.0 if last is None else last.images_per_second)
        left = self._seconds_left(speed, state, meter)
        epoch = min(state.epoch + 1, epochs)
        self._progress(
            TrainStatus(phase, epoch, epochs, step, steps, loss, accuracy, self.rate, speed, left, last, state.best)
        )

    def _seconds_left(self, speed: float, state: TrainState, meter: Meter) -> float:
        if not speed:
            return math.nan
        epochs = self._plan.config.epochs - state.epoch
        pictures = epochs * len(self._plan.rows) - self._processes * meter.seen
        validations = math.ceil(epochs / self._plan.config.validate_every)
        return pictures / speed + validations * self.validation_seconds


class Epochs:
    """Trains epoch after epoch from where the trainer stands. Only the first process has a log."""

    def __init__(
        self,
        plan: Plan,
        pictures: Pictures,
        trainer: Trainer,
        world: World,
        output: Path,
        log: Log | None,
        stop: StopRequest,
        reporter: Reporter,
        score: Score | None,
    ) -> None:
        self._plan, self._config, self._pictures = plan, plan.config, pictures
        self._trainer, self._world, self._output = trainer, world, output
        self._log, self._stop, self._reporter, self._score = log, stop, reporter, score
        self._steps = plan.steps(world.size)
        self._part = self._config.batch_size // (self._config.accumulate * world.size)
        self._written = time.monotonic()

    def run(self) -> TrainState:
        """Go on to the end of the last epoch."""
        while self._trainer.state.epoch < self._config.epochs:
            self._train()
            self._finish()
        self._report("done", self._steps, self._steps, now=True)
        return self._trainer.state

    def _train(self) -> None:
        """The steps of this epoch that are left."""
        trainer = self._trainer
        epoch, first = trainer.state.epoch, trainer.state.step
        self._report("train", first, self._steps, now=True)
        sizes, mine = self._plan.shares(self._world.rank, self._world.size)
        order = self._plan.order(epoch)
        rows = np.concatenate([order[share] for share in mine])
        with self._batches(rows, train_view(self._config), epoch, first * self._config.accumulate) as found:
            parts = ((batch.images, batch.labels) for batch in found)
            for step in range(first, self._steps):
                count = -(-(mine[step].stop - mine[step].start) // self._part)
                self._reporter.rate = trainer.rate(epoch, step)
                trainer.step(islice(parts, count), count, sizes[step], self._reporter.rate)
                self._after_step(step + 1)
                self._report("train", step + 1, self._steps)

    def _batches(self, rows: Ints, view: View, epoch: int, start: int = 0) -> Prefetch[Ints, Batch]:
        seed, workers = self._config.seed, self._config.workers
        return batches(self._pictures, rows, view, self._part, seed=seed, epoch=epoch, workers=workers, start=start)

    def _after_step(self, step: int) -> None:
        """Write what is due, and leave if a signal came; several processes agree on it now and then."""
        due = time.monotonic() - self._written >= self._config.checkpoint_seconds
        number = self._stop.number
        if self._world.size > 1:
            if step % _AGREE_STEPS and step < self._steps:
                return
            # The first process's clock counts, and any one's signal.
            asked = self._world.sums([float(due and self._world.is_main), float(number)])
            due, number = asked[0] > 0, number or int(asked[1])
        if number or (due and step < self._steps):
            self._save(self._state_after(step))
        if number:
            raise TrainingInterrupted(self._output / LAST, number)

    def _state_after(self, step: int) -> TrainState:
        """The state after ``step`` steps of this epoch, summed over all processes."""
        meter = self._trainer.meter
        meter.read()
        loss_sum, correct, seen = self._world.sums([meter.loss_sum, meter.correct, meter.seen])
        if not math.isfinite(loss_sum):
            raise TrainError(
                f"the loss is no longer finite in epoch {self._trainer.state.epoch + 1}; lower learning_rate "
                f"({self._config.learning_rate}) or raise warmup_epochs ({self._config.warmup_epochs})."
            )
        return dataclasses.replace(
            self._trainer.state,
            step=step,
            loss_sum=loss_sum,
            correct=int(correct),
            seen=int(seen),
            train_seconds=meter.seconds,
            scaler=self._trainer.scaler_state,
        )

    def _save(self, state: TrainState) -> None:
        if self._world.is_main:
            self._trainer.checkpoint(state).write(self._output / LAST)
        self._written = time.monotonic()

    def _finish(self) -> None:
        """Validate, note the epoch, and write best before last: a kill in between repeats the epoch's end."""
        trainer, config = self._trainer, self._config
        state = self._state_after(self._steps)
        record = EpochRecord(
            epoch=state.epoch + 1,
            learning_rate=trainer.rate(state.epoch, self._steps - 1),
            loss=state.loss_sum / state.seen,
            accuracy=state.correct / state.seen,
            validation=None,
            validation_ci95=None,
            images_per_second=state.seen / state.train_seconds,
            seconds=state.train_seconds,
        )
        is_last = record.epoch == config.epochs
        if config.validation_split and (is_last or record.epoch % config.validate_every == 0) and self._world.is_main:
            record = self._validated(record, state)
        best = state.best
        if record.validation is not None and (best is None or record.validation > best.validation):
            best = Best(record.epoch, record.validation)
        trainer.state = TrainState(epoch=record.epoch, history=(*state.history, record), best=best, scaler=state.scaler)
        trainer.meter = Meter()
        if self._world.is_main:
            # Without validation the last epoch is the best there is.
            if best != state.best or (is_last and best is None):
                trainer.checkpoint(trainer.state).only(MODEL).write(self._output / BEST)
            self._save(trainer.state)
            if self._log is not None:
                self._log.write(trainer.state.history)
        self._world.wait()

    def _validated(self, record: EpochRecord, state: TrainState) -> EpochRecord:
        """The record with the accuracy on validation classes."""
        started = time.perf_counter()
        rows = self._plan.validation_rows
        total, done = -(-len(rows) // self._part), 0
        self._report("validate", 0, total, now=True)

        def note() -> None:
            nonlocal done
            done += 1
            self._report("validate", done, total)
            # Several processes do not stop here: the others could not be informed.
            if self._stop.number and self._world.size == 1:
                self._save(state)
                raise TrainingInterrupted(self._output / LAST, self._stop.number)

        with self._batches(rows, eval_view(self._config), epoch=0) as made:
            images = (self._trainer.to_device(batch.images) for batch in made)
            features = features_of(self._trainer.network, images, note)
        assert self._score is not None  # checked by the plan
        found = self._score(features, self._pictures.labels[rows], self._config, self._config.threads or None)
        seconds = self._reporter.validation_seconds = time.perf_counter() - started
        return dataclasses.replace(
            record, validation=found.mean, validation_ci95=found.ci95, seconds=record.seconds + seconds
        )

    def _report(self, phase: str, step: int, steps: int, *, now: bool = False) -> None:
        self._reporter.report(phase, step, steps, self._trainer.state, self._trainer.meter, now=now)


@torch.inference_mode()
def features_of(network: nn.Module, batches: Iterable[Tensor], done: Callable[[], object] = lambda: None) -> Floats:
    """Features (n, D) of batches of images (B, C, H, W) on the network's device; ``done`` is called after each batch.

    The network gives (features, logits). Its mode is restored afterwards.
    """
    was_training = network.training
    network.eval()
    try:
        parts = []
        for images in batches:
            parts.append(network(images)[0].float().cpu().numpy())
            done()
        return np.concatenate(parts)
    finally:
        network.train(was_training)
