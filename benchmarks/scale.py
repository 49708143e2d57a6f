"""Growth of one fit from ten thousand to a million vectors: time, memory, recall, accuracy; beside it indexes, peers.

Vectors are rows of a seed set mixed within classes (scale_vectors.py), in a memory-mapped file. Every measurement
(scale_measures.py) runs in a process of its own, whose peak of resident memory is that of the whole process, mapped
pages of the file included.

    python benchmarks/scale.py growth --output docs/assets/scale --page docs/results/scale.md
    python benchmarks/scale.py graph --output docs/assets/scale --page docs/results/scale.md
    python benchmarks/scale.py accuracy --output docs/assets/scale --page docs/results/scale.md
    python benchmarks/scale.py peers --output docs/assets/scale --page docs/results/scale.md

*growth* fits ``LaplacianShot()`` at every size and compares with the exact search of 2,048 rows, extrapolated to all.
*graph* compares ways to find the neighbors, each with parameters chosen for the same recall. *accuracy* compares with
the exact graph. *peers* runs scikit-learn's ``LabelSpreading(kernel="knn")`` and Laplace learning of graphlearning (if
it is installed) with as many neighbors, up to the first size at which each fails or exceeds the limit, in turn with
our fit. Each prints a table and writes what was measured to OUTPUT-PART.json; --page makes the page of results from
scale_page.md and all parts that are there. Vectors go to --folder, 2 GB for a million rows, and are made anew only
where they are missing.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import scale_tables
from scale_vectors import SEEDS, write_vectors

SIZES = (10_000, 100_000, 300_000, 1_000_000)
Row = dict[str, Any]


def files(folder: Path, options: argparse.Namespace, n: int, n_classes: int) -> tuple[Path, Path]:
    """The vectors and classes of a size, made where they are missing."""
    name = f"{options.vectors}-{n}-{n_classes}"
    vectors, classes = folder / f"{name}.npy", folder / f"{name}-classes.npy"
    if not classes.exists():
        truth = write_vectors(vectors, n, n_classes, options.vectors, options.data)
        np.save(classes, truth)
    return vectors, classes


def measured(limit: float | None, *words: object) -> Row:
    """One measurement in a process of its own; what went wrong under "error"."""
    command = [sys.executable, str(Path(__file__).with_name("scale_measures.py")), *map(str, words)]
    try:
        done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=limit, env=os.environ)
    except subprocess.TimeoutExpired:
        return {"error": f"over {limit:.0f} s"}
    if done.returncode != 0:
        last = done.stderr.strip().splitlines()[-1:] or [f"exit {done.returncode}"]
        return {"error": "killed (out of memory)" if done.returncode == -9 else last[0]}
    result: Row = json.loads(done.stdout.splitlines()[-1])
    return result


def growth(options: argparse.Namespace, folder: Path) -> Iterator[Row]:
    for n_classes in options.classes:
        for n in options.sizes:
            paths = files(folder, options, n, n_classes)
            row = {"n": n, "n_classes": n_classes, **measured(None, "fit", *paths, "{}")}
            if "error" not in row:
                row |= measured(None, "exact", *paths, row["n_neighbors"])
            if "error" in row:
                raise SystemExit(f"N = {n}, C = {n_classes}: {row['error']}")
            yield row


def graph(options: argparse.Namespace, folder: Path) -> Iterator[Row]:
    for n in options.sizes:
        paths = files(folder, options, n, 100)
        k = max(1, round(math.sqrt(n / 100 - 1)))
        for method in options.methods:
            yield {"n": n, "n_neighbors": k, "method": method, **measured(options.limit, "graph", *paths, k, method)}


def accuracy(options: argparse.Namespace, folder: Path) -> Iterator[Row]:
    for n_classes in options.classes:
        paths = files(folder, options, options.sizes[0], n_classes)
        for how in ("exact", "auto"):
            row = {"n": options.sizes[0], "n_classes": n_classes, "graph": how}
            row |= measured(None, "fit", *paths, json.dumps({"graph": how}))
            if "error" in row:
                raise SystemExit(f"C = {n_classes}, {how}: {row['error']}")
            yield row


def peers(options: argparse.Namespace, folder: Path) -> Iterator[Row]:
    failed = set()
    for n in options.sizes:
        paths = files(folder, options, n, 100)
        k = max(1, round(math.sqrt(n / 100 - 1)))
        for peer in ("LaplacianShot", "LabelSpreading", "Laplace learning"):
            if peer in failed:
                continue
            words = ("fit", *paths, "{}") if peer == "LaplacianShot" else ("peer", *paths, k, peer)
            row = {"n": n, "peer": peer, **measured(options.limit, *words)}
            if "error" in row:
                failed.add(peer)
            yield row


PARTS = {"growth": growth, "graph": graph, "accuracy": accuracy, "peers": peers}


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("part", choices=PARTS)
    parser.add_argument("--sizes", type=int, nargs="+", help="rows (default: all; 100,000 for graph and accuracy)")
    parser.add_argument("--classes", type=int, nargs="+", default=[100, 1000], choices=(100, 1000))
    parser.add_argument("--vectors", choices=SEEDS, default="digits")
    parser.add_argument("--data", type=Path, help="folder of the CIFAR-FS vectors, for --vectors cifar")
    parser.add_argument("--methods", nargs="+", default=["exact", "cells"])
    parser.add_argument("--limit", type=float, default=900, help="most seconds of an index or a peer")
    parser.add_argument("--folder", type=Path, help="where vectors are kept (default: a temporary folder)")
    parser.add_argument("--output", type=Path, help="write OUTPUT-PART.json, and OUTPUT.png (growth)")
    parser.add_argument("--page", type=Path, help="write the page of results, of all parts that OUTPUT has")
    parser.add_argument("--again", action="store_true", help="make table and page again from OUTPUT-PART.json")
    options = parser.parse_args()
    options.sizes = options.sizes or (list(SIZES) if options.part in ("growth", "peers") else [100_000])
    found = Path(f"{options.output}-{options.part}.json")
    if options.again:
        rows = json.loads(found.read_text())["rows"]
        print(scale_tables.table(options.part, rows), end="")
    else:
        rows = run(options)
    if options.output:
        found.parent.mkdir(parents=True, exist_ok=True)
        found.write_text(json.dumps({"vectors": options.vectors, "rows": rows}, indent=1) + "\n")
        if options.part == "growth":
            scale_tables.draw(rows, Path(f"{options.output}.png"))
        print(f"wrote {found}")
    if options.output and options.page:
        paths = {part: Path(f"{options.output}-{part}.json") for part in PARTS}
        measured_parts = {part: json.loads(path.read_text())["rows"] for part, path in paths.items() if path.exists()}
        template = Path(__file__).with_name("scale_page.md").read_text()
        options.page.write_text(scale_tables.page(template, measured_parts))
        print(f"wrote {options.page}")


def run(options: argparse.Namespace) -> list[Row]:
    """Measure a part, printing its table on the way."""
    rows = []
    print(scale_tables.heads(options.part), flush=True)
    with tempfile.TemporaryDirectory() as temporary:
        folder = options.folder or Path(temporary)
        folder.mkdir(parents=True, exist_ok=True)
        for row in PARTS[options.part](options, folder):
            rows.append(row)
            print(scale_tables.line(options.part, row), flush=True)
    for sentence in scale_tables.conclusions(options.part, rows):
        print(f"\n{sentence.rstrip()}", flush=True)
    return rows


if __name__ == "__main__":
    main()
