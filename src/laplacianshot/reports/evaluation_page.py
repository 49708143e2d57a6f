"""The folder that ``laplacianshot evaluate --report`` fills: a page, figures, and the numbers as JSON, CSV and text."""

from __future__ import annotations

import csv
import io
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, TypeAlias

from laplacianshot.episodes.results import Convergence, Evaluations
from laplacianshot.reports import html
from laplacianshot.reports.evaluation import EvaluationReport, csv_rows, verdict
from laplacianshot.reports.evaluation_figure import accuracy_figure, convergence_figure, timing_figure
from laplacianshot.reports.evaluation_tables import (
    PARTIAL,
    ablation_table,
    classes_table,
    convergence_table,
    methods_table,
    overview_table,
    published_notes,
    published_tables,
    setting_table,
    timing_table,
)
from laplacianshot.reports.files import json_text, write_text
from laplacianshot.reports.published import load_published
from laplacianshot.reports.svg import inline_svg, svg_text
from laplacianshot.reports.table import to_markdown
from laplacianshot.reports.text import counted

if TYPE_CHECKING:
    from matplotlib.figure import Figure

PAGE = "index.html"

# Anchor, title and elements of a part of a page.
Section: TypeAlias = tuple[str, str, list[str]]

_READING = (
    "Every method saw the same tasks. Accuracy is the share of right labels among the queries of a task, averaged over "
    "tasks; ± is a 95% interval of that mean, 1.96 sample standard deviations over the root of the number of tasks.",
    "Differences are paired: task by task, with an interval of their own. Green and orange mark those whose interval "
    "leaves out zero.",
    "Time is wall time from row numbers to accuracies, divided by the tasks. Updates are those of methods that count "
    "them.",
)


def write_report(report: EvaluationReport, folder: Path) -> None:
    """Fill a folder, which must be there; files of the same names are replaced, each whole or not at all."""
    drawn = report_drawings(report)
    for name, text in drawn.items():
        write_text(folder / f"{name}.svg", text)
    write_text(folder / "results.json", json_text(report.to_dict()))
    write_text(folder / "results.csv", csv_text(report))
    write_text(folder / "tables.md", to_markdown(report.tables()))
    # The page last: where it is, the rest is.
    write_text(folder / PAGE, report_page(report, drawn))


def csv_text(report: EvaluationReport) -> str:
    """A line a method and setting, under a line of names."""
    rows = csv_rows(report)
    buffer = io.StringIO()
    writer = csv.DictWriter(buffer, fieldnames=list(rows[0]) if rows else ["method"], lineterminator="\n")
    writer.writeheader()
    writer.writerows(rows)
    return buffer.getvalue()


def report_drawings(report: EvaluationReport) -> dict[str, str]:
    """Figures as SVG, by the name of their file."""
    figures = {f"accuracy-{e[0].setting.slug}": accuracy_figure(e) for e in report.evaluations}
    figures |= {_trace_name(trace): convergence_figure(trace) for trace in report.convergence}
    if report.timing:
        figures |= timing_figures(report.evaluations)
    return drawings(figures)


def drawings(figures: Mapping[str, Figure]) -> dict[str, str]:
    """Figures as SVG, each drawn once."""
    return {name: svg_text(figure) for name, figure in figures.items()}


def report_page(report: EvaluationReport, drawings: Mapping[str, str] | None = None) -> str:
    """The page as a text, with the figures of :func:`report_drawings`."""
    drawn = report_drawings(report) if drawings is None else drawings
    sections = report_sections(report, drawn)
    if report.timing:
        sections.append(timing_section(report.evaluations, drawn))
    if report.published is not None:
        sections.append(_published_section(report.published, report.evaluations))
    sections += closing_sections(report.methods)
    opening = [html.warning(PARTIAL)] if report.interrupted else []
    return sections_page("Few-shot evaluation", sections, opening, lead=str(report.features), command=report.command)


