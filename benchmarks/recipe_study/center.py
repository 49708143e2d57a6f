"""Which center to use when no base mean is given: nearest prototype and the default recipe on paired tasks.

    python benchmarks/recipe_study/center.py --data data --tasks 200 --many-tasks 12 --no-large

A candidate is named "center,o": o = 0, or s for the mean of the transformed support rows. ``fadeN,0`` is what the
package does. The recipe here is the one as first written (delta = 0.02), without change B.
"""

from __future__ import annotations

import argparse
import os
import sys
from pathlib import Path

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
    episodes,
    interval,
    l2,
    large_task,
    load,
)
from recipe_study.recipe import Options, default_k, nearest_prototype, prepare, solve

#: name -> (center, origin). Origin: zero, or the mean of the transformed support rows.
CANDIDATES = {
    "pooled,0": ("pooled", "zero"),
    "pooled,s": ("pooled", "support"),
    "support,0": ("support", "zero"),
    "support,s": ("support", "support"),
    "query,0": ("query", "zero"),
    "none,s": ("none", "support"),
    "none,0": ("none", "zero"),
    "mid,0": ("mid", "zero"),
    "half,0": ("half", "zero"),
    "base,0": ("base", "zero"),
}
#: centers that use a first guess of the labels (see ``refined``), with the plain ones they compete with
REFINED = {
    "pooled,0": ("pooled", "zero"),
    "support,s": ("support", "support"),
    "none,s": ("none", "support"),
    "mid,0": ("mid", "zero"),
    "even,0": ("even", "zero"),
    "fade.1,0": ("fade.1", "zero"),
    "fade.2,0": ("fade.2", "zero"),
    "fade.3,0": ("fade.3", "zero"),
    "fade.4,0": ("fade.4", "zero"),
    "fadeN,0": ("fadeN", "zero"),
    "base,0": ("base", "zero"),
}


def transform(raw: Array, n_s: int, center: str, base: Array | None) -> Array:
    """CL2 rows (..., V, D). mid: mean of support mean and query mean; half: half the pooled mean, of unit rows."""
    s, q, p = (raw[..., sl, :].mean(-2, keepdims=True) for sl in (slice(0, n_s), slice(n_s, None), slice(None)))
    if center == "half":
        u = l2(raw)
        return l2(u - u.mean(-2, keepdims=True) / 2)
    if center == "base":
        assert base is not None
        return l2(raw - base)
    c = {"support": s, "query": q, "pooled": p, "mid": (s + q) / 2, "none": np.zeros_like(s)}[center]
    return l2(raw - c)


def refined(raw: Array, ys: Ints, c: int, kind: str) -> Array:
    """CL2 about a center that uses a first look: the softmax of the first prototypes, rows about the support mean.

    even: mean of class means (raw rows, support weight 3): classes count alike whatever the number of their queries.
    fade<d>: support mean + w (pooled mean - support mean) with w = exp(-KL(p|u)/d), p the class shares at first look:
    the pooled mean as long as nothing speaks against balance. fadeN: d = max(0.2, 3.75 (C - 1)/N), wider where few
    queries make the shares uncertain.
    """
    n_s = ys.shape[-1]
    rb, yb = (raw[None], ys[None]) if raw.ndim == 2 else (raw, ys)
    x = transform(rb, n_s, "support", None)
    k = default_k(n_s, rb.shape[1] - n_s, c)
    p = prepare(x[0], ys, c, None, k) if raw.ndim == 2 else prepare(x, yb, c, None, k)
    y = solve(p, Options(rounds=0, rounds_high=0)).y
    if kind.startswith("fade"):
        pr = y.mean(1)
        kl = (pr * np.log(np.maximum(pr, 1e-30) * c)).sum(-1)
        n = rb.shape[1] - n_s
        delta = max(0.2, 3.75 * (c - 1) / n) if kind == "fadeN" else float(kind[4:])
        w = np.exp(-kl / delta)[:, None, None].astype(raw.dtype)
        sup = rb[:, :n_s].mean(1, keepdims=True)
        center = sup + w * (rb.mean(1, keepdims=True) - sup)
    else:
        z = np.concatenate([3 * p.ys, y], 1)
        z = z / z.sum(1, keepdims=True)
        center = z.mean(-1)[:, None, :] @ rb
    x = l2(rb - center)
    return x[0] if raw.ndim == 2 else x


def _one(raw: Array, ys: Ints, yq: Ints, c: int, name: str, base: Array | None) -> Array:
    center, og = {**CANDIDATES, **REFINED}[name]
    n_s = ys.shape[-1]
    if center.startswith(("even", "fade")):
        x = refined(raw, ys, c, center)
    else:
        x = transform(raw, n_s, center, base)
    o = x[..., :n_s, :].mean(-2) if og == "support" else None
    p = prepare(x, ys, c, o, default_k(n_s, yq.shape[-1], c))
    return 100 * np.stack([(nearest_prototype(p) == yq).mean(-1), (solve(p).y.argmax(-1) == yq).mean(-1)], -1)


