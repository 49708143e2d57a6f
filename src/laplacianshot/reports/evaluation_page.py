"""The folder of ``laplacianshot evaluate --report``: a page, figures, and the numbers as JSON, CSV and Markdown."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from laplacianshot.episodes.plans import RECIPES
from laplacianshot.episodes.results import Convergence, Evaluation, Evaluations
from laplacianshot.reports.evaluation import (
    DEFAULT,
    PARTIAL,
    EvaluationReport,
    ablation_table,
    classes_table,
    convergence_table,
    csv_text,
    methods_table,
    overview_table,
    prototype_of,
    published_notes,
    published_tables,
    ranked,
    seconds_per_task,
    setting_table,
    timing_table,
    verdict,
)
from laplacianshot.reports.figures import INK, OBJECTIVES, QUIET, new_axes, svg_text
from laplacianshot.reports.figures import RECIPES as COLORS
from laplacianshot.reports.page import PAGE, Block, Section, block, drawing, render_page
from laplacianshot.reports.published import load_published
from laplacianshot.reports.table import Table, counted, json_text, milliseconds, to_markdown, write_report

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

_READING = (
    "Every method saw the same tasks. Accuracy is the share of right labels among the queries of a task, averaged over "
    "tasks; ± is a 95% interval of that mean, 1.96 sample standard deviations over the root of the number of tasks.",
    "Differences are paired: task by task, with an interval of their own. Green and orange mark those whose interval "
    "leaves out zero.",
    "Time is wall time from row numbers to accuracies, divided by the tasks. Updates are those of methods that count "
    "them.",
)


def write_evaluation(report: EvaluationReport, folder: Path) -> None:
    """Fill an existing folder; files of the same names are replaced, each atomically."""
    drawn = report_drawings(report)
    texts = {"results.json": json_text(report.to_dict()), "results.csv": csv_text(report)}
    texts |= {"tables.md": to_markdown(report.tables()), PAGE: report_page(report, drawn)}
    write_report(folder, drawn, texts)


def report_drawings(report: EvaluationReport) -> dict[str, str]:
    """Figures as SVG, by the name of their file."""
    drawn = {f"accuracy-{e[0].setting.slug}": svg_text(_accuracy_figure(e)) for e in report.evaluations}
    drawn |= {_trace_name(trace): svg_text(_convergence_figure(trace)) for trace in report.convergence}
    return drawn | timing_drawings(report.evaluations if report.timing else ())


def report_page(report: EvaluationReport, drawn: Mapping[str, str]) -> str:
    """Return the page, with the figures of :func:`report_drawings`."""
    sections = report_sections(report, drawn)
    if report.timing:
        sections.append(timing_section(report.evaluations, drawn))
    if (key := report.published) is not None:
        tables = published_tables(key, report.evaluations)
        title = f"Published figures, {load_published().title(key)}"
        sections.append(published_section(title, tables, published_notes(key)))
    sections += closing_sections(report.methods)
    opening = [block("text", PARTIAL, "warning")] if report.interrupted else []
    lead = str(report.features)
    return render_page("Few-shot evaluation", sections, opening=opening, lead=lead, command=report.command)


def report_sections(report: EvaluationReport, drawn: Mapping[str, str]) -> list[Section]:
    """Every setting, ablation and convergence, with the figures of :func:`report_drawings`."""
    sections: list[Section] = []
    if len(report.evaluations) > 1:
        overview = overview_table(report.evaluations)
        sections.append(Section("overview", overview.title, (overview,)))
    sections += [_setting_section(evaluations, drawn) for evaluations in report.evaluations]
    if report.ablation:
        tables = [ablation_table(evaluations, report.published) for evaluations in report.ablation]
        sections.append(Section("ablation", "Ablation", titled(tables, "ablation")))
    if report.convergence:
        shown = []
        for trace in report.convergence:
            name, tasks = _trace_name(trace), counted(len(trace.objective), "task")
            caption = f"{trace.method}, {trace.setting.title}: mean of {tasks}, and single ones in gray."
            shown.append(drawing(drawn[name], name, caption))
        blocks = (convergence_table(report.convergence), block("figures", shown))
        sections.append(Section("convergence", "Convergence", blocks))
    return sections


def titled(tables: Sequence[Table], anchor: str) -> tuple[Block, ...]:
    """Tables, each under a heading of its own."""
    pairs = ((block("heading", table.title, f"{anchor}-{number}"), table) for number, table in enumerate(tables))
    return tuple(block for pair in pairs for block in pair)


def timing_section(all_evaluations: Sequence[Evaluations], drawn: Mapping[str, str]) -> Section:
    """Times side by side, with the figures of :func:`timing_drawings`."""
    blocks: list[Block] = []
    for evaluations in all_evaluations:
        table, name = timing_table(evaluations), f"time-{evaluations[0].setting.slug}"
        shown = drawing(drawn[name], name, "Time per task, each method run alone.")
        blocks += [block("heading", table.title, name), block("beside", [[table]], [shown])]
    return Section("time", "Time", tuple(blocks))


def timing_drawings(all_evaluations: Sequence[Evaluations]) -> dict[str, str]:
    """Figures of times as SVG, by the name of their file."""
    return {f"time-{e[0].setting.slug}": svg_text(_timing_figure(e)) for e in all_evaluations}


def closing_sections(methods: Mapping[str, str]) -> list[Section]:
    """What the methods ran with, and how to read the tables."""
    return [
        Section("methods", "Methods", (methods_table(methods),)),
        Section("reading", "How to read this", tuple(block("text", text) for text in _READING)),
    ]


def _setting_section(evaluations: Evaluations, drawn: Mapping[str, str]) -> Section:
    setting = evaluations[0].setting
    caption = "Mean accuracy with its 95% interval; dashed: nearest prototype."
    name = f"accuracy-{setting.slug}"
    shown = block("beside", [[setting_table(evaluations)]], [drawing(drawn[name], name, caption)])
    blocks: list[Block] = [block("text", verdict(evaluations)), shown]
    classes = classes_table(evaluations)
    if classes.rows:
        blocks.append(block("details", "Accuracy per class, lowest first", [classes]))
    return Section(setting.slug, setting.title, tuple(blocks))


def published_section(title: str, tables: Sequence[Table], notes: Sequence[str]) -> Section:
    """Tables of published figures, below what must be said about them."""
    bare_tables = [replace(table, notes=tuple(note for note in table.notes if note not in notes)) for table in tables]
    blocks = (*(block("text", note, "warning") for note in notes), *titled(bare_tables, "published"))
    return Section("published", title, blocks)


def _trace_name(trace: Convergence) -> str:
    return f"convergence-{trace.method}-{trace.setting.slug}"


# Inches of a line in a figure.
_LINE = 0.235

# Single tasks drawn beside the mean of all.
_SINGLE_TASKS = 6
# The axis ends where this share of all tasks has ended.
_SHOWN_TASKS = 0.95


def _accuracy_figure(evaluations: Evaluations) -> Figure:
    """Mean accuracy with its 95% interval, one line per method, best on top; dashed: nearest prototype."""
    order = ranked(evaluations)[::-1]
    figure, axes = _lines(order, "accuracy, %")
    prototype = prototype_of(evaluations)
    if prototype is not None:
        axes.axvline(100 * evaluations[prototype].mean, color=QUIET, lw=1, ls=(0, (4, 3)), zorder=1)
    for place, evaluation in enumerate(order):
        mean, color = 100 * evaluation.mean, _color(evaluation.method)
        margin = 100 * evaluation.ci95
        if np.isfinite(margin):
            axes.plot([mean - margin, mean + margin], [place, place], color=color, lw=2.2, solid_capstyle="butt")
        axes.plot([mean], [place], marker="o", ms=6, color=color, zorder=3)
        _beside(axes, place, f"{mean:.2f}", evaluation.method)
    axes.margins(x=0.06)
    return figure


def _timing_figure(evaluations: Evaluations) -> Figure:
    """Milliseconds per task on a logarithmic scale, fastest on top."""
    from matplotlib.ticker import FuncFormatter, LogLocator, NullLocator

    order = sorted(evaluations, key=seconds_per_task, reverse=True)
    figure, axes = _lines(order, "milliseconds per task, logarithmic")
    times = [1000 * seconds_per_task(evaluation) for evaluation in order]
    left = min(times) / 2
    for place, (evaluation, time) in enumerate(zip(order, times, strict=True)):
        axes.plot([left, time], [place, place], color=_color(evaluation.method), lw=7, solid_capstyle="butt")
        _beside(axes, place, milliseconds(time / 1000), evaluation.method)
    axes.set_xscale("log")
    axes.set_xlim(left, 1.15 * max(times))
    few = max(times) / left < 30
    axes.xaxis.set_major_locator(LogLocator(subs=(1, 2, 5) if few else (1,)))
    axes.xaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))
    axes.xaxis.set_minor_locator(NullLocator())
    return figure


def _convergence_figure(trace: Convergence) -> Figure:
    """The objective after each update: the mean of all tasks, and a few single ones from their own first value."""
    from matplotlib.ticker import MaxNLocator

    recipe = RECIPES[trace.method]
    figure, axes = new_axes(2.9, "update", f"{OBJECTIVES[recipe]} minus its first value")
    # Tasks start at very different values: what counts is the way from there.
    change = trace.filled - trace.filled[:, :1]
    # A few stragglers would squeeze all others into the first part of the axis.
    change = change[:, : math.ceil(np.quantile(trace.iterations, _SHOWN_TASKS))]
    updates = np.arange(1, change.shape[1] + 1)
    for line in change[:_SINGLE_TASKS]:
        axes.plot(updates, line, color=QUIET, lw=0.9, alpha=0.6)
    axes.plot(updates, change.mean(axis=0), color=COLORS[recipe], lw=2.6, marker="o", ms=4 if len(updates) <= 40 else 0)
    axes.xaxis.set_major_locator(MaxNLocator(integer=True))
    return figure


def _lines(order: Sequence[Evaluation], x: str) -> tuple[Figure, Axes]:
    """Axes with a line for each method, named on the left."""
    figure, axes = new_axes(0.65 + _LINE * len(order), x, grid="x")
    axes.set_ylim(-0.6, len(order) - 0.4)
    axes.set_yticks(range(len(order)), [evaluation.method for evaluation in order])
    for label, evaluation in zip(axes.get_yticklabels(), order, strict=True):
        label.set_color(_color(evaluation.method) if evaluation.method in RECIPES else INK)
        label.set_fontweight("bold" if evaluation.method == DEFAULT else "normal")
    return figure, axes


def _beside(axes: Axes, place: int, text: str, method: str) -> None:
    weight = "bold" if method == DEFAULT else "normal"
    right = axes.get_yaxis_transform()
    axes.text(1.02, place, text, transform=right, va="center", fontsize=9.5, color=INK, fontweight=weight)


def _color(method: str) -> str:
    return COLORS[RECIPES[method]] if method in RECIPES else QUIET
