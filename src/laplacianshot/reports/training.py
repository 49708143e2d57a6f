"""What a training run is told of: how it went, which epoch was best, and the files it left."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from laplacianshot.reports.table import Table, row
from laplacianshot.reports.text import counted

if TYPE_CHECKING:
    from laplacianshot.training import EpochRecord, TrainConfig, TrainResult

# Epochs of a table; log.csv has all.
_SHOWN = 10


@dataclass(frozen=True)
class TrainingReport:
    """A finished run, to be printed.

    Attributes
    ----------
    config : TrainConfig
    result : TrainResult
    skipped : tuple of (str, str)
        Pictures left out, by name and reason.
    curves : Path or None
        The picture that goes with it.
    next_command : str
        What turns pictures into vectors with this network.
    """

    config: TrainConfig
    result: TrainResult
    skipped: tuple[tuple[str, str], ...]
    curves: Path | None
    next_command: str
    interrupted: bool = False

    def tables(self) -> Sequence[Table]:
        """To be printed."""
        history, result = self.result.history, self.result
        shown = _spread(history, result.best_epoch)
        rows = [
            row(
                str(record.epoch),
                f"{record.learning_rate:.4g}",
                f"{record.loss:.3f}",
                f"{100 * record.accuracy:.1f}",
                "" if record.validation is None else f"{100 * record.validation:.2f} ± {100 * _margin(record):.2f}",
                f"{record.images_per_second:,.0f}",
                f"{record.seconds:,.1f}",
                bold=record.epoch == result.best_epoch,
            )
            for record in shown
        ]
        seconds = sum(record.seconds for record in history)
        config = self.config
        notes = [f"{counted(len(history), 'epoch')} in {_duration(seconds)}. Best (bold): epoch {result.best_epoch}."]
        if result.best_validation is None:
            notes = [f"{counted(len(history), 'epoch')} in {_duration(seconds)}, without validation."]
        else:
            notes.append(
                f"Validation: nearest prototype, L2 features, {config.validation_way}-way "
                f"{config.validation_shot}-shot, {counted(config.validation_tasks, 'task')} of split "
                f"{config.validation_split}."
            )
        if len(shown) < len(history):
            notes.append("Not all epochs are shown; log.csv has them.")
        if self.skipped:
            notes.append(f"{counted(len(self.skipped), 'picture')} could not be read and were left out.")
        head = ("Epoch", "Learning rate", "Loss", "Accuracy, %", "Validation, %", "Images/s", "Seconds")
        return [Table(f"{config.network} on {config.dataset}", head, tuple(rows), tuple(notes), spare=2)]

    def to_dict(self) -> dict[str, Any]:
        """The same for JSON."""
        result = self.result
        return {
            "best": str(result.best),
            "last": str(result.last),
            "best_epoch": result.best_epoch,
            "best_validation": result.best_validation,
            "seconds": sum(record.seconds for record in result.history),
            "history": [dataclasses.asdict(record) for record in result.history],
            "config": self.config.to_mapping(),
            "skipped": [{"name": name, "reason": reason} for name, reason in self.skipped],
            "curves": None if self.curves is None else str(self.curves),
            "next": self.next_command,
        }


def _spread(history: Sequence[EpochRecord], best_epoch: int) -> list[EpochRecord]:
    """At most so many epochs, evenly from the first to the last, and the best one."""
    if len(history) <= _SHOWN:
        return list(history)
    places = {round(i * (len(history) - 1) / (_SHOWN - 2)) for i in range(_SHOWN - 1)}
    return [record for place, record in enumerate(history) if place in places or record.epoch == best_epoch]


def _margin(record: EpochRecord) -> float:
    return record.validation_ci95 or 0.0


def _duration(seconds: float) -> str:
    """Seconds in words: ``43 s``, ``2 min 5 s``, ``3 h 12 min``."""
    whole = round(seconds)
    if whole < 60:
        return f"{whole} s"
    if whole < 3600:
        return f"{whole // 60} min {whole % 60} s"
    return f"{whole // 3600} h {whole % 3600 // 60} min"