def few(
    sets: list[FeatureSet],
    ways: int,
    shots: int,
    dirichlet: float | None,
    tasks: int,
    seed: int,
    cands: dict[str, tuple[str, str]],
    per_class: int = 15,
) -> dict[str, dict[str, Array]]:
    """Per set and candidate: (tasks, 2) accuracies of nearest prototype and of the default."""
    out: dict[str, dict[str, Array]] = {}
    for fs in sets:
        per = per_class if not (fs.name.startswith("omni") and dirichlet) else min(per_class, 8)
        w = min(ways, len(fs.by_class))
        names = [k for k in cands if k != "base,0" or fs.base_mean is not None]
        acc: dict[str, list[Array]] = {k: [] for k in names}
        for rows, ys, yq in batches(episodes(fs, w, shots, tasks, seed, dirichlet, per), 50 if ways < 10 else 10):
            raw = fs.x[rows]
            for k in names:
                acc[k].append(_one(raw, ys, yq, w, k, fs.base_mean))
        out[fs.name] = {k: np.concatenate(v) for k, v in acc.items()}
    return out


def big(
    sets: list[FeatureSet], labels: int, tail: bool, seeds: int, large: tuple[str, ...]
) -> dict[str, dict[str, Array]]:
    """The same for one large task a seed."""
    out: dict[str, dict[str, Array]] = {}
    for fs in sets:
        names = [k for k in large if k != "base,0" or fs.base_mean is not None]
        acc: dict[str, list[Array]] = {k: [] for k in names}
        for seed in range(seeds):
            rows, ys, yq = large_task(fs, labels, seed, tail, most=200)
            if fs.name.startswith("omni"):
                keep = np.concatenate([ys, yq]) < 100
                rows, ys, yq = rows[keep], ys[ys < 100], yq[yq < 100]
            for k in names:
                acc[k].append(_one(fs.x[rows], ys, yq[None], int(ys.max()) + 1, k, fs.base_mean))
        out[fs.name] = {k: np.concatenate(v) for k, v in acc.items()}
    return out


def report(title: str, res: dict[str, dict[str, Array]]) -> None:
    """Means over sets of both methods; paired difference of the default to pooled,0 (95% half width), and worst set."""
    print(
        f"\n## {title}\ncenter,o | nearest prototype | default | default - (pooled,0): mean, worst set | per set: "
        + " ".join(res)
    )
    for k in {**CANDIDATES, **REFINED}:
        have = [s for s in res if k in res[s]]
        if not have:
            continue
        np_, de = (np.mean([res[s][k][:, i].mean() for s in have]) for i in (0, 1))
        d = {s: interval(res[s][k][:, 1] - res[s]["pooled,0"][:, 1]) for s in have}
        worst = min(d, key=lambda s: d[s][0])
        mean = np.mean([v[0] for v in d.values()])
        half = np.sqrt(sum(v[1] ** 2 for v in d.values())) / len(d)
        row = " ".join(f"{d[s][0]:+.2f}({d[s][1]:.2f})" if s in d else "-" for s in res)
        print(
            f"{k:9s} | {np_:.2f} | {de:.2f} | {mean:+.2f}({half:.2f}), {d[worst][0]:+.2f} {worst} | {row}", flush=True
        )


def main() -> None:
    """Command line."""
    ap = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    ap.add_argument("--data", type=Path, required=True)
    ap.add_argument("--tasks", type=int, default=300)
    ap.add_argument("--many-tasks", type=int, default=40)
    ap.add_argument("--seeds", type=int, default=3)
    ap.add_argument("--seed", type=int, default=1)
    ap.add_argument(
        "--refined", action="store_true", help="the centers that use a first labeling, instead of the plain ones"
    )
    ap.add_argument("--alpha", type=float, help="queries from Dirichlet(alpha): 0.2 leaves few classes present")
    ap.add_argument("--five", action="store_true", help="5-way only")
    ap.add_argument("--sets", nargs="*", default=[*EXPLORE, *HELD_OUT, "digits"])
    ap.add_argument("--per-class", type=int, default=15, help="queries per class")
    ap.add_argument("--only", nargs="*", default=[], help="candidates, e.g. pooled,0; the first must be pooled,0")
    ap.add_argument("--labels", nargs="*", type=int, default=[1, 2, 5, 10], help="labels per class in the large tasks")
    ap.add_argument("--no-few", action="store_true")
    ap.add_argument("--no-large", action="store_true")
    args = ap.parse_args()
    cands = REFINED if args.refined else CANDIDATES
    if args.only:
        cands = {k: {**CANDIDATES, **REFINED}[k] for k in args.only}
    sets = [load(n, args.data) for n in args.sets]
    tot: dict[str, list[Array]] = {}
    for ways, tasks in () if args.no_few else ((5, args.tasks), (20, args.many_tasks))[: 1 if args.five else 2]:
        for shots in (1, 5):
            for dr in (None, 2.0) if args.alpha is None else (args.alpha,):
                use = [s for s in sets if ways == 5 or s.name != "digits"]
                res = few(use, ways, shots, dr, tasks, args.seed, cands, args.per_class)
                report(f"{ways}-way {shots}-shot {f'Dirichlet({dr:g})' if dr else 'balanced'}, {tasks} tasks", res)
                for k in cands:
                    have = [r[k].mean(0) for r in res.values() if k in r]
                    if have:
                        tot.setdefault(k, []).append(np.mean(have, 0))
    if tot:
        print("\n## mean over the few-shot settings (base,0 over sets that have one)")
    for k, v in tot.items():
        prototype, default = np.mean(v, 0)
        print(f"{k:9s} | {prototype:.2f} | {default:.2f}")
    if args.no_large:
        return
    use = [s for s in sets if s.name != "bank-odd" and s.name != "omni-back"]
    for labels in args.labels:
        for tail in (False, True):
            report(
                f"one large task, {labels} labels per class, {'long tail' if tail else 'as is'}, {args.seeds} seeds",
                big(use, labels, tail, args.seeds, tuple(cands)),
            )


if __name__ == "__main__":
    main()
