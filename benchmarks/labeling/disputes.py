"""Wrong labels planted among the given ones: how many are disputed, and how many right ones are.

Tasks of ten classes of the held-out sets, every row of which takes part. Of the given labels ``--wrong`` are changed
to another class drawn at random.

    python benchmarks/labeling/disputes.py --data ../shared/data
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

import numpy as np
from labeling.confidence_tasks import HELD_OUT, NAMES, Setting, draw_task
from rich.progress import track

from laplacianshot import LaplacianShot
from laplacianshot.inference._types import Floats
from laplacianshot.labeling.confidence import calibrate, find_disputes

WAY = 10
SHOTS = (2, 3, 5, 10)


def dispute(setting: Setting, draw: int, data: Path, share: float) -> Floats:
    """Counts of one draw: planted, disputed among them, named rightly, right ones, disputed among them."""
    task = draw_task(setting, draw, data)
    rng = np.random.default_rng(draw)
    given = np.flatnonzero(task.codes >= 0)
    planted = rng.permutation(given)[: max(1, round(share * len(given)))]
    codes = task.codes.copy()
    codes[planted] = (codes[planted] + rng.integers(1, codes.max() + 1, len(planted))) % (codes.max() + 1)
    if len(np.unique(codes[codes >= 0])) < len(np.unique(task.codes[given])):
        return np.zeros(5)  # a class lost its last label
    found = find_disputes(calibrate(LaplacianShot().fit(task.X, codes), codes).probabilities, codes)
    right = np.setdiff1d(given, planted)
    named = np.sum(found[planted] == task.truth[planted])
    counts = (len(planted), np.sum(found[planted] >= 0), named, len(right), np.sum(found[right] >= 0))
    return np.array(counts, dtype=float)


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--data", type=Path, required=True, help="folder with cub/, banking77/ ... as shared")
    parser.add_argument("--sets", nargs="+", default=HELD_OUT)
    parser.add_argument("--draws", type=int, default=10)
    parser.add_argument("--wrong", type=float, default=0.1, help="share of the given labels that are made wrong")
    options = parser.parse_args()
    lines = [
        "| set | labels | wrong labels disputed | and named rightly | right labels disputed | disputes that are just |",
        "|---|---|---|---|---|---|",
    ]
    jobs = [(name, shots) for name in options.sets for shots in SHOTS]
    for name, shots in track(jobs, "settings"):
        setting = Setting(name, WAY, shots, tail=False)
        draws = [dispute(setting, draw, options.data, options.wrong) for draw in range(options.draws)]
        planted, disputed, named, right, alarms = np.sum(draws, axis=0)
        lines.append(
            f"| {NAMES[name.split('-')[0]]} | {shots} | {disputed / planted:.0%} | {named / planted:.0%}"
            f" | {alarms / right:.1%} | {disputed / max(1, disputed + alarms):.0%} |"
        )
    print("\n".join(lines))


if __name__ == "__main__":
    main()
