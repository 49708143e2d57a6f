"""Ten thousand tasks: time against the bare matrix products they need, and against a Python loop over tasks.

In one run, on the same tasks and threads: the bare products (rows of a task gathered and multiplied with themselves,
in parallel over tasks with one BLAS thread each, and by numpy's batched matmul; the fastest counts), ``evaluate`` of
the authors' recipe and of the default from sampling to accuracy, a grid of eight lambdas against one, and a loop over
tasks with scikit-learn's NearestNeighbors and numpy, as few-shot repositories write it. Rounds follow one another, so
that a busy machine slows all of them; figures are medians of the rounds, and what is to be trusted is their ratio.

The set has the size of miniImageNet's novel classes: 20 classes of 600 rows of 640 non-negative features.

    python benchmarks/episodes.py --output docs/assets/episodes
"""

from __future__ import annotations

import argparse
import json
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.neighbors import NearestNeighbors
from threadpoolctl import threadpool_limits

from laplacianshot import FeatureSet, LaplacianShot, evaluate, tune
from laplacianshot.episodes.tasks import draw_tasks
from laplacianshot.episodes.tuning import LAMS
from laplacianshot.runtime.threads import available_threads

ROWS_A_CLASS, CLASSES, DIM, SIGNAL = 600, 20, 640, 0.22
LOOP_TASKS = 300


def make_set(dim: int = DIM, classes: int = CLASSES, seed: int = 0) -> tuple[FeatureSet, Any]:
    """Rectified Gaussian classes whose overlap does not depend on the dimension, and a base mean."""
    rng = np.random.default_rng(seed)
    labels = np.repeat(np.arange(classes), ROWS_A_CLASS)
    signal = SIGNAL * (DIM / dim) ** 0.25
    centers = rng.standard_normal((2 * classes, dim), dtype=np.float32) * signal + 0.3
    features = np.maximum(centers[labels] + rng.standard_normal((len(labels), dim), dtype=np.float32), 0)
    base = np.maximum(centers[classes + labels] + rng.standard_normal((len(labels), dim), dtype=np.float32), 0)
    return FeatureSet(features, labels), base.mean(axis=0)


def products_over_threads(features: Any, rows: Any, threads: int) -> None:
    """Each thread gathers and multiplies task after task in buffers of its own."""

    def work(first: int) -> None:
        gathered = np.empty((rows.shape[1], features.shape[1]), dtype=np.float32)
        product = np.empty((rows.shape[1], rows.shape[1]), dtype=np.float32)
        for t in range(first, len(rows), threads):
            np.take(features, rows[t], axis=0, out=gathered, mode="clip")
            np.matmul(gathered, gathered.T, out=product)

    with threadpool_limits(1), ThreadPoolExecutor(threads) as pool:
        list(pool.map(work, range(threads)))


def products_batched(features: Any, rows: Any, threads: int) -> None:
    """numpy's batched matmul, 64 tasks at a time, over the same threads."""

    def work(first: int) -> None:
        for start in range(64 * first, len(rows), 64 * threads):
            gathered = features[rows[start : start + 64]]
            np.matmul(gathered, gathered.transpose(0, 2, 1))

    with threadpool_limits(1), ThreadPoolExecutor(threads) as pool:
        list(pool.map(work, range(threads)))


def products_as_one_would_write_them(features: Any, rows: Any, threads: int) -> None:
    """numpy's batched matmul with BLAS threads."""
    with threadpool_limits(threads):
        for start in range(0, len(rows), 64):
            gathered = features[rows[start : start + 64]]
            np.matmul(gathered, gathered.transpose(0, 2, 1))


PRODUCTS = (products_over_threads, products_batched, products_as_one_would_write_them)


