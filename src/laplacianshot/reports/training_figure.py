"""The curves of a training run."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from laplacianshot.reports.style import BLUE, FAINT, GREEN, INK, ORANGE, QUIET, bare
from laplacianshot.runtime.files import put_file
from laplacianshot.training.state import EpochRecord

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

# What a picture can be written as.
FORMATS = (".png", ".svg", ".pdf")


def save_training_figure(history: Sequence[EpochRecord], best_epoch: int | None, path: Path) -> None:
    """Draw the curves and put them at ``path``, whole or not at all; its ending gives the format."""
    figure = training_curves(history, best_epoch)
    put_file(path, lambda file: figure.savefig(file, format=path.suffix[1:].lower(), dpi=130))


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
