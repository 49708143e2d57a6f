"""Paired trials of changes to the default recipe, each against the recipe as first written on the same tasks.

    python benchmarks/recipe_study/weak_spots.py --data data --variants B "delta 0" --settings 5w1s1q 5w1s3q

Exploration sets: CUB val and CIFAR-FS val about their base mean, BANKING77 even intents, Omniglot background and digits
about the pooled mean. ``--held-out`` takes the other halves, and digits again. Settings: ``5w1s b`` is 5-way 1-shot
with balanced queries, ``d`` Dirichlet queries, 15 per class, ``5w1s3q`` with 3 per class; ``L5 b`` is one large task, 5
labels per class, all rows up to ``--most``, ``t`` the same with a long tail. ``--variants`` and ``--settings`` take
prefixes of names (recipe_study/variants.py).

A cell is the mean over sets / the worst set of the paired difference in points. ``+`` and ``-`` mark a mean beyond its
95% interval, ``!`` that some set is worse beyond its own.
"""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

import numpy as np

from recipe_study.common import (
    EXPLORE,
    HELD_OUT,
    Array,
    FeatureSet,
    Ints,
    batches,
    centered,
    episodes,
    interval,
    l2,
    large_task,
    load,
)
from recipe_study.recipe import Options, Problem, nearest_prototype, prepare, solve
from recipe_study.variants import VARIANTS, whiten

#: mean of the square roots of the base rows, for the sets that have a base split
ROOT_MEANS: dict[str, Array] = {}


def rows_of(fs: FeatureSet, raw: Array, n_s: int, pre: str) -> Array:
    """Transformed rows of one task or a batch under a preprocessing."""
    base = fs.name.startswith(("cub", "cifar"))
    if pre == "sqrt":
        if fs.x.min() < 0:
            return centered(raw, n_s, "pooled", None)
        if base:
            return l2(np.sqrt(raw) - ROOT_MEANS[fs.name])
        return centered(np.sqrt(raw), n_s, "pooled", None)
    x = centered(raw, n_s, "base" if base else "pooled", fs.base_mean)
    if pre:
        x = np.stack([whiten(t, pre) for t in x]) if x.ndim == 3 else whiten(x, pre)
    return x


def few_tasks(
    fs: FeatureSet, ways: int, shots: int, dr: float | None, per: int, n: int, seed: int
) -> Iterator[tuple[Ints, Ints, Ints, int]]:
    """Batches of few-shot tasks: row indices, support labels, query labels, classes."""
    w = min(ways, len(fs.by_class))
    if fs.name.startswith("omni"):
        per = min(per, 8 if dr else 20 - shots)
    for rows, ys, yq in batches(episodes(fs, w, shots, n, seed, dr, per), 50 if ways < 10 else 10):
        yield rows, ys, yq, w


def large_tasks(
    fs: FeatureSet, labels: int, tail: bool, most: int, seeds: int, seed: int, classes: int
) -> Iterator[tuple[Ints, Ints, Ints, int]]:
    """Large tasks one by one; at most ``classes`` classes (drawn with the seed)."""
    for s in range(seed, seed + seeds):
        rows, ys, yq = large_task(fs, labels, s, tail, most)
        n_c = len(fs.by_class)
        if n_c > classes:
            cls = np.sort(np.random.default_rng(s).choice(n_c, classes, replace=False))
            keep = np.isin(np.concatenate([ys, yq]), cls)
            rows = rows[keep]
            ys, yq = np.searchsorted(cls, ys[np.isin(ys, cls)]), np.searchsorted(cls, yq[np.isin(yq, cls)])
            n_c = classes
        yield rows, ys, yq, n_c


