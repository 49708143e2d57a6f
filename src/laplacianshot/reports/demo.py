"""The result of ``laplacianshot demo``, in words, as JSON and as a figure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from laplacianshot import __version__
from laplacianshot.baselines import TransductiveClassifier
from laplacianshot.datasets import Digits
from laplacianshot.episodes.whole_set import Comparison, Standing
from laplacianshot.reports.figures import FAINT, INK, OBJECTIVES, ORANGE, QUIET, RECIPES, VERMILION, bare, spread_out
from laplacianshot.reports.text import interval_dict, points, side
from laplacianshot.runtime.files import put_file
from laplacianshot.runtime.types import Floats, Ints, Labels

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure, SubFigure

DEFAULT = "default"
NEAREST_PROTOTYPE = "nearest-prototype"

# Formats by the end of the file's name.
FORMATS = (".png", ".svg", ".pdf")

_MISTAKE = VERMILION
_COLORS: Mapping[str, str] = {
    **RECIPES,
    "nearest-prototype": QUIET,
    "1-nearest-neighbor": "#9AA5B1",
    "logistic-regression": "#52606D",
    "label-spreading-rbf": VERMILION,
    "label-spreading-knn": ORANGE,
}
_DASHES: Mapping[str, str] = {
    "nearest-prototype": "--",
    "1-nearest-neighbor": ":",
    "logistic-regression": "-.",
}

# Found examples shown for each class, from the surest to the least sure.
_SHOWN = 7


@dataclass(frozen=True)
class Method:
    """A method of the demo.

    Attributes
    ----------
    name : str
        Recipe or baseline.
    title : str
        Name in tables and figures.
    settings : str
        Its settings in words.
    estimator : TransductiveClassifier
    """

    name: str
    title: str
    settings: str
    estimator: TransductiveClassifier = field(repr=False)


@dataclass(frozen=True)
class Trace:
    """The objective of one recipe, iteration by iteration.

    Attributes
    ----------
    name : str
        Recipe.
    objective : array of shape (n_iter,)
        F, R or E after each iteration.
    bound : array of shape (n_iter,) or None
        The bound that each iteration minimized (paper).
    converged : bool
    """

    name: str
    objective: Floats
    bound: Floats | None
    converged: bool


@dataclass(frozen=True, repr=False)
class Example:
    """The default recipe on the first random choice of labeled rows.

    Attributes
    ----------
    rows : int array of shape (n_s,)
        The labeled rows.
    found : array of shape (n,)
    confidence : array of shape (n,)
        Largest probability of each row (not calibrated).
    traces : tuple of Trace
        All three recipes on this choice.
    """

    rows: Ints
    found: Labels
    confidence: Floats
    traces: tuple[Trace, ...]


@dataclass(frozen=True, repr=False)
class DemoResult:
    """The result of the demo.

    Attributes
    ----------
    methods : tuple of Method
    comparison : Comparison or None
        None if it was interrupted before the first repeat.
    curve : tuple of Comparison
        Accuracy per number of labels, ascending.
    example : Example or None
        None if interrupted.
    seed, repeats, labels_per_class, n_rows, n_classes : int
        The settings.
    interrupted : bool
    """

    methods: tuple[Method, ...]
    comparison: Comparison | None
    curve: tuple[Comparison, ...]
    example: Example | None
    seed: int
    repeats: int
    labels_per_class: int
    n_rows: int
    n_classes: int
    interrupted: bool

    @property
    def n_unlabeled(self) -> int:
        """Number of rows to label per repeat."""
        return self.n_rows - self.n_classes * self.labels_per_class

    def method(self, name: str) -> Method:
        """Return the method of that name."""
        return next(method for method in self.methods if method.name == name)

    def standings(self) -> tuple[Standing, ...]:
        """Return all methods, best first; none if nothing was finished."""
        return () if self.comparison is None else self.comparison.standings()

    def verdict(self) -> str:
        """Say which method is best, by how much, and how the default compares."""
        if self.comparison is None:
            return "Nothing was finished."
        standings = self.standings()
        best, second = standings[:2]
        default = next(standing for standing in standings if standing.name == DEFAULT)
        title = self.method(DEFAULT).title
        over_prototype = self.comparison.difference(DEFAULT, NEAREST_PROTOTYPE)
        prototype = f"{points(over_prototype)} {side(over_prototype.mean)} the nearest prototype"
        if best.name == DEFAULT:
            lead = self.comparison.difference(DEFAULT, second.name)
            return (
                f"{title} is best with {100 * best.accuracy.mean:.1f}%: {points(lead)} ahead of "
                f"{self.method(second.name).title}, {prototype}."
            )
        behind = self.comparison.difference(DEFAULT, best.name)
        place = f"{title} is number {default.place} of {len(standings)} with {100 * default.accuracy.mean:.1f}%"
        return (
            f"{self.method(best.name).title} is best with {100 * best.accuracy.mean:.1f}%. {place}: "
            f"{points(behind)} behind the best, {prototype}."
        )

    def to_dict(self) -> dict[str, Any]:
        """Return everything that is printed, for JSON; the interval of a single value is None."""
        return {
            "laplacianshot": __version__,
            "data": {"name": "scikit-learn digits", "rows": self.n_rows, "classes": self.n_classes},
            "seed": self.seed,
            "labels_per_class": self.labels_per_class,
            "unlabeled": self.n_unlabeled,
            "repeats": 0 if self.comparison is None else len(self.comparison.repeats),
            "repeats_asked": self.repeats,
            "interrupted": self.interrupted,
            "methods": [
                {
                    "place": standing.place,
                    "name": standing.name,
                    "title": self.method(standing.name).title,
                    "settings": self.method(standing.name).settings,
                    "accuracy": interval_dict(standing.accuracy),
                    "behind_best": None if standing.behind_best is None else interval_dict(standing.behind_best),
                    "seconds": standing.seconds,
                }
                for standing in self.standings()
            ],
            "curve": [
                {
                    "labels_per_class": point.per_class,
                    "accuracy": {name: interval_dict(point.accuracy(name)) for name in point.names},
                }
                for point in self.curve
            ],
            "verdict": self.verdict(),
        }


def save_demo_figure(result: DemoResult, digits: Digits, path: Path) -> None:
    """Draw the picture and put it at ``path``, whole or not at all.

    Parameters
    ----------
    result : DemoResult
        Of a run that was not interrupted.
    digits : Digits
    path : Path
        Its ending, one of :data:`FORMATS`, gives the format.
    """
    figure = draw_demo(result, digits)
    put_file(path, lambda file: figure.savefig(file, format=path.suffix[1:].lower(), dpi=130))


def draw_demo(result: DemoResult, digits: Digits) -> Figure:
    """The picture as a matplotlib figure, drawn without a screen."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    if result.comparison is None or result.example is None:
        raise ValueError("there is nothing to draw: the run was interrupted before its first repeat was finished.")
    figure = Figure(figsize=(13.5, 8.0), facecolor="white")
    FigureCanvasAgg(figure)
    labels = "label" if result.labels_per_class == 1 else "labels"
    figure.text(
        0.03,
        0.945,
        f"{result.labels_per_class} {labels} per class, {result.n_unlabeled:,} digits labeled by the graph",
        fontsize=19,
        fontweight="bold",
        color=INK,
    )
    mean = result.comparison.accuracy(DEFAULT)
    repeats = len(result.comparison.repeats)
    figure.text(
        0.03,
        0.908,
        f"LaplacianShot default: {100 * mean.mean:.1f}% right on average over {repeats} random "
        f"choice{'s' if repeats > 1 else ''} of the labeled digits (scikit-learn's bundled set)",
        fontsize=11.5,
        color=QUIET,
    )
    left, right = figure.subfigures(1, 2, squeeze=False, width_ratios=[1.08, 1.0])[0]
    left.set_facecolor("none")
    right.set_facecolor("none")
    _draw_examples(left, result.example, digits)
    convergence = right.add_axes((0.08, 0.58, 0.62, 0.242))
    _draw_convergence(convergence, result.example.traces)
    curve = right.add_axes((0.08, 0.075, 0.62, 0.355))
    _draw_curve(curve, result)
    return figure


