"""What ``laplacianshot tune`` found: tables, figures, a page, and the same as plain data."""

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
from laplacianshot.reports.figures import BLUE, QUIET, VERMILION, WIDTH, bare, inline_svg, new_figure, svg_text
from laplacianshot.reports.page import PAGE, Beside, Figures, Section, Text, drawing, render_page
from laplacianshot.reports.table import Table, row, to_markdown
from laplacianshot.reports.text import interval_dict, json_text, percent, write_text

if TYPE_CHECKING:
    from matplotlib.figure import Figure

# Characters of the longest bar in a table.
_BAR = 16
_EIGHTHS = " ▏▎▍▌▋▊▉█"


@dataclass(frozen=True, repr=False)
class TuningReport:
    """Everything that one call of the command found.

    Attributes
    ----------
    file : str
    method : str
    tuned : tuple of Tuned
        One for each setting.
    command : str
        What made it.
    interrupted : bool
    """

    file: str
    method: str
    tuned: tuple[Tuned, ...]
    command: str = ""
    interrupted: bool = False

    @classmethod
    def of(cls, run: TuningRun, file: str, command: str = "") -> TuningReport:
        """The report of a run."""
        return cls(file, run.method, run.tuned, command, run.interrupted)

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
    rows = []
    lengths = bar_lengths([point.mean for point in curve])
    for place, (lam, point, length) in enumerate(zip(tuning.lams, curve, lengths, strict=True)):
        gap = paired_difference(tuning.lam_accuracies[place], tuning.lam_accuracies[best])
        cells = [f"{lam:g}", percent(point, digits=2), "best" if place == best else gap_cell(gap)]
        if one.test is not None:
            cells.append(percent(one.test[place], digits=2))
        if bars:
            cells.append(length)
        rows.append(row(*cells, bold=place == best))
    head = ["Lambda", f"{tuning.lam_split or 'All rows'}, %", "To the best"]
    if one.test is not None:
        head.append(f"{one.test_split or 'All rows'}, %")
    if bars:
        head.append("")
    title = f"{tuning.setting.title}: lambda {tuning.lam:g}"
    notes = (tuning.setting.description,)
    words, spare = ((len(head) - 1,), 1) if bars else ((), 0)
    return Table(title, tuple(head), tuple(rows), notes, words, spare)


def neighbors_table(tuning: Tuning, method: str) -> Table:
    """Accuracy at each number of neighbors, each at its own best lambda."""
    rows = []
    for number, point in zip(tuning.neighbors, tuning.neighbor_curve, strict=True):
        rows.append(row(str(number), percent(point, digits=2), bold=int(number) == tuning.n_neighbors))
    title = f"{tuning.setting.title}: {tuning.n_neighbors} neighbors"
    if method == DEFAULT:
        use = f"In Python: LaplacianShot(lam={tuning.lam:g}, n_neighbors={tuning.n_neighbors})"
    else:
        use = f"For laplacianshot evaluate: --lam {tuning.lam:g} --neighbors {tuning.n_neighbors}"
    return Table(title, ("Neighbors", f"{tuning.neighbor_split or 'All rows'}, %"), tuple(rows), (use,))


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
    figure = new_figure(WIDTH, 3.0)
    axes = figure.add_subplot()
    bare(axes)
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
    axes.set_xlabel("λ", fontsize=10.5, color=QUIET, loc="right")
    axes.set_ylabel("accuracy, %", fontsize=9.5, color=QUIET)
    axes.legend(frameon=False, fontsize=9.5, labelcolor="linecolor")
    return figure


def write_report(report: TuningReport, folder: Path) -> None:
    """Fill a folder, which must be there; files of the same names are replaced, each whole or not at all."""
    drawn = report_drawings(report)
    for name, text in drawn.items():
        write_text(folder / f"{name}.svg", text)
    write_text(folder / "results.json", json_text(report.to_dict()))
    write_text(folder / "tables.md", to_markdown(report.tables()))
    # The page last: where it is, the rest is.
    write_text(folder / PAGE, report_page(report, drawn))


def report_drawings(report: TuningReport) -> dict[str, str]:
    """Figures as SVG, by the name of their file."""
    return {_name(one): svg_text(lam_figure(one)) for one in report.tuned}


def report_page(report: TuningReport, drawings: Mapping[str, str] | None = None) -> str:
    """Return the page, with the figures of :func:`report_drawings`."""
    drawn = report_drawings(report) if drawings is None else drawings
    sections = []
    for one in report.tuned:
        tuning, name = one.tuning, _name(one)
        caption = "Accuracy per lambda with 95% intervals; dashed: the chosen value. All values saw the same tasks."
        shown = Figures((drawing(inline_svg(drawn[name], name, caption), caption),))
        tables = (lam_table(one, bars=False), neighbors_table(tuning, report.method))
        title = f"{tuning.setting.title}: lambda {tuning.lam:g}, {tuning.n_neighbors} neighbors"
        sections.append(Section(name, title, (Beside((tables,), shown),)))
    opening = [Text(PARTIAL, "warning")] if report.interrupted else []
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
