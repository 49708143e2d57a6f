"""The report of ``laplacianshot tune``: tables, figures, a page, and the same as plain data."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from laplacianshot import __version__
from laplacianshot.episodes.plans import Tuned, TuningRun
from laplacianshot.episodes.results import Tuning, paired_difference
from laplacianshot.reports.evaluation import DEFAULT, PARTIAL, gap_cell
from laplacianshot.reports.figures import BLUE, QUIET, VERMILION, new_axes, svg_text
from laplacianshot.reports.page import PAGE, Section, block, drawing, render_page
from laplacianshot.reports.table import (
    Columns,
    Table,
    columns_table,
    interval_dict,
    json_text,
    to_markdown,
    write_report,
)

if TYPE_CHECKING:
    from matplotlib.figure import Figure

# Characters of the longest bar in a table.
_BAR = 16
_EIGHTHS = " ▏▎▍▌▋▊▉█"


@dataclass(frozen=True, repr=False)
class TuningReport(TuningRun):
    """The results of one call of the command, as tables and plain data."""

    file: str = ""
    command: str = ""

    def tables(self) -> tuple[Table, ...]:
        """Lambda, then neighbors, for each setting."""
        return tuple(
            table for one in self.tuned for table in (lam_table(one), neighbors_table(one.tuning, self.method))
        )

    def to_dict(self) -> dict[str, Any]:
        """Everything that is printed, for JSON; shares, not percent."""
        return {
            "laplacianshot": __version__,
            "command": self.command,
            "file": self.file,
            "method": self.method,
            "interrupted": self.interrupted,
            "results": [_tuned_dict(one) for one in self.tuned],
        }


def lam_table(one: Tuned, *, bars: bool = True) -> Table:
    """Accuracy at each lambda on the classes that chose it, and on the test classes; with a bar for a terminal."""
    tuning = one.tuning
    curve = tuning.lam_curve
    best = int(np.flatnonzero(tuning.lams == tuning.lam)[0])
    gaps = [paired_difference(accuracies, tuning.lam_accuracies[best]) for accuracies in tuning.lam_accuracies]
    columns: Columns = {
        "Lambda": [f"{lam:g}" for lam in tuning.lams],
        f"{tuning.lam_split or 'All rows'}, %": [point.percent(digits=2) for point in curve],
        "To the best": ["best" if place == best else gap_cell(gap) for place, gap in enumerate(gaps)],
    }
    if one.test is not None:
        columns[f"{one.test_split or 'All rows'}, %"] = [point.percent(digits=2) for point in one.test]
    if bars:
        columns[""] = [*bar_lengths([point.mean for point in curve])]
    return columns_table(
        f"{tuning.setting.title}: lambda {tuning.lam:g}",
        columns,
        bold=[place == best for place in range(len(curve))],
        notes=[tuning.setting.description],
        words=[""] if bars else [],
        spare=int(bars),
    )


def neighbors_table(tuning: Tuning, method: str) -> Table:
    """Accuracy at each number of neighbors, each at its own best lambda."""
    if method == DEFAULT:
        use = f"In Python: LaplacianShot(lam={tuning.lam:g}, n_neighbors={tuning.n_neighbors})"
    else:
        use = f"For laplacianshot evaluate: --lam {tuning.lam:g} --neighbors {tuning.n_neighbors}"
    columns: Columns = {
        "Neighbors": [str(number) for number in tuning.neighbors],
        f"{tuning.neighbor_split or 'All rows'}, %": [point.percent(digits=2) for point in tuning.neighbor_curve],
    }
    title = f"{tuning.setting.title}: {tuning.n_neighbors} neighbors"
    return columns_table(title, columns, bold=(tuning.neighbors == tuning.n_neighbors).tolist(), notes=[use])


def bar_lengths(values: list[float]) -> list[str]:
    """Bars from the smallest value, which has a sliver, to the largest.

    Examples
    --------
    >>> bar_lengths([0.1, 0.2])
    ['▏', '████████████████']
    """
    low, high = min(values), max(values)
    eighths = [max(1, round(8 * _BAR * (value - low) / (high - low))) if high > low else 8 * _BAR for value in values]
    return [_EIGHTHS[8] * (n // 8) + _EIGHTHS[n % 8].strip() for n in eighths]


def lam_figure(one: Tuned) -> Figure:
    """The paper's lambda figure: accuracy against lambda on validation and test classes, shaded 95% intervals."""
    figure, axes = new_axes(3.0, "λ", "accuracy, %")
    axes.xaxis.label.set_fontsize(10.5)
    tuning = one.tuning
    axes.axvline(tuning.lam, color=QUIET, lw=1, ls=(0, (4, 3)))
    curves = [(tuning.lam_curve, tuning.lam_split, BLUE)]
    if one.test is not None:
        curves.append((one.test, one.test_split, VERMILION))
    for curve, split, color in curves:
        means = 100 * np.array([point.mean for point in curve])
        margins = 100 * np.array([point.ci95 if np.isfinite(point.ci95) else 0.0 for point in curve])
        axes.fill_between(tuning.lams, means - margins, means + margins, color=color, alpha=0.15, lw=0)
        axes.plot(tuning.lams, means, color=color, lw=2.2, marker="o", ms=4.5, label=split or "all rows")
    axes.legend(frameon=False, fontsize=9.5, labelcolor="linecolor")
    return figure


def write_tuning(report: TuningReport, folder: Path) -> None:
    """Fill an existing folder; files of the same names are replaced, each atomically."""
    drawn = {_name(one): svg_text(lam_figure(one)) for one in report.tuned}
    texts = {"results.json": json_text(report.to_dict()), "tables.md": to_markdown(report.tables())}
    write_report(folder, drawn, texts | {PAGE: report_page(report, drawn)})


def report_page(report: TuningReport, drawn: Mapping[str, str]) -> str:
    """Return the page, with figures as SVG by name."""
    sections = []
    for one in report.tuned:
        tuning, name = one.tuning, _name(one)
        caption = "Accuracy per lambda with 95% intervals; dashed: the chosen value. All values saw the same tasks."
        tables = (lam_table(one, bars=False), neighbors_table(tuning, report.method))
        title = f"{tuning.setting.title}: lambda {tuning.lam:g}, {tuning.n_neighbors} neighbors"
        shown = block("beside", [tables], [drawing(drawn[name], name, caption)])
        sections.append(Section(name, title, (shown,)))
    opening = [block("text", PARTIAL, "warning")] if report.interrupted else []
    return render_page(
        f"Tuning {report.method}", sections, opening=opening, lead=report.file, command=report.command, links=False
    )


def _name(one: Tuned) -> str:
    return f"lambda-{one.tuning.setting.slug}"


def _tuned_dict(one: Tuned) -> dict[str, Any]:
    document = one.tuning.to_dict()
    if one.test is None:
        return document | {"test": None}
    points = [{"lam": float(lam), **interval_dict(point)} for lam, point in zip(one.tuning.lams, one.test, strict=True)]
    return document | {"test": {"split": one.test_split, "lams": points}}
