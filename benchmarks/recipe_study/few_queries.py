"""The package's own center against the mean of all rows when there are few queries, with the package itself.

    python benchmarks/recipe_study/few_queries.py --data data

5-way tasks without a base mean: nearest prototype about the mean of all rows, ``LaplacianShot(base_mean="pooled")`` and
``LaplacianShot()``, accuracies averaged over sets. The paired difference of the last two has the 95% interval of its
mean over sets, and its worst set with that set's own.
"""

from __future__ import annotations

import argparse
import os
import sys
from pathlib import Path

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

import numpy as np

from laplacianshot import LaplacianShot
from laplacianshot.episodes.results import paired_difference
from recipe_study.common import Array, FeatureSet, episodes, load

METHODS = {
    "prototype": LaplacianShot.paper(lam=0, rectify=False, base_mean="pooled"),
    "pooled": LaplacianShot(base_mean="pooled"),
    "default": LaplacianShot(),
}
WAYS = 5


def accuracies(
    fs: FeatureSet, shots: int, per_class: int, dirichlet: float | None, tasks: int, seed: int
) -> dict[str, Array]:
    """Percent of the queries of each task that each method gets right."""
    got: dict[str, list[float]] = {name: [] for name in METHODS}
    for rows, support, query in episodes(fs, WAYS, shots, tasks, seed, dirichlet, per_class):
        X, y = fs.x[rows], np.concatenate([support, np.full(len(query), -1)])
        for name, method in METHODS.items():
            found = method.fit(X, y).transduction_[len(support) :]
            got[name].append(100 * float(np.mean(found == query)))
    return {name: np.array(values) for name, values in got.items()}


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--sets", nargs="*", default=["cub-novel", "cifar-test", "bank", "omni-eval"])
    parser.add_argument("--queries", nargs="*", type=int, default=[1, 3], help="a class, on average")
    parser.add_argument("--tasks", type=int, default=300)
    parser.add_argument("--seed", type=int, default=11)
    args = parser.parse_args()
    sets = [load(name, args.data) for name in args.sets]
    print("shots queries shares         | prototype  pooled  default | default - pooled: mean, worst set")
    for per_class in args.queries:
        for dirichlet in (None, 2.0, 0.2):
            for shots in (1, 5):
                got = {fs.name: accuracies(fs, shots, per_class, dirichlet, args.tasks, args.seed) for fs in sets}
                means = [np.mean([g[name].mean() for g in got.values()]) for name in METHODS]
                pairs = {name: paired_difference(g["default"], g["pooled"]) for name, g in got.items()}
                mean = np.mean([d.mean for d in pairs.values()])
                ci95 = np.sqrt(sum(d.ci95**2 for d in pairs.values())) / len(pairs)
                worst = min(pairs, key=lambda name: pairs[name].mean)
                shares = f"Dirichlet({dirichlet:g})" if dirichlet else "balanced"
                print(
                    f"{shots:5d} {per_class:7d} {shares:14s} | {means[0]:9.2f} {means[1]:7.2f} {means[2]:8.2f} |"
                    f" {mean:+.2f} ± {ci95:.2f}, {pairs[worst].mean:+.2f} ± {pairs[worst].ci95:.2f} {worst}",
                    flush=True,
                )


if __name__ == "__main__":
    main()
