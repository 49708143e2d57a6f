"""Fit the constants of labeling/confidence.py on tasks of the design sets, and print them.

The rule for all data is a logistic regression of whether a label is right on the evidence of its row, each task
weighing the same. The shift of simulated answers is a straight line through what the design tasks with one label a
class would have needed. Each is judged on what it was not fitted on: every set, then every family of sets (that is,
every encoder but one) is left out in turn, weights and line are fitted on the others, and the mean gap between
confidence and accuracy is printed, without the shift and with it.

    python benchmarks/labeling/fit_confidence.py --data data
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

import numpy as np
from labeling.confidence_tasks import DESIGN, Setting, draw_task, settings
from rich.progress import track
from sklearn.linear_model import LogisticRegression

from laplacianshot import LaplacianShot
from laplacianshot.labeling.calibration import SHIFT_SPREAD, gather, most_probable_shift
from laplacianshot.labeling.evidence import COLUMNS, Checks
from laplacianshot.runtime.types import Floats

# Rows of a task that the fit looks at, and draws of a setting by its number of classes (0: all).
ROWS = 1000
DRAWS = {5: 4, 10: 3, 20: 2, 50: 1, 0: 2}
# Spread of the shift that a task needed: wide, as its rows are many.
_WIDE = 3.0


@dataclass(frozen=True)
class Sample:
    """Evidence on some queries of a task, whether their labels are right, and its checks."""

    setting: Setting
    columns: Floats
    right: Floats
    checks: Checks


@dataclass(frozen=True)
class Rule:
    """Intercept, weights (K,) and the ranges (K,) that were seen."""

    intercept: float
    weights: Floats
    low: Floats
    high: Floats

    def __call__(self, columns: Floats) -> Floats:
        z: Floats = self.intercept + np.clip(columns, self.low, self.high) @ self.weights
        return z


def collect(data: Path, names: Sequence[str]) -> list[Sample]:
    """Every design task, fitted, with its truth."""
    jobs = [(setting, draw) for name in names for setting in settings(name) for draw in range(DRAWS[setting.way])]
    samples = []
    for setting, draw in track(jobs, "design tasks"):
        task = draw_task(setting, draw, data)
        model = LaplacianShot().fit(task.X, task.codes)
        evidence = gather(model, task.codes)
        query = task.codes < 0
        right = (model.label_distributions_[query].argmax(axis=1) == task.truth[query]).astype(float)
        keep = np.random.default_rng(0).permutation(len(right))[:ROWS]
        samples.append(Sample(setting, evidence.query[keep], right[keep], evidence.checks))
    return samples


def fit_rule(samples: Sequence[Sample]) -> Rule:
    """Logistic regression on standardized evidence, each task weighing the same."""
    columns = np.concatenate([sample.columns for sample in samples])
    right = np.concatenate([sample.right for sample in samples])
    weight = np.concatenate([np.full(len(sample.right), 100 / len(sample.right)) for sample in samples])
    mean, spread = columns.mean(axis=0), columns.std(axis=0)
    found = LogisticRegression(max_iter=1000).fit((columns - mean) / spread, right, sample_weight=weight)
    weights = found.coef_[0] / spread
    return Rule(float(found.intercept_[0] - weights @ mean), weights, columns.min(axis=0), columns.max(axis=0))


def fit_line(samples: Sequence[Sample], rule: Rule) -> tuple[float, float]:
    """u0 and u: what tasks with simulated answers needed against what the answers asked for."""
    pairs = [
        (
            most_probable_shift(rule(sample.checks.columns), sample.checks.right, SHIFT_SPREAD),
            most_probable_shift(rule(sample.columns), sample.right, _WIDE),
        )
        for sample in samples
        if sample.checks.simulated
    ]
    asked, needed = np.array(pairs).T
    slope, base = np.polyfit(asked, needed, 1)
    return float(base), float(slope)


def gaps(samples: Sequence[Sample], rule: Rule, line: tuple[float, float]) -> Floats:
    """Mean confidence minus accuracy of each task, without the shift and with it, (n, 2)."""
    out = []
    for sample in samples:
        z = rule(sample.columns)
        shift = most_probable_shift(rule(sample.checks.columns), sample.checks.right, SHIFT_SPREAD)
        if sample.checks.simulated:
            shift = line[0] + line[1] * shift
        out.append([np.mean(1 / (1 + np.exp(-z - b))) - sample.right.mean() for b in (0.0, shift)])
    return np.array(out)


def report(samples: Sequence[Sample], name: str, group: Callable[[Sample], str]) -> None:
    """Leave each group out in turn and print how far confidence is from accuracy on it."""
    print(f"\nleft out by {name}: mean |confidence - accuracy| of a task, and the mean gap, without shift -> with it")
    for left_out in sorted({group(sample) for sample in samples}):
        rest = [sample for sample in samples if group(sample) != left_out]
        rule = fit_rule(rest)
        line = fit_line(rest, rule)
        for shots in (1, 2, 5, 10):
            mine = [sample for sample in samples if group(sample) == left_out and sample.setting.shots == shots]
            if mine:
                gap = gaps(mine, rule, line)
                size, mean = np.abs(gap).mean(axis=0), gap.mean(axis=0)
                print(
                    f"{left_out:<12} {shots:>2} labels, {len(mine):>3} tasks: "
                    f"{size[0]:.3f} -> {size[1]:.3f}   ({mean[0]:+.3f} -> {mean[1]:+.3f})"
                )


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--data", type=Path, required=True, help="the data folder (docs/results/data.md)")
    parser.add_argument("--sets", nargs="+", default=DESIGN, choices=DESIGN)
    options = parser.parse_args()
    samples = collect(options.data, options.sets)
    report(samples, "set", lambda sample: sample.setting.name)
    report(samples, "family", lambda sample: sample.setting.name.split("-")[0])
    rule = fit_rule(samples)
    base, slope = fit_line(samples, rule)
    print(f"\nINTERCEPT = {rule.intercept:.4f}\nWEIGHTS = {{")
    for name, weight, low, high in zip(COLUMNS, rule.weights, rule.low, rule.high, strict=True):
        print(f'    "{name}": ({weight:.4f}, {low:.3f}, {high:.3f}),')
    print(f"}}\n_SIMULATED_SHIFT = ({base:.3f}, {slope:.3f})")


if __name__ == "__main__":
    main()
