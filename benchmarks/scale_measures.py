"""What scale.py measures, each in a process of its own: ``python scale_measures.py NAME ARGUMENTS`` prints JSON."""

from __future__ import annotations

import json
import resource
import sys
import time
from typing import Any

import numpy as np
from scale_vectors import few_labels

SHOTS = 5
SAMPLE = 2048


def opened(vectors: str, classes: str) -> tuple[Any, Any, Any]:
    """Memory-mapped vectors, five labels per class, and the truth."""
    truth = np.load(classes)
    return np.load(vectors, mmap_mode="r"), few_labels(truth, int(truth.max()) + 1, SHOTS), truth


def peak_gb() -> float:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024 / 1e9


def warm_up() -> None:
    """Compile or load the kernels."""
    from laplacianshot import LaplacianShot
    from laplacianshot.engine.large import LargeTask, solve_large
    from laplacianshot.engine.plan import LargePlan

    rng = np.random.default_rng(0)
    X, y = rng.standard_normal((3000, 16), dtype=np.float32), np.r_[np.arange(8), np.full(2992, -1)]
    small = LaplacianShot().fit(X, y)
    from laplacianshot.neighbors.knn import knn

    knn(X, 5, method="cells", target_recall=0.5)
    for dense in (True, False):
        constants = small.solution_.constants
        solve_large(LargeTask(X, y, 8, "cl2", small.center_, constants, LargePlan(dense=dense)), tol=1e-6)


def measure_fit(vectors: str, classes: str, choices: str) -> dict[str, Any]:
    """Seconds of each stage of a fit, what it found and its peak memory."""
    from laplacianshot import LaplacianShot
    from laplacianshot.estimator import fit_large

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
        "n_neighbors": clf.solution_.rule.n_neighbors,
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
    from laplacianshot.inference.transforms import base_mean
    from laplacianshot.neighbors.cells import ExactSample
    from laplacianshot.neighbors.rows import Rows
    from laplacianshot.runtime.threads import Workers, row_blocks

    X, _, _ = opened(vectors, classes)
    n = len(X)
    rows = Rows.transformed(X, "cl2", base_mean(X))
    sample = np.linspace(0, n - 1, min(n, SAMPLE)).astype(int)
    ExactSample.search(rows.ordered(np.arange(3000)), np.arange(100), 5)
    start, cpu_start = time.perf_counter(), time.process_time()
    ExactSample.search(rows, sample, int(n_neighbors))
    searched, cpu_searched = time.perf_counter() - start, time.process_time() - cpu_start
    queries = rows[sample]
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
    """Seconds and recall of a way to find the neighbors."""
    from laplacianshot.inference.transforms import base_mean
    from laplacianshot.neighbors.knn import knn
    from laplacianshot.neighbors.rows import Rows

    X, _, _ = opened(vectors, classes)
    warm_up()
    rows = Rows.transformed(X, "cl2", base_mean(X))
    cpu_start = time.process_time()
    report = knn(rows, int(n_neighbors), method=method).report  # type: ignore[arg-type]
    return {
        "seconds": report.seconds,
        "cpu_seconds": time.process_time() - cpu_start,
        "recall": report.recall,
        "parameters": dict(report.parameters),
        "peak_gb": peak_gb(),
    }


def measure_peer(vectors: str, classes: str, n_neighbors: str, peer: str) -> dict[str, Any]:
    """Seconds, accuracy and peak memory of a peer, on the rows that our fit works on (centered, of length one)."""
    from laplacianshot.inference.transforms import base_mean, transform_features

    X, y, truth = opened(vectors, classes)
    rows = transform_features(X, "cl2", base_mean(X))
    start, cpu_start = time.perf_counter(), time.process_time()
    label = _spreading if peer == "LabelSpreading" else _laplace
    labels = label(rows, y, int(n_neighbors))
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


if __name__ == "__main__":
    print(json.dumps(MEASURES[sys.argv[1]](*sys.argv[2:])))
