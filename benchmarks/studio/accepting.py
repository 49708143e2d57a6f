"""Accepting the surest predictions six times in a row: how many are accepted, and how many of them are right.

    python benchmarks/studio/accepting.py --data data

A person labels a few items per class at random, presses "Accept all surer than 90%", waits for the next predictions,
and presses again. Three ways to treat what was accepted:

- ``taught``: it counts as given from then on, as until version 0.2;
- ``prior``: its probabilities at that time are a prior of its row (``LaplacianShot.fit(prior=...)``);
- ``apart``: it keeps its label and teaches nothing, as the studio does now.

Also printed: the wrong labels that the offers named beforehand, the sum of one minus the confidence, and the accuracy
of the predictions for all items without a label of a person after the last press.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from rich.console import Console
from rich.progress import track

from laplacianshot.labeling.core import LabelOptions, label_vectors
from laplacianshot.runtime.types import Floats, Ints
from laplacianshot.studio.relabel import GraphCache, build_cache

SETS = {
    "PlantDoc": "plantdoc/efficientnet_lite0.npz",
    "BANKING77": "banking77/minilm_int8.npz",
    "CUB": "cub/cub_efficientnet_lite0.npz",
    "Snips": "snips/minilm.npz",
    "GoEmotions": "goemotions/minilm.npz",
}
WAYS = ("taught", "prior", "apart")
LABELS = (1, 2, 5)


@dataclass(frozen=True)
class Presses:
    """What a person gets from all presses."""

    accepted: int
    right: int
    offered_wrong: float  # sum of one minus the confidence, each label at the press that accepted it
    accuracy: float  # of the last predictions, for all items without a label of a person


def press(cache: GraphCache, truth: Ints, given: Ints, way: str, presses: int, surer: float) -> Presses:
    """Accept ``presses`` times all predictions with a confidence of at least ``surer``; codes are class numbers."""
    n_classes = int(truth.max()) + 1
    accepted = np.full(len(truth), -1)
    prior = np.full((len(truth), n_classes), np.nan, np.float32)
    offered = 0.0
    for number in range(presses + 1):
        codes = np.where(given >= 0, given, accepted) if way == "taught" else given
        options = LabelOptions(
            base_mean=cache.center,
            graph=cache.class_graph(n_classes),
            transform=cache.transform,
            prior=prior if way == "prior" and (accepted >= 0).any() else None,
        )
        found = label_vectors(cache.vectors, codes, n_classes, options)
        if number == presses:
            break
        new = (given < 0) & (accepted < 0) & (found.confidence >= surer)
        offered += float(np.sum(1 - found.confidence[new]))
        accepted[new] = found.codes[new]
        prior[new] = found.probabilities[new] / found.probabilities[new].sum(axis=1, keepdims=True)
    taken, free = accepted >= 0, given < 0
    right = int(np.sum(accepted[taken] == truth[taken]))
    return Presses(int(taken.sum()), right, offered, float(np.mean(found.codes[free] == truth[free])))


def load(name: str, data: Path, max_rows: int, seed: int) -> tuple[Floats, Ints]:
    """Rows of a set, drawn at random, and their class numbers; classes with fewer than ten rows are left out."""
    with np.load(data / SETS[name], allow_pickle=False) as arrays:
        X, labels = arrays["features"], arrays["labels"]
    rows = np.random.default_rng(seed).permutation(len(X))[:max_rows]
    _, codes, counts = np.unique(labels[rows], return_inverse=True, return_counts=True)
    rows, codes = rows[counts[codes] >= 10], codes[counts[codes] >= 10]
    return np.ascontiguousarray(X[rows], dtype=np.float32), np.unique(codes, return_inverse=True)[1]


def lines(arguments: argparse.Namespace) -> Iterator[str]:
    """The table, row by row."""
    yield "| set, labels per class | way | accepted | right | named as wrong | wrong | predictions right |"
    yield "|---|---|---|---|---|---|---|"
    cells = [(name, labels) for name in arguments.sets for labels in arguments.labels]
    for name, labels in track(cells, "sets", console=Console(stderr=True)):
        found: dict[str, list[Presses]] = {way: [] for way in arguments.ways}
        for draw in range(arguments.draws):
            X, truth = load(name, arguments.data, arguments.max_rows, draw)
            cache = build_cache(np.arange(len(X)), X)
            rng = np.random.default_rng(draw)
            given = np.full(len(X), -1)
            for code in range(truth.max() + 1):
                given[rng.permutation(np.flatnonzero(truth == code))[:labels]] = code
            for way in arguments.ways:
                found[way].append(press(cache, truth, given, way, arguments.presses, arguments.surer))
        for way, draws in found.items():
            n, right, offered, accuracy = np.mean(
                [(one.accepted, one.right, one.offered_wrong, one.accuracy) for one in draws], axis=0
            )
            share = f"{right / n:.1%}" if n else "-"
            wrong = f"{offered:,.0f} | {n - right:,.0f}"
            yield f"| {name}, {labels} | {way} | {n:,.0f} | {share} | {wrong} | {accuracy:.1%} |"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--sets", nargs="+", choices=SETS, default=list(SETS))
    parser.add_argument("--ways", nargs="+", choices=WAYS, default=list(WAYS))
    parser.add_argument("--labels", nargs="+", type=int, default=list(LABELS), help="Labels per class.")
    parser.add_argument("--presses", type=int, default=6)
    parser.add_argument("--surer", type=float, default=0.9)
    parser.add_argument("--draws", type=int, default=3)
    parser.add_argument("--max-rows", type=int, default=2500)
    arguments = parser.parse_args()
    for line in lines(arguments):
        print(line, flush=True)


if __name__ == "__main__":
    main()
