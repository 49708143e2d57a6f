"""One large task: fit time and peak memory against the bare matrix product that bounds it, and against LabelSpreading.

For each N, in one run on the same rows: the bare blocked product ``X X^T`` (every block, thrown away), the whole of
``LaplacianShot().fit`` with its exact graph, and scikit-learn's ``LabelSpreading(kernel="knn")`` with as many
neighbors. The product is timed three ways and the fastest counts. Rounds follow one another, so that a busy machine
slows all of them; figures are medians, and what is to be trusted is their ratio.

Column *plain* is the time, against the bare product, of the matrix products alone of a plain fit: half of ``X X^T`` for
the exact graph, and two products of N x C x D for each round. The search leaves out part of the first where it can.

Two kinds of task: *clear* classes, Gaussian clusters on which the updates converge early; and *pairs*, random features
of two of scikit-learn's digits side by side, 100 classes that overlap as real ones do, on which the updates go on for
the 40 rounds that the recipe allows.

    python benchmarks/single_task.py --sizes 1000 10000 50000 100000 --output docs/assets/single_task
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.datasets import load_digits

D, C, SHOTS = 512, 100, 5
BLOCK_ROWS, BLOCK_COLUMNS = 1024, 4096


def make_task(n: int, kind: str, seed: int = 0) -> tuple[Any, Any, Any]:
    """``n`` rows of C classes, float32, five labeled rows per class."""
    rng = np.random.default_rng(seed)
    truth = np.arange(n) % C
    if kind == "clear":
        centers = rng.standard_normal((C, D), dtype=np.float32)
        X = rng.standard_normal((n, D), dtype=np.float32)
        X += 0.35 * centers[truth]
    else:
        pixels, digits = load_digits(return_X_y=True)
        rows = [np.flatnonzero(digits == digit) for digit in range(10)]
        pairs = np.empty((n, 128), dtype=np.float32)
        for c in range(C):
            mine = np.flatnonzero(truth == c)
            for half, digit in enumerate(divmod(c, 10)):
                pairs[mine, 64 * half : 64 * (half + 1)] = pixels[rng.choice(rows[digit], len(mine))] / 16
        X = np.maximum(pairs @ rng.standard_normal((128, D), dtype=np.float32), 0)
    y = np.where(np.arange(n) < C * SHOTS, truth, -1)
    return X, y, truth


def product_as_one_would_write_it(X: Any) -> None:
    for top in range(0, len(X), BLOCK_ROWS):
        X[top : top + BLOCK_ROWS] @ X.T


def product_by_blas_threads(X: Any) -> None:
    out = np.empty((BLOCK_ROWS, BLOCK_COLUMNS), dtype=np.float32)
    for top in range(0, len(X), BLOCK_ROWS):
        rows = X[top : top + BLOCK_ROWS]
        for left in range(0, len(X), BLOCK_COLUMNS):
            columns = X[left : left + BLOCK_COLUMNS]
            np.matmul(rows, columns.T, out=out[: len(rows), : len(columns)])


def product_by_our_threads(X: Any) -> None:
    from laplacianshot.runtime.threads import Workers, row_blocks

    with Workers(len(X) ** 2) as workers:
        out = np.empty((workers.threads, BLOCK_ROWS, BLOCK_COLUMNS), dtype=np.float32)

        def slab(number: int, start: int, stop: int) -> None:
            for top in range(start, stop, BLOCK_ROWS):
                rows = X[top : min(top + BLOCK_ROWS, stop)]
                for left, right in row_blocks(len(X), BLOCK_COLUMNS):
                    np.matmul(rows, X[left:right].T, out=out[number, : len(rows), : right - left])

        workers.run(slab, workers.share(len(X)))


PRODUCTS = (product_as_one_would_write_it, product_by_blas_threads, product_by_our_threads)


def products_of_a_plain_fit(X: Any, rounds: int) -> None:
    """The products of a plain fit: half of X X^T for the graph, and each round's X M^T and Y^T X."""
    from laplacianshot.runtime.threads import Workers

    product_above_the_diagonal(X)
    columns = np.ones((D, C), dtype=np.float32)
    Y = np.ones((len(X), C), dtype=np.float32)
    with Workers(len(X) ** 2) as workers:
        unary = np.empty((len(X), C), dtype=np.float32)
        sums = np.empty((workers.threads, C, D), dtype=np.float32)

        def visit(number: int, start: int, stop: int) -> None:
            np.matmul(X[start:stop], columns, out=unary[start:stop])
            np.matmul(Y[start:stop].T, X[start:stop], out=sums[number])

        for _ in range(rounds):
            workers.run(visit, workers.share(len(X)))


