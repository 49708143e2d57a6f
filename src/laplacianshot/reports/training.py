"""Summaries of ``laplacianshot train``, with its curves, and of ``laplacianshot extract``."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from laplacianshot.reports.figures import BLUE, FAINT, GREEN, INK, ORANGE, QUIET, bare
from laplacianshot.reports.table import Columns, Table, columns_table, counted, duration, left_out_notes, row
from laplacianshot.training.state import EpochRecord

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    from laplacianshot.datasets.pictures import Pictures
    from laplacianshot.embedding.extraction import Extraction
    from laplacianshot.training import TrainConfig, TrainResult

# Maximum number of epochs in a table; log.csv has all.
_SHOWN = 10


@dataclass(frozen=True)
class TrainingReport:
    """A finished run."""

    config: TrainConfig
    result: TrainResult
    skipped: tuple[tuple[str, str], ...]  # name of each picture that was left out, and why
    curves: Path | None  # file of the figure
    next_command: str  # turns pictures into vectors with this network
    interrupted: bool = False

    def tables(self) -> Sequence[Table]:
        """Return the table to print."""
        history, result = self.result.history, self.result
        shown = _spread(history, result.best_epoch)
        columns: Columns = {
            "Epoch": [str(record.epoch) for record in shown],
            "Learning rate": [f"{record.learning_rate:.4g}" for record in shown],
            "Loss": [f"{record.loss:.3f}" for record in shown],
            "Accuracy, %": [f"{100 * record.accuracy:.1f}" for record in shown],
            "Validation, %": [_validated(record) for record in shown],
            "Images/s": [f"{record.images_per_second:,.0f}" for record in shown],
            "Seconds": [f"{record.seconds:,.1f}" for record in shown],
        }
        seconds = sum(record.seconds for record in history)
        config = self.config
        time = f"{counted(len(history), 'epoch')} in {duration(seconds, digits=0)}"
        if result.best_validation is None:
            notes = [f"{time}, without validation."]
        else:
            size = f"{config.validation_way}-way {config.validation_shot}-shot"
            tasks = f"{counted(config.validation_tasks, 'task')} of split {config.validation_split}"
            notes = [
                f"{time}. Best (bold): epoch {result.best_epoch}.",
                f"Validation: nearest prototype, L2 features, {size}, {tasks}.",
            ]
        if len(shown) < len(history):
            notes.append("Not all epochs are shown; log.csv has them.")
        if self.skipped:
            notes.append(f"{counted(len(self.skipped), 'picture')} could not be read and were left out.")
        bold = [record.epoch == result.best_epoch for record in shown]
        return [columns_table(f"{config.network} on {config.dataset}", columns, bold=bold, notes=notes, spare=2)]

    def to_dict(self) -> dict[str, Any]:
        """The same for JSON."""
        result = self.result
        return {
            "best": str(result.best),
            "last": str(result.last),
            "best_epoch": result.best_epoch,
            "best_validation": result.best_validation,
            "seconds": sum(record.seconds for record in result.history),
            "history": [asdict(record) for record in result.history],
            "config": self.config.to_mapping(),
            "skipped": [{"name": name, "reason": reason} for name, reason in self.skipped],
            "curves": None if self.curves is None else str(self.curves),
            "next": self.next_command,
        }


def _spread(history: Sequence[EpochRecord], best_epoch: int) -> list[EpochRecord]:
    """At most ``_SHOWN`` epochs, evenly from the first to the last, and the best one."""
    if len(history) <= _SHOWN:
        return list(history)
    places = {round(i * (len(history) - 1) / (_SHOWN - 2)) for i in range(_SHOWN - 1)}
    return [record for place, record in enumerate(history) if place in places or record.epoch == best_epoch]


def _validated(record: EpochRecord) -> str:
    if record.validation is None:
        return ""
    return f"{100 * record.validation:.2f} ± {100 * (record.validation_ci95 or 0.0):.2f}"


def training_curves(history: Sequence[EpochRecord], best_epoch: int | None) -> Figure:
    """Draw loss, accuracy on base and on validation classes, and learning rate per epoch; the best epoch is marked."""
    from matplotlib.figure import Figure
    from matplotlib.ticker import NullLocator

    figure = Figure(figsize=(9.6, 5.6), layout="constrained", facecolor="white")
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
    axes.fill_between(epochs, np.subtract(values, margins), np.add(values, margins), color=FAINT, lw=0)
    if best_epoch in epochs:
        best = values[epochs.index(best_epoch)]
        axes.plot([best_epoch], [best], marker="o", ms=8, color=BLUE, mec="white", mew=1.5)
        axes.annotate(
            f"{best:.2f}", (best_epoch, best), (0, 8), textcoords="offset points", ha="center", fontsize=9.5, color=INK
        )
        axes.margins(y=0.18)


@dataclass(frozen=True)
class ExtractionReport:
    """An extraction: vectors per split, the time it took, and pictures left out."""

    extraction: Extraction
    pictures: Pictures
    network: str
    dataset: str
    export: Path | None  # the file that goes with it
    interrupted: bool = False

    @property
    def _skipped(self) -> list[dict[str, str]]:
        found: list[Any] = [*self.pictures.skipped, *self.extraction.store.skipped]
        return [{"name": fault.name, "reason": fault.reason} for fault in found]

    def _splits(self) -> dict[str, tuple[int, int]]:
        """Vectors and classes of each split."""
        store = self.extraction.store
        if store.split is None or store.labels is None:
            return {}
        return {
            name: (int((store.split == name).sum()), len(np.unique(store.labels[store.split == name])))
            for name in self.pictures.splits
        }

    def tables(self) -> Sequence[Table]:
        """Return the table to print."""
        store, run = self.extraction.store, self.extraction
        rows = [row(name, f"{count:,}", f"{classes:,}") for name, (count, classes) in self._splits().items()]
        if len(rows) > 1:
            rows.append(row("all", f"{len(store):,}", f"{self.pictures.n_classes:,}", bold=True))
        notes = [f"Store: {store.path}"]
        if run.encoded == 0:
            notes.append("It was complete already: nothing was computed.")
        else:
            before = f", {run.found:,} were done before" if run.found else ""
            speed = f"{run.encoded / run.seconds:,.0f} per second"
            notes.append(f"{run.encoded:,} pictures in {run.seconds:,.0f} s, {speed}{before}.")
        notes += left_out_notes([f"{fault['name']!r}: {fault['reason']}" for fault in self._skipped])
        title = f"{self.network} on {self.dataset}: vectors of {store.dim:,} numbers, {store.dtype}"
        return [Table(title, ("Split", "Vectors", "Classes"), tuple(rows), tuple(notes))]

    def to_dict(self) -> dict[str, Any]:
        """The same for JSON."""
        store, run = self.extraction.store, self.extraction
        return {
            "store": str(store.path),
            "key": {"digest": store.key.digest, **asdict(store.key)},
            "network": self.network,
            "dataset": self.dataset,
            "rows": len(store),
            "dim": store.dim,
            "dtype": store.dtype,
            "splits": {name: {"rows": n, "classes": c} for name, (n, c) in self._splits().items()},
            "skipped": self._skipped,
            "found": run.found,
            "encoded": run.encoded,
            "seconds": run.seconds,
            "export": None if self.export is None else str(self.export),
        }
