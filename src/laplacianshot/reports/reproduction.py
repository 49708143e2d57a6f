"""What ``laplacianshot reproduce`` found: tables, and the same as plain data."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from laplacianshot.episodes.plans import RECIPES, Tuned
from laplacianshot.episodes.results import Evaluations, MeanInterval, Setting
from laplacianshot.reports.evaluation import EvaluationReport
from laplacianshot.reports.evaluation_tables import (
    DEFAULT,
    PROTOTYPES,
    gap_cell,
    short_name,
    timing_table,
)
from laplacianshot.reports.published import load_published
from laplacianshot.reports.table import Cell, Table, row
from laplacianshot.reports.text import percent
from laplacianshot.reports.tuning import lam_table, neighbors_table
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
    """Everything that a setting's report holds.

    Attributes
    ----------
    name, title : str
    facts : dict of str to str
        Data, network, training and seeds, in words.
    config : dict
        Of the training.
    epochs : tuple of EpochRecord
    best_epoch : int
        Whose weights were used.
    tuned : tuple of (method, transform, Tuned)
    evaluation : EvaluationReport
        Without times.
    transforms : tuple of Evaluations
        Prototype and recipe on each transform, ``pairs`` of method names.
    pairs : tuple of (transform, prototype, recipe)
    times : tuple of Evaluations
        Each method alone.
    steps : tuple of StepTime
    environment : dict of str to str
    command : str
    """

    name: str
    title: str
    facts: Mapping[str, str]
    config: Mapping[str, Any]
    epochs: tuple[EpochRecord, ...]
    best_epoch: int
    tuned: tuple[tuple[str, str, Tuned], ...]
    evaluation: EvaluationReport
    transforms: tuple[Evaluations, ...]
    pairs: tuple[tuple[str, str, str], ...]
    times: tuple[Evaluations, ...]
    steps: tuple[StepTime, ...]
    environment: Mapping[str, str]
    command: str

    def results(self) -> dict[str, Any]:
        """All numbers that are the same in every run: no time, no date, no machine."""
        evaluation = _timeless(self.evaluation.to_dict())
        evaluation.pop("command")
        return {
            "setting": self.name,
            "title": self.title,
            "training": {
                "config": dict(self.config),
                "best_epoch": self.best_epoch,
                "epochs": [_timeless(vars(epoch)) for epoch in self.epochs],
            },
            "tuning": [
                {"method": method, "transform": transform, **_timeless(one.tuning.to_dict())}
                for method, transform, one in self.tuned
            ],
            "evaluation": evaluation,
            "transforms": [_timeless(evaluations.to_dict()) for evaluations in self.transforms],
        }

    def run(self) -> dict[str, Any]:
        """What is different in every run: times, dates, versions and the command."""
        return {
            "command": self.command,
            "environment": dict(self.environment),
            "steps": [vars(step) for step in self.steps],
            "methods": [
                {
                    "setting": str(evaluations[0].setting),
                    "method": one.method,
                    "seconds_per_task": one.seconds / one.n_tasks,
                }
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
        first = (facts_table(self.facts), *self.published_tables(), accuracy_table(self.results()))
        transforms = tuple(transforms_table(evaluations, self.pairs) for evaluations in self.transforms)
        tuning = (tuned_table(self.tuned),) if self.tuned else ()
        curves = tuple(table for entry in self.tuned for table in tuning_tables(*entry))
        return (*first, *replace(self.evaluation, published=None).tables(), *transforms, *tuning, *curves)

    def run_tables(self) -> tuple[Table, ...]:
        """Tables of times, and of what the run was made with."""
        times = tuple(timing_table(evaluations) for evaluations in self.times)
        return (*times, steps_table(self.steps), environment_table(self.environment))


def standing_table(key: str, evaluations: Evaluations) -> Table | None:
    """Published figures and ours for the same kind of task, best first; None where nothing was published."""
    published, setting = load_published(), evaluations[0].setting
    figures = published.matching(key, setting)
    if not figures:
        return None
    rows = [
        (
            figure.value,
            row(figure.method, figure.text, f"{published.sources[figure.source].short}, {figure.place}", figure.status),
        )
        for figure in figures
    ]
    for name in dict.fromkeys(name for name in _OURS if name in evaluations.names):
        one = evaluations[name]
        rows.append((100 * one.mean, row(name, percent(one.interval, digits=2), "ours", "this run", bold=True)))
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
    """Mean accuracy, method by setting, of what :meth:`Reproduction.results` has given."""
    groups = results["evaluation"]["results"]
    settings = [Setting(**group["setting"]) for group in groups]
    columns = {
        short_name(setting, settings): {one["method"]: one for one in group["evaluations"]}
        for setting, group in zip(settings, groups, strict=True)
    }
    names = dict.fromkeys(name for column in columns.values() for name in column)
    rows = []
    for name in names:
        cells = [_mean(column[name]) if name in column else "" for column in columns.values()]
        rows.append(row(name, *cells, bold=name == DEFAULT))
    return Table("Accuracy, %", ("Method", *columns), tuple(rows))


def _mean(one: Mapping[str, Any]) -> str:
    ci95 = math.inf if one["ci95"] is None else one["ci95"]
    return percent(MeanInterval(one["mean"], ci95, one["tasks"]), digits=2)


def transforms_table(evaluations: Evaluations, pairs: Sequence[tuple[str, str, str]]) -> Table:
    """The prototype alone and the recipe reference on each transform of the features."""
    rows = []
    for transform, prototype, recipe in pairs:
        gain = gap_cell(evaluations.difference(recipe, prototype))
        accuracies = [percent(evaluations[name].interval, digits=2) for name in (prototype, recipe)]
        rows.append(row(transform, *accuracies, gain))
    title = f"Transforms: {evaluations[0].setting.title}"
    head = ("Features", "Nearest prototype, %", "laplacianshot-reference, %", "Gain")
    return Table(title, head, tuple(rows), ("Lambda and neighbors were tuned for each transform.",))


def tuned_table(tuned: Sequence[tuple[str, str, Tuned]]) -> Table:
    """What was chosen."""
    rows = [
        row(
            f"{method} {transform}",
            one.tuning.setting.title,
            f"{one.tuning.lam:g}",
            str(one.tuning.n_neighbors),
        )
        for method, transform, one in tuned
    ]
    first = tuned[0][2].tuning
    splits = f"Lambda on classes of {first.lam_split}, neighbors on classes of {first.neighbor_split}"
    notes = (f"{splits}, {first.setting.tasks:,} tasks each, the same for every value.",)
    return Table("Tuned constants", ("Method", "Tasks", "Lambda", "Neighbors"), tuple(rows), notes, words=(1,))


def tuning_tables(method: str, transform: str, one: Tuned) -> tuple[Table, ...]:
    """Accuracy at each lambda and number of neighbors."""
    tables = (lam_table(one, bars=False), neighbors_table(one.tuning, method))
    return tuple(replace(table, title=f"Tuning {method} {transform}, {table.title}", notes=()) for table in tables)


def facts_table(facts: Mapping[str, str]) -> Table:
    """What was done with what."""
    return Table("Setting", ("", "What"), tuple(row(name, text) for name, text in facts.items()), words=(1,))


def steps_table(steps: Sequence[StepTime]) -> Table:
    """Time of each step."""
    rows = [row(step.step, duration(step.seconds), step.finished) for step in steps]
    rows.append(row("all", duration(sum(step.seconds for step in steps)), Cell("", "quiet"), bold=True))
    return Table("Time of each step", ("Step", "Time", "Finished, UTC"), tuple(rows), words=(2,))


def environment_table(environment: Mapping[str, str]) -> Table:
    """Versions and cores."""
    return Table(
        "Environment", ("", "Version"), tuple(row(name, text) for name, text in environment.items()), words=(1,)
    )


def duration(seconds: float) -> str:
    """``2 h 05 min``, ``3 min 20 s`` or ``4.2 s``.

    Examples
    --------
    >>> duration(7500), duration(200), duration(4.21)
    ('2 h 05 min', '3 min 20 s', '4.2 s')
    """
    if seconds < 60:
        return f"{seconds:.1f} s"
    minutes, rest = divmod(round(seconds), 60)
    return f"{minutes} min {rest:02d} s" if minutes < 60 else f"{minutes // 60} h {minutes % 60:02d} min"


def _timeless(document: Any) -> Any:
    """A document without what a clock says."""
    if isinstance(document, dict):
        return {key: _timeless(value) for key, value in document.items() if "second" not in key}
    return [_timeless(value) for value in document] if isinstance(document, (list, tuple)) else document