def product_above_the_diagonal(X: Any) -> None:
    from laplacianshot.runtime.threads import Workers, row_blocks

    with Workers(len(X) ** 2) as workers:
        out = np.empty((workers.threads, BLOCK_ROWS, BLOCK_COLUMNS), dtype=np.float32)
        for top, bottom in row_blocks(len(X), BLOCK_ROWS):
            rest = X[top:]

            def slab(number: int, start: int, stop: int, rows: Any = X[top:bottom], rest: Any = rest) -> None:
                for left in range(start, stop, BLOCK_COLUMNS):
                    right = min(left + BLOCK_COLUMNS, stop)
                    np.matmul(rows, rest[left:right].T, out=out[number, : len(rows), : right - left])

            workers.run(slab, workers.share(len(rest)))


def spread_labels(X: Any, y: Any, n_neighbors: int) -> Any:
    from sklearn.semi_supervised import LabelSpreading

    return LabelSpreading(kernel="knn", n_neighbors=n_neighbors, n_jobs=-1).fit(X, y).transduction_


def measure(n: int, kind: str, repeats: int, peer: bool) -> dict[str, Any]:
    """Seconds of each, one after the other, ``repeats`` times; and what the fit found."""
    from laplacianshot import LaplacianShot

    X, y, truth = make_task(n, kind)
    LaplacianShot().fit(*make_task(5000, kind)[:2])  # compile or load the kernels
    seconds: dict[str, list[float]] = {"product": [], "fit": [], "plain": [], "peer": []}

    def clock(function: Any, *args: Any) -> tuple[float, Any]:
        start = time.perf_counter()
        result = function(*args)
        return time.perf_counter() - start, result

    found: dict[str, Any] = {}
    for _ in range(repeats):
        products = [clock(product, X)[0] for product in PRODUCTS]
        seconds["product"].append(min(products))
        spent, clf = clock(LaplacianShot(graph="exact").fit, X, y)
        seconds["fit"].append(spent)
        # With the six starting rounds of tasks this large.
        seconds["plain"].append(clock(products_of_a_plain_fit, X, clf.n_iter_ + 6)[0])
        queries = y == -1
        k = int(np.diff(clf.affinity_.indptr).min())
        found = {
            "rounds": clf.n_iter_,
            "accuracy": float(np.mean(clf.transduction_[queries] == truth[queries])),
            "n_neighbors": k,
        }
        del clf
    if peer:
        spent, labels = clock(spread_labels, X, y, found["n_neighbors"])
        seconds["peer"].append(spent)
        found["peer_accuracy"] = float(np.mean(labels[y == -1] == truth[y == -1]))
    medians = {name: float(np.median(values)) if values else None for name, values in seconds.items()}
    ratios = {
        f"{name}_over_product": float(np.median(np.array(seconds[name]) / np.array(seconds["product"])))
        for name in ("fit", "plain")
    }
    return {"n": n, "kind": kind, "repeats": repeats, **medians, **ratios, **found}


def peak(n: int, method: str) -> dict[str, Any]:
    """Peak resident memory of a process that makes the task and fits it, and of one that only makes it."""
    X, y, _ = make_task(n, "pairs")
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    if method == "fit":
        from laplacianshot import LaplacianShot

        LaplacianShot(graph="exact").fit(X, y)
    elif method == "peer":
        spread_labels(X, y, max(1, round((n / C - 1) ** 0.5)))
    after = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return {"before_mb": before / 1024, "peak_mb": after / 1024}


def child(*words: object) -> dict[str, Any]:
    """Run this script for one measurement in a process of its own."""
    command = [sys.executable, __file__, "--child", *map(str, words)]
    done = subprocess.run(command, capture_output=True, text=True, check=False, env=os.environ)
    if done.returncode != 0:
        return {"error": done.stderr.strip().splitlines()[-1] if done.stderr.strip() else f"exit {done.returncode}"}
    result: dict[str, Any] = json.loads(done.stdout)
    return result


