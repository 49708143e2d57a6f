"""Figures of an evaluation: accuracy, convergence and time."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from laplacianshot.episodes.plans import RECIPES
from laplacianshot.episodes.results import Convergence, Evaluation, Evaluations
from laplacianshot.reports.evaluation_tables import DEFAULT, prototype_of, ranked, seconds_per_task
from laplacianshot.reports.style import INK, OBJECTIVES, QUIET, bare
from laplacianshot.reports.style import RECIPES as COLORS
from laplacianshot.reports.svg import WIDTH, new_figure
from laplacianshot.reports.text import milliseconds

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

_LINE = 0.235

# Single tasks drawn beside the mean of all.
_SINGLE_TASKS = 6
# The axis ends where so many of them have.
_SHOWN_TASKS = 0.95


def accuracy_figure(evaluations: Evaluations) -> Figure:
    """Mean accuracy with its 95% interval, a line a method, best on top; dashed: nearest prototype."""
    order = ranked(evaluations)[::-1]
    figure, axes = _lines(order)
    prototype = prototype_of(evaluations)
    if prototype is not None:
        axes.axvline(100 * evaluations[prototype].mean, color=QUIET, lw=1, ls=(0, (4, 3)), zorder=1)
    for place, evaluation in enumerate(order):
        mean, color = 100 * evaluation.mean, _color(evaluation.method)
        margin = 100 * evaluation.ci95
        if np.isfinite(margin):
            axes.plot([mean - margin, mean + margin], [place, place], color=color, lw=2.2, solid_capstyle="butt")
        axes.plot([mean], [place], marker="o", ms=6, color=color, zorder=3)
        _beside(axes, place, f"{mean:.2f}", evaluation.method)
    axes.set_xlabel("accuracy, %", fontsize=9.5, color=QUIET, loc="right")
    axes.margins(x=0.06)
    return figure


def timing_figure(evaluations: Evaluations) -> Figure:
    """Milliseconds a task on a logarithmic scale, fastest on top."""
    from matplotlib.ticker import FuncFormatter, LogLocator, NullLocator

    order = sorted(evaluations, key=seconds_per_task, reverse=True)
    figure, axes = _lines(order)
    times = [1000 * seconds_per_task(evaluation) for evaluation in order]
    left = min(times) / 2
    for place, (evaluation, time) in enumerate(zip(order, times, strict=True)):
        axes.plot([left, time], [place, place], color=_color(evaluation.method), lw=7, solid_capstyle="butt")
        _beside(axes, place, milliseconds(time / 1000), evaluation.method)
    axes.set_xscale("log")
    axes.set_xlim(left, 1.15 * max(times))
    few = max(times) / left < 30
    axes.xaxis.set_major_locator(LogLocator(subs=(1, 2, 5) if few else (1,)))
    axes.xaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))
    axes.xaxis.set_minor_locator(NullLocator())
    axes.set_xlabel("milliseconds a task, logarithmic", fontsize=9.5, color=QUIET, loc="right")
    return figure


def convergence_figure(trace: Convergence) -> Figure:
    """The objective after each update: the mean of all tasks, and a few single ones from their own first value."""
    from matplotlib.ticker import MaxNLocator

    figure = new_figure(WIDTH, 2.9)
    axes = figure.add_subplot()
    bare(axes)
    recipe = RECIPES[trace.method]
    # Tasks start at very different values: what counts is the way from there.
    change = trace.filled - trace.filled[:, :1]
    # A few stragglers would squeeze all others into the first part of the axis.
    change = change[:, : math.ceil(np.quantile(trace.iterations, _SHOWN_TASKS))]
    updates = np.arange(1, change.shape[1] + 1)
    for line in change[:_SINGLE_TASKS]:
        axes.plot(updates, line, color=QUIET, lw=0.9, alpha=0.6)
    axes.plot(updates, change.mean(axis=0), color=COLORS[recipe], lw=2.6, marker="o", ms=4 if len(updates) <= 40 else 0)
    axes.set_ylabel(f"{OBJECTIVES[recipe]} minus its first value", fontsize=9.5, color=QUIET)
    axes.set_xlabel("update", fontsize=9.5, color=QUIET, loc="right")
    axes.xaxis.set_major_locator(MaxNLocator(integer=True))
    return figure


def _lines(order: Sequence[Evaluation]) -> tuple[Figure, Axes]:
    """Axes with a line for each method, named on the left."""
    figure = new_figure(WIDTH, 0.65 + _LINE * len(order))
    axes = figure.add_subplot()
    bare(axes, grid="x")
    axes.set_ylim(-0.6, len(order) - 0.4)
    axes.set_yticks(range(len(order)), [evaluation.method for evaluation in order])
    for label, evaluation in zip(axes.get_yticklabels(), order, strict=True):
        label.set_color(_color(evaluation.method) if evaluation.method in RECIPES else INK)
        label.set_fontweight("bold" if evaluation.method == DEFAULT else "normal")
    return figure, axes


def _beside(axes: Axes, place: int, text: str, method: str) -> None:
    axes.text(
        1.02,
        place,
        text,
        transform=axes.get_yaxis_transform(),
        va="center",
        fontsize=9.5,
        color=INK,
        fontweight="bold" if method == DEFAULT else "normal",
    )


def _color(method: str) -> str:
    return COLORS[RECIPES[method]] if method in RECIPES else QUIET
