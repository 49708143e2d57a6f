"""The folder that ``laplacianshot evaluate --report`` fills: a page, figures, and the numbers as JSON, CSV and text."""

from __future__ import annotations

import csv
import io
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

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
    setting_slug,
    setting_table,
    setting_title,
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
    for name, figure in report_figures(report).items():
        write_text(folder / f"{name}.svg", svg_text(figure))
    write_text(folder / "results.json", json_text(report.to_dict()))
    write_text(folder / "results.csv", csv_text(report))
    write_text(folder / "tables.md", to_markdown(report.tables()))
    # The page last: where it is, the rest is.
    write_text(folder / PAGE, report_page(report))


def csv_text(report: EvaluationReport) -> str:
    """A line a method and setting, under a line of names."""
    rows = csv_rows(report)
    buffer = io.StringIO()
    writer = csv.DictWriter(buffer, fieldnames=list(rows[0]) if rows else ["method"], lineterminator="\n")
    writer.writeheader()
    writer.writerows(rows)
    return buffer.getvalue()


def report_figures(report: EvaluationReport) -> dict[str, Figure]:
    """Figures by the name of their file."""
    figures = {f"accuracy-{setting_slug(e[0].setting)}": accuracy_figure(e) for e in report.evaluations}
    figures |= {_trace_name(trace): convergence_figure(trace) for trace in report.convergence}
    if report.timing:
        figures |= {f"time-{setting_slug(e[0].setting)}": timing_figure(e) for e in report.evaluations}
    return figures


def report_page(report: EvaluationReport) -> str:
    """The page as a text."""
    drawn = report_figures(report)
    sections: list[tuple[str, str, list[str]]] = []
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
    if report.timing:
        sections.append(("time", "Time", [_timing_part(evaluations, drawn) for evaluations in report.evaluations]))
    if report.published is not None:
        sections.append(_published_section(report.published, report.evaluations))
    sections.append(("methods", "Methods", [html.table_html(methods_table(report.methods))]))
    sections.append(("reading", "How to read this", [html.paragraph(text) for text in _READING]))
    parts = [html.warning(PARTIAL)] if report.interrupted else []
    parts.append(html.contents([(anchor, title) for anchor, title, _ in sections]))
    if report.command:
        parts.append(html.code(report.command))
    for anchor, title, content in sections:
        parts += [html.heading(title, anchor), *content]
    return html.page("Few-shot evaluation", parts, lead=str(report.features))


def _setting_section(evaluations: Evaluations, drawn: dict[str, Figure]) -> tuple[str, str, list[str]]:
    setting = evaluations[0].setting
    caption = "Mean accuracy with its 95% interval; dashed: nearest prototype."
    shown = _shown(drawn, f"accuracy-{setting_slug(setting)}", caption)
    table = html.table_html(setting_table(evaluations))
    parts = [html.paragraph(verdict(evaluations)), html.side_by_side(table, html.figures([shown]))]
    classes = classes_table(evaluations)
    if classes.rows:
        parts.append(html.details("Accuracy of each class, hardest first", html.table_html(classes)))
    return setting_slug(setting), setting_title(setting), parts


def _timing_part(evaluations: Evaluations, drawn: dict[str, Figure]) -> str:
    table, name = timing_table(evaluations), f"time-{setting_slug(evaluations[0].setting)}"
    shown = _shown(drawn, name, "Time of a task, each method run alone.")
    return html.heading(table.title, name, level=3) + html.side_by_side(html.table_html(table), html.figures([shown]))


def _published_section(key: str, all_evaluations: tuple[Evaluations, ...]) -> tuple[str, str, list[str]]:
    parts = [html.warning(note) for note in published_notes(key)]
    for number, table in enumerate(published_tables(key, all_evaluations)):
        own = replace(table, notes=tuple(note for note in table.notes if note not in published_notes(key)))
        parts.append(html.heading(table.title, f"published-{number}", level=3) + html.table_html(own))
    return "published", f"Published figures, {load_published().title(key)}", parts


def _shown(drawn: dict[str, Figure], name: str, caption: str) -> tuple[str, str]:
    return inline_svg(drawn[name], name, caption), caption


def _trace_name(trace: Convergence) -> str:
    return f"convergence-{trace.method}-{setting_slug(trace.setting)}"


def _trace_caption(trace: Convergence) -> str:
    tasks = f"mean of {counted(len(trace.objective), 'task')}, and single ones in grey"
    return f"{trace.method}, {setting_title(trace.setting)}: {tasks}."
