"""Is a confidence of 0.8 right eight times in ten? On classes and sets that the calibration was not designed on.

Expected calibration error (ECE) over the unlabeled rows, in 15 bins of equal width and in 15 of equal mass, of the
largest ``label_distributions_`` (before) and of the calibrated confidence (after): the mean over draws of the labels.
The *floor* is what a perfect confidence would get by chance, rows being few: the mean ECE of answers that are drawn
from the calibrated confidence itself. With ``--page`` the tables replace those of the page.

    python benchmarks/labeling/calibration.py --data data --page docs/results/confidence.md \
        --picture docs/assets/calibration.png
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, field
from multiprocessing import get_context
from pathlib import Path
from typing import TYPE_CHECKING

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

import numpy as np
from labeling.confidence_tasks import HELD_OUT, NAMES, PIXELS, Setting, draw_task, feature_set, settings
from rich.progress import track

from laplacianshot import LaplacianShot
from laplacianshot.labeling.calibration import calibrate
from laplacianshot.reports.figures import BLUE, FAINT, INK, QUIET, bare
from laplacianshot.runtime.files import put_file
from laplacianshot.runtime.types import Floats

if TYPE_CHECKING:
    from matplotlib.axes import Axes

BINS = 15
AIM = 0.05
MARKS = ("<!-- tables: benchmarks/labeling/calibration.py -->", "<!-- end of tables -->")
HEAD = (
    *("set", "classes", "labels", "shape", "draws", "accuracy", "confidence"),
    *("ECE before", "width", "mass", "floor", "pooled"),
)
_FLOOR_DRAWS = 10


@dataclass
class Tally:
    """Confidence before and after, and whether the label is right, of the unlabeled rows of each draw."""

    before: list[Floats] = field(default_factory=list)
    after: list[Floats] = field(default_factory=list)
    right: list[Floats] = field(default_factory=list)

    def row(self) -> dict[str, float]:
        """Means over the draws."""
        rng = np.random.default_rng(0)
        return {
            "accuracy": mean(self.right),
            "before": mean(self.before),
            "after": mean(self.after),
            "ece before": float(np.mean([worse(c, r) for c, r in zip(self.before, self.right, strict=True)])),
            "width": float(np.mean([ece(c, r) for c, r in zip(self.after, self.right, strict=True)])),
            "mass": float(np.mean([ece(c, r, mass=True) for c, r in zip(self.after, self.right, strict=True)])),
            "floor": float(np.mean([floor(c, rng) for c in self.after])),
            "pooled": worse(np.concatenate(self.after), np.concatenate(self.right)),
        }


def label(job: tuple[Setting, int, Path]) -> tuple[Floats, Floats, Floats]:
    """One draw: confidence before and after, and what is right."""
    task = draw_task(*job)
    model = LaplacianShot().fit(task.X, task.codes)
    query = task.codes < 0
    probabilities = calibrate(model, task.codes).probabilities[query]
    right = probabilities.argmax(axis=1) == task.truth[query]
    before = model.label_distributions_[query].max(axis=1)
    return before.astype(np.float64), probabilities.max(axis=1).astype(np.float64), right.astype(np.float64)


def mean(parts: Sequence[Floats]) -> float:
    return float(np.mean([part.mean() for part in parts]))


def ece(confidence: Floats, right: Floats, *, mass: bool = False) -> float:
    """``sum_b (n_b / n) |mean confidence - accuracy|`` over bins b of equal width, or of equal mass."""
    if mass:
        parts = np.array_split(np.argsort(confidence, kind="stable"), BINS)
        return float(sum(abs((confidence[part] - right[part]).sum()) for part in parts) / len(right))
    bins = np.minimum((confidence * BINS).astype(int), BINS - 1)
    return float(np.abs(np.bincount(bins, confidence - right, minlength=BINS)).sum() / len(right))


def worse(confidence: Floats, right: Floats) -> float:
    """The larger ECE of the two kinds of bins."""
    return max(ece(confidence, right), ece(confidence, right, mass=True))


def floor(confidence: Floats, rng: np.random.Generator) -> float:
    """The larger ECE of answers drawn from the confidence, in the mean."""
    draws = [worse(confidence, (rng.random(len(confidence)) < confidence).astype(float)) for _ in range(_FLOOR_DRAWS)]
    return float(np.mean(draws))


def tables(tallies: dict[Setting, Tally], data: Path) -> Iterator[str]:
    """Lines of the page."""
    groups = {
        "Whole sets": [s for s in tallies if s.name in HELD_OUT and not s.way],
        "Five, ten or twenty classes of them": [s for s in tallies if s.name in HELD_OUT and s.way],
        "Raw pixels": [s for s in tallies if s.name in PIXELS],
    }
    for title, members in groups.items():
        if not members:
            continue
        yield f"### {title}\n"
        yield f"| {' | '.join(HEAD)} |"
        yield "|" + "---|" * len(HEAD)
        rows = {setting: tallies[setting].row() for setting in members}
        for setting, row in rows.items():
            values = [f"{row[name]:.3f}" for name in ("ece before", "width", "mass", "floor", "pooled")]
            values[1:3] = [f"**{value}**" if float(value) >= AIM else value for value in values[1:3]]
            cells = [
                NAMES[setting.name.split("-")[0]],
                str(setting.way or len(feature_set(setting.name, data).by_class)),
                str(setting.shots),
                "tail" if setting.tail else "even",
                str(len(tallies[setting].right)),
                f"{row['accuracy']:.3f}",
                f"{row['before']:.3f} -> {row['after']:.3f}",
            ]
            yield f"| {' | '.join(cells + values)} |"
        over = sum(max(row["width"], row["mass"]) >= AIM for row in rows.values())
        pooled = sum(row["pooled"] >= AIM for row in rows.values())
        before = np.mean([row["ece before"] for row in rows.values()])
        after = np.mean([max(row["width"], row["mass"]) for row in rows.values()])
        yield (
            f"\nMean ECE {before:.3f} before, {after:.3f} after. At {AIM} or above: {over} of {len(rows)} settings by"
            f" the mean over draws, {pooled} with the rows of all draws together.\n"
        )


def put_tables(lines: str, page: Path, marks: tuple[str, str] = MARKS) -> None:
    """Replace what is between the marks."""
    text = page.read_text(encoding="utf-8")
    start, stop = text.index(marks[0]) + len(marks[0]), text.index(marks[1])
    page.write_text(f"{text[:start]}\n\n{lines}\n{text[stop:]}", encoding="utf-8")


def draw_picture(tallies: dict[Setting, Tally], path: Path) -> None:
    """Accuracy against confidence, before and after, whole sets: a column a set, a row a number of labels."""
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    shots = sorted({setting.shots for setting in tallies if setting.name in HELD_OUT and not setting.way})
    figure, axes = plt.subplots(
        len(shots), len(HELD_OUT), figsize=(9, 2.7 * len(shots) + 0.4), sharex=True, sharey=True, squeeze=False
    )
    for column, name in enumerate(HELD_OUT):
        for line, n_labels in enumerate(shots):
            mine = [t for s, t in tallies.items() if s.name == name and not s.way and s.shots == n_labels]
            ax = axes[line, column]
            bare(ax)
            draw_reliability(ax, mine)
            if line == 0:
                ax.set_title(NAMES[name.split("-")[0]], color=INK, fontsize=11)
            if column == 0:
                ax.set_ylabel(
                    f"{n_labels} label{'s' * (n_labels > 1)} a class\nshare that is right", color=INK, fontsize=9
                )
            if line == len(shots) - 1:
                ax.set_xlabel("confidence", color=INK, fontsize=9)
    axes[0, 0].legend(frameon=False, fontsize=8, loc="upper left")
    figure.tight_layout()
    put_file(path, lambda file: figure.savefig(file, format="png", dpi=130))
    plt.close(figure)


def draw_reliability(ax: Axes, tallies: Sequence[Tally]) -> None:
    """One panel: the diagonal, both curves in bins of equal mass, and where the confidences lie."""
    ax.plot([0, 1], [0, 1], color=FAINT, linewidth=1, zorder=0)
    right = np.concatenate([part for tally in tallies for part in tally.right])
    for label, color, kind in (("before", QUIET, "before"), ("after", BLUE, "after")):
        confidence = np.concatenate([part for tally in tallies for part in getattr(tally, kind)])
        parts = np.array_split(np.argsort(confidence, kind="stable"), BINS)
        points = [(confidence[part].mean(), right[part].mean()) for part in parts]
        ax.plot(*np.array(points).T, color=color, marker="o", markersize=3, linewidth=1.4, label=label)
        heights, edges = np.histogram(confidence, bins=30, range=(0, 1))
        if kind == "after":
            ax.bar(edges[:-1], 0.25 * heights / heights.max(), width=1 / 30, align="edge", color=color, alpha=0.18)
    ax.set(xlim=(0, 1), ylim=(0, 1), aspect="equal")


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--data", type=Path, required=True, help="the data folder (docs/results/data.md)")
    parser.add_argument("--sets", nargs="+", default=[*HELD_OUT, *PIXELS])
    parser.add_argument("--draws", type=int, default=5, help="draws of a whole set; twice as many of fewer classes")
    parser.add_argument("--jobs", type=int, default=2, help="processes")
    parser.add_argument("--page", type=Path, help="page whose tables are replaced")
    parser.add_argument("--picture", type=Path, help="where the reliability picture goes")
    options = parser.parse_args()
    jobs = [
        (setting, draw, options.data)
        for name in options.sets
        for setting in settings(name)
        for draw in range(options.draws * (2 if setting.way else 1))
    ]
    tallies: dict[Setting, Tally] = {}
    # A fresh process each, as threads of the compiled kernels do not survive a fork.
    with ProcessPoolExecutor(options.jobs, mp_context=get_context("spawn")) as pool:
        for (setting, *_), found in zip(jobs, track(pool.map(label, jobs), "tasks", total=len(jobs)), strict=True):
            tally = tallies.setdefault(setting, Tally())
            for parts, part in zip((tally.before, tally.after, tally.right), found, strict=True):
                parts.append(part)
    lines = "\n".join(tables(tallies, options.data))
    print(lines)
    if options.page:
        put_tables(lines, options.page)
    if options.picture:
        draw_picture(tallies, options.picture)


if __name__ == "__main__":
    main()