def settings(args: argparse.Namespace) -> dict[str, tuple[bool, tuple[Any, ...]]]:
    """Name -> (large, arguments)."""
    out: dict[str, tuple[bool, tuple[Any, ...]]] = {}
    t, m, s = args.tasks, args.many_tasks, args.seed
    for d, n in ((None, "b"), (args.alpha, "d")):
        out[f"5w1s {n}"] = (False, (5, 1, d, 15, t, s))
        out[f"5w5s {n}"] = (False, (5, 5, d, 15, t, s))
        out[f"20w1s {n}"] = (False, (20, 1, d, 15, m, s))
        out[f"20w5s {n}"] = (False, (20, 5, d, 15, m, s))
        out[f"5w1s1q {n}"] = (False, (5, 1, d, 1, 2 * t, s))
        out[f"5w5s1q {n}"] = (False, (5, 5, d, 1, 2 * t, s))
        out[f"5w1s3q {n}"] = (False, (5, 1, d, 3, 2 * t, s))
        out[f"5w5s3q {n}"] = (False, (5, 5, d, 3, 2 * t, s))
        out[f"5w1s6q {n}"] = (False, (5, 1, d, 6, t, s))
        out[f"20w1s3q {n}"] = (False, (20, 1, d, 3, t // 2, s))
        out[f"20w5s1q {n}"] = (False, (20, 5, d, 1, t // 2, s))
        out[f"20w1s1q {n}"] = (False, (20, 1, d, 1, t, s))
        out[f"10w10s {n}"] = (False, (10, 10, d, 10, m, s))
    for tail, n in ((False, "b"), (True, "t")):
        for lab in (1, 2, 5, 10):
            out[f"L{lab} {n}"] = (True, (lab, tail, args.most, args.seeds, s, args.classes))
    return {k: v for k, v in out.items() if not args.settings or any(k.startswith(z) for z in args.settings)}


def accuracy(p: Problem, opt: Options, yq: Ints) -> Array:
    """Per task, percent."""
    return 100 * (solve(p, opt).y.argmax(-1) == yq).mean(-1)


def compare(
    sets: list[FeatureSet], setting: str, is_large: bool, arguments: tuple[Any, ...], names: list[str]
) -> dict[str, dict[str, Array]]:
    """Accuracies of the variants and of the nearest prototype: set -> name -> one a task."""
    out: dict[str, dict[str, Array]] = {}
    for fs in sets:
        if fs.name == "digits" and setting.startswith("20w"):
            continue
        got: dict[str, list[Array]] = {k: [] for k in (*names, "prototype")}
        for rows, ys, yq, c in (large_tasks if is_large else few_tasks)(fs, *arguments):
            problems: dict[str, Problem] = {}
            for k in names:
                pre, opt = VARIANTS[k]
                if pre not in problems:
                    problems[pre] = prepare(rows_of(fs, fs.x[rows], ys.shape[-1], pre), ys, c)
                got[k].append(accuracy(problems[pre], opt, yq))
            got["prototype"].append(100 * (nearest_prototype(problems[""]) == yq).mean(-1))
        out[fs.name] = {k: np.concatenate(v) for k, v in got.items()}
    return out


def cell(res: dict[str, dict[str, Array]], k: str) -> str:
    """mean/worst with marks."""
    d = [interval(r[k] - r["recipe"]) for r in res.values()]
    m = float(np.mean([v[0] for v in d]))
    half = float(np.sqrt(np.sum([v[1] ** 2 for v in d])) / len(d))
    mark = "+" if m > half else ("-" if m < -half else " ")
    return f"{m:+.2f}{mark}/{min(v[0] for v in d):+.2f}{'!' if any(v[0] < -v[1] for v in d) else ' '}"


def main() -> None:
    """Command line."""
    ap = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    ap.add_argument("--data", type=Path, required=True)
    ap.add_argument("--tasks", type=int, default=200, help="5-way tasks a set; twice as many with 1 or 3 queries")
    ap.add_argument("--many-tasks", type=int, default=30, help="20-way and 10-way tasks a set")
    ap.add_argument("--seeds", type=int, default=3, help="draws of the labels for one large task")
    ap.add_argument("--most", type=int, default=100, help="rows per class in large tasks")
    ap.add_argument("--classes", type=int, default=20, help="classes in large tasks")
    ap.add_argument("--seed", type=int, default=7)
    ap.add_argument("--alpha", type=float, default=2.0, help="Dirichlet parameter of the settings marked d")
    ap.add_argument("--held-out", action="store_true")
    ap.add_argument("--sets", nargs="*", default=[])
    ap.add_argument("--variants", nargs="*", default=[], help="prefixes; all if empty")
    ap.add_argument("--settings", nargs="*", default=[], help="prefixes; all if empty")
    args = ap.parse_args()
    sets = [load(n, args.data) for n in (args.sets or [*(HELD_OUT if args.held_out else EXPLORE), "digits"])]
    names = [k for k in VARIANTS if k == "recipe" or k.startswith(tuple(args.variants or [""]))]
    if any(VARIANTS[k][0] == "sqrt" for k in names):
        for fs in sets:
            if fs.name.startswith(("cub", "cifar")):
                ROOT_MEANS[fs.name] = np.sqrt(load(fs.name.split("-")[0] + "-base", args.data).x).mean(0)
    for setting, (is_large, arguments) in settings(args).items():
        res = compare(sets, setting, is_large, arguments, names)
        base = " ".join(f"{n} {r['prototype'].mean():.1f}->{r['recipe'].mean():.1f}" for n, r in res.items())
        print(f"# {setting}: prototype -> recipe: {base}")
        for k in (*names[1:], "prototype"):
            each = " ".join(f"{(r[k] - r['recipe']).mean():+.2f}" for r in res.values())
            print(f"   {k:30s} {cell(res, k)} {each}", flush=True)


if __name__ == "__main__":
    main()
