"""Numbers of a labeled source: tiles, classes, what was skipped, and how it was run."""

from __future__ import annotations

import math
from collections.abc import Sequence
from html import escape

import numpy as np

from laplacianshot.labeling.result import GIVEN, PREDICTED, REJECTED, LabelResult, Skipped
from laplacianshot.reports.labeling.choice import ClassItems
from laplacianshot.reports.table import Table, row
from laplacianshot.reports.text import percentage
from laplacianshot.ui.names import line

# Rows of a table; of the others it says how many there are.
_CLASSES = 2_000
_SKIPPED = 50


def tiles(result: LabelResult) -> str:
    """What there is, in large numbers."""
    counts = result.counts()
    sure = result.confidence[np.asarray(result.origins, dtype=object) == PREDICTED]
    numbers = [("items", f"{len(result):,}"), ("classes", f"{len(result.classes):,}")]
    numbers += [(f"labels {GIVEN}", f"{counts[GIVEN]:,}"), (f"labels {PREDICTED}", f"{counts[PREDICTED]:,}")]
    if len(sure):
        # With a handful of labels no more can be said than this: see docs/results/confidence.md.
        numbers.append(("of them right, we expect, about", percentage(sure.mean())))
    rest = [
        ("fit no class", counts[REJECTED]),
        ("given labels disputed", int(np.sum(result.disputes >= 0))),
        ("to label next", int(np.count_nonzero(result.suggestions))),
        ("skipped", len(result.skipped)),
    ]
    numbers += [(name, f"{number:,}") for name, number in rest if number]
    inside = "".join(f"<div><dt>{escape(name)}</dt><dd>{escape(value)}</dd></div>" for name, value in numbers)
    return f'<dl class="tiles">{inside}</dl>'


def classes_table(result: LabelResult, classes: Sequence[ClassItems]) -> Table:
    """How many items each class has and how sure they are, the largest first."""
    rows = [
        row(
            line(result.classes[one.code]),
            f"{one.n_items:,}",
            f"{one.n_given:,}",
            f"{one.n_predicted:,}",
            "" if math.isnan(one.sure) else percentage(one.sure, 1),
        )
        for one in classes[:_CLASSES]
    ]
    notes = (f"The {_CLASSES:,} largest of {len(classes):,} classes.",) if len(classes) > _CLASSES else ()
    return Table("Classes", ("Class", "Items", "Given", "Predicted", "How sure"), tuple(rows), notes)


def skipped_table(skipped: Sequence[Skipped]) -> Table:
    """Items that could not be read, and why."""
    rows = tuple(row(line(fault.id), line(fault.reason, 200)) for fault in skipped[:_SKIPPED])
    more = len(skipped) - _SKIPPED
    return Table("Skipped", ("Item", "Why"), rows, (f"And {more:,} more.",) if more > 0 else (), words=(1,))


def run_tables(result: LabelResult) -> list[Table]:
    """What was asked for, and the time it took."""
    settings = tuple(
        row(line(str(name)), line(_word(value), 200)) for name, value in result.settings.items() if value is not None
    )
    stages = tuple(row(line(stage.name), f"{stage.seconds:.2f}") for stage in result.stages)
    tables = [
        Table("Settings", ("Setting", "Value"), settings, words=(1,)),
        Table("Time", ("Stage", "Seconds"), stages),
    ]
    return [table for table in tables if table.rows]


def _word(value: object) -> str:
    if isinstance(value, bool):
        return "yes" if value else "no"
    return str(value)
