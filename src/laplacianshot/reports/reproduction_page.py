"""The folder that ``laplacianshot reproduce`` fills at its end: a page, Markdown, figures and numbers."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from laplacianshot.reports import html
from laplacianshot.reports.evaluation_page import (
    PAGE,
    Section,
    closing_sections,
    csv_text,
    report_figures,
    report_sections,
    sections_page,
    timing_figures,
    timing_section,
)
from laplacianshot.reports.evaluation_tables import setting_slug
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
from laplacianshot.reports.style import BLUE, ORANGE, QUIET, bare
from laplacianshot.reports.svg import WIDTH, inline_svg, new_figure, svg_text
from laplacianshot.reports.table import Table, to_markdown
from laplacianshot.reports.tuning import Tuned, lam_figure

if TYPE_CHECKING:
    from matplotlib.figure import Figure

RESULTS, RUN, MARKDOWN = "results.json", "run.json", "report.md"

_TRAINING_CAPTION = "Accuracy on validation tasks (1-shot nearest prototype, L2 features) and training loss, by epoch."
_TUNING_CAPTION = "Accuracy against lambda with 95% intervals; dashed: the chosen one. Every value saw the same tasks."


def write_reproduction(found: Reproduction, folder: Path) -> None:
    """Fill a folder, which must be there; files of the same names are replaced, each whole or not at all."""
    figures = reproduction_figures(found)
    for name, figure in figures.items():
        write_text(folder / f"{name}.svg", svg_text(figure))
    write_text(folder / RESULTS, json_text(found.results()))
    write_text(folder / RUN, json_text(found.run()))
    write_text(folder / "results.csv", csv_text(found.evaluation))
    write_text(folder / MARKDOWN, markdown(found, list(figures)))
    # The page last: where it is, the rest is.
    write_text(folder / PAGE, reproduction_page(found, figures))


def reproduction_figures(found: Reproduction) -> dict[str, Figure]:
    """Figures by the name of their file."""
    figures = {"training": training_figure(found)} | report_figures(found.evaluation)
    figures |= {_tuned_name(*entry): lam_figure(entry[2]) for entry in found.tuned}
    return figures | timing_figures(found.times)


def training_figure(found: Reproduction) -> Figure:
    """Validation accuracy above, training loss below, over the epochs; dashed: the epoch that was kept."""
    figure = new_figure(WIDTH, 3.6)
    above, below = figure.subplots(2, 1, sharex=True)
    epochs = [epoch.epoch for epoch in found.epochs]
    measured = [(epoch.epoch, 100 * epoch.validation) for epoch in found.epochs if epoch.validation is not None]
    for axes in (above, below):
        bare(axes)
        axes.axvline(found.best_epoch, color=QUIET, lw=1, ls=(0, (4, 3)))
    if measured:
        above.plot(*np.transpose(measured), color=BLUE, lw=2.0, marker="o", ms=3 if len(measured) < 60 else 0)
    below.plot(epochs, [epoch.loss for epoch in found.epochs], color=ORANGE, lw=2.0)
    above.set_ylabel("validation, %", fontsize=9.5, color=QUIET)
    below.set_ylabel("loss", fontsize=9.5, color=QUIET)
    below.set_xlabel("epoch", fontsize=9.5, color=QUIET, loc="right")
    return figure


def reproduction_page(found: Reproduction, figures: dict[str, Figure]) -> str:
    """The page as a text."""
    sections: list[Section] = [("setting", "Setting", [html.table_html(facts_table(found.facts))])]
    sections += _published_sections(found)
    accuracy = accuracy_table(found.evaluation.evaluations)
    sections.append(("accuracy", accuracy.title, [html.table_html(accuracy)]))
    sections += report_sections(found.evaluation, figures)
    if found.transforms:
        tables = [transforms_table(evaluations, found.pairs) for evaluations in found.transforms]
        parts = [html.heading(t.title, f"transforms-{i}", level=3) + html.table_html(t) for i, t in enumerate(tables)]
        sections.append(("transforms", "Transforms", parts))
    if found.tuned:
        sections.append(("tuning", "Tuning", [html.table_html(tuned_table(found.tuned)), *_curves(found, figures)]))
    sections.append(("training", "Training", [html.figures([_shown(figures, "training", _TRAINING_CAPTION)])]))
    if found.times:
        sections.append(timing_section(found.times, figures))
    run = [html.table_html(steps_table(found.steps)), html.table_html(environment_table(found.environment))]
    sections.append(("run", "This run", run))
    sections += closing_sections(found.evaluation.methods)
    lead = str(found.evaluation.features)
    return sections_page(f"Reproduction: {found.title}", sections, lead=lead, command=found.command)


def markdown(found: Reproduction, figures: list[str]) -> str:
    """The report as Markdown: everything that is the same in every run, then times and environment."""
    pictures = "\n\n".join(f"![{name}]({name}.svg)" for name in figures if not name.startswith("time-"))
    opening = f"# Reproduction: {found.title}\n\n{found.evaluation.features}\n\n```\n{found.command}\n```\n"
    config = f"## Training config\n\n```json\n{json.dumps(found.config, indent=2)}\n```\n"
    return "\n".join([opening, to_markdown(found.all_tables()), config, f"## Figures\n\n{pictures}\n"])


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


def _curves(found: Reproduction, figures: dict[str, Figure]) -> list[str]:
    parts = []
    for entry in found.tuned:
        name = _tuned_name(*entry)
        tables = "".join(html.table_html(table) for table in tuning_tables(*entry))
        title = tuning_tables(*entry)[0].title
        shown = html.figures([_shown(figures, name, _TUNING_CAPTION)])
        parts.append(html.details(title, html.side_by_side(tables, shown)))
    return parts


def _tuned_name(method: str, transform: str, one: Tuned) -> str:
    return f"lambda-{method}-{transform}-{setting_slug(one.tuning.setting)}"


def _shown(figures: dict[str, Figure], name: str, caption: str) -> tuple[str, str]:
    return inline_svg(figures[name], name, caption), caption
