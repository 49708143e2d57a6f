"""Fit the constants of labeling/calibration.py on tasks of the design sets, and print them.

The rule for all data is a logistic regression of whether a label is right on the evidence of its row, each task
weighing the same. The shift of simulated answers is a straight line through what the design tasks with one label a
class would have needed. Each is judged on what it was not fitted on: every family of sets (that is, every encoder but
one) is left out in turn, weights and line are fitted on the others, and the mean gap between confidence and accuracy is
printed, without the shift and with it, and how often the interval of the expected accuracy contains the true one.

Sets with shuffled classes are for the interval alone, those with fewer of them for the line too: how often data are
that weak nobody knows.

    python benchmarks/labeling/fit_confidence.py --data data
"""

from __future__ import annotations

import argparse
import sys
import zlib
from collections.abc import Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from multiprocessing import get_context
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

import numpy as np
from labeling.confidence_tasks import DESIGN, SHUFFLED, Setting, design_settings, draw_task, feature_set
from rich.progress import track
from sklearn.linear_model import LogisticRegression

from laplacianshot import LaplacianShot
from laplacianshot.labeling.calibration import gather, mean_shift, spread_of
from laplacianshot.labeling.evidence import COLUMNS, Checks
from laplacianshot.labeling.result import ExpectedAccuracy
from laplacianshot.runtime.types import Floats

# Rows of a task that the fit looks at; rows of most tasks, and of one in eight.
ROWS = 600
SMALL, LARGE = 800, 3000
# Draws of a setting: two with one label per class, where draws differ most.
DRAWS = {1: 2}
# Spread of the shift that a task needed: wide, as its rows are many.
_WIDE = 3.0


@dataclass(frozen=True)
class Sample:
    """Evidence on some queries of a task, whether their labels are right, and its checks."""

    setting: Setting
    columns: Floats
    right: Floats
    checks: Checks

    @property
    def family(self) -> str:
        """The encoder, or how rows were made."""
        return self.setting.name.split("-")[0]


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


def solve(job: tuple[Setting, int, Path]) -> Sample:
    """A design task, fitted, with its truth."""
    setting, draw, data = job
    way = setting.way or len(feature_set(setting.name, data).by_class)
    large = zlib.crc32(f"{setting}/{draw}".encode()) % 8 == 0
    task = draw_task(setting, draw, data, most=max(12 + setting.shots, (LARGE if large else SMALL) // way))
    model = LaplacianShot().fit(task.X, task.codes)
    evidence = gather(model, task.codes)
    query = task.codes < 0
    right = (model.label_distributions_[query].argmax(axis=1) == task.truth[query]).astype(float)
    keep = np.random.default_rng(0).permutation(len(right))[:ROWS]
    return Sample(setting, evidence.query[keep], right[keep], evidence.checks)


def collect(data: Path, names: Sequence[str], jobs: int) -> list[Sample]:
    """Every design task."""
    tasks = [(one, draw, data) for one in design_settings(names) for draw in range(DRAWS.get(one.shots, 1))]
    with ProcessPoolExecutor(jobs, mp_context=get_context("spawn")) as pool:
        return list(track(pool.map(solve, tasks), "design tasks", total=len(tasks)))


def fit_rule(samples: Sequence[Sample]) -> Rule:
    """Logistic regression on standardized evidence, each task weighing the same; without shuffled classes."""
    samples = [sample for sample in samples if not sample.setting.shuffled]
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
            mean_shift(rule(sample.checks.columns), sample.checks.right),
            mean_shift(rule(sample.columns), sample.right, _WIDE),
        )
        for sample in samples
        if sample.checks.simulated and len(sample.checks) and sample.setting.shuffled <= min(SHUFFLED)
    ]
    asked, needed = np.array(pairs).T
    slope, base = np.polyfit(asked, needed, 1)
    return float(base), float(slope)


def said(sample: Sample, rule: Rule, line: tuple[float, float]) -> tuple[float, ExpectedAccuracy]:
    """Mean confidence of a task without the shift, and what is said with it."""
    z, asked = rule(sample.columns), rule(sample.checks.columns)
    shift, spread = mean_shift(asked, sample.checks.right), spread_of(asked, sample.checks)
    if sample.checks.simulated and len(asked):
        shift = line[0] + line[1] * shift
    found = ExpectedAccuracy.of_labels(1 / (1 + np.exp(-z - shift)), spread, "")
    assert found is not None
    return float(np.mean(1 / (1 + np.exp(-z)))), found


def report(samples: Sequence[Sample]) -> None:
    """Leave each family out in turn and print how far confidence is from accuracy on it."""
    print("\nmean |confidence - accuracy| of a task, and the mean gap, without shift -> with it; coverage, width")
    found = []
    for family in sorted({sample.family for sample in samples}):
        rest = [sample for sample in samples if sample.family != family]
        rule = fit_rule(rest)
        line = fit_line(rest, rule)
        found += [(sample, *said(sample, rule, line)) for sample in samples if sample.family == family]
    groups = [(f, 0.0) for f in sorted({sample.family for sample in samples})] + [("", s) for s in (0.0, *SHUFFLED)]
    for family, shuffled in groups:
        for shots in (1, 2, 5, 10):
            mine = [
                (plain - sample.right.mean(), after.estimate - sample.right.mean(), after, sample.right.mean())
                for sample, plain, after in found
                if sample.setting.shots == shots
                and sample.setting.shuffled == shuffled
                and family in ("", sample.family)
            ]
            if mine:
                gap = np.array([one[:2] for one in mine])
                size, mean = np.abs(gap).mean(axis=0), gap.mean(axis=0)
                held = np.mean([after.low <= accuracy <= after.high for *_, after, accuracy in mine])
                width = np.mean([after.high - after.low for *_, after, _ in mine])
                print(
                    f"{family or 'all':<6} shuffled {shuffled:.0%} {shots:>2} labels, {len(mine):>3} tasks: "
                    f"{size[0]:.3f} -> {size[1]:.3f}   ({mean[0]:+.3f} -> {mean[1]:+.3f})   {held:.2f} {width:.2f}"
                )


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--data", type=Path, required=True, help="the data folder (docs/results/data.md)")
    parser.add_argument("--sets", nargs="+", default=DESIGN, choices=DESIGN)
    parser.add_argument("--jobs", type=int, default=2, help="processes")
    options = parser.parse_args()
    samples = collect(options.data, options.sets, options.jobs)
    report(samples)
    rule = fit_rule(samples)
    base, slope = fit_line(samples, rule)
    print(f"\nINTERCEPT = {rule.intercept:.4f}\nWEIGHTS = {{")
    for name, weight, low, high in zip(COLUMNS, rule.weights, rule.low, rule.high, strict=True):
        print(f'    "{name}": ({weight:.4f}, {low:.3f}, {high:.3f}),')
    print(f"}}\n_SIMULATED_SHIFT = ({base:.3f}, {slope:.3f})")


if __name__ == "__main__":
    main()
