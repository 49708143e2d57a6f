"""What to label next: how many labels suggestions need for an accuracy, beside random choice.

A person labels a batch, everything is labeled from it, the next batch is chosen, and so on; a batch has as many items
as there are classes. From *nothing*, the first batch by ``suggest_first``, or at random; or from *one label per class*,
drawn at random. *Stratified* draws one item of each class a batch, which nobody can who does not know the answers.
Accuracy is the share of all items whose label is right, the labeled ones included; items of a class that has no label
yet are wrong. Each draw takes other classes and items, and every strategy sees the same draws. Rows are those that the
choice was not designed on.

    python benchmarks/labeling/suggestions.py --data data --output docs/results/suggestions
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

import numpy as np
from labeling.sets import SETS, draw_classes, load
from rich.progress import track

from laplacianshot import LaplacianShot
from laplacianshot.episodes.results import mean_interval, paired_difference
from laplacianshot.inference.transforms import base_mean, transform_features
from laplacianshot.labeling.calibration import calibrate
from laplacianshot.labeling.suggestions import cover_affinity, suggest
from laplacianshot.reports.figures import BLUE, INK, ORANGE, QUIET, VERMILION, bare

CLASSES = 20
BATCHES = 8
STARTS = ("nothing", "one label per class")
OURS, RANDOM, STRATIFIED, UNSURE = "suggestions", "random", "stratified", "least sure"
STRATEGIES = (OURS, UNSURE, RANDOM, STRATIFIED)
# Labels a class whose accuracy under random choice the others are to reach.
TARGETS = (3, 5, 8)

Curves = dict[str, dict[str, list[list[float]]]]


def suggest_first(rows: Any, wanted: int) -> Any:
    """Items to label first, when nothing is labeled yet."""
    n = len(rows)
    return suggest(np.zeros((n, 1)), np.full(n, -1), wanted, affinity=cover_affinity(rows, wanted))


def next_batch(strategy: str, X: Any, truth: Any, model: Any, codes: Any, rng: np.random.Generator) -> Any:
    """Items to label next, after the fit ``model`` or, with None, before the first."""
    free = np.flatnonzero(codes < 0)
    if strategy == STRATIFIED:
        return np.array([rng.choice(free[truth[free] == c]) for c in np.unique(truth[free])])
    if strategy == RANDOM or (model is None and strategy != OURS):
        return rng.permutation(free)[:CLASSES]
    if model is None:
        return suggest_first(transform_features(X, "cl2", base_mean(X)), CLASSES)
    probabilities = calibrate(model, codes).probabilities
    if strategy == OURS:
        return suggest(probabilities, codes, CLASSES, affinity=model.affinity_)
    return free[np.argsort(probabilities[free].max(axis=1), kind="stable")[:CLASSES]]


def curve(strategy: str, start: str, X: Any, truth: Any, seed: int) -> list[float]:
    """Accuracy after each batch, of CLASSES labels, 2 * CLASSES and so on."""
    rng = np.random.default_rng(seed)
    labeled = np.zeros(len(X), dtype=bool)
    if start == "one label per class":
        labeled[next_batch(STRATIFIED, X, truth, None, np.full(len(X), -1), rng)] = True
    else:
        labeled[next_batch(strategy, X, truth, None, np.full(len(X), -1), rng)] = True
    accuracies = []
    for batch in range(BATCHES):
        model = LaplacianShot().fit(X, np.where(labeled, truth, -1))
        accuracies.append(float((model.transduction_ == truth).mean()))
        if batch + 1 < BATCHES:
            codes = np.where(labeled, np.searchsorted(model.classes_, truth), -1)
            labeled[next_batch(strategy, X, truth, model, codes, rng)] = True
    return accuracies


def measure(data: Path, draws: int) -> Curves:
    """Curves by cell (``"CUB/nothing"``) and strategy, one a draw."""
    curves: Curves = {}
    for name in SETS:
        X, labels = load(name, data)
        for start in STARTS:
            cell = curves.setdefault(f"{name}/{start}", {strategy: [] for strategy in STRATEGIES})
            for draw in track(range(draws), f"{name}, from {start}", transient=True):
                rows = np.concatenate(draw_classes(labels, CLASSES, np.random.default_rng([draw, 7])))
                rows = np.sort(rows)
                truth = np.unique(labels[rows], return_inverse=True)[1]
                for strategy in STRATEGIES:
                    cell[strategy].append(curve(strategy, start, X[rows], truth, draw))
    return curves


def labels_needed(accuracies: Any, target: float) -> float:
    """Labels at which a curve reaches ``target``, between two batches on the straight line; infinite if it does not."""
    reached = np.flatnonzero(np.asarray(accuracies) >= target)
    if len(reached) == 0:
        return float("inf")
    last = int(reached[0])
    if last == 0:
        return float(CLASSES)
    below, above = accuracies[last - 1], accuracies[last]
    return float(CLASSES * (last + (target - below) / (above - below)))


def accuracy_table(curves: Curves, start: str) -> str:
    """Markdown: right labels in % after each batch, and how far suggestions are ahead of random choice."""
    lines = ["| | | " + " | ".join(f"{CLASSES * (b + 1)}" for b in range(BATCHES)) + " |", "|---" * (BATCHES + 2) + "|"]
    for name in SETS:
        cell = {strategy: np.array(found) for strategy, found in curves[f"{name}/{start}"].items()}
        for strategy in STRATEGIES:
            cells = [f"{100 * mean:.1f}" for mean in cell[strategy].mean(axis=0)]
            lines.append(markdown([name if strategy == OURS else "", strategy, *cells], bold=strategy == OURS))
        gaps = [paired_difference(*both) for both in zip(cell[OURS].T, cell[RANDOM].T, strict=True)]
        ahead = [f"{100 * gap.mean:+.1f} ± {100 * gap.ci95:.1f}" for gap in gaps]
        lines.append(markdown(["", f"{OURS} less {RANDOM}", *ahead]))
    return "\n".join(lines)


def needed_table(curves: Curves, start: str) -> str:
    """Markdown: labels that each mean curve needs for random choice's mean accuracy at TARGETS labels per class."""
    heads = [f"as {CLASSES * target} random" for target in TARGETS]
    lines = ["| | | " + " | ".join(heads) + " |", "|---" * (len(heads) + 2) + "|"]
    for name in SETS:
        means = {strategy: np.mean(found, axis=0) for strategy, found in curves[f"{name}/{start}"].items()}
        for strategy in STRATEGIES:
            needed = [labels_needed(means[strategy], means[RANDOM][target - 1]) for target in TARGETS]
            cells = [f"{labels:.0f}" if np.isfinite(labels) else "more" for labels in needed]
            lines.append(markdown([name if strategy == OURS else "", strategy, *cells], bold=strategy == OURS))
    return "\n".join(lines)


