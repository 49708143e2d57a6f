"""Summary and curves of a training run."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from laplacianshot.reports.figures import BLUE, FAINT, GREEN, INK, ORANGE, QUIET, bare
from laplacianshot.reports.table import Table, row
from laplacianshot.reports.text import counted
from laplacianshot.training.state import EpochRecord

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

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


def training_curves(history: Sequence[EpochRecord], best_epoch: int | None) -> Figure:
    """Loss, accuracy on base classes, accuracy on validation classes and learning rate against the epoch.

    Parameters
    ----------
    history : sequence of EpochRecord
        At least one.
    best_epoch : int or None
        Marked in the curve of the validation.
    """
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure
    from matplotlib.ticker import NullLocator

    figure = Figure(figsize=(9.6, 5.6), layout="constrained", facecolor="white")
    FigureCanvasAgg(figure)
    loss, accuracy, validation, rate = figure.subplots(2, 2, sharex=True).flat
    epochs = [record.epoch for record in history]
    _curve(loss, "Loss on augmented base pictures", epochs, [record.loss for record in history], ORANGE)
    _curve(accuracy, "Accuracy on them, %", epochs, [100 * record.accuracy for record in history], GREEN)
    _validation(validation, [record for record in history if record.validation is not None], best_epoch)
    _curve(rate, "Learning rate", epochs, [record.learning_rate for record in history], QUIET)
    rate.set_yscale("log")
    rate.yaxis.set_minor_locator(NullLocator())
    for axes in (validation, rate):
        axes.set_xlabel("epoch", fontsize=9.5, color=QUIET, loc="right")
    return figure


def _curve(axes: Axes, title: str, epochs: Sequence[int], values: Sequence[float], color: str) -> None:
    from matplotlib.ticker import MaxNLocator

    bare(axes)
    axes.set_title(title, fontsize=10.5, color=INK, loc="left")
    # A single epoch is a point.
    axes.plot(epochs, values, color=color, lw=2, marker="o", ms=5 if len(values) <= 12 else 0)
    axes.xaxis.set_major_locator(MaxNLocator(integer=True))


def _validation(axes: Axes, measured: Sequence[EpochRecord], best_epoch: int | None) -> None:
    title = "Nearest prototype on validation classes, %"
    values = [100 * (record.validation or 0.0) for record in measured]
    epochs = [record.epoch for record in measured]
    _curve(axes, title, epochs, values, BLUE)
    if not measured:
        axes.text(0.5, 0.5, "not measured", transform=axes.transAxes, ha="center", color=QUIET, fontsize=9.5)
        return
    margins = [100 * (record.validation_ci95 or 0.0) for record in measured]
    low = [value - margin for value, margin in zip(values, margins, strict=True)]
    high = [value + margin for value, margin in zip(values, margins, strict=True)]
    axes.fill_between(epochs, low, high, color=FAINT, lw=0)
    if best_epoch in epochs:
        best = values[epochs.index(best_epoch)]
        axes.plot([best_epoch], [best], marker="o", ms=8, color=BLUE, mec="white", mew=1.5)
        axes.annotate(
            f"{best:.2f}", (best_epoch, best), (0, 8), textcoords="offset points", ha="center", fontsize=9.5, color=INK
        )
        axes.margins(y=0.18)