def draw(rows: list[dict[str, Any]], path: Path) -> None:
    """Time against N with the bound, and peak memory against N."""
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    figure, (left, right) = plt.subplots(1, 2, figsize=(9.5, 3.8), layout="constrained")
    clear, pairs = ([row for row in rows if row["kind"] == kind] for kind in ("clear", "pairs"))
    n = np.array([row["n"] for row in clear])
    product = np.array([row["product"] for row in clear])
    left.fill_between(n, product, 2 * product, color="#999999", alpha=0.25, lw=0)
    left.plot(n, product, color="#555555", ls="--", marker=".", label="bare product X Xᵀ (band: up to 2x)")
    for series, key, label, color, style in [
        (clear, "fit", "LaplacianShot().fit, clear classes", "#0072B2", "o-"),
        (pairs, "fit", "LaplacianShot().fit, digit pairs", "#56B4E9", "o:"),
        (pairs, "peer", "LabelSpreading(knn)", "#D55E00", "s-"),
    ]:
        known = [(row["n"], row[key]) for row in series if row.get(key)]
        if known:
            left.plot(*zip(*known, strict=True), style, color=color, label=label)
    for key, label, color in [("fit", "LaplacianShot().fit", "#0072B2"), ("peer", "LabelSpreading(knn)", "#D55E00")]:
        known = [(row["n"], row[f"{key}_peak_mb"] / 1024) for row in clear if row.get(f"{key}_peak_mb")]
        if known:
            right.plot(*zip(*known, strict=True), "o-", color=color, label=label)
    right.plot(n, n * D * 4 / 2**30, color="#555555", ls=":", label="the rows themselves")
    left.set(xscale="log", yscale="log", xlabel="rows N", ylabel="seconds", title="Time")
    right.set(xscale="log", yscale="log", xlabel="rows N", ylabel="GB", title="Peak memory of the process")
    for axes in (left, right):
        axes.grid(alpha=0.25, which="major")
        axes.spines[["top", "right"]].set_visible(False)
        axes.legend(frameon=False, fontsize=8)
    figure.suptitle(f"One task, D = {D}, C = {C}, {SHOTS} labels per class, exact graph", fontsize=11)
    figure.savefig(path, dpi=130)


def table_row(row: dict[str, Any]) -> str:
    """One line of the printed table."""

    def cell(key: str, form: str, scale: float = 1) -> str:
        value = row.get(key)
        return f"{'-':>11}" if value is None else f"{value * scale:>11{form}}"

    cells = [cell("n", "d"), f"{row['kind']:>11}", cell("product", ".3f"), cell("fit", ".3f")]
    cells += [
        cell("fit_over_product", ".2f"),
        cell("plain_over_product", ".2f"),
        cell("rounds", "d"),
        cell("accuracy", ".3f"),
        cell("peer", ".3f"),
    ]
    cells += [cell("peer_accuracy", ".3f"), cell("fit_peak_mb", ".2f", 1 / 1024), cell("peer_peak_mb", ".2f", 1 / 1024)]
    return "  ".join(cells)


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--sizes", type=int, nargs="+", default=[1000, 10_000, 50_000, 100_000])
    parser.add_argument("--repeats", type=int, help="rounds for each N (default: 5 up to 10,000 rows, 2 above)")
    parser.add_argument("--peer-up-to", type=int, default=100_000, help="largest N for LabelSpreading")
    parser.add_argument("--output", type=Path, help="write OUTPUT.json and OUTPUT.png")
    parser.add_argument("--child", nargs="+", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.child:
        kind, n, *rest = options.child
        result = measure(int(n), rest[0], int(rest[1]), rest[2] == "1") if kind == "time" else peak(int(n), rest[0])
        print(json.dumps(result))
        return
    rows = []
    heads = (
        "N",
        "classes",
        "product s",
        "fit s",
        "fit/product",
        "plain",
        "rounds",
        "acc",
        "peer s",
        "peer acc",
        "fit GB",
        "peer GB",
    )
    print("  ".join(f"{head:>11}" for head in heads), flush=True)
    for n in options.sizes:
        memory: dict[str, Any] = {"fit_peak_mb": child("peak", n, "fit").get("peak_mb")}
        if n <= options.peer_up_to:
            memory["peer_peak_mb"] = child("peak", n, "peer").get("peak_mb")
        for kind in ("clear", "pairs"):
            row = child("time", n, kind, options.repeats or (5 if n <= 10_000 else 2), int(n <= options.peer_up_to))
            if "error" in row:
                raise SystemExit(f"N = {n}: {row['error']}")
            row |= memory
            rows.append(row)
            print(table_row(row), flush=True)
    if options.output:
        options.output.parent.mkdir(parents=True, exist_ok=True)
        Path(f"{options.output}.json").write_text(json.dumps(rows, indent=1) + "\n")
        draw(rows, Path(f"{options.output}.png"))
        print(f"wrote {options.output}.json and {options.output}.png")


if __name__ == "__main__":
    main()
