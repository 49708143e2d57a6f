"""Growth of one fit from ten thousand to a million vectors: time, memory, recall, accuracy; beside it indexes, peers.

Vectors are rows of a seed set mixed within classes (scale_vectors.py), in a memory-mapped file. Every measurement runs
in a process of its own, whose peak of resident memory is that of the whole process, mapped pages of the file included.

    python benchmarks/scale.py growth --output docs/assets/scale
    python benchmarks/scale.py graph --sizes 100000
    python benchmarks/scale.py accuracy
    python benchmarks/scale.py peers --limit 900

*growth* fits ``LaplacianShot()`` at every size and compares with the exact search of 2,048 rows, extrapolated to all.
*graph* compares ways to find the neighbours, each with parameters chosen for the same recall. *accuracy* compares with
the exact graph. *peers* runs scikit-learn's ``LabelSpreading(kernel="knn")`` and Laplace learning of graphlearning (if
it is installed) with as many neighbours, up to the first size at which each fails or exceeds the limit, in turn with
our fit. Files go to --folder, 2 GB for a million rows, and are made anew only where they are missing.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np
from scale_vectors import SEEDS, D, few_labels, write_vectors

SHOTS = 5
SAMPLE = 2048
SIZES = (10_000, 100_000, 300_000, 1_000_000)


def files(folder: Path, options: argparse.Namespace, n: int, n_classes: int) -> tuple[Path, Path]:
    """The vectors and classes of a size, made where they are missing."""
    name = f"{options.vectors}-{n}-{n_classes}"
    vectors, classes = folder / f"{name}.npy", folder / f"{name}-classes.npy"
    if not classes.exists():
        truth = write_vectors(vectors, n, n_classes, options.vectors, options.data)
        np.save(classes, truth)
    return vectors, classes


def opened(vectors: str, classes: str) -> tuple[Any, Any, Any]:
    """Memory-mapped vectors, five labels a class, and the truth."""
    truth = np.load(classes)
    return np.load(vectors, mmap_mode="r"), few_labels(truth, int(truth.max()) + 1, SHOTS), truth


def peak_gb() -> float:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024 / 1e9


def warm_up() -> None:
    """Compile or load the kernels."""
    from laplacianshot import LaplacianShot
    from laplacianshot.scale.plan import LargePlan
    from laplacianshot.scale.solve import LargeTask, solve_large

    rng = np.random.default_rng(0)
    X, y = rng.standard_normal((3000, 16), dtype=np.float32), np.r_[np.arange(8), np.full(2992, -1)]
    small = LaplacianShot().fit(X, y)
    from laplacianshot.scale import scaled_neighbors

    scaled_neighbors(X, 5, method="cells", target_recall=0.5)
    for dense in (True, False):
        constants = small._choices.constants(y, 8)
        solve_large(LargeTask(X, y, 8, "cl2", small.center_, constants, LargePlan(dense=dense)), tol=1e-6)


def measure_fit(vectors: str, classes: str, choices: str) -> dict[str, Any]:
    """Seconds of each stage of a fit, what it found and its peak memory."""
    from laplacianshot import LaplacianShot
    from laplacianshot.scale import fit_large

    X, y, truth = opened(vectors, classes)
    warm_up()
    before = peak_gb()
    names: list[str] = []
    clock: list[tuple[float, float]] = [(time.perf_counter(), time.process_time())]

    def watch(name: str) -> Any:
        names.append(name)
        clock.append((time.perf_counter(), time.process_time()))
        return lambda done, total: None

    clf = fit_large(LaplacianShot(**json.loads(choices)), X, y, watch=watch)
    clock.append((time.perf_counter(), time.process_time()))
    spent = np.diff(np.array(clock), axis=0)
    queries = y < 0
    report = getattr(clf, "graph_report_", None)
    return {
        "n_neighbors": clf._rule.n_neighbors,
        "method": "exact" if report is None else report.method,
        "parameters": {} if report is None else dict(report.parameters),
        "recall": clf.graph_recall_,
        "dropped_mass": clf.dropped_mass_,
        "rounds": clf.n_iter_,
        "accuracy": float(np.mean(clf.transduction_[queries] == truth[queries])),
        "seconds": float(spent[:, 0].sum()),
        "cpu_seconds": float(spent[:, 1].sum()),
        "stages": dict(zip(names, spent[1:, 0].tolist(), strict=True)),
        "cpu_stages": dict(zip(names, spent[1:, 1].tolist(), strict=True)),
        "before_gb": before,
        "peak_gb": peak_gb(),
    }


def measure_exact(vectors: str, classes: str, n_neighbors: str) -> dict[str, Any]:
    """Seconds of the exact search of a sample of rows and of its bare products, extrapolated to all rows."""
    from laplacianshot.inference._threads import Workers, row_blocks
    from laplacianshot.inference.transforms import base_mean
    from laplacianshot.scale import Rows
    from laplacianshot.scale.recall import ExactSample

    X, _, _ = opened(vectors, classes)
    n = len(X)
    rows = Rows.transformed(X, "cl2", base_mean(X))
    sample = np.linspace(0, n - 1, min(n, SAMPLE)).astype(int)
    ExactSample.search(rows.ordered(np.arange(3000)), np.arange(100), 5)
    start, cpu_start = time.perf_counter(), time.process_time()
    ExactSample.search(rows, sample, int(n_neighbors))
    searched, cpu_searched = time.perf_counter() - start, time.process_time() - cpu_start
    queries = rows.take(sample)
    start, cpu_start = time.perf_counter(), time.process_time()
    with Workers(n * len(sample)) as workers:
        out = np.empty((workers.threads, len(sample), 1024), np.float32)

        def multiply(number: int, first: int, last: int) -> None:
            for top, bottom in row_blocks(last - first, 1024):
                np.matmul(queries, X[first + top : first + bottom].T, out=out[number, :, : bottom - top])

        workers.run(multiply, workers.share(n))
    multiplied, cpu_multiplied = time.perf_counter() - start, time.process_time() - cpu_start
    scale = n / len(sample)
    return {
        "exact_seconds": searched * scale,
        "exact_cpu_seconds": cpu_searched * scale,
        "product_seconds": multiplied * scale,
        "product_cpu_seconds": cpu_multiplied * scale,
    }


def measure_graph(vectors: str, classes: str, n_neighbors: str, method: str) -> dict[str, Any]:
    """Seconds and recall of a way to find the neighbours."""
    from laplacianshot.inference.transforms import base_mean
    from laplacianshot.scale import Rows, scaled_neighbors

    X, _, _ = opened(vectors, classes)
    warm_up()
    rows = Rows.transformed(X, "cl2", base_mean(X))
    if method == "pq":
        return product_quantised(rows, int(n_neighbors))
    cpu_start = time.process_time()
    _, report = scaled_neighbors(rows, int(n_neighbors), method=method)  # type: ignore[arg-type]
    return {
        "seconds": report.seconds,
        "cpu_seconds": time.process_time() - cpu_start,
        "recall": report.recall,
        "parameters": dict(report.parameters),
        "peak_gb": peak_gb(),
    }


def product_quantised(rows: Any, k: int) -> dict[str, Any]:
    """faiss's inverted lists of 4-bit codes with fast scan, and exact ranking of five times as many candidates."""
    from laplacianshot._extras import require
    from laplacianshot.scale.recall import ExactSample

    faiss: Any = require("faiss", "scale")
    n = len(rows)
    start, cpu_start = time.perf_counter(), time.process_time()
    lists = round(4 * math.sqrt(n))
    index = faiss.index_factory(D, f"IVF{lists},PQ{D // 4}x4fsr,RFlat")
    train = rows.take(np.sort(np.random.default_rng(0).choice(n, min(n, 40 * lists), replace=False)))
    index.train(train)
    for first in range(0, n, 65536):
        index.add(rows[first : first + 65536])
    index.k_factor = 5
    search = faiss.extract_index_ivf(index)
    sample = ExactSample.search(rows, np.arange(0, n, -(-n // 512)), k)
    probes = 4
    while True:
        search.nprobe = probes
        found = index.search(rows.take(sample.rows), k + 1)[1]
        shares = sample.shares_found(rows, np.where(found == sample.rows[:, None], -1, found)) * (k + 1) / k
        if shares.mean() >= 0.95 or probes >= 256:
            break
        probes = math.ceil(probes * 1.3)
    for first in range(0, n, 65536):
        index.search(rows[first : first + 65536], k + 1)
    seconds = time.perf_counter() - start
    return {
        "seconds": seconds,
        "cpu_seconds": time.process_time() - cpu_start,
        "recall": float(shares.mean()),
        "parameters": {"lists": lists, "probes": probes},
        "peak_gb": peak_gb(),
    }


def measure_peer(vectors: str, classes: str, n_neighbors: str, peer: str) -> dict[str, Any]:
    """Seconds, accuracy and peak memory of a peer, on the rows that our fit works on (centred, of length one)."""
    from laplacianshot.inference.transforms import base_mean, transform_features

    X, y, truth = opened(vectors, classes)
    rows = transform_features(X, "cl2", base_mean(X))
    start, cpu_start = time.perf_counter(), time.process_time()
    labels = _spreading(rows, y, int(n_neighbors)) if peer == "spreading" else _laplace(rows, y, int(n_neighbors))
    seconds, cpu = time.perf_counter() - start, time.process_time() - cpu_start
    queries = y < 0
    accuracy = float(np.mean(labels[queries] == truth[queries]))
    return {"seconds": seconds, "cpu_seconds": cpu, "accuracy": accuracy, "peak_gb": peak_gb()}


def _spreading(rows: Any, y: Any, k: int) -> Any:
    from sklearn.semi_supervised import LabelSpreading

    return LabelSpreading(kernel="knn", n_neighbors=k, n_jobs=-1).fit(rows, y).transduction_


def _laplace(rows: Any, y: Any, k: int) -> Any:
    import graphlearning  # type: ignore[import-untyped,import-not-found,unused-ignore]

    weights = graphlearning.weightmatrix.knn(rows, k)
    given = np.flatnonzero(y >= 0)
    return graphlearning.ssl.laplace(weights).fit_predict(given, y[given])


MEASURES: dict[str, Any] = {"fit": measure_fit, "exact": measure_exact, "graph": measure_graph, "peer": measure_peer}


def child(limit: float | None, *words: object) -> dict[str, Any]:
    """One measurement in a process of its own; what went wrong under "error"."""
    command = [sys.executable, __file__, "child", *map(str, words)]
    try:
        done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=limit, env=os.environ)
    except subprocess.TimeoutExpired:
        return {"error": f"over {limit:.0f} s"}
    if done.returncode != 0:
        last = done.stderr.strip().splitlines()[-1:] or [f"exit {done.returncode}"]
        return {"error": "killed (out of memory)" if done.returncode == -9 else last[0]}
    result: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return result


def growth(options: argparse.Namespace, folder: Path) -> list[dict[str, Any]]:
    rows = []
    heads = ("N", "C", "k", "recall", "search s", "updates s", "fit s", "fit cpu", "fit/search", "exact cpu")
    print("  ".join(f"{head:>10}" for head in (*heads, "exact/fit", "accuracy", "dropped", "peak GB")), flush=True)
    for n_classes in options.classes:
        for n in options.sizes:
            paths = files(folder, options, n, n_classes)
            row = {"n": n, "n_classes": n_classes, **child(None, "fit", *paths, "{}")}
            if "error" in row:
                raise SystemExit(f"N = {n}, C = {n_classes}: {row['error']}")
            row |= child(None, "exact", *paths, row["n_neighbors"])
            rows.append(row)
            print(_growth_line(row), flush=True)
        large = [row for row in rows if row["n_classes"] == n_classes and row["n"] >= 100_000]
        if len(large) > 1:
            found = ", ".join(f"{slope(large, key):.2f} ({key})" for key in ("seconds", "cpu_seconds"))
            print(f"slope of log time against log N from 100,000 on, C = {n_classes}: {found}", flush=True)
    return rows


def slope(rows: list[dict[str, Any]], key: str) -> float:
    """Slope of log seconds against log N."""
    return float(np.polyfit(np.log([row["n"] for row in rows]), np.log([row[key] for row in rows]), 1)[0])


def _growth_line(row: dict[str, Any]) -> str:
    """Seconds as they passed; ratios by processor time, which a busy machine disturbs least."""
    search, updates = (row["stages"].get(name) for name in ("Neighbours", "Updates"))
    ratio = row["cpu_seconds"] / row["cpu_stages"]["Neighbours"] if search is not None else None
    cells = [f"{row['n']:>10d}", f"{row['n_classes']:>10d}", f"{row['n_neighbors']:>10d}", f"{row['recall']:>10.3f}"]
    cells += [f"{'-':>10}" if value is None else f"{value:>10.1f}" for value in (search, updates)]
    cells += [
        f"{row['seconds']:>10.1f}",
        f"{row['cpu_seconds']:>10.1f}",
        f"{'-':>10}" if ratio is None else f"{ratio:>10.2f}",
    ]
    cells += [f"{row['exact_cpu_seconds']:>10.1f}", f"{row['exact_cpu_seconds'] / row['cpu_seconds']:>10.2f}"]
    cells += [f"{row['accuracy']:>10.4f}", f"{row['dropped_mass']:>10.4f}", f"{row['peak_gb']:>10.2f}"]
    return "  ".join(cells)


def graphs(options: argparse.Namespace, folder: Path) -> list[dict[str, Any]]:
    rows = []
    print(
        "  ".join(f"{head:>10}" for head in ("N", "k", "method", "seconds", "cpu s", "recall", "peak GB")), flush=True
    )
    for n in options.sizes:
        paths = files(folder, options, n, 100)
        k = max(1, round(math.sqrt(n / 100 - 1)))
        for method in options.methods:
            found = child(options.limit, "graph", *paths, k, method)
            rows.append({"n": n, "n_neighbors": k, "method": method, **found})
            if "error" in found:
                print(f"{n:>10d}  {k:>10d}  {method:>10}  {found['error']}", flush=True)
            else:
                times = f"{found['seconds']:>10.1f}  {found['cpu_seconds']:>10.1f}"
                figures = f"{times}  {found['recall']:>10.3f}  {found['peak_gb']:>10.2f}"
                print(f"{n:>10d}  {k:>10d}  {method:>10}  {figures}  {found['parameters']}", flush=True)
    return rows


def accuracy(options: argparse.Namespace, folder: Path) -> list[dict[str, Any]]:
    rows = []
    for n_classes in options.classes:
        paths = files(folder, options, options.sizes[0], n_classes)
        for graph in ("exact", "auto"):
            row = {"n": options.sizes[0], "n_classes": n_classes, "graph": graph}
            row |= child(None, "fit", *paths, json.dumps({"graph": graph}))
            rows.append(row)
            print(f"N = {row['n']}, C = {n_classes}, {graph}: ", end="")
            print(
                row.get("error")
                or f"accuracy {row['accuracy']:.4f}, {row['seconds']:.1f} s, recall {row['recall']:.3f}"
            )
        if all("accuracy" in row for row in rows[-2:]):
            print(f"difference {100 * (rows[-1]['accuracy'] - rows[-2]['accuracy']):+.2f} points", flush=True)
    return rows


def peers(options: argparse.Namespace, folder: Path) -> list[dict[str, Any]]:
    rows, failed = [], set()
    for n in options.sizes:
        paths = files(folder, options, n, 100)
        k = max(1, round(math.sqrt(n / 100 - 1)))
        for peer in ("LaplacianShot", "spreading", "laplace"):
            if peer in failed:
                continue
            words = ("fit", *paths, "{}") if peer == "LaplacianShot" else ("peer", *paths, k, peer)
            found = child(options.limit, *words)
            rows.append({"n": n, "peer": peer, **found})
            if "error" in found:
                failed.add(peer)
            said = found.get("error") or (
                f"{found['seconds']:.1f} s ({found['cpu_seconds']:.1f} s of processors), "
                f"accuracy {found['accuracy']:.4f}, peak {found['peak_gb']:.2f} GB"
            )
            print(f"N = {n}, {peer}: {said}", flush=True)
    return rows


def draw(rows: list[dict[str, Any]], path: Path) -> None:
    """Time and peak memory against N."""
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    figure, (left, right) = plt.subplots(1, 2, figsize=(9.5, 3.8), layout="constrained")
    for n_classes, colour in zip(sorted({row["n_classes"] for row in rows}), ("#0072B2", "#D55E00"), strict=False):
        mine = [row for row in rows if row["n_classes"] == n_classes]
        n = [row["n"] for row in mine]
        left.plot(n, [row["seconds"] for row in mine], "o-", color=colour, label=f"fit, {n_classes:,} classes")
        left.plot(n, [row["exact_seconds"] for row in mine], "--", color=colour, label="exact search alone")
        right.plot(n, [row["peak_gb"] for row in mine], "o-", color=colour, label=f"{n_classes:,} classes")
    sizes = np.array(sorted({row["n"] for row in rows}))
    right.plot(sizes, sizes * D * 4 / 1e9, ":", color="#555555", label="the file itself")
    left.set(xscale="log", yscale="log", xlabel="rows N", ylabel="seconds", title="Time on two cores")
    right.set(xscale="log", yscale="log", xlabel="rows N", ylabel="GB", title="Peak memory of the process")
    for axes in (left, right):
        axes.grid(alpha=0.25, which="major")
        axes.spines[["top", "right"]].set_visible(False)
        axes.legend(frameon=False, fontsize=8)
    figure.savefig(path, dpi=130)


def main() -> None:
    if sys.argv[1:2] == ["child"]:
        print(json.dumps(MEASURES[sys.argv[2]](*sys.argv[3:])))
        return
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("part", choices=("growth", "graph", "accuracy", "peers"))
    parser.add_argument("--sizes", type=int, nargs="+", help="rows (default: all; 100,000 for graph and accuracy)")
    parser.add_argument("--classes", type=int, nargs="+", default=[100, 1000], choices=(100, 1000))
    parser.add_argument("--vectors", choices=SEEDS, default="digits")
    parser.add_argument("--data", type=Path, help="folder of the CIFAR-FS vectors, for --vectors cifar")
    parser.add_argument("--methods", nargs="+", default=["cells", "ivf", "pq", "hnsw"])
    parser.add_argument("--limit", type=float, default=900, help="most seconds of an index or a peer")
    parser.add_argument("--folder", type=Path, help="where vectors are kept (default: a temporary folder)")
    parser.add_argument("--output", type=Path, help="write OUTPUT-PART.json and, for growth, OUTPUT.png")
    options = parser.parse_args()
    options.sizes = options.sizes or (list(SIZES) if options.part in ("growth", "peers") else [100_000])
    parts: dict[str, Any] = {"growth": growth, "graph": graphs, "accuracy": accuracy, "peers": peers}
    with tempfile.TemporaryDirectory() as temporary:
        folder = options.folder or Path(temporary)
        folder.mkdir(parents=True, exist_ok=True)
        rows = parts[options.part](options, folder)
    if options.output:
        options.output.parent.mkdir(parents=True, exist_ok=True)
        path = Path(f"{options.output}-{options.part}.json")
        path.write_text(json.dumps({"vectors": options.vectors, "rows": rows}, indent=1) + "\n")
        if options.part == "growth":
            draw(rows, Path(f"{options.output}.png"))
        print(f"wrote {path}")


if __name__ == "__main__":
    main()