def report_sections(report: EvaluationReport, drawn: Mapping[str, str]) -> list[Section]:
    """Every setting, ablation and convergence, with the figures of :func:`report_drawings`."""
    sections: list[Section] = []
    if len(report.evaluations) > 1:
        overview = overview_table(report.evaluations)
        sections.append(("overview", overview.title, [html.table_html(overview)]))
    sections += [_setting_section(evaluations, drawn) for evaluations in report.evaluations]
    if report.ablation:
        tables = [ablation_table(evaluations, report.published) for evaluations in report.ablation]
        parts = [html.heading(t.title, f"ablation-{i}", level=3) + html.table_html(t) for i, t in enumerate(tables)]
        sections.append(("ablation", "Ablation", parts))
    if report.convergence:
        table = html.table_html(convergence_table(report.convergence))
        shown = [_shown(drawn, _trace_name(trace), _trace_caption(trace)) for trace in report.convergence]
        sections.append(("convergence", "Convergence", [table, html.figures(shown)]))
    return sections


def timing_section(all_evaluations: Sequence[Evaluations], drawn: Mapping[str, str]) -> Section:
    """Times side by side, with drawings of :func:`timing_figures`."""
    return "time", "Time", [_timing_part(evaluations, drawn) for evaluations in all_evaluations]


def timing_figures(all_evaluations: Sequence[Evaluations]) -> dict[str, Figure]:
    """Figures of times by the name of their file."""
    return {f"time-{e[0].setting.slug}": timing_figure(e) for e in all_evaluations}


def closing_sections(methods: Mapping[str, str]) -> list[Section]:
    """What the methods ran with, and how to read the tables."""
    return [
        ("methods", "Methods", [html.table_html(methods_table(methods))]),
        ("reading", "How to read this", [html.paragraph(text) for text in _READING]),
    ]


def sections_page(
    title: str, sections: Sequence[Section], opening: Sequence[str] = (), *, lead: str = "", command: str = ""
) -> str:
    """A page of sections, with links to them at its top."""
    parts = [*opening, html.contents([(anchor, name) for anchor, name, _ in sections])]
    if command:
        parts.append(html.code(command))
    for anchor, name, content in sections:
        parts += [html.heading(name, anchor), *content]
    return html.page(title, parts, lead=lead)


def _setting_section(evaluations: Evaluations, drawn: Mapping[str, str]) -> Section:
    setting = evaluations[0].setting
    caption = "Mean accuracy with its 95% interval; dashed: nearest prototype."
    shown = _shown(drawn, f"accuracy-{setting.slug}", caption)
    table = html.table_html(setting_table(evaluations))
    parts = [html.paragraph(verdict(evaluations)), html.side_by_side(table, html.figures([shown]))]
    classes = classes_table(evaluations)
    if classes.rows:
        parts.append(html.details("Accuracy of each class, hardest first", html.table_html(classes)))
    return setting.slug, setting.title, parts


def _timing_part(evaluations: Evaluations, drawn: Mapping[str, str]) -> str:
    table, name = timing_table(evaluations), f"time-{evaluations[0].setting.slug}"
    shown = _shown(drawn, name, "Time of a task, each method run alone.")
    return html.heading(table.title, name, level=3) + html.side_by_side(html.table_html(table), html.figures([shown]))


def _published_section(key: str, all_evaluations: tuple[Evaluations, ...]) -> Section:
    parts = [html.warning(note) for note in published_notes(key)]
    for number, table in enumerate(published_tables(key, all_evaluations)):
        own = replace(table, notes=tuple(note for note in table.notes if note not in published_notes(key)))
        parts.append(html.heading(table.title, f"published-{number}", level=3) + html.table_html(own))
    return "published", f"Published figures, {load_published().title(key)}", parts


def _shown(drawn: Mapping[str, str], name: str, caption: str) -> tuple[str, str]:
    return inline_svg(drawn[name], name, caption), caption


def _trace_name(trace: Convergence) -> str:
    return f"convergence-{trace.method}-{trace.setting.slug}"


def _trace_caption(trace: Convergence) -> str:
    tasks = f"mean of {counted(len(trace.objective), 'task')}, and single ones in gray"
    return f"{trace.method}, {trace.setting.title}: {tasks}."