def _draw_examples(part: SubFigure, example: Example, digits: Digits) -> None:
    """A column for each class: a given digit on top, then found ones from surest to least sure."""
    hidden = np.ones(len(digits.labels), dtype=bool)
    hidden[example.rows] = False
    share = float(np.mean(example.found[hidden] == digits.labels[hidden]))
    n_classes = len(digits.class_names)
    left, top, width, height = 0.155, 0.80, 0.825, 0.76
    step_x, step_y = width / n_classes, height / (_SHOWN + 1.35)
    part.text(0.056, 0.862, "Given and found", fontsize=12, fontweight="bold", color=INK)
    part.text(
        0.056,
        0.838,
        f"First choice: {100 * share:.1f}% right. A column holds what was labeled alike, surest first.",
        fontsize=9.5,
        color=QUIET,
    )
    for column in range(n_classes):
        found = shown_rows(example, hidden, column, _SHOWN)
        given = example.rows[digits.labels[example.rows] == column][:1]
        x = left + column * step_x
        _tile(part, digits.images[given[0]], (x, top - step_y), step_x, step_y, frame=_COLORS[DEFAULT])
        for place, row in enumerate(found):
            y = top - (place + 2.35) * step_y
            wrong = digits.labels[row] != column
            _tile(part, digits.images[row], (x, y), step_x, step_y, frame=_MISTAKE if wrong else None)
            if wrong:
                part.text(
                    x + 0.86 * step_x,
                    y + 0.115 * step_y,
                    str(digits.labels[row]),
                    color="white",
                    fontsize=8.5,
                    fontweight="bold",
                    ha="center",
                    va="center",
                    bbox={"boxstyle": "square,pad=0.22", "color": _MISTAKE},
                    zorder=5,
                )
        part.text(
            x + step_x / 2,
            top - 1.19 * step_y,
            digits.class_names[column],
            ha="center",
            va="center",
            fontsize=13,
            fontweight="bold",
            color=_COLORS[DEFAULT],
        )
    part.text(left - 0.014, top - 0.5 * step_y, "given", ha="right", va="center", fontsize=10, color=_COLORS[DEFAULT])
    part.text(left - 0.014, top - 1.19 * step_y, "label", ha="right", va="center", fontsize=10, color=_COLORS[DEFAULT])
    part.text(left - 0.014, top - 1.85 * step_y, "surest\nfound", ha="right", va="center", fontsize=10, color=INK)
    last = top - (_SHOWN + 0.85) * step_y
    part.text(left - 0.014, last, "least\nsure", ha="right", va="center", fontsize=10, color=INK)
    part.text(
        left + width,
        0.012,
        "framed: mistakes, with the digit it really is",
        ha="right",
        va="bottom",
        fontsize=9.5,
        color=_MISTAKE,
    )


