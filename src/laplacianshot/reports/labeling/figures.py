"""Figures of a labeled source: how sure the labels are, and how the graph settled."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from laplacianshot.reports.style import BLUE, INK, QUIET, bare
from laplacianshot.reports.svg import WIDTH, new_figure
from laplacianshot.reports.text import percentage
from laplacianshot.runtime.types import Floats

if TYPE_CHECKING:
    from matplotlib.figure import Figure

_BINS = 20


def confidence_figure(confidence: Floats) -> Figure:
    """How many predicted labels there are at each confidence; dashed: their mean."""
    figure = new_figure(WIDTH, 2.6)
    axes = figure.add_subplot()
    bare(axes)
    counts, edges = np.histogram(np.clip(confidence, 0, 1), bins=_BINS, range=(0, 1))
    axes.bar(100 * edges[:-1], counts, width=100 / _BINS * 0.86, align="edge", color=BLUE)
    mean = float(confidence.mean())
    axes.axvline(100 * mean, color=INK, lw=1.2, ls=(0, (4, 3)))
    left = mean > 0.5
    axes.annotate(
        f"mean {percentage(mean, 1)}",
        (100 * mean, 1),
        xycoords=("data", "axes fraction"),
        xytext=(-5 if left else 5, -2),
        textcoords="offset points",
        ha="right" if left else "left",
        va="top",
        fontsize=9.5,
        color=INK,
    )
    axes.set_xlim(0, 100)
    axes.set_ylim(0, 1.12 * max(1, counts.max()))
    axes.set_xlabel("confidence, %", fontsize=9.5, color=QUIET, loc="right")
    axes.set_ylabel("predicted labels", fontsize=9.5, color=QUIET)
    _whole_counts(axes.yaxis)
    return figure


def objective_figure(objective: Floats) -> Figure:
    """The objective after each update, from its first value down."""
    figure = new_figure(WIDTH, 2.6)
    axes = figure.add_subplot()
    bare(axes)
    updates = np.arange(1, len(objective) + 1)
    axes.plot(updates, objective - objective[0], color=BLUE, lw=2.4, marker="o", ms=4)
    axes.set_xlabel("update", fontsize=9.5, color=QUIET, loc="right")
    axes.set_ylabel("F minus its first value", fontsize=9.5, color=QUIET)
    _whole_counts(axes.xaxis)
    return figure


def _whole_counts(axis: object) -> None:
    from matplotlib.axis import Axis
    from matplotlib.ticker import FuncFormatter, MaxNLocator

    assert isinstance(axis, Axis)
    axis.set_major_locator(MaxNLocator(nbins=6, integer=True))
    axis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:,.0f}"))