def task_in_numpy(features: Any, task: Any, base_mean: Any, lam: float = 0.7, knn: int = 3) -> float:
    """One task of the authors' recipe as few-shot repositories write it; its accuracy."""

    def cl2(x: Any) -> Any:
        x = x - base_mean
        return x / np.linalg.norm(x, axis=1, keepdims=True)

    support, query = cl2(features[task.support]), cl2(features[task.query])
    way = len(task.classes)
    prototypes = np.stack([support[task.support_labels == c].mean(axis=0) for c in range(way)])
    query = query + support.mean(axis=0) - query.mean(axis=0)
    both = np.concatenate([support, query])
    norms = np.linalg.norm(both, axis=1)[:, None] * np.linalg.norm(prototypes, axis=1)
    cosines = both @ prototypes.T / norms
    weights = np.exp(10 * cosines)
    weights /= weights.sum(axis=1, keepdims=True)
    groups = cosines.argmax(axis=1)
    for c in np.unique(groups):
        mine = groups == c
        prototypes[c] = (weights[mine, c][:, None] * both[mine]).mean(axis=0)
    unary = ((query[:, None] - prototypes) ** 2).sum(axis=2)
    neighbors = NearestNeighbors(n_neighbors=knn).fit(query).kneighbors(query, return_distance=False)
    W = np.zeros((len(query), len(query)))
    for q, row in enumerate(neighbors):
        W[q, row[row != q][: knn - 1]] = 1
    Y = np.exp(-unary) / np.exp(-unary).sum(axis=1, keepdims=True)
    before = np.inf
    for i in range(20):
        logits = -unary + lam * W @ Y
        Y = np.exp(logits - logits.max(axis=1, keepdims=True))
        Y /= Y.sum(axis=1, keepdims=True)
        energy = (Y * np.log(np.maximum(Y, 1e-20)) + unary * Y - lam * Y * (W @ Y)).sum()
        if i > 1 and abs(energy - before) <= 1e-6 * abs(before):
            break
        before = energy
    return float(np.mean(Y.argmax(axis=1) == task.query_labels))


def clock(function: Any, *args: Any, **named: Any) -> tuple[float, Any]:
    start = time.perf_counter()
    result = function(*args, **named)
    return time.perf_counter() - start, result


def measure(
    feature_set: FeatureSet, base_mean: Any, *, shot: int, tasks: int, rounds: int, way: int = 5, query: int = 15,
    loop: bool = False, grid: bool = False,
) -> dict[str, Any]:  # fmt: skip
    """Seconds of everything, medians over rounds, for one kind of task."""
    threads = available_threads()
    kind: dict[str, Any] = {"way": way, "shot": shot, "query": query}
    reference, default = LaplacianShot.reference(), LaplacianShot()
    for method in (reference, default):  # compile or load the kernels
        evaluate(feature_set, method, tasks=8, base_mean=base_mean, **kind)
    drawn = draw_tasks(feature_set, tasks=tasks, **kind)
    rows = drawn.block(np.arange(tasks))[0]
    features = np.ascontiguousarray(feature_set.features)
    seconds: dict[str, list[float]] = {}
    found: dict[str, Any] = {}

    def note(name: str, spent: float) -> None:
        seconds.setdefault(name, []).append(spent)

    for _ in range(rounds):
        note("sampling", clock(draw_tasks, feature_set, tasks=tasks, **kind)[0])
        note("products", min(clock(product, features, rows, threads)[0] for product in PRODUCTS))
        for name, method in (("reference", reference), ("default", default)):
            spent, result = clock(evaluate, feature_set, method, tasks=tasks, base_mean=base_mean, **kind)
            note(name, spent)
            found[f"{name}_accuracy"] = result.mean
        if grid:
            for name, lams in (("one lambda", LAMS[3:4]), ("eight lambdas", LAMS)):
                grid_of: dict[str, Any] = {"lams": lams, "neighbors": (3,), "split": None, "base_mean": base_mean}
                spent, _ = clock(tune, feature_set, reference, tasks=tasks, **grid_of, **kind)
                note(name, spent)
        if loop:
            spent, accuracies = clock(lambda: [task_in_numpy(features, drawn[t], base_mean) for t in range(LOOP_TASKS)])
            note("loop", spent * tasks / LOOP_TASKS)
            ours = evaluate(feature_set, [reference], tasks=tasks, base_mean=base_mean, **kind)[0].accuracies[
                :LOOP_TASKS
            ]
            found["loop_agrees"] = float(np.mean(np.abs(ours - accuracies) < 1e-9))
    result = {**kind, "tasks": tasks, "dim": feature_set.dim, "threads": threads, **found}
    result |= {name: float(np.median(values)) for name, values in seconds.items()}
    for name in ("reference", "default", "loop"):
        if name in seconds:
            ratios = np.array(seconds[name]) / np.array(seconds["products"])
            result[f"{name} / products"] = float(np.median(ratios))
    if grid:
        result["eight / one"] = float(np.median(np.array(seconds["eight lambdas"]) / np.array(seconds["one lambda"])))
    if loop:
        result["loop / reference"] = float(np.median(np.array(seconds["loop"]) / np.array(seconds["reference"])))
    return result