def markdown(cells: list[str], *, bold: bool = False) -> str:
    return "| " + " | ".join(f"**{text}**" if bold and text else text for text in cells) + " |"


def draw_curves(curves: Mapping[str, Mapping[str, list[list[float]]]], path: Path) -> None:
    """Accuracy against labels: a panel a set, a row a start."""
    import matplotlib.pyplot as plt

    styles = {
        OURS: (BLUE, "o", "-", 2.4),
        STRATIFIED: (ORANGE, "", "--", 1.6),
        RANDOM: (QUIET, "s", "-", 1.6),
        UNSURE: (VERMILION, "v", ":", 1.6),
    }
    figure, panels = plt.subplots(len(STARTS), len(SETS), figsize=(11, 6.6), sharex=True, layout="constrained")
    steps = CLASSES * np.arange(1, BATCHES + 1)
    for row, start in zip(panels, STARTS, strict=True):
        for axes, name in zip(row, SETS, strict=True):
            for strategy, (color, marker, line, width) in styles.items():
                found = np.array(curves[f"{name}/{start}"][strategy])
                bands = [mean_interval(found[:, b]) for b in range(BATCHES)]
                axes.fill_between(
                    steps, [100 * band.low for band in bands], [100 * band.high for band in bands], color=color,
                    alpha=0.15, lw=0,
                )  # fmt: skip
                heights = 100 * found.mean(axis=0)
                axes.plot(steps, heights, color=color, marker=marker, ls=line, ms=4.5, lw=width, label=strategy)
            axes.set_title(f"{name}, from {start}", fontsize=10.5, color=INK, loc="left")
            axes.set_xticks(steps)
            bare(axes)
        row[0].set_ylabel("items with the right label, %", color=INK)
    for axes in panels[-1]:
        axes.set_xlabel("labels", color=INK)
    handles, names = panels[0, 0].get_legend_handles_labels()
    figure.legend(handles, names, loc="outside lower center", ncols=4, frameon=False, fontsize=9.5)
    figure.savefig(path, dpi=130)


def time_large(n: int, dim: int, n_classes: int, wanted: int) -> tuple[float, float]:
    """Seconds of ``suggest`` and ``suggest_first`` on n Gaussian rows, the graph of the fit given, best of five."""
    rng = np.random.default_rng(0)
    truth = np.arange(n) % n_classes
    X = (rng.standard_normal((n_classes, dim))[truth] + 2 * rng.standard_normal((n, dim))).astype(np.float32)
    codes = np.where(np.arange(n) < 5 * n_classes, truth, -1)
    model = LaplacianShot().fit(X, codes)
    rows = transform_features(X, "cl2", model.center_)
    probabilities = calibrate(model, codes).probabilities
    later, first = [], []
    for _ in range(5):
        start = time.perf_counter()
        suggest(probabilities, codes, wanted, affinity=model.affinity_)
        later.append(time.perf_counter() - start)
        start = time.perf_counter()
        suggest_first(rows, wanted)
        first.append(time.perf_counter() - start)
    return min(later), min(first)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, required=True, help="folder with cub/, cifar_fs/ and banking77/")
    parser.add_argument("--draws", type=int, default=20)
    parser.add_argument("--output", type=Path, help="write OUTPUT.json and the picture docs/assets/NAME.png")
    options = parser.parse_args()
    curves = measure(options.data, options.draws)
    for start in STARTS:
        print(f"\nFrom {start}: right labels in % after so many labels, mean of {options.draws} draws\n")
        print(accuracy_table(curves, start))
        print(f"\nFrom {start}: labels needed for the accuracy of random choice\n")
        print(needed_table(curves, start))
    later, first = time_large(10_000, 1280, 100, 100)
    print(f"\n100 of 10,000 items of 1280 features: suggest {later:.2f} s, suggest_first {first:.2f} s")
    if options.output:
        rounded = {
            cell: {name: np.round(found, 4).tolist() for name, found in of.items()} for cell, of in curves.items()
        }
        options.output.with_suffix(".json").write_text(json.dumps(rounded) + "\n", encoding="utf-8")
        draw_curves(curves, options.output.parent.parent / "assets" / f"{options.output.name}.png")


if __name__ == "__main__":
    main()
