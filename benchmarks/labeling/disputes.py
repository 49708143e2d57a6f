"""Wrong labels among the given ones: how many are disputed, and whether the many of them are warned of.

First table: tasks of ten classes of the held-out sets, every row of which takes part. Of the given labels ``--wrong``
are changed to another class drawn at random. Second table: the given labels as they are, a third or all of them
shuffled among their rows; the share that the graph contradicts, and in how many draws the command warns.

    python benchmarks/labeling/disputes.py --data data
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

import numpy as np
from labeling.confidence_tasks import HELD_OUT, NAMES, Setting, draw_task, feature_set
from rich.console import Console
from rich.progress import track

from laplacianshot import LaplacianShot
from laplacianshot.labeling.calibration import calibrate
from laplacianshot.labeling.disputes import doubt_of_labels, find_disputes, opinions
from laplacianshot.runtime.types import Floats, Ints

WAY = 10
SHOTS = (2, 3, 5, 10)
_ASIDE = Console(stderr=True)
SHUFFLED = {"right labels": 0.0, "a third shuffled": 1 / 3, "all shuffled": 1.0}


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
    found = find_disputes(_probabilities(task.X, codes), codes)
    right = np.setdiff1d(given, planted)
    named = np.sum(found[planted] == task.truth[planted])
    counts = (len(planted), np.sum(found[planted] >= 0), named, len(right), np.sum(found[right] >= 0))
    return np.array(counts, dtype=float)


def doubt(setting: Setting, draw: int, data: Path, share: float) -> tuple[float, bool]:
    """Contradicted share of the labels that can be checked, and whether there is a warning."""
    task = draw_task(setting, draw, data)
    rng = np.random.default_rng(draw)
    codes = task.codes.copy()
    given = np.flatnonzero(codes >= 0)
    some = rng.permutation(given)[: round(share * len(given))]
    codes[some] = codes[rng.permutation(some)]
    probabilities = _probabilities(task.X, codes)
    rows, preferred, _ = opinions(probabilities, codes)
    return float(np.mean(preferred != codes[rows])), bool(doubt_of_labels(probabilities, codes))


def _probabilities(X: Floats, codes: Ints) -> Floats:
    found: Floats = calibrate(LaplacianShot().fit(X, codes), codes).probabilities
    return found


def planted_lines(sets: list[str], draws: int, data: Path, share: float) -> Iterator[str]:
    """The table of planted labels."""
    yield "| set | labels | wrong ones disputed | and named rightly | right ones disputed | disputes that are just |"
    yield "|---|---|---|---|---|---|"
    for name, shots in track([(name, shots) for name in sets for shots in SHOTS], "planted", console=_ASIDE):
        setting = Setting(name, WAY, shots, tail=False)
        counts = [dispute(setting, draw, data, share) for draw in range(draws)]
        planted, disputed, named, right, alarms = np.sum(counts, axis=0)
        yield (
            f"| {NAMES[name.split('-')[0]]} | {shots} | {disputed / planted:.0%} | {named / planted:.0%}"
            f" | {alarms / right:.1%} | {disputed / max(1, disputed + alarms):.0%} |"
        )


def shuffled_lines(sets: list[str], ways: list[int], draws: int, data: Path) -> Iterator[str]:
    """The table of shuffled labels: least, mean and largest contradicted share, and draws with a warning."""
    yield f"| set | classes | labels | {' | '.join(f'{name} | warned' for name in SHUFFLED)} |"
    yield f"|---|---|---|{'---|---|' * len(SHUFFLED)}"
    jobs = [(name, way, shots) for name in sets for way in ways for shots in (2, 5, 10)]
    for name, way, shots in track(jobs, "shuffled", console=_ASIDE):
        setting = Setting(name, way, shots, tail=False)
        cells = [NAMES[name.split("-")[0]], str(way or len(feature_set(name, data).by_class)), str(shots)]
        for share in SHUFFLED.values():
            found = [doubt(setting, draw, data, share) for draw in range(draws)]
            against = np.array([one for one, _ in found])
            cells.append(f"{against.mean():.2f} ({against.min():.2f} to {against.max():.2f})")
            cells.append(f"{sum(told for _, told in found)} of {draws}")
        yield f"| {' | '.join(cells)} |"


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--data", type=Path, required=True, help="the data folder (docs/results/data.md)")
    parser.add_argument("--sets", nargs="+", default=HELD_OUT)
    parser.add_argument("--ways", nargs="+", type=int, default=[WAY, 0], help="classes of the second table; 0: all")
    parser.add_argument("--draws", type=int, default=10)
    parser.add_argument("--wrong", type=float, default=0.1, help="share of the given labels that are made wrong")
    options = parser.parse_args()
    print("\n".join(planted_lines(options.sets, options.draws, options.data, options.wrong)), end="\n\n")
    print("\n".join(shuffled_lines(options.sets, options.ways, options.draws, options.data)))


if __name__ == "__main__":
    main()