def growth(tasks: int, rounds: int) -> dict[str, list[dict[str, Any]]]:
    """Time against tasks, dimension, ways and queries, each from the middle of the others."""
    base, mean = make_set()
    many, many_mean = make_set(classes=50)
    curves: dict[str, list[dict[str, Any]]] = {}
    settings = [measure(base, mean, shot=5, tasks=n, rounds=rounds) for n in (500, 1000, 2000, 5000, 10_000)]
    curves["tasks"] = settings
    curves["dim"] = [measure(*make_set(dim), shot=5, tasks=tasks, rounds=rounds) for dim in (64, 160, 640, 1280, 2560)]
    curves["way"] = [
        measure(many, many_mean, shot=5, tasks=max(100, tasks // way), rounds=rounds, way=way)
        for way in (2, 5, 10, 20, 50)
    ]
    curves["query"] = [
        measure(base, mean, shot=5, tasks=max(100, tasks * 15 // (4 * query)), rounds=rounds, query=query)
        for query in (5, 15, 30, 60, 120)
    ]
    return curves


def draw(main: list[dict[str, Any]], curves: dict[str, list[dict[str, Any]]], path: Path) -> None:
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    figure, panels = plt.subplots(1, 4, figsize=(13, 3.6), layout="constrained")
    titles = {"tasks": "tasks", "dim": "features of a row", "way": "classes of a task", "query": "queries per class"}
    for axes, (name, rows) in zip(panels, curves.items(), strict=True):
        x = [row[name] for row in rows]
        scale = [1.0 if name == "tasks" else 1e6 / row["tasks"] for row in rows]
        for key, label, color, style in (
            ("products", "bare products", "#555555", "--"),
            ("reference", "reference", "#0072B2", "-"),
            ("default", "default", "#D55E00", "-"),
        ):
            axes.plot(x, [row[key] * s for row, s in zip(rows, scale, strict=True)], style, color=color, marker=".",
                      label=label)  # fmt: skip
        axes.set(xscale="log", yscale="log", xlabel=titles[name])
        axes.set_xticks(x, [f"{value:,}" for value in x], fontsize=8)
        axes.minorticks_off()
        axes.set_ylabel("seconds" if name == "tasks" else "microseconds per task")
        axes.grid(alpha=0.25, which="major")
        axes.spines[["top", "right"]].set_visible(False)
    panels[0].legend(frameon=False, fontsize=8)
    threads = main[0]["threads"]
    figure.suptitle(f"5-way 5-shot, 15 queries per class, {DIM} features unless varied; {threads} threads", fontsize=10)
    figure.savefig(path, dpi=130)


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--tasks", type=int, default=10_000)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--no-growth", action="store_true", help="only the two main settings")
    parser.add_argument("--output", type=Path, help="write OUTPUT.json and OUTPUT.png")
    options = parser.parse_args()
    feature_set, base_mean = make_set()
    main_rows = []
    for shot in (5, 1):
        row = measure(
            feature_set, base_mean, shot=shot, tasks=options.tasks, rounds=options.rounds, loop=True, grid=True
        )
        main_rows.append(row)
        print(f"\n5-way {shot}-shot, 15 queries/class, {options.tasks} tasks, {DIM} features, {row['threads']} threads")
        for name in ("sampling", "products", "reference", "default", "one lambda", "eight lambdas", "loop"):
            print(f"  {name:<15}{row[name]:9.3f} s{row[name] / row['products']:9.2f} x products")
        print(
            f"  eight lambdas / one {row['eight / one']:.2f};  loop / reference {row['loop / reference']:.0f};", end=" "
        )
        print(f"loop and evaluate agree on {100 * row['loop_agrees']:.1f}% of {LOOP_TASKS} tasks", flush=True)
        print(
            f"  accuracy: reference {100 * row['reference_accuracy']:.2f}, default {100 * row['default_accuracy']:.2f}"
        )
    curves = {} if options.no_growth else growth(max(100, options.tasks // 5), max(1, options.rounds // 2))
    for name, rows in curves.items():
        print(f"\n{name:>8}{'tasks':>8}{'products s':>12}{'reference s':>13}{'ratio':>7}{'default s':>11}{'ratio':>7}")
        for row in rows:
            print(
                f"{row[name]:>8}{row['tasks']:>8}{row['products']:>12.3f}{row['reference']:>13.3f}"
                f"{row['reference / products']:>7.2f}{row['default']:>11.3f}{row['default / products']:>7.2f}",
                flush=True,
            )
    if options.output:
        options.output.parent.mkdir(parents=True, exist_ok=True)
        Path(f"{options.output}.json").write_text(json.dumps({"main": main_rows, "growth": curves}, indent=1) + "\n")
        if curves:
            draw(main_rows, curves, Path(f"{options.output}.png"))


if __name__ == "__main__":
    main()
