"""The result of ``laplacianshot demo``: tables, JSON and a figure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from laplacianshot import __version__
from laplacianshot.datasets.feature_set import FeatureSet
from laplacianshot.episodes.results import Evaluations
from laplacianshot.episodes.whole_set import draw_labeled
from laplacianshot.estimator import LaplacianShot
from laplacianshot.reports.evaluation import methods_table, ranked, seconds_per_task
from laplacianshot.reports.figures import FAINT, INK, OBJECTIVES, ORANGE, QUIET, RECIPES, VERMILION, bare, save_figure
from laplacianshot.reports.table import Table, counted, interval_dict, points, row, side
from laplacianshot.runtime.types import Ints

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure, SubFigure

DEFAULT = "default"
_PROTOTYPE = "nearest-prototype"

# Color and line of each method.
_STYLES: Mapping[str, tuple[str, str]] = {
    **{recipe: (color, "-") for recipe, color in RECIPES.items()},
    _PROTOTYPE: (QUIET, "--"),
    "1-nearest-neighbor": ("#9AA5B1", ":"),
    "logistic-regression": ("#52606D", "-."),
    "label-spreading-rbf": (VERMILION, "-"),
    "label-spreading-knn": (ORANGE, "-"),
}
# Predicted examples shown for each class, from the most to the least confident.
_SHOWN = 7


@dataclass(frozen=True)
class DemoMethod:
    """Title of a method in tables and figures, and its settings in words."""

    title: str
    settings: str


@dataclass(frozen=True, repr=False)
class DemoResult:
    """The result of the demo."""

    methods: Mapping[str, DemoMethod]
    curve: Mapping[int, Evaluations]  # by number of labels per class, ascending; what was finished
    recipes: tuple[LaplacianShot, ...]  # the default first, fitted on the first random choice of labeled digits
    digits: FeatureSet
    seed: int
    repeats: int
    labels_per_class: int
    interrupted: bool
    picture: Path  # file of the figure; it is written unless the run was interrupted

    @property
    def evaluations(self) -> Evaluations | None:
        """All methods on the requested number of labels; None if interrupted before the first repeat."""
        return self.curve.get(self.labels_per_class)

    @property
    def n_unlabeled(self) -> int:
        """Number of digits to label per repeat."""
        return self.digits.n_rows - self.digits.n_classes * self.labels_per_class

    def verdict(self) -> str:
        """Say which method is best, by how much, and how the default compares."""
        found = self.evaluations
        if found is None:
            return "Nothing was finished."
        order = [one.method for one in ranked(found)]
        over_prototype = found.difference(DEFAULT, _PROTOTYPE)
        prototype = f"{points(over_prototype)} {side(over_prototype.mean)} the nearest prototype"
        best = f"{self.methods[order[0]].title} is best with {100 * found[order[0]].mean:.1f}%"
        if order[0] == DEFAULT:
            lead = found.difference(DEFAULT, order[1])
            return f"{best}: {points(lead)} ahead of {self.methods[order[1]].title}, {prototype}."
        place = f"number {order.index(DEFAULT) + 1} of {len(order)} with {100 * found[DEFAULT].mean:.1f}%"
        behind = points(found.difference(DEFAULT, order[0]))
        return f"{best}. {self.methods[DEFAULT].title} is {place}: {behind} behind the best, {prototype}."

    def tables(self) -> Sequence[Table]:
        """Return the tables to print: all methods, best first, and what they ran with."""
        found = self.evaluations
        if found is None:
            return ()
        best = ranked(found)[0]
        rows = [
            row(
                self.methods[one.method].title,
                one.interval.percent(),
                "best" if one is best else one.difference(best).percent(sign=True),
                f"{seconds_per_task(one):.3f}",
                bold=one.method == DEFAULT,
            )
            for one in ranked(found)
        ]
        choices = counted(best.n_tasks, "random choice")
        if found.interrupted:
            choices = f"Partial result, interrupted after {best.n_tasks} of {self.repeats} random choices"
        notes = (
            f"{choices} of the labels, the same for every method; ± is a 95% interval.",
            "Seconds: median of one fit, BLAS on one thread.",
            self.verdict(),
        )
        labels = counted(self.labels_per_class, "label")
        title = f"scikit-learn's digits, {labels} per class: {self.n_unlabeled:,} digits are left to label"
        head = ("Method", "Accuracy, %", "To the best, paired", "Seconds")
        settings = {method.title: method.settings for method in self.methods.values()}
        return Table(title, head, tuple(rows), notes), methods_table(settings)

    def to_dict(self) -> dict[str, Any]:
        """Return everything that is printed, for JSON; the interval of a single value is None."""
        found = self.evaluations
        order = () if found is None else ranked(found)
        return {
            "laplacianshot": __version__,
            "data": {
                "name": "scikit-learn digits",
                "rows": self.digits.n_rows,
                "classes": self.digits.n_classes,
            },
            "seed": self.seed,
            "labels_per_class": self.labels_per_class,
            "unlabeled": self.n_unlabeled,
            "repeats": order[0].n_tasks if order else 0,
            "repeats_asked": self.repeats,
            "interrupted": self.interrupted,
            "methods": [
                {
                    "place": place,
                    "name": one.method,
                    **vars(self.methods[one.method]),
                    "accuracy": interval_dict(one.interval),
                    "behind_best": interval_dict(one.difference(order[0])) if place > 1 else None,
                    "seconds": seconds_per_task(one),
                }
                for place, one in enumerate(order, 1)
            ],
            "curve": [
                {"labels_per_class": count, "accuracy": {one.method: interval_dict(one.interval) for one in point}}
                for count, point in self.curve.items()
            ],
            "verdict": self.verdict(),
            "picture": None if self.interrupted else str(self.picture),
        }

    def save_figure(self) -> None:
        """Draw the figure and write it atomically."""
        save_figure(draw_demo(self), self.picture)


def draw_demo(result: DemoResult) -> Figure:
    """Draw predicted digits, the convergence of the recipes, and accuracy per number of labels."""
    from matplotlib.figure import Figure

    if result.evaluations is None:
        raise ValueError("there is nothing to draw: the run was interrupted before its first repeat was finished.")
    figure = Figure(figsize=(13.5, 8.0), facecolor="white", layout="constrained")
    default = result.evaluations[DEFAULT]
    labels, choices = counted(result.labels_per_class, "label"), counted(default.n_tasks, "random choice")
    figure.suptitle(
        f"{labels} per class, {result.n_unlabeled:,} digits labeled by the graph\n"
        f"LaplacianShot default: {100 * default.mean:.1f}% right on average over {choices} of the labeled digits",
        fontsize=15,
        color=INK,
    )
    left, right = figure.subfigures(1, 2, squeeze=False, width_ratios=[1, 1.15])[0]
    given = draw_labeled(result.digits.labels, result.labels_per_class, seed=result.seed)
    _draw_examples(left, result.recipes[0], result.digits, given)
    convergence, curve = right.subplots(2, 1, height_ratios=[1, 1.6])
    _draw_convergence(convergence, result.recipes)
    _draw_curve(curve, result)
    return figure


def _draw_examples(part: SubFigure, default: LaplacianShot, digits: FeatureSet, given: Ints) -> None:
    """Draw a column per class: a given digit on top, then predicted ones from the most to the least confident."""
    labels, confidence = default.transduction_, default.label_distributions_.max(axis=1)
    right = np.delete(labels == digits.labels, given).mean()
    part.suptitle(
        f"First choice, {100 * right:.1f}% right: given digits (blue), then predicted ones,\n"
        "the most confident first; mistakes (orange) with the digit they are",
        fontsize=12,
        color=INK,
    )
    grid = part.subplots(1 + _SHOWN, digits.n_classes)
    for axes in grid.flat:
        axes.set(xticks=[], yticks=[])
        axes.spines[:].set_color(FAINT)
    for code, name in enumerate(digits.class_names):
        predicted = np.setdiff1d(np.flatnonzero(labels == code), given)
        rows = [given[digits.labels[given] == code][0], *spread_rows(predicted, -confidence, _SHOWN)]
        for axes, shown in zip(grid[:, code], rows, strict=False):
            axes.imshow(digits.features[shown].reshape(8, 8), cmap="gray_r", vmin=0, vmax=16, interpolation="nearest")
            is_wrong = digits.labels[shown] != code
            if is_wrong:
                axes.set_xlabel(f"is {digits.class_names[digits.labels[shown]]}", color=VERMILION, labelpad=1)
            if is_wrong or shown == rows[0]:
                axes.spines[:].set(color=VERMILION if is_wrong else RECIPES[DEFAULT], linewidth=2.2)
        grid[0, code].set_title(name, fontweight="bold", color=RECIPES[DEFAULT])


def spread_rows(rows: Ints, key: Any, count: int) -> Ints:
    """Up to ``count`` of the rows, at even steps from the smallest to the largest ``key`` (n,)."""
    rows = rows[np.argsort(key[rows], kind="stable")]
    chosen: Ints = rows[np.unique(np.linspace(0, len(rows) - 1, count).round().astype(np.int64))] if len(rows) else rows
    return chosen


def _draw_convergence(axes: Axes, recipes: Sequence[LaplacianShot]) -> None:
    """Draw each objective from 1, after its first update, to 0, its last value."""
    bare(axes)
    for fitted in recipes:
        objective, color = fitted.objective_, RECIPES[fitted.recipe]
        drop = (objective[0] - objective[-1]) or 1.0
        updates = np.arange(1, len(objective) + 1)
        end = "settled" if fitted.converged_ else "at its limit"
        label = f"{fitted.recipe} ({OBJECTIVES[fitted.recipe]}): {len(updates)} updates, {end}"
        # The default runs over the others.
        is_default = fitted.recipe == DEFAULT
        heights = (objective - objective[-1]) / drop
        axes.plot(updates, heights, color=color, lw=2.4 if is_default else 1.8, label=label, zorder=3 + is_default)
        if fitted.recipe == "paper":
            # The bound of update i + 1 lies between R after update i and R after update i + 1.
            bound = (fitted.bound_[1:] - objective[-1]) / drop
            axes.plot(updates[1:], bound, ls="none", marker="v", ms=4.5, color=color, label="paper: its bound")
    axes.set_title("What each recipe minimizes, from its first value (1) to its last (0)", loc="left", color=INK)
    axes.set_xlabel("update", color=QUIET, loc="right")
    axes.legend(frameon=False, labelcolor="linecolor")


def _draw_curve(axes: Axes, result: DemoResult) -> None:
    """Draw the mean accuracy per number of labels; the legend has the best method on top."""
    bare(axes)
    counts = list(result.curve)
    best_other = next(one.method for one in ranked(result.curve[result.labels_per_class]) if one.method != DEFAULT)
    for last in ranked(result.curve[counts[-1]]):
        name, (color, dashes) = last.method, _STYLES[last.method]
        points = [evaluations[name].interval for evaluations in result.curve.values()]
        is_default = name == DEFAULT
        if is_default or name == best_other:
            low, high = ([100 * getattr(p, end) for p in points] for end in ("low", "high"))
            axes.fill_between(counts, low, high, where=np.isfinite(high), color=color, alpha=0.13, lw=0)
        title, width = result.methods[name].title, 2.8 if is_default else 1.6
        means = [100 * point.mean for point in points]
        axes.plot(counts, means, color=color, ls=dashes, lw=width, marker="o", ms=4, label=title, zorder=3 + is_default)
    axes.set_title("Digits labeled right, %; shaded: 95% intervals of two methods", loc="left", color=INK)
    axes.set_xlabel("labels per class", color=QUIET, loc="right")
    axes.set_xscale("log")
    axes.minorticks_off()
    axes.set_xticks(counts, [str(count) for count in counts])
    axes.set_ylim(top=min(100.0, axes.get_ylim()[1]))
    axes.legend(frameon=False, labelcolor="linecolor", loc="lower right")
