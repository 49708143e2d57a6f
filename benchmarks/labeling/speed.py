"""The labeling step alone: vectors and a few labels in, labels and their confidence out, warm, on all cores.

Two tasks of 10,000 vectors of 1280 dimensions with five labels per class: pictures of CIFAR-FS (with ``--data``; twenty
classes that overlap, so that the updates go on for long) and Gaussian classes that do not. Beside each, in the same
rounds, the bare product of all pairs, ``X X^T`` in float32: what any exact neighbor search forms, once or half of it.

    python benchmarks/labeling/speed.py --data data
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Callable
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

import numpy as np

from laplacianshot.labeling.core import LabelOptions, label_vectors
from laplacianshot.runtime.types import Floats, Ints

N, D, SHOTS = 10_000, 1280, 5


def pictures(data: Path) -> tuple[Floats, Ints]:
    """Novel classes of CIFAR-FS and their classes."""
    with np.load(data / "cifar_fs" / "cifarfs_efficientnet_lite0_128px.npz", allow_pickle=False) as file:
        chosen = np.flatnonzero(file["split"] == "test")
        chosen = np.random.default_rng(0).permutation(chosen)[:N]
        return file["features"][chosen].astype(np.float32), np.unique(file["labels"][chosen], return_inverse=True)[1]


def gaussian_classes() -> tuple[Floats, Ints]:
    """Twenty classes around means of length one, with as much noise in all."""
    rng = np.random.default_rng(0)
    truth = rng.integers(20, size=N)
    means = rng.standard_normal((20, D)) / D**0.5
    return (means[truth] + rng.standard_normal((N, D)) / D**0.5).astype(np.float32), truth


def few_labels(truth: Ints) -> Ints:
    """Class numbers of five rows per class, -1 elsewhere."""
    rng = np.random.default_rng(0)
    codes = np.full(len(truth), -1)
    for c in np.unique(truth):
        codes[rng.choice(np.flatnonzero(truth == c), SHOTS, replace=False)] = c
    return codes


def seconds(work: Callable[..., object], *arguments: object) -> tuple[float, float]:
    """Wall and processor time of a call."""
    wall, cpu = time.perf_counter(), time.process_time()
    work(*arguments)
    return time.perf_counter() - wall, time.process_time() - cpu


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, help="folder with cifar_fs/")
    parser.add_argument("--rounds", type=int, default=9)
    options = parser.parse_args()
    tasks = {"Gaussian classes": gaussian_classes()}
    if options.data is not None:
        tasks["CIFAR-FS"] = pictures(options.data)
    print(f"{'task':18s}{'asked for':>26s}{'seconds':>9s}{'least':>7s}{'cpu s':>7s}{'/ product':>11s}{'updates':>9s}")
    for name, (X, truth) in tasks.items():
        codes, n_classes = few_labels(truth), int(truth.max()) + 1
        for asked, choices in (("labels", LabelOptions()), ("labels and 20 suggestions", LabelOptions(suggest=20))):
            found = label_vectors(X, codes, n_classes, choices)
            assert found.model is not None
            product = np.empty((N, N), np.float32)
            times = np.array(
                [
                    (*seconds(label_vectors, X, codes, n_classes, choices), seconds(np.matmul, X, X.T, product)[0])
                    for _ in range(options.rounds)
                ]
            )
            wall, cpu, bare = np.median(times, axis=0)
            print(
                f"{name:18s}{asked:>26s}{wall:9.2f}{times[:, 0].min():7.2f}{cpu:7.2f}{wall / bare:11.2f}"
                f"{found.model.n_iter_:9d}"
            )


if __name__ == "__main__":
    main()
