"""Largest relative rise of F on real tasks in float64: the recipe as first written, with change B, and balanced=True.

python benchmarks/recipe_study/monotone.py --data data
"""

from __future__ import annotations

import argparse
import os
import sys
from pathlib import Path

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

import numpy as np

from recipe_study.common import Array, batches, centered, episodes, large_task, load
from recipe_study.recipe import RECIPE, Options, prepare, solve


def rise(trace: list[Array]) -> float:
    """Largest (F_t - F_(t-1))/|F_(t-1)|."""
    f = np.stack(trace)
    return float((np.diff(f, axis=0) / np.abs(f[:-1])).max())


def main() -> None:
    """Command line."""
    ap = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    ap.add_argument("--data", type=Path, required=True)
    ap.add_argument("--tasks", type=int, default=50)
    args = ap.parse_args()
    for opt, name in (
        (RECIPE, "recipe"),
        (Options(delta_few=0.15), "recipe + B"),
        (Options(balanced=True), "balanced=True"),
    ):
        worst, n = -1.0, 0
        for s in ("cub-val", "bank-even", "omni-back"):
            fs = load(s, args.data)
            for shots, per, dr in ((1, 1, None), (1, 3, 2.0), (1, 15, 2.0), (5, 15, None)):
                for rows, ys, _ in batches(
                    episodes(fs, 5, shots, args.tasks, 3, dr, min(per, 8 if s[0] == "o" else 15)), 25
                ):
                    x = centered(fs.x[rows].astype(np.float64), ys.shape[1], "pooled", None)
                    worst = max(worst, rise(solve(prepare(x, ys, 5), opt).trace))
                    n += len(ys)
        fs = load("digits", args.data)
        big = -1.0
        for lab in (1, 5):
            for tail in (False, True):
                rows, ys, _ = large_task(fs, lab, 0, tail)
                p = prepare(centered(fs.x[rows].astype(np.float64), len(ys), "pooled", None), ys, 10)
                big = max(big, rise(solve(p, opt).trace))
        print(
            f"{name}: largest relative rise {worst:.1e} over {n} episodes, {big:.1e} over 4 large tasks (digits)",
            flush=True,
        )


if __name__ == "__main__":
    main()
