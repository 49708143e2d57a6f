"""From raw pictures and sentences to labels: the default beside three baselines, on the same vectors and labels.

Pictures of CUB are unpacked from the bundle of 84 pixels into a folder, sentences of BANKING77 into a table without
labels. ``label_source`` gets them as a user would give them, with 1, 2 and 5 labels per class drawn ``--draws``
times at random; the baselines get the vectors that it made. Accuracy over the items without a given label.
LabelSpreading with the rbf kernel holds all pairs of items and takes longest by far: it sees the first five draws only.

    python benchmarks/labeling/from_raw.py --data data --output docs/results/label.md
"""

from __future__ import annotations

import argparse
import csv
import tempfile
import time
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
from rich.progress import Progress

from laplacianshot import label_source
from laplacianshot.episodes.methods import make_method
from laplacianshot.episodes.results import mean_interval, paired_difference
from laplacianshot.episodes.whole_set import draw_labeled, keep_labels

SHOTS = (1, 2, 5)
OURS = "default"
BASELINES = {
    "nearest prototype": "nearest-prototype",
    "logistic regression": "logistic-regression",
    "LabelSpreading knn": "label-spreading-knn",
    "LabelSpreading rbf": "label-spreading-rbf",
}
# Draws that a method sees, where not all.
FEW = {"LabelSpreading rbf": 5}


def unpack_cub(data: Path, folder: Path) -> tuple[Path, list[str], Any]:
    """Pictures as files without a word of their class; ids and classes."""
    with np.load(data / "cub" / "cub84.npz", allow_pickle=False) as bundle:
        parts = bundle["jpeg_bytes"], bundle["offsets"], bundle["labels"].astype(int)
    content, offsets, labels = parts
    (folder / "cub").mkdir()
    ids = [f"{i:05}.jpg" for i in range(len(labels))]
    for i, name in enumerate(ids):
        (folder / "cub" / name).write_bytes(content[offsets[i] : offsets[i + 1]].tobytes())
    return folder / "cub", ids, labels


def unpack_banking(data: Path, folder: Path) -> tuple[Path, list[str], Any]:
    """Sentences of both files in one table with the one column ``text``."""
    texts: list[str] = []
    intents: list[str] = []
    for name in ("train.csv", "test.csv"):
        with (data / "banking77" / name).open(encoding="utf-8", newline="") as file:
            for row in csv.DictReader(file):
                texts.append(row["text"])
                intents.append(row["category"])
    with (folder / "banking.csv").open("w", encoding="utf-8", newline="") as file:
        writer = csv.writer(file)
        writer.writerows([["text"], *([text] for text in texts)])
    return folder / "banking.csv", [str(i) for i in range(len(texts))], np.unique(intents, return_inverse=True)[1]


SETS = {
    "cub": ("CUB: 11,788 pictures of 84 pixels, 200 classes of birds", unpack_cub),
    "banking77": ("BANKING77: 13,083 sentences, 77 intents", unpack_banking),
}


def scores(source: Path, ids: list[str], truth: Any, shot: int, draws: int) -> Iterator[dict[str, float]]:
    """Accuracy of each method, draw after draw."""
    for draw in range(draws):
        rows = draw_labeled(truth, shot, seed=0, repeat=draw)
        given = keep_labels(truth, rows)
        hidden = given < 0
        found = label_source(source, {ids[row]: f"{truth[row]:03}" for row in rows})
        assert found.ids == tuple(ids)
        assert found.vectors is not None
        accuracies = {OURS: float(np.mean(found.codes[hidden] == truth[hidden]))}
        for name, key in BASELINES.items():
            if draw >= FEW.get(name, draws):
                continue
            fitted = make_method(key).fit(found.vectors, given)
            accuracies[name] = float(np.mean(fitted.transduction_[hidden] == truth[hidden]))
        yield accuracies


def table(title: str, results: dict[int, list[dict[str, float]]]) -> list[str]:
    lines = [f"## {title}", "", "| labels per class | " + " | ".join(str(shot) for shot in results) + " |"]
    lines.append("|---|" + "---:|" * len(results))
    for name in (OURS, *BASELINES):
        cells = []
        for runs in results.values():
            found = mean_interval(np.array([run[name] for run in runs if name in run]))
            cells.append(f"{100 * found.mean:.1f} ± {100 * found.ci95:.1f}" + ("†" if name in FEW else ""))
        lines.append(f"| {name} | " + " | ".join(cells) + " |")
    gains = []
    for runs in results.values():
        pair = [np.array([run[name] for run in runs]) for name in (OURS, "nearest prototype")]
        gain = paired_difference(pair[0], pair[1])
        gains.append(f"{100 * gain.mean:+.1f} ± {100 * gain.ci95:.1f}")
    lines.append("| default less nearest prototype, paired | " + " | ".join(gains) + " |")
    return [*lines, "", "† on the first five draws.", ""]


def main() -> None:
    # scikit-learn takes one label per class for a sign of regression.
    warnings.filterwarnings("ignore", message="The number of unique classes")
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, required=True, help="folder with cub/ and banking77/")
    parser.add_argument("--draws", type=int, default=20)
    parser.add_argument("--sets", nargs="+", choices=SETS, default=list(SETS))
    parser.add_argument("--output", type=Path, help="Markdown file to write the tables to")
    args = parser.parse_args()
    lines: list[str] = []
    with tempfile.TemporaryDirectory() as name, Progress() as progress:
        for title, unpack in (SETS[key] for key in args.sets):
            source, ids, truth = unpack(args.data, Path(name))
            start = time.perf_counter()
            label_source(source, suggest=1)
            lines += [f"Vectors of {len(ids):,} items: {time.perf_counter() - start:.0f} s.", ""]
            results = {}
            for shot in SHOTS:
                runs = scores(source, ids, truth, shot, args.draws)
                results[shot] = list(progress.track(runs, total=args.draws, description=f"{source.stem} {shot}"))
            lines += table(title, results)
            progress.console.print("\n".join(lines), markup=False)
    if args.output is not None:
        head = "python benchmarks/labeling/from_raw.py --data data --output docs/results/label.md"
        text = "\n".join(["# From raw input to labels", "", f"Made by `{head}`, {args.draws} draws.", "", *lines])
        args.output.write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
