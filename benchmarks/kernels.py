"""The two parts that a fit of vectors spends its time on, each way it can be done, side by side in one run.

*Search*: the exact neighbors of 10,000 rows by all products, by bounds from few directions and by bounds from bytes,
beside the bare product of all pairs; *chosen* is the way that the trial on a sample takes. *Rounds*: the products of
10,000 x 1280 rows with C prototypes, and of the assignments with the rows, where the rows lie and by matrix products,
on all cores.

    python benchmarks/kernels.py --data data
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path
from unittest.mock import patch

sys.path.insert(0, str(Path(__file__).resolve().parent))

import numpy as np
from labeling.speed import gaussian_classes, pictures
from single_task import make_task

from laplacianshot.inference.transforms import base_mean, transform_features
from laplacianshot.neighbors import accel, exact
from laplacianshot.neighbors.accel import Trial, byte_search
from laplacianshot.neighbors.accel._vector_kernels import add_class_sums, applies, multiply_rows
from laplacianshot.neighbors.accel.directions import Projection, project
from laplacianshot.runtime.threads import Workers, row_blocks
from laplacianshot.runtime.types import Floats

N, D = 10_000, 1280
NEIGHBORS = 16


def medians(ways: dict[str, Callable[[], object]], rounds: int) -> dict[str, float]:
    """Seconds of each way, in turns."""
    for work in ways.values():
        work()
    times: dict[str, list[float]] = {name: [] for name in ways}
    for _ in range(rounds):
        for name, work in ways.items():
            start = time.perf_counter()
            work()
            times[name].append(time.perf_counter() - start)
    return {name: float(np.median(seconds)) for name, seconds in times.items()}


def directions(workers: Workers, index: exact.ExactIndex, trial: Trial) -> Projection | None:
    return project(workers, index._rows, index._halves, trial, accel.MAX_DIRECTIONS_COST)


def search(name: str, X: Floats, rounds: int) -> None:
    """Print the times of the ways to search rows, and of a bare product."""
    rows = transform_features(X, "cl2", base_mean(X))
    index = exact.ExactIndex(rows)
    product = np.empty((len(rows), len(rows)), dtype=np.float32)
    with Workers(rows.size) as workers:
        trial = Trial.of_rows(workers, index._rows, index._halves, NEIGHBORS)
        few = directions(workers, index, trial)

    def by(way: str) -> Callable[[], object]:
        def work() -> None:
            with ExitStack() as only:
                if way not in ("directions", "chosen"):
                    only.enter_context(patch.object(accel, "project", lambda *arguments: None))
                if way not in ("bytes", "chosen"):
                    only.enter_context(patch.object(byte_search, "applies", lambda dim: False))
                if way == "bytes":
                    only.enter_context(patch.object(accel, "MAX_BYTES_COST", np.inf))
                index.neighbor_sets(NEIGHBORS)

        return work

    ways: dict[str, Callable[[], object]] = {"bare product": lambda: np.matmul(rows, rows.T, out=product)}
    ways |= {"all products": by("all")}
    ways |= {"directions": by("directions")} if few is not None else {}
    ways |= {"bytes": by("bytes")} if byte_search.applies(rows.shape[1]) else {}
    ways |= {"chosen": by("chosen")}
    seconds = medians(ways, rounds)
    bare = seconds["bare product"]
    cells = [f"{seconds[way] / bare:.2f}" if way in seconds else "" for way in WAYS]
    print(f"| {name} | {rows.shape[1]} | {bare:.2f} | " + " | ".join(cells) + " |", flush=True)


WAYS = ("all products", "directions", "bytes", "chosen")


def rounds_of(n_classes: int, X: Floats, rounds: int) -> None:
    """Print the times of the products of a round."""
    rng = np.random.default_rng(0)
    M = rng.standard_normal((n_classes, D), dtype=np.float32)
    Y = rng.random((N, n_classes), dtype=np.float32)
    products, columns = np.empty((N, n_classes), dtype=np.float32), np.ascontiguousarray(M.T)
    blocks = row_blocks(N, N // 4)
    sums = np.zeros((len(blocks), n_classes, D), dtype=np.float32)

    def where_they_lie(number: int, start: int, stop: int) -> None:
        for first in range(start, stop, 100):
            last = min(first + 100, stop)
            multiply_rows(X[first:last], M, products[first:last])
            add_class_sums(Y[first:last], X[first:last], sums[number])

    def by_matrix_products(number: int, start: int, stop: int) -> None:
        np.matmul(X[start:stop], columns, out=products[start:stop])
        np.matmul(Y[start:stop].T, X[start:stop], out=sums[number])

    with Workers(X.size) as workers:
        ways: dict[str, Callable[[], object]] = {"matrix": lambda: workers.run(by_matrix_products, blocks)}
        if applies(X, 2):
            ways |= {"lie": lambda: workers.run(where_they_lie, blocks)}
        seconds = {name: 1e3 * value for name, value in medians(ways, rounds).items()}
    lie = seconds.get("lie", float("nan"))
    print(f"| {n_classes} | {seconds['matrix']:.1f} | {lie:.1f} | {lie / seconds['matrix']:.2f} |", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, help="folder with cifar_fs/")
    parser.add_argument("--rounds", type=int, default=9)
    options = parser.parse_args()
    print("| rows | D | bare product, s | " + " | ".join(f"{way} / product" for way in WAYS) + " |")
    print("|---" * (3 + len(WAYS)) + "|")
    if options.data is not None:
        search("pictures of CIFAR-FS", pictures(options.data)[0], options.rounds)
    search("Gaussian classes", gaussian_classes()[0], options.rounds)
    search("*clear* classes", make_task(N, "clear")[0], options.rounds)
    search("*pairs* of digits", make_task(N, "pairs")[0], options.rounds)
    search("noise", np.random.default_rng(0).standard_normal((N, D), dtype=np.float32), options.rounds)
    print("\n| classes | matrix products, ms | where the rows lie, ms | ratio |\n|---|---|---|---|")
    X = np.random.default_rng(0).standard_normal((N, D), dtype=np.float32)
    for n_classes in (2, 5, 10, 20, 40, 100):
        rounds_of(n_classes, X, options.rounds)


if __name__ == "__main__":
    main()
