"""Where the default recipe breaks: many classes whose means hardly differ, in isotropic Gaussian noise.

    python benchmarks/recipe_study/collapse.py
    python benchmarks/recipe_study/collapse.py --draws 20

Rows are a class mean (a standard normal vector times a scale) plus standard normal noise, with equally many queries of
each class and 5 labels per class. For each scale: accuracy in percent of the nearest prototype, the default, the
default without graph and ``balanced=True``; the KL divergence from equal shares of the labels of the nearest prototype;
and the share of the largest class that the default finds (1% is the truth for 100 classes).

The columns after that tell why. They are from the study's own solver, about the mean of all rows: the default
(``study``), with a balance that never fades (``unfading``), and with prototypes that never move (``fixed``).

With several draws, one after the other from the seed on, only nearest prototype and default: their means, and the
smallest difference of a draw.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

import numpy as np

from laplacianshot import LaplacianShot
from recipe_study.common import centered
from recipe_study.recipe import Options, default_k, prepare, solve

METHODS = {
    "prototype": LaplacianShot.paper(lam=0, rectify=False),
    "default": LaplacianShot(),
    "lam=0": LaplacianShot(lam=0),
    "balanced": LaplacianShot(balanced=True),
}
WHY = {"study": Options(), "unfading": Options(delta=100.0), "fixed": Options(beta_min=1e6, tol=0.0)}


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--scales", nargs="*", type=float, default=[0.2, 0.25, 0.3, 0.35])
    parser.add_argument("--classes", type=int, default=100)
    parser.add_argument("--features", type=int, default=512)
    parser.add_argument("--queries", type=int, default=10_000)
    parser.add_argument("--labels", type=int, default=5, help="a class")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--draws", type=int, default=1)
    args = parser.parse_args()
    if args.draws > 1:
        return many_draws(args)
    names = (*METHODS, *WHY)
    print("scale | " + " ".join(f"{name:>9s}" for name in names) + " | KL of first labels, largest share found")
    n_support = args.classes * args.labels
    for scale in args.scales:
        X, truth, y = drawn(args, scale, args.seed)
        found = {name: method.fit(X, y).transduction_[n_support:] for name, method in METHODS.items()}
        k = default_k(n_support, args.queries, args.classes)
        problem = prepare(centered(X, n_support, "pooled", None), truth[:n_support], args.classes, k_max=k)
        found |= {name: solve(problem, options).y[0].argmax(axis=-1) for name, options in WHY.items()}
        shares = {name: np.bincount(labels, minlength=args.classes) / args.queries for name, labels in found.items()}
        first = shares["prototype"][shares["prototype"] > 0]
        divergence = float(first @ np.log(first * args.classes))
        right = [100 * float(np.mean(labels == truth[n_support:])) for labels in found.values()]
        print(
            f"{scale:5.2f} | "
            + " ".join(f"{value:9.1f}" for value in right)
            + f" | {divergence:.3f}, {100 * shares['default'].max():.1f}%",
            flush=True,
        )


def drawn(args: argparse.Namespace, scale: float, seed: int) -> tuple[Any, Any, Any]:
    """Rows (n, D), their classes (n,), and the labels (n,), -1 for queries."""
    n_support = args.classes * args.labels
    truth = np.arange(n_support + args.queries) % args.classes
    rng = np.random.default_rng(seed)
    means = scale * rng.standard_normal((args.classes, args.features))
    X = (means[truth] + rng.standard_normal((len(truth), args.features))).astype(np.float32)
    return X, truth, np.where(np.arange(len(truth)) < n_support, truth, -1)


def many_draws(args: argparse.Namespace) -> None:
    """Nearest prototype and default over several draws."""
    print("scale | prototype   default | smallest difference of a draw")
    for scale in args.scales:
        right = np.zeros((args.draws, 2))
        for draw in range(args.draws):
            X, truth, y = drawn(args, scale, args.seed + draw)
            for column, name in enumerate(("prototype", "default")):
                found = METHODS[name].fit(X, y).transduction_
                right[draw, column] = 100 * np.mean((found == truth)[y < 0])
        first, second = right.mean(axis=0)
        print(f"{scale:5.2f} | {first:9.1f} {second:9.1f} | {(right[:, 1] - right[:, 0]).min():+.1f}", flush=True)


if __name__ == "__main__":
    main()
