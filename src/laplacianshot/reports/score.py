"""The result of ``laplacianshot score``: tables, JSON, figures and a page."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from laplacianshot import __version__
from laplacianshot.labeling.scoring import Score
from laplacianshot.reports.figures import BLUE, FAINT, INK, QUIET, VERMILION, new_axes, save_figure, svg_text
from laplacianshot.reports.page import PAGE, Section, block, drawing, render_page
from laplacianshot.reports.table import Table, counted, json_text, percentage, row, write_report
from laplacianshot.ui.names import line

if TYPE_CHECKING:
    from matplotlib.figure import Figure

# Maximum number of classes and of mistakes in the terminal; the page and JSON have all.
_NAMED_CLASSES = 25
_NAMED_MISTAKES = 10
# Maximum number of classes in the picture, and of those whose cells have numbers.
_DRAWN_CLASSES = 40
_NUMBERED_CLASSES = 20
# Inches of a cell.
_CELL = 0.34


@dataclass(frozen=True)
class ScoreReport:
    """A score to print, draw and write."""

    score: Score
    output: str
    truth: str
    command: str = ""
    interrupted: bool = False

    def tables(self) -> Sequence[Table]:
        """Return the tables to print: the score, classes, mistakes, confidence, notes."""
        mistakes = self._mistakes(_NAMED_MISTAKES)
        tables = [self._summary(), self._classes(_NAMED_CLASSES), *([mistakes] if mistakes.rows else [])]
        if self.score.bins:
            tables.append(self._confidence())
        return [*tables, Table("Notes", (), (), self.score.notes)] if self.score.notes else tables

    def verdict(self) -> str:
        """Say how many labels are right."""
        found = self.score
        low, high = (percentage(end, 1) for end in found.interval)
        return (
            f"{found.right:,} of {counted(found.n, 'predicted label')} right: {percentage(found.accuracy, 1)}, 95% "
            f"interval {low} to {high}."
        )

    def _summary(self) -> Table:
        found = self.score
        lines = [self.verdict(), f"Mean over the classes: {percentage(found.macro_recall, 1)} of each are right."]
        if found.expected is not None and found.calibration_error is not None:
            lines.append(
                f"Mean confidence: {percentage(found.expected, 1)}, {100 * abs(found.expected - found.accuracy):.1f} "
                f"points {'above' if found.expected >= found.accuracy else 'below'} the accuracy; calibration error "
                f"(ECE) {found.calibration_error:.3f}."
            )
        if found.n_given:
            wrong = f", {found.given_wrong:,} of them differ from the truth" if found.given_wrong else ""
            lines.append(f"Not scored: {counted(found.n_given, 'given label')}{wrong}.")
        if found.n_rejected:
            lines.append(f"Not scored: {counted(found.n_rejected, 'rejected item')}.")
        return Table(f"{self.output} against {self.truth}", (), (), tuple(lines))

    def _classes(self, most: int | None = None) -> Table:
        """Classes with the most mistakes first."""
        order = sorted(self.score.per_class, key=lambda one: (one.right - one.n, one.name))
        rows = [
            row(
                line(one.name),
                f"{one.n:,}",
                "" if one.recall is None else percentage(one.recall, 1),
                "" if one.precision is None else percentage(one.precision, 1),
                f"{one.f1:.3f}",
            )
            for one in order[:most]
        ]
        more = len(order) - len(rows)
        notes = (
            [f"Classes with fewer mistakes that are not shown: {more:,}; --report and --json have all."] if more else []
        )
        notes.append(
            "Recall: share of the class that has its label. Precision: share of the label that is of the class."
        )
        return Table(
            "Classes, most mistakes first", ("Class", "Items", "Recall", "Precision", "F1"), tuple(rows), tuple(notes)
        )

    def _mistakes(self, most: int) -> Table:
        pairs = self.score.mistakes()
        rows = [row(line(true), line(found), f"{count:,}") for true, found, count in pairs[:most]]
        return Table("Most frequent mistakes", ("Is", "Labeled as", "Items"), tuple(rows), words=(1,))

    def _confidence(self) -> Table:
        rows = [
            row(
                f"{percentage(one.low)} to {percentage(one.high)}",
                f"{one.n:,}",
                percentage(one.confidence, 1),
                percentage(one.accuracy, 1),
            )
            for one in self.score.bins
        ]
        return Table("Does confidence hold?", ("Confidence", "Items", "Mean confidence", "Right"), tuple(rows))

    def to_dict(self) -> dict[str, Any]:
        """Return everything for JSON."""
        found = self.score
        return {
            "laplacianshot": __version__,
            "output": self.output,
            "truth": self.truth,
            "n": found.n,
            "right": found.right,
            "accuracy": found.accuracy,
            "interval": list(found.interval),
            "macro_recall": found.macro_recall,
            "expected": found.expected,
            "calibration_error": found.calibration_error,
            "given": found.n_given,
            "given_wrong": found.given_wrong,
            "rejected": found.n_rejected,
            "classes": [
                asdict(one) | {"recall": one.recall, "precision": one.precision, "f1": one.f1}
                for one in found.per_class
            ],
            "confusion": found.confusion.tolist(),
            "bins": [asdict(one) for one in found.bins],
            "notes": list(found.notes),
        }


def write_score(report: ScoreReport, folder: Path) -> None:
    """Fill an existing folder with a page, figures and the score as JSON; each file is replaced atomically."""
    drawn = {"confusion": svg_text(confusion_figure(report.score))}
    if report.score.bins:
        drawn["confidence"] = svg_text(_confidence_figure(report.score))
    sections = [
        Section("confusion", "What is mixed up", (drawing(drawn["confusion"], "confusion", _caption(report.score)),)),
        Section("classes", "Classes", (report._classes(),)),
    ]
    if (mistakes := report._mistakes(100)).rows:
        sections[0] = Section(sections[0].anchor, sections[0].title, (*sections[0].blocks, mistakes))
    if report.score.bins:
        shown = drawing(
            drawn["confidence"],
            "confidence",
            "Items of like confidence: the share that is right against what was stated; on the line the two are equal. "
            "Larger dots are more items.",
        )
        sections.append(
            Section("confidence", "Does confidence hold?", (block("beside", [[report._confidence()]], [shown]),))
        )
    opening = [block("text", text) for text in (*report._summary().notes[1:], *report.score.notes)]
    page = render_page(
        f"{report.output} against {report.truth}",
        sections,
        lead=report.verdict(),
        opening=opening,
        command=report.command,
    )
    write_report(folder, drawn, {"score.json": json_text(report.to_dict()), PAGE: page})


def write_confusion(score: Score, path: Path) -> None:
    """Write the picture of the confusion matrix; the ending of the path is the format."""
    save_figure(confusion_figure(score), path)


def _caption(score: Score) -> str:
    left = len(score.classes) - len(_drawn(score))
    some = f" The {_DRAWN_CLASSES} classes with the most mistakes; {left:,} are left out." if left else ""
    return (
        "Rows are true classes, columns are labels; a darker cell is a larger share of its row. Blue is right, orange "
        f"is wrong.{some}"
    )


def _drawn(score: Score) -> list[int]:
    """Return the classes to draw: those with the most mistakes, by name."""
    wrong = score.confusion.sum(axis=0) + score.confusion.sum(axis=1) - 2 * np.diag(score.confusion)
    return sorted(np.argsort(-wrong, kind="stable")[:_DRAWN_CLASSES].tolist())


def confusion_figure(score: Score) -> Figure:
    """Draw the share of each true class (row) that has each label (column), with numbers if classes are few."""
    from matplotlib.patches import Rectangle

    shown = _drawn(score)
    counts = score.confusion[np.ix_(shown, shown)]
    totals = np.maximum(score.confusion.sum(axis=1)[shown], 1)
    names = [line(score.classes[code], 28) for code in shown]
    n = len(shown)
    figure, axes = new_axes(1.0, "", grid="both")
    side = _CELL * n + 0.11 * max(map(len, names))
    figure.set_size_inches(max(4.2, side + 0.5), max(3.2, side))
    axes.grid(visible=False)
    axes.spines["bottom"].set_visible(False)
    for i, j in np.argwhere(counts).tolist():
        share = counts[i, j] / totals[i]
        color = BLUE if i == j else VERMILION
        # A single mistake must be seen as well.
        axes.add_patch(Rectangle((j - 0.47, i - 0.47), 0.94, 0.94, facecolor=color, alpha=0.12 + 0.88 * share, lw=0))
        if n <= _NUMBERED_CLASSES:
            ink = "white" if share > 0.55 else INK
            axes.text(j, i, f"{counts[i, j]:,}", ha="center", va="center", fontsize=8.5, color=ink)
    for edge in np.arange(n + 1) - 0.5:
        axes.axhline(edge, color=FAINT, lw=0.6, zorder=0)
        axes.axvline(edge, color=FAINT, lw=0.6, zorder=0)
    axes.set_xlim(-0.5, n - 0.5)
    axes.set_ylim(n - 0.5, -0.5)
    axes.set_aspect("equal")
    axes.set_xticks(range(n), names, rotation=45, ha="left", rotation_mode="anchor", fontsize=9, color=INK)
    axes.set_yticks(range(n), names, fontsize=9, color=INK)
    axes.xaxis.tick_top()
    axes.set_xlabel("label", fontsize=9.5, color=QUIET, loc="left")
    axes.set_ylabel("truth", fontsize=9.5, color=QUIET)
    return figure


def _confidence_figure(score: Score) -> Figure:
    """Draw the share that is right against the mean confidence of each bin."""
    figure, axes = new_axes(3.6, "mean confidence, %", "right, %", grid="both")
    axes.plot([0, 100], [0, 100], color=QUIET, lw=1, ls=(0, (4, 3)), zorder=1)
    x, y = (np.array([100 * getattr(one, name) for one in score.bins]) for name in ("confidence", "accuracy"))
    sizes = np.array([one.n for one in score.bins])
    axes.plot(x, y, color=BLUE, lw=1.4, zorder=2)
    axes.scatter(x, y, s=20 + 180 * sizes / sizes.max(), color=BLUE, zorder=3, lw=0)
    axes.set_xlim(-3, 103)
    axes.set_ylim(-3, 103)
    return figure
