"""The check points of the default recipe on real features, and whether any objective rose.

For each set and setting: mean accuracy of the nearest prototype and of the default recipe on the same tasks, their
paired difference with its 95% interval, and the number of tasks on which an objective rose (R of *paper*, F of
*default*), in float64. Tasks run one estimator at a time.

    python benchmarks/check_points.py --data data --tasks 1000

With ``--lams``, instead: *paper* over lambda, beside the same with a self-loop in place of its proximal step and beside
*reference*.

    python benchmarks/check_points.py --data data --tasks 1000 --lams 0.1 0.3 0.5 0.7 0.8 1.0 1.2 1.5
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse as sp
from recipe_study.common import FeatureSet, episodes, large_task, load

from laplacianshot import LaplacianShot, bound_optimize
from laplacianshot.episodes.results import mean_interval, paired_difference
from laplacianshot.inference.affinity import psd_shift

# A relative rise below this is rounding.
ROUNDING = 1e-12


@dataclass
class Tally:
    """What one setting gave, task by task."""

    prototype: list[float] = field(default_factory=list)
    default: list[float] = field(default_factory=list)
    rises: dict[str, int] = field(default_factory=lambda: {"paper": 0, "default": 0})
    largest_rise: float = 0.0
    converged: int = 0

    def add(self, X: Any, y: Any, truth: Any, base_mean: Any, *, paper: bool = True) -> None:
        """Fit the three methods on one task."""
        queries = y == -1
        prototype = LaplacianShot.paper(lam=0, rectify=False, base_mean=base_mean).fit(X, y)
        self.prototype.append(100 * float(np.mean(prototype.transduction_[queries] == truth[queries])))
        clf = LaplacianShot(base_mean=base_mean).fit(X, y)
        self.default.append(100 * float(np.mean(clf.transduction_[queries] == truth[queries])))
        self.converged += clf.converged_
        for fitted in [clf, LaplacianShot.paper(base_mean=base_mean).fit(X, y)] if paper else [clf]:
            rise = float(np.max(np.diff(fitted.objective_), initial=0.0) / np.abs(fitted.objective_).max())
            self.largest_rise = max(self.largest_rise, rise)
            self.rises[fitted.recipe] += rise > ROUNDING

    def line(self, name: str, setting: str, expected: str) -> str:
        """A row of the table."""
        difference = paired_difference(self.default, self.prototype)
        before, after = mean_interval(self.prototype).mean, mean_interval(self.default).mean
        n = len(self.default)
        return (
            f"{name:<12} {setting:<22} {before:6.2f} -> {after:6.2f}"
            f"   {difference.mean:+6.2f} ± {difference.ci95:4.2f}   {expected:<14} {n:5d} tasks,"
            f" {self.rises['paper']} R and {self.rises['default']} F rose (most {self.largest_rise:.0e}),"
            f" {self.converged} converged"
        )


def tasks(fs: FeatureSet, shots: int, n: int, seed: int, dirichlet: float | None) -> Iterator[tuple[Any, Any, Any]]:
    """5-way tasks: rows, their labels with -1 for a query, and the truth."""
    for rows, support, query in episodes(fs, 5, shots, n, seed, dirichlet):
        truth = np.concatenate([support, query])
        yield fs.x[rows].astype(np.float64), np.concatenate([support, np.full(len(query), -1)]), truth


def lambda_lines(fs: FeatureSet, shots: int, n: int, seed: int, lams: list[float]) -> Iterator[str]:
    """Accuracies of the published recipes over lambda, and where equal assignments lose their hold on one another.

    With equal costs a small difference between assignments along an eigenvector of W grows if lambda times its
    eigenvalue is above C: ``limit`` is C over the largest eigenvalue.
    """
    names = ("paper", "paper with self-loop", "reference")
    found: dict[str, list[list[float]]] = {name: [[] for _ in lams] for name in names}
    nearest, limits, risen = [], [], dict.fromkeys(names[:2], 0)
    for X, y, truth in tasks(fs, shots, n, seed, None):
        expected, n_query = truth[y == -1], int(np.sum(y == -1))
        plain = LaplacianShot.paper(lam=0, rectify=False, base_mean=fs.base_mean).fit(X, y)
        nearest.append(100 * float(np.mean(plain.transduction_[y == -1] == expected)))
        # Unary terms and graph do not depend on lambda.
        paper, reference = (
            make(lam=0, base_mean=fs.base_mean).fit(X, y) for make in (LaplacianShot.paper, LaplacianShot.reference)
        )
        W, delta = paper.affinity_, psd_shift(paper.affinity_)
        largest, loops = float(np.linalg.eigvalsh(W.toarray())[-1]), delta * sp.eye_array(n_query)
        limits.append([5 / largest, 5 / (largest + delta)])
        for place, lam in enumerate(lams):
            results = (
                bound_optimize(paper.unary_, W, lam, delta=delta),
                bound_optimize(paper.unary_, sp.csr_array(W + loops), lam),
                bound_optimize(reference.unary_, reference.affinity_, lam, rule="reference"),
            )
            for name, result in zip(names, results, strict=True):
                found[name][place].append(100 * float(np.mean(paper.classes_[result.labels] == expected)))
                if name in risen:
                    rise = np.max(np.diff(result.objective), initial=0.0)
                    risen[name] += bool(rise > ROUNDING * np.abs(result.objective).max())
    limit = np.mean(limits, axis=0)
    yield (
        f"{fs.name} 5-way {shots}-shot, {n} tasks: nearest prototype {np.mean(nearest):.2f};"
        f" limit {limit[0]:.2f}, with self-loop {limit[1]:.2f}; R rose {risen['paper']} and"
        f" {risen['paper with self-loop']} times"
    )
    yield f"{'lambda':<22}" + "".join(f"{lam:>15g}" for lam in lams)
    for name in names:
        gains = [paired_difference(values, nearest) for values in found[name]]
        yield f"{name:<22}" + "".join(f"{np.mean(values):>15.2f}" for values in found[name])
        yield f"{'  to prototype':<22}" + "".join(f"{f'{gain.mean:+.2f} ± {gain.ci95:.2f}':>15}" for gain in gains)


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--data", type=Path, required=True, help="the data folder (docs/results/data.md)")
    parser.add_argument("--tasks", type=int, default=1000)
    parser.add_argument("--draws", type=int, default=20, help="draws of the labels for one large task")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--lams", type=float, nargs="+", help="print the published recipes at these lambdas instead")
    options = parser.parse_args()
    if options.lams:
        for name in ("cifar-test", "cub-novel"):
            for shots in (1, 5):
                for line in lambda_lines(load(name, options.data), shots, options.tasks, options.seed, options.lams):
                    print(line, flush=True)
        return
    cub, bank, digits = (load(name, options.data) for name in ("cub-novel", "bank", "digits"))
    bank_mean = bank.x.mean(axis=0, dtype=np.float64)
    few = [
        (cub, cub.base_mean, 1, None, "85.5 -> 94.9"),
        (cub, cub.base_mean, 5, None, "95.2 -> 96.9"),
        (cub, cub.base_mean, 1, 2.0, "84.8 -> 91.9"),
        (cub, cub.base_mean, 5, 2.0, "95.2 -> 96.5"),
        (bank, bank_mean, 1, None, "87.7 -> 94.1"),
    ]
    for fs, base_mean, shots, dirichlet, expected in few:
        tally = Tally()
        for X, y, truth in tasks(fs, shots, options.tasks, options.seed, dirichlet):
            tally.add(X, y, truth, base_mean)
        setting = f"5-way {shots}-shot {'Dirichlet(2)' if dirichlet else 'balanced'}"
        print(tally.line(fs.name, setting, expected), flush=True)
    for fs, expected in ((digits, "84.5 -> 93.1"), (bank, "76.3 -> 80.4")):
        tally = Tally()
        for draw in range(options.draws if fs is digits else max(1, options.draws // 4)):
            rows, support, query = large_task(fs, 5, options.seed + draw)
            truth = np.concatenate([support, query])
            y = np.concatenate([support, np.full(len(query), -1)])
            tally.add(fs.x[rows].astype(np.float64), y, truth, None, paper=fs is digits)
        print(tally.line(fs.name, "all rows, 5 per class", expected), flush=True)


if __name__ == "__main__":
    main()
