"""The report of ``laplacianshot reproduce``: tables, plain data, and a folder with a page, Markdown and figures."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from laplacianshot.episodes.plans import RECIPES, Tuned
from laplacianshot.episodes.results import Evaluations, MeanInterval, Setting
from laplacianshot.reports.evaluation import (
    DEFAULT,
    PROTOTYPES,
    EvaluationReport,
    csv_text,
    gap_cell,
    seconds_per_task,
    short_name,
    timing_table,
)
from laplacianshot.reports.evaluation_page import (
    closing_sections,
    published_section,
    report_drawings,
    report_sections,
    timing_drawings,
    timing_section,
    titled,
)
from laplacianshot.reports.figures import svg_text
from laplacianshot.reports.page import PAGE, Block, Section, block, drawing, render_page
from laplacianshot.reports.published import load_published
from laplacianshot.reports.table import (
    Cell,
    Columns,
    Table,
    columns_table,
    duration,
    json_text,
    row,
    timeless,
    to_markdown,
    write_report,
)
from laplacianshot.reports.training import training_curves
from laplacianshot.reports.tuning import lam_figure, lam_table, neighbors_table
from laplacianshot.training.state import EpochRecord

# Rows of ours in the table beside published figures.
_OURS = (*PROTOTYPES, "laplacianshot-balanced", *RECIPES)


@dataclass(frozen=True)
class StepTime:
    """How long a step took, over all attempts, and when it ended."""

    step: str
    seconds: float
    finished: str


@dataclass(frozen=True, repr=False)
class Reproduction:
    """Everything in the report of a setting."""

    name: str
    title: str
    facts: Mapping[str, str]  # data, network, training and seeds, in words
    config: Mapping[str, Any]  # of the training
    epochs: tuple[EpochRecord, ...]
    best_epoch: int  # the one whose weights were used
    tuned: tuple[tuple[str, str, Tuned], ...]  # method, transform and what was tuned
    evaluation: EvaluationReport  # without times
    transforms: tuple[Evaluations, ...]  # prototype and recipe on each transform
    pairs: tuple[tuple[str, str, str], ...]  # transform, and the names of its prototype and recipe
    times: tuple[Evaluations, ...]  # each method alone
    steps: tuple[StepTime, ...]
    environment: Mapping[str, str]
    command: str

    def results(self) -> dict[str, Any]:
        """All numbers that are the same in every run: no time, no date, no machine."""
        evaluation = timeless(self.evaluation.to_dict())
        evaluation.pop("command")
        return {
            "setting": self.name,
            "title": self.title,
            "training": {
                "config": dict(self.config),
                "best_epoch": self.best_epoch,
                "epochs": [timeless(vars(epoch)) for epoch in self.epochs],
            },
            "tuning": [
                {"method": method, "transform": transform, **timeless(one.tuning.to_dict())}
                for method, transform, one in self.tuned
            ],
            "evaluation": evaluation,
            "transforms": [timeless(evaluations.to_dict()) for evaluations in self.transforms],
        }

    def run(self) -> dict[str, Any]:
        """What is different in every run: times, dates, versions and the command."""
        return {
            "command": self.command,
            "environment": dict(self.environment),
            "steps": [vars(step) for step in self.steps],
            "methods": [
                {"setting": str(one.setting), "method": one.method, "seconds_per_task": seconds_per_task(one)}
                for evaluations in self.times
                for one in evaluations
            ],
        }

    def published_tables(self) -> tuple[Table, ...]:
        """Published figures and ours in one table, for each setting that has any."""
        key = self.evaluation.published
        if key is None:
            return ()
        tables = [standing_table(key, evaluations) for evaluations in self.evaluation.evaluations]
        found = [table for table in tables if table is not None]
        if found:
            found[-1] = replace(found[-1], notes=(*found[-1].notes, *published_notes(key)))
        return tuple(found)

    def tables(self) -> tuple[Table, ...]:
        """All tables that are the same in every run, in the order of reading."""
        first = (_facts_table("Setting", "What", self.facts), *self.published_tables(), accuracy_table(self.results()))
        transforms = tuple(_transforms_table(evaluations, self.pairs) for evaluations in self.transforms)
        tuning = (_tuned_table(self.tuned),) if self.tuned else ()
        curves = tuple(table for entry in self.tuned for table in _tuning_tables(*entry))
        return (*first, *replace(self.evaluation, published=None).tables(), *transforms, *tuning, *curves)

    def run_tables(self) -> tuple[Table, ...]:
        """Tables of times, and of what the run was made with."""
        times = tuple(timing_table(evaluations) for evaluations in self.times)
        return (*times, steps_table(self.steps), _facts_table("Environment", "Version", self.environment))


def standing_table(key: str, evaluations: Evaluations) -> Table | None:
    """Published figures and ours for the same kind of task, best first; None where nothing was published."""
    published, setting = load_published(), evaluations[0].setting
    figures = published.matching(key, setting)
    if not figures:
        return None
    rows = [(one.value, row(one.method, one.text, published.source_text(one), one.status)) for one in figures]
    for name in dict.fromkeys(name for name in _OURS if name in evaluations.names):
        one = evaluations[name]
        rows.append((100 * one.mean, row(name, one.interval.percent(digits=2), "ours", "this run", bold=True)))
    ordered = tuple(entry for _, entry in sorted(rows, key=lambda pair: -pair[0]))
    title = f"Beside published figures, {published.title(key)}: {setting.title}"
    return Table(title, ("Method", "Accuracy, %", "Source", "Status"), ordered, words=(2, 3))


def published_notes(key: str) -> tuple[str, ...]:
    """What must be said wherever figures of this data set are printed."""
    return (
        "Published figures come from trainings of their own, with other augmentation and epochs; all of ours come from "
        "the one network of this run.",
        *(caveat.text for caveat in load_published().caveats_for(key)),
    )


def accuracy_table(results: Mapping[str, Any]) -> Table:
    """Mean accuracy, method by setting, from :meth:`Reproduction.results`."""
    groups = results["evaluation"]["results"]
    settings = [Setting(**group["setting"]) for group in groups]
    columns = {
        short_name(setting, settings): {one["method"]: one for one in group["evaluations"]}
        for setting, group in zip(settings, groups, strict=True)
    }
    names = dict.fromkeys(name for column in columns.values() for name in column)
    cells: Columns = {"Method": [*names]}
    cells |= {title: [_mean(one[name]) if name in one else "" for name in names] for title, one in columns.items()}
    return columns_table("Accuracy, %", cells, bold=[name == DEFAULT for name in names])


def _mean(one: Mapping[str, Any]) -> str:
    ci95 = math.inf if one["ci95"] is None else one["ci95"]
    return MeanInterval(one["mean"], ci95, one["tasks"]).percent(digits=2)


def _transforms_table(evaluations: Evaluations, pairs: Sequence[tuple[str, str, str]]) -> Table:
    """The prototype alone and the recipe reference on each transform of the features."""
    rows = []
    for transform, prototype, recipe in pairs:
        gain = gap_cell(evaluations.difference(recipe, prototype))
        accuracies = [evaluations[name].interval.percent(digits=2) for name in (prototype, recipe)]
        rows.append(row(transform, *accuracies, gain))
    title = f"Transforms: {evaluations[0].setting.title}"
    head = ("Features", "Nearest prototype, %", "laplacianshot-reference, %", "Gain")
    return Table(title, head, tuple(rows), ("Lambda and neighbors were tuned for each transform.",))


def _tuned_table(tuned: Sequence[tuple[str, str, Tuned]]) -> Table:
    """What was chosen."""
    tunings = [one.tuning for _, _, one in tuned]
    columns: Columns = {
        "Method": [f"{method} {transform}" for method, transform, _ in tuned],
        "Tasks": [one.setting.title for one in tunings],
        "Lambda": [f"{one.lam:g}" for one in tunings],
        "Neighbors": [str(one.n_neighbors) for one in tunings],
    }
    first = tunings[0]
    splits = f"Lambda on classes of {first.lam_split}, neighbors on classes of {first.neighbor_split}"
    notes = [f"{splits}, {first.setting.tasks:,} tasks each, the same for every value."]
    return columns_table("Tuned constants", columns, notes=notes, words=["Tasks"])


def _tuning_tables(method: str, transform: str, one: Tuned) -> tuple[Table, ...]:
    """Accuracy at each lambda and number of neighbors."""
    tables = (lam_table(one, bars=False), neighbors_table(one.tuning, method))
    return tuple(replace(table, title=f"Tuning {method} {transform}, {table.title}", notes=()) for table in tables)


def _facts_table(title: str, heading: str, facts: Mapping[str, str]) -> Table:
    return Table(title, ("", heading), tuple(row(name, text) for name, text in facts.items()), words=(1,))


def steps_table(steps: Sequence[StepTime]) -> Table:
    """Time of each step."""
    rows = [row(step.step, duration(step.seconds), step.finished) for step in steps]
    rows.append(row("all", duration(sum(step.seconds for step in steps)), Cell("", "quiet"), bold=True))
    return Table("Time of each step", ("Step", "Time", "Finished, UTC"), tuple(rows), words=(2,))


RESULTS, RUN = "results.json", "run.json"

# What comes below is different in every run.
RUN_TITLE = "This run"

_TRAINING_CAPTION = "Training, epoch by epoch; the weights of the marked epoch were kept."
_TUNING_CAPTION = "Accuracy against lambda with 95% intervals; dashed: the chosen one. Every value saw the same tasks."


def write_reproduction(found: Reproduction, folder: Path) -> None:
    """Fill an existing folder; files of the same names are replaced, each atomically."""
    drawn = {"training": svg_text(training_curves(found.epochs, found.best_epoch))}
    drawn |= {_tuned_name(*entry): svg_text(lam_figure(entry[2])) for entry in found.tuned}
    drawn |= report_drawings(found.evaluation) | timing_drawings(found.times)
    texts = {
        RESULTS: json_text(found.results()),
        RUN: json_text(found.run()),
        "results.csv": csv_text(found.evaluation),
        "report.md": _markdown(found, list(drawn)),
        PAGE: _page(found, drawn),
    }
    write_report(folder, drawn, texts)


def _page(found: Reproduction, drawn: Mapping[str, str]) -> str:
    sections = [Section("setting", "Setting", (_facts_table("Setting", "What", found.facts),))]
    tables = found.published_tables()
    if tables and found.evaluation.published is not None:
        notes = published_notes(found.evaluation.published)
        sections.append(published_section("Beside published figures", tables, notes))
    accuracy = accuracy_table(found.results())
    sections.append(Section("accuracy", accuracy.title, (accuracy,)))
    sections += report_sections(found.evaluation, drawn)
    if found.transforms:
        by_transform = [_transforms_table(evaluations, found.pairs) for evaluations in found.transforms]
        sections.append(Section("transforms", "Transforms", titled(by_transform, "transforms")))
    if found.tuned:
        sections.append(Section("tuning", "Tuning", (_tuned_table(found.tuned), *_curves(found, drawn))))
    curves = block("figures", [drawing(drawn["training"], "training", _TRAINING_CAPTION)])
    sections.append(Section("training", "Training", (curves,)))
    if found.times:
        sections.append(timing_section(found.times, drawn))
    run = (steps_table(found.steps), _facts_table("Environment", "Version", found.environment))
    sections += [Section("run", RUN_TITLE, run), *closing_sections(found.evaluation.methods)]
    lead = str(found.evaluation.features)
    return render_page(f"Reproduction: {found.title}", sections, lead=lead, command=found.command)


def _markdown(found: Reproduction, figures: Sequence[str]) -> str:
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


def _curves(found: Reproduction, drawn: Mapping[str, str]) -> list[Block]:
    blocks: list[Block] = []
    for entry in found.tuned:
        tables, name = _tuning_tables(*entry), _tuned_name(*entry)
        shown = block("beside", [tables], [drawing(drawn[name], name, _TUNING_CAPTION)])
        blocks.append(block("details", tables[0].title, [shown]))
    return blocks


def _tuned_name(method: str, transform: str, one: Tuned) -> str:
    return f"lambda-{method}-{transform}-{one.tuning.setting.slug}"
