"""Does the expected accuracy hold? How often its 95% interval contains the true share of right labels.

Sets that no constant of the confidence was chosen on; 1, 2, 5 and 10 labels per class, drawn anew each time, as are the
rows. *Coverage* is the share of draws whose interval contains the accuracy of the unlabeled rows, *bias* the mean of
expected minus true, *width* the mean length of the interval. *Held back* is the same for ``clf.report_``, which knows
only the labels that the fit itself held back. With ``--page`` the table replaces that of the page.

    python benchmarks/labeling/coverage.py --data data --page docs/results/confidence.md
"""

from __future__ import annotations

import argparse
import json
import sys
import zlib
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

import numpy as np
from labeling.calibration import put_tables
from rich.progress import track
from whole_set_tasks import LABELS, SIZES, SOURCES, Sizes, draw_rows

from laplacianshot.labeling.core import label_vectors
from laplacianshot.reports.table import write_text
from laplacianshot.runtime.types import Floats, Ints

SETS = ("digits", "SNIPS", "PlantDoc", "WHU-RS19", "GoEmotions", "breast cancer")
MARKS = ("<!-- table: benchmarks/labeling/coverage.py -->", "<!-- end of table -->")
HEAD = ("set", "labels", "sizes", "draws", "accuracy", "expected", "bias", "coverage", "width", "held back")


@dataclass(frozen=True)
class Draw:
    """What was said of one draw, and the truth."""

    name: str
    per_class: int
    sizes: str
    accuracy: float
    estimate: float
    low: float
    high: float
    held_back: Sequence[float] | None  # interval of the report

    @property
    def covered(self) -> bool:
        """Whether the interval contains the accuracy."""
        return self.low <= self.accuracy <= self.high


def draw_task(
    name: str, per_class: int, sizes: Sizes, draw: int, max_rows: int, data: Path
) -> tuple[Floats, Ints, Ints]:
    """Rows, the classes of those that are labeled (-1: not), and the truth; the same on every machine."""
    rng = np.random.default_rng([draw, zlib.crc32(f"{name}/{per_class}/{sizes}".encode())])
    X, y = SOURCES[name].rows(data, rng)
    rows = draw_rows(y, per_class, sizes=sizes, max_rows=max_rows, rng=rng)
    _, truth = np.unique(y[rows], return_inverse=True)
    codes = np.full(len(rows), -1)
    for c in range(truth.max() + 1):
        codes[rng.permutation(np.flatnonzero(truth == c))[:per_class]] = c
    return X[rows], codes, truth


def measure(name: str, per_class: int, sizes: Sizes, draw: int, max_rows: int, data: Path) -> Draw:
    """Label one draw."""
    X, codes, truth = draw_task(name, per_class, sizes, draw, max_rows, data)
    found = label_vectors(X, codes, int(truth.max()) + 1)
    said, query = found.expected_accuracy, codes < 0
    assert said is not None
    assert found.model is not None
    assert found.model.solution_.answers is not None
    held = found.model.solution_.answers.accuracy
    accuracy = float(np.mean(found.codes[query] == truth[query]))
    return Draw(
        name, per_class, sizes, accuracy, said.estimate, said.low, said.high, None if held is None else held.interval
    )


def table(draws: list[Draw]) -> Iterator[str]:
    """Lines of the page."""
    yield f"| {' | '.join(HEAD)} |"
    yield "|" + "---|" * len(HEAD)
    for name, per_class, sizes in dict.fromkeys((draw.name, draw.per_class, draw.sizes) for draw in draws):
        mine = [draw for draw in draws if (draw.name, draw.per_class, draw.sizes) == (name, per_class, sizes)]
        accuracy = np.array([draw.accuracy for draw in mine])
        estimate = np.array([draw.estimate for draw in mine])
        width = np.array([draw.high - draw.low for draw in mine])
        held = [(draw.held_back, draw.accuracy) for draw in mine]
        inside = [interval[0] <= truth <= interval[1] for interval, truth in held if interval is not None]
        cells = (
            *(name, str(per_class), sizes, str(len(mine)), f"{accuracy.mean():.3f}", f"{estimate.mean():.3f}"),
            f"{np.mean(estimate - accuracy):+.3f}",
            f"{np.mean([draw.covered for draw in mine]):.2f}",
            f"{width.mean():.2f}",
            f"{np.mean(inside):.2f}" if inside else "",
        )
        yield f"| {' | '.join(cells)} |"
    yield f"\nOver all draws the interval contains the accuracy in {np.mean([draw.covered for draw in draws]):.1%}."


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--data", type=Path, required=True, help="the data folder (docs/results/data.md)")
    parser.add_argument("--sets", nargs="+", default=SETS, choices=list(SOURCES))
    parser.add_argument("--draws", type=int, default=200)
    parser.add_argument("--sizes", nargs="+", default=SIZES[:1], choices=SIZES)
    parser.add_argument("--max-rows", type=int, default=600)
    parser.add_argument("--json", type=Path, help="where the draws are kept; those that are there are not made again")
    parser.add_argument("--page", type=Path, help="page whose table is replaced")
    options = parser.parse_args()
    draws: list[Draw] = []
    if options.json is not None and options.json.exists():
        draws = [Draw(**draw) for draw in json.loads(options.json.read_text(encoding="utf-8"))]
    cells = [(name, n, sizes) for name in options.sets for sizes in options.sizes for n in LABELS]
    for cell in track(cells, "cells"):
        done = sum((draw.name, draw.per_class, draw.sizes) == cell for draw in draws)
        draws += [measure(*cell, draw, options.max_rows, options.data) for draw in range(done, options.draws)]
        if options.json is not None:
            write_text(options.json, json.dumps([asdict(draw) for draw in draws]) + "\n")
    lines = "\n".join(table(draws))
    print(lines)
    if options.page:
        put_tables(lines, options.page, MARKS)


if __name__ == "__main__":
    main()
