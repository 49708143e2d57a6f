"""The folder that ``laplacianshot reproduce`` fills at its end: a page, Markdown, figures and numbers."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from laplacianshot.episodes.plans import Tuned
from laplacianshot.reports import html
from laplacianshot.reports.evaluation_page import (
    PAGE,
    Section,
    closing_sections,
    csv_text,
    drawings,
    report_drawings,
    report_sections,
    sections_page,
    timing_figures,
    timing_section,
)
from laplacianshot.reports.files import json_text, write_text
from laplacianshot.reports.reproduction import (
    Reproduction,
    accuracy_table,
    environment_table,
    facts_table,
    published_notes,
    steps_table,
    transforms_table,
    tuned_table,
    tuning_tables,
)
from laplacianshot.reports.svg import inline_svg
from laplacianshot.reports.table import Table, to_markdown
from laplacianshot.reports.training_figure import training_curves
from laplacianshot.reports.tuning import lam_figure

if TYPE_CHECKING:
    pass

RESULTS, RUN, MARKDOWN = "results.json", "run.json", "report.md"

# What comes below is different in every run.
RUN_TITLE = "This run"

_TRAINING_CAPTION = "Training, epoch by epoch; the weights of the marked epoch were kept."
_TUNING_CAPTION = "Accuracy against lambda with 95% intervals; dashed: the chosen one. Every value saw the same tasks."


def write_reproduction(found: Reproduction, folder: Path) -> None:
    """Fill a folder, which must be there; files of the same names are replaced, each whole or not at all."""
    drawn = reproduction_drawings(found)
    for name, text in drawn.items():
        write_text(folder / f"{name}.svg", text)
    write_text(folder / RESULTS, json_text(found.results()))
    write_text(folder / RUN, json_text(found.run()))
    write_text(folder / "results.csv", csv_text(found.evaluation))
    write_text(folder / MARKDOWN, markdown(found, list(drawn)))
    # The page last: where it is, the rest is.
    write_text(folder / PAGE, reproduction_page(found, drawn))


def reproduction_drawings(found: Reproduction) -> dict[str, str]:
    """Figures as SVG, by the name of their file."""
    figures = {"training": training_curves(found.epochs, found.best_epoch)}
    figures |= {_tuned_name(*entry): lam_figure(entry[2]) for entry in found.tuned}
    return drawings(figures) | report_drawings(found.evaluation) | drawings(timing_figures(found.times))


def reproduction_page(found: Reproduction, drawn: Mapping[str, str]) -> str:
    """The page as a text."""
    sections: list[Section] = [("setting", "Setting", [html.table_html(facts_table(found.facts))])]
    sections += _published_sections(found)
    accuracy = accuracy_table(found.results())
    sections.append(("accuracy", accuracy.title, [html.table_html(accuracy)]))
    sections += report_sections(found.evaluation, drawn)
    if found.transforms:
        tables = [transforms_table(evaluations, found.pairs) for evaluations in found.transforms]
        parts = [html.heading(t.title, f"transforms-{i}", level=3) + html.table_html(t) for i, t in enumerate(tables)]
        sections.append(("transforms", "Transforms", parts))
    if found.tuned:
        sections.append(("tuning", "Tuning", [html.table_html(tuned_table(found.tuned)), *_curves(found, drawn)]))
    sections.append(("training", "Training", [html.figures([_shown(drawn, "training", _TRAINING_CAPTION)])]))
    if found.times:
        sections.append(timing_section(found.times, drawn))
    run = [html.table_html(steps_table(found.steps)), html.table_html(environment_table(found.environment))]
    sections.append(("run", RUN_TITLE, run))
    sections += closing_sections(found.evaluation.methods)
    lead = str(found.evaluation.features)
    return sections_page(f"Reproduction: {found.title}", sections, lead=lead, command=found.command)


def markdown(found: Reproduction, figures: Sequence[str]) -> str:
    """The report as Markdown: first what is the same in every run, then times and environment."""
    drawn = [name for name in figures if not name.startswith("time-")]
    return "\n".join(
        [
            f"# Reproduction: {found.title}\n\n{found.evaluation.features}\n\n```\n{found.command}\n```\n",
            to_markdown(found.tables()),
            f"## Training config\n\n```json\n{json.dumps(found.config, indent=2)}\n```\n",
            "## Figures\n\n" + "\n\n".join(f"![{name}]({name}.svg)" for name in drawn) + "\n",
            f"# {RUN_TITLE}\n",
            to_markdown(found.run_tables()),
        ]
    )


def _published_sections(found: Reproduction) -> list[Section]:
    tables = found.published_tables()
    if not tables or found.evaluation.published is None:
        return []
    notes = published_notes(found.evaluation.published)
    parts = [html.warning(note) for note in notes]
    for number, table in enumerate(tables):
        bare_table = html.table_html(_without_notes(table))
        parts.append(html.heading(table.title, f"published-{number}", level=3) + bare_table)
    return [("published", "Beside published figures", parts)]


def _without_notes(table: Table) -> Table:
    return replace(table, notes=())


def _curves(found: Reproduction, drawn: Mapping[str, str]) -> list[str]:
    parts = []
    for entry in found.tuned:
        name = _tuned_name(*entry)
        tables = "".join(html.table_html(table) for table in tuning_tables(*entry))
        title = tuning_tables(*entry)[0].title
        shown = html.figures([_shown(drawn, name, _TUNING_CAPTION)])
        parts.append(html.details(title, html.side_by_side(tables, shown)))
    return parts


def _tuned_name(method: str, transform: str, one: Tuned) -> str:
    return f"lambda-{method}-{transform}-{one.tuning.setting.slug}"


def _shown(drawn: Mapping[str, str], name: str, caption: str) -> tuple[str, str]:
    return inline_svg(drawn[name], name, caption), caption