def shown_rows(example: Example, hidden: Floats, label: int, count: int) -> Ints:
    """Up to ``count`` hidden rows that were found to be ``label``, at even steps from the surest to the least sure."""
    rows = np.flatnonzero(hidden & (example.found == label))
    rows = rows[np.argsort(-example.confidence[rows], kind="stable")]
    if len(rows) == 0:
        return rows
    steps = np.unique(np.linspace(0, len(rows) - 1, count).round().astype(np.int64))
    chosen: Ints = rows[steps]
    return chosen


def _tile(
    part: SubFigure, image: Floats, corner: tuple[float, float], width: float, height: float, *, frame: str | None
) -> None:
    inset = 0.07
    axes = part.add_axes(
        (corner[0] + inset * width, corner[1] + inset * height, width * (1 - 2 * inset), height * (1 - 2 * inset))
    )
    axes.imshow(image, cmap="gray_r", vmin=0, vmax=16, interpolation="nearest")
    axes.set_xticks([])
    axes.set_yticks([])
    for spine in axes.spines.values():
        spine.set_color(frame or FAINT)
        spine.set_linewidth(2.2 if frame else 0.8)


def _draw_convergence(axes: Axes, traces: Sequence[Trace]) -> None:
    """Each objective from 1, after its first update, to 0, where it ended."""
    bare(axes)
    axes.set_title("Convergence", loc="left", fontsize=12, fontweight="bold", color=INK, pad=20)
    axes.text(
        0,
        1.045,
        "What each recipe minimizes, from its first value (1) to its last (0)",
        transform=axes.transAxes,
        fontsize=9.5,
        color=QUIET,
    )
    longest = max(len(trace.objective) for trace in traces)
    # The default last: it runs over the others.
    for trace in reversed(traces):
        first, last = float(trace.objective[0]), float(trace.objective[-1])
        drop = first - last if first != last else 1.0
        updates = np.arange(1, len(trace.objective) + 1)
        color = _COLORS[trace.name]
        if trace.bound is not None:
            # The bound of update i + 1 lies between R after update i and R after update i + 1.
            axes.plot(updates[1:], (trace.bound[1:] - last) / drop, ls="none", marker="v", ms=4.5, color=color)
        axes.plot(updates, (trace.objective - last) / drop, color=color, lw=2.4 if trace.name == DEFAULT else 1.8)
        axes.plot(updates[-1:], [0], marker="o", ms=6, color=color, clip_on=False, zorder=5)
    heights = iter((0.86, 0.66, 0.46))
    for trace in traces:
        state = "settled" if trace.converged else "at its limit"
        symbol = OBJECTIVES[trace.name] + (", bound ▾" if trace.bound is not None else "")
        axes.text(
            1.03,
            next(heights),
            f"{trace.name} ({symbol})\n{len(trace.objective)} updates, {state}",
            transform=axes.transAxes,
            color=_COLORS[trace.name],
            fontsize=9.5,
            fontweight="bold" if trace.name == DEFAULT else "normal",
            va="center",
        )
    axes.set_xlim(0.5, longest + 0.5)
    axes.set_ylim(-0.04, 1.05)
    axes.set_yticks([0, 0.5, 1], ["0", "½", "1"])
    axes.set_xlabel("update", fontsize=9.5, color=QUIET, loc="right", labelpad=1)


