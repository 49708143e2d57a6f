"""Fits of one revision against another, side by side on the same rows: only the ratios are to be trusted.

    python benchmarks/against.py 7312931 --sizes 500 1000 2000 4000 6000 10000 20000 --repeats 11

The other revision is checked out into a temporary folder. Each side has one process, which compiles or loads its
kernels in a first fit that does not count. A row gives the median times of both sides, and the ratios of
medians, of minima and of the least processor time, now over then.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path
from statistics import median
from typing import Any

ROOT = Path(__file__).resolve().parents[1]


def serve() -> None:
    """Fit what standard input names, one JSON line per fit, and print the seconds."""
    import time

    import numpy as np
    from single_task import make_task

    from laplacianshot import LaplacianShot

    tasks: dict[str, Any] = {}
    for line in sys.stdin:
        case = json.loads(line)
        if line not in tasks:
            tasks.clear()
            X, y, _ = make_task(case["n"], case["kind"])
            C = case["classes"]
            X = np.ascontiguousarray(X[:, : case["width"]])
            y = np.where(y < C, y, -1)
            tasks[line] = X, y
        X, y = tasks[line]
        start, cpu = time.perf_counter(), time.process_time()
        LaplacianShot().fit(X, y)
        print(json.dumps([time.perf_counter() - start, time.process_time() - cpu]), flush=True)


class Side:
    """A process that fits with the package in one folder."""

    def __init__(self, folder: Path) -> None:
        paths = os.pathsep.join([str(folder / "src"), str(ROOT / "benchmarks")])
        env = {**os.environ, "PYTHONPATH": paths}
        command = [sys.executable, __file__, "--serve"]
        self._process = subprocess.Popen(command, env=env, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)

    def fit(self, case: dict[str, Any]) -> list[float]:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(json.dumps(case) + "\n")
        self._process.stdin.flush()
        seconds: list[float] = json.loads(self._process.stdout.readline())
        return seconds

    def stop(self) -> None:
        assert self._process.stdin is not None
        self._process.stdin.close()
        self._process.wait()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("revision", nargs="?")
    parser.add_argument("--sizes", type=int, nargs="+", default=[500, 1000, 2000, 4000, 6000, 10000, 20000])
    parser.add_argument("--classes", type=int, nargs="+", default=[10, 100])
    parser.add_argument("--widths", type=int, nargs="+", default=[512])
    parser.add_argument("--kinds", nargs="+", default=["clear", "pairs"])
    parser.add_argument("--repeats", type=int, default=11)
    parser.add_argument("--serve", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.serve:
        return serve()
    if options.revision is None:
        parser.error("name the revision to compare with")
    with tempfile.TemporaryDirectory() as folder:
        then = Path(folder) / "then"
        subprocess.run(["git", "worktree", "add", "--quiet", "--detach", then, options.revision], cwd=ROOT, check=True)
        try:
            compare(then, options)
        finally:
            subprocess.run(["git", "worktree", "remove", "--force", then], cwd=ROOT, check=True)


def compare(then: Path, options: argparse.Namespace) -> None:
    now_side, then_side = Side(ROOT), Side(then)
    print("| kind | n | D | C | then, ms | now, ms | median | minimum | cpu |\n|---|---|---|---|---|---|---|---|---|")
    cases = [
        {"kind": kind, "n": n, "width": width, "classes": classes}
        for kind in options.kinds
        for n in options.sizes
        for width in options.widths
        for classes in options.classes
    ]
    for case in cases:
        then_side.fit(case), now_side.fit(case)
        rounds = [(then_side.fit(case), now_side.fit(case)) for _ in range(options.repeats)]
        before, after = ([one[side][0] for one in rounds] for side in (0, 1))
        cpu = [min(one[side][1] for one in rounds) for side in (0, 1)]
        print(
            f"| {case['kind']} | {case['n']:,} | {case['width']} | {case['classes']} | {1e3 * median(before):.1f} "
            f"| {1e3 * median(after):.1f} | {median(after) / median(before):.2f} | {min(after) / min(before):.2f} "
            f"| {cpu[1] / cpu[0]:.2f} |",
            flush=True,
        )
    now_side.stop()
    then_side.stop()


if __name__ == "__main__":
    main()
