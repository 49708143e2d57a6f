"""Items of foreign classes: how well scores tell them from the rest, by the area under the ROC curve.

A task has classes with 1, 2 or 5 labels each, and a fifth of its unlabeled items are of classes without a label:
*few* foreign classes with all their items (a class that was forgotten), or *many* with a few items each (odd ones out).
``novelty_scores`` sees what ``laplacianshot label`` sees. It stands beside 1 - the largest probability, as the fit
gives it and calibrated, and scores from the literature on open sets, on the same fits. Rows are those that the score
was not designed on.

    python benchmarks/labeling/rejection.py --data data --output docs/results/rejection
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

import numpy as np
from labeling.sets import SETS, draw_classes, load
from rich.progress import track
from sklearn.metrics import roc_auc_score

from laplacianshot import LaplacianShot
from laplacianshot.episodes.results import mean_interval, paired_difference
from laplacianshot.inference.prototypes import class_means, squared_distances
from laplacianshot.inference.transforms import transform_features
from laplacianshot.labeling.calibration import calibrate
from laplacianshot.labeling.novelty import novelty_scores, rejected
from laplacianshot.neighbors.knn import knn
from laplacianshot.reports.figures import BLUE, FAINT, INK, ORANGE, QUIET, SKY, VERMILION, bare

FOREIGN = 0.2
SHOTS = (1, 2, 5)
# Classes with labels, and foreign ones, of a task.
KINDS = {"few": (16, 4), "many": (16, 16)}
OURS, BASELINE = "strangeness", "1 - largest probability"

Found = dict[str, dict[str, list[float]]]


def draw_task(labels: Any, kind: str, shot: int, seed: int) -> tuple[Any, Any, Any]:
    """Rows of a task (n,), class numbers with -1 for unlabeled (n,), and which are foreign (n,)."""
    rng = np.random.default_rng([seed, shot, len(kind)])
    n_known, n_foreign = KINDS[kind]
    groups = draw_classes(labels, n_known + n_foreign, rng)
    known, foreign = groups[:n_known], np.concatenate(groups[n_known:])
    n_unlabeled = sum(map(len, known)) - shot * n_known
    foreign = rng.permutation(foreign)[: round(n_unlabeled * FOREIGN / (1 - FOREIGN))]
    rows = np.concatenate([*known, foreign])
    codes = np.full(len(rows), -1)
    start = 0
    for c, group in enumerate(known):
        codes[start : start + shot] = c
        start += len(group)
    return rows, codes, np.arange(len(rows)) >= start


def scores(X: Any, codes: Any) -> dict[str, Any]:
    """Every score of every item, larger is stranger."""
    model = LaplacianShot().fit(X, codes)
    rows = transform_features(X, model.transform_, model.center_, scale=model.solution_.scale)
    labeled = np.flatnonzero(codes >= 0)
    probabilities = calibrate(model, codes).probabilities
    fitted = squared_distances(rows, model.prototypes_)
    nearest = fitted.min(axis=1)
    tau = model.solution_.rule.tau
    means = class_means(rows[labeled], codes[labeled], len(model.classes_))
    return {
        OURS: novelty_scores(probabilities, codes, model.affinity_),
        BASELINE: 1 - model.label_distributions_.max(axis=1),
        "1 - largest calibrated probability": 1 - probabilities.max(axis=1),
        "energy": tau * nearest - np.log(np.exp(-tau * (fitted - nearest[:, None])).sum(axis=1)),
        "distance to the nearest fitted prototype": nearest,
        "distance to the nearest mean of labels": squared_distances(rows, means).min(axis=1),
        "distance to the nearest labeled item": squared_distances(rows, rows[labeled]).min(axis=1),
        "distance to the 10th neighbor": knn(rows, 10).distances[:, -1],
    }


def measure(data: Path, draws: int) -> tuple[Found, Found]:
    """By cell (``"CUB/few/1"``) and score, one a draw: the area, and the foreign share of what ``--reject`` cuts."""
    areas: Found = {}
    hits: Found = {}
    for name in SETS:
        X, labels = load(name, data)
        for kind in KINDS:
            for shot in SHOTS:
                cell = f"{name}/{kind}/{shot}"
                for draw in track(range(draws), f"{name}, {kind} foreign classes, {shot} a class", transient=True):
                    rows, codes, foreign = draw_task(labels, kind, shot, draw)
                    free = codes < 0
                    for score, values in scores(X[rows], codes).items():
                        area = float(roc_auc_score(foreign[free], values[free]))
                        areas.setdefault(cell, {}).setdefault(score, []).append(area)
                        share = float(foreign[rejected(values, codes, FOREIGN)].mean())
                        hits.setdefault(cell, {}).setdefault(score, []).append(share)
    return areas, hits


def table(found: Found, kind: str, names: Sequence[str]) -> str:
    """Markdown: a row a score, a column a set and number of labels, %."""
    columns = [f"{name}/{kind}/{shot}" for name in SETS for shot in SHOTS]
    heads = [f"{name} {shot}" for name in SETS for shot in SHOTS]
    lines = ["| | " + " | ".join(heads) + " |", "|---" * (len(columns) + 1) + "|"]
    for score in names:
        cells = [score, *(f"{100 * np.mean(found[cell][score]):.1f}" for cell in columns)]
        lines.append("| " + " | ".join(f"**{text}**" if score == OURS else text for text in cells) + " |")
    gaps = [paired_difference(found[cell][OURS], found[cell][BASELINE]) for cell in columns]
    shown = [f"{100 * gap.mean:+.1f} ± {100 * gap.ci95:.1f}" for gap in gaps]
    return "\n".join([*lines, f"| {OURS} less {BASELINE} | " + " | ".join(shown) + " |"])


def rounded(found: Found) -> Found:
    return {
        cell: {score: [round(value, 4) for value in values] for score, values in scores.items()}
        for cell, scores in found.items()
    }


def time_large(n: int, n_classes: int) -> float:
    """Seconds of ``novelty_scores`` on n Gaussian rows, best of five."""
    rng = np.random.default_rng(0)
    truth = np.arange(n) % n_classes
    X = (rng.standard_normal((n_classes, 64))[truth] + rng.standard_normal((n, 64))).astype(np.float32)
    codes = np.where(np.arange(n) < 5 * n_classes, truth, -1)
    model = LaplacianShot().fit(X, codes)
    seconds = []
    for _ in range(5):
        start = time.perf_counter()
        novelty_scores(model.label_distributions_, codes, model.affinity_)
        seconds.append(time.perf_counter() - start)
    return min(seconds)


def draw_areas(areas: Found, path: Path) -> None:
    """Area against labels per class: a panel a set, a row a kind of foreign items."""
    import matplotlib.pyplot as plt

    lines = {
        OURS: (BLUE, "o", 2.4),
        "distance to the nearest mean of labels": (SKY, "s", 1.6),
        "distance to the nearest fitted prototype": (ORANGE, "D", 1.6),
        BASELINE: (VERMILION, "v", 1.6),
        "distance to the 10th neighbor": (QUIET, "^", 1.6),
    }
    figure, panels = plt.subplots(2, len(SETS), figsize=(11, 6.4), sharex=True, sharey=True, layout="constrained")
    for row, (kind, (_, n_foreign)) in zip(panels, KINDS.items(), strict=True):
        for axes, name in zip(row, SETS, strict=True):
            for score, (color, marker, width) in lines.items():
                found = [mean_interval(areas[f"{name}/{kind}/{shot}"][score]) for shot in SHOTS]
                heights = [100 * one.mean for one in found]
                axes.fill_between(
                    range(len(SHOTS)), [100 * one.low for one in found], [100 * one.high for one in found],
                    color=color, alpha=0.15, lw=0,
                )  # fmt: skip
                axes.plot(heights, color=color, marker=marker, ms=5, lw=width, label=score)
            axes.axhline(50, color=FAINT, lw=1.6, zorder=0)
            axes.set_xticks(range(len(SHOTS)), [str(shot) for shot in SHOTS])
            axes.set_title(f"{name}: {n_foreign} foreign classes", fontsize=10.5, color=INK, loc="left")
            bare(axes)
        row[0].set_ylabel("area under the ROC curve, %", color=INK)
    for axes in panels[-1]:
        axes.set_xlabel("labels per class", color=INK)
    handles, names = panels[0, 0].get_legend_handles_labels()
    figure.legend(handles, names, loc="outside lower center", ncols=3, frameon=False, fontsize=9.5)
    figure.savefig(path, dpi=130)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, required=True, help="folder with cub/, cifar_fs/ and banking77/")
    parser.add_argument("--draws", type=int, default=20)
    parser.add_argument("--output", type=Path, help="write OUTPUT.json and the picture docs/assets/NAME.png beside")
    options = parser.parse_args()
    areas, hits = measure(options.data, options.draws)
    every = list(next(iter(areas.values())))
    for kind, (n_known, n_foreign) in KINDS.items():
        print(f"\n{n_known} classes with labels, {n_foreign} foreign ones; mean of {options.draws} draws, %\n")
        print(table(areas, kind, every))
        print(f"\nForeign share of what --reject {FOREIGN} leaves out, %\n")
        print(table(hits, kind, (OURS, BASELINE)))
    print(f"\n10,000 items, 100 classes: {1000 * time_large(10_000, 100):.0f} ms")
    if options.output:
        text = json.dumps({"area": rounded(areas), "hits": rounded(hits)})
        options.output.with_suffix(".json").write_text(text + "\n", encoding="utf-8")
        draw_areas(areas, options.output.parent.parent / "assets" / f"{options.output.name}.png")


if __name__ == "__main__":
    main()