def _draw_curve(axes: Axes, result: DemoResult) -> None:
    """Mean accuracy against labels per class, each line named at its end."""
    bare(axes)
    axes.set_title("Accuracy against number of labels", loc="left", fontsize=12, fontweight="bold", color=INK, pad=20)
    axes.text(
        0,
        1.035,
        "Unlabeled digits labeled right, %. Shaded: 95% interval of the default and the best other",
        transform=axes.transAxes,
        fontsize=9.5,
        color=QUIET,
    )
    counts = [point.per_class for point in result.curve]
    best_other = next(standing.name for standing in result.standings() if standing.name != DEFAULT)
    ends: dict[str, float] = {}
    for method in reversed(result.methods):
        name, color = method.name, _COLORS[method.name]
        means = [100 * point.accuracy(name).mean for point in result.curve]
        ends[name] = means[-1]
        if name in (DEFAULT, best_other):
            margins = np.array([100 * point.accuracy(name).ci95 for point in result.curve])
            margins = np.where(np.isfinite(margins), margins, 0.0)
            axes.fill_between(counts, means - margins, means + margins, color=color, alpha=0.13, lw=0)
        bold = name == DEFAULT
        axes.plot(
            counts,
            means,
            color=color,
            lw=2.8 if bold else 1.6,
            ls=_DASHES.get(name, "-"),
            marker="o",
            ms=5 if bold else 3.5,
            zorder=4 if bold else 3,
            clip_on=False,
        )
    axes.set_xscale("log")
    axes.minorticks_off()
    axes.set_xticks(counts, [str(count) for count in counts])
    axes.set_xlim(counts[0] * 0.93, counts[-1] * 1.04)
    low, high = axes.get_ylim()
    axes.set_ylim(low, min(100.0, high))
    low, high = axes.get_ylim()
    axes.set_xlabel("labels per class", fontsize=9.5, color=QUIET, loc="right", labelpad=1)
    beside = axes.get_yaxis_transform()  # x in parts of the axes, y in points
    for name, y in spread_out(ends, 0.074 * (high - low), high - 0.04 * (high - low)).items():
        color = _COLORS[name]
        axes.plot([1.0, 1.035], [ends[name], y], transform=beside, color=color, lw=0.8, clip_on=False, zorder=2)
        axes.text(
            1.045,
            y,
            result.method(name).title,
            transform=beside,
            color=color,
            fontsize=9.5,
            fontweight="bold" if name == DEFAULT else "normal",
            va="center",
        )
