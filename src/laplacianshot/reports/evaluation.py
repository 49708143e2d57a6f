"""The report of ``laplacianshot evaluate``: tables, sentences, and the same as plain data."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any

import numpy as np

from laplacianshot import __version__
from laplacianshot.episodes.plans import ABLATION, EvaluationRun
from laplacianshot.episodes.results import Convergence, Evaluation, Evaluations, PairedDifference, Setting
from laplacianshot.reports.published import Figure, load_published
from laplacianshot.reports.table import Cell, Table, Tone, row
from laplacianshot.reports.text import interval_dict, milliseconds, percent, percentage, points, side


@dataclass(frozen=True, repr=False)
class EvaluationReport(EvaluationRun):
    """The results of one call of the command, as tables and plain data.

    Attributes
    ----------
    published : str or None
        Data set and network of the features, as given by the user.
    command : str
        The command line.
    """

    published: str | None = None
    command: str = ""

    @classmethod
    def of(cls, run: EvaluationRun, *, published: str | None = None, command: str = "") -> EvaluationReport:
        """The report of a run."""
        return cls(**vars(run), published=published, command=command)

    def tables(self) -> tuple[Table, ...]:
        """All tables in the order of reading."""
        found = [setting_table(evaluations) for evaluations in self.evaluations]
        if len(self.evaluations) > 1:
            found.append(overview_table(self.evaluations))
        found += [ablation_table(evaluations, self.published) for evaluations in self.ablation]
        if self.convergence:
            found.append(convergence_table(self.convergence))
        if self.timing:
            found += [timing_table(evaluations) for evaluations in self.evaluations]
        if self.published is not None:
            found += published_tables(self.published, self.evaluations)
        if found:
            found.append(methods_table(self.methods))
        return tuple(found)

    def to_dict(self) -> dict[str, Any]:
        """Everything that is printed, for JSON; shares, not percent, and seconds."""
        return {
            "laplacianshot": __version__,
            "command": self.command,
            "features": asdict(self.features),
            "interrupted": self.interrupted,
            "methods": dict(self.methods),
            "results": [_evaluations_dict(evaluations) for evaluations in self.evaluations],
            "ablation": [_evaluations_dict(evaluations) for evaluations in self.ablation],
            "convergence": [_convergence_dict(trace) for trace in self.convergence],
            "published": None if self.published is None else _published_dict(self.published, self.evaluations),
        }


def verdict(evaluations: Evaluations) -> str:
    """Who won, and where the default stands, in plain words."""
    best = evaluations.best
    text = f"{best.method} is best with {100 * best.mean:.2f}%"
    if len(evaluations) == 1:
        return f"{text}."
    subject = best
    rivals = [name for name in (ranked(evaluations)[1].method, prototype_of(evaluations)) if name]
    if best.method != DEFAULT and DEFAULT in evaluations.names:
        subject = evaluations[DEFAULT]
        rivals = [name for name in (best.method, prototype_of(evaluations)) if name]
    gaps = [(name, evaluations.difference(subject.method, name)) for name in dict.fromkeys(rivals)]
    parts = [f"{points(gap, digits=2)} {side(gap.mean)} {name}" for name, gap in gaps if name != subject.method]
    start = f"{text}: " if subject is best else f"{text}. {subject.method} is "
    return f"{start}{' and '.join(parts)}."


def csv_rows(report: EvaluationReport) -> list[dict[str, Any]]:
    """One row a method and setting, numbers in full, accuracies as shares."""
    rows = []
    for evaluations in report.evaluations:
        prototype = prototype_of(evaluations)
        for evaluation in evaluations:
            to_prototype = evaluations.difference(evaluation.method, prototype) if prototype else None
            to_best = evaluation.difference(evaluations.best)
            setting = asdict(evaluation.setting)
            numbers = evaluation.to_dict()
            rows.append(
                {"file": report.features.file, **setting, "tasks_asked": setting["tasks"]}
                | {key: numbers[key] for key in ("method", "tasks", "mean", "ci95", "mean_class_accuracy")}
                | _columns("to_prototype", to_prototype)
                | _columns("to_best", to_best)
                | {"seconds_per_task": _measured(seconds_per_task(evaluation))}
                | {key: numbers[key] for key in ("mean_iterations", "interrupted")}
            )
    return rows


def _columns(name: str, difference: PairedDifference | None) -> dict[str, Any]:
    values = None if difference is None else interval_dict(difference)
    return {name: values and values["mean"], f"{name}_ci95": values and values["ci95"]}


def _evaluations_dict(evaluations: Evaluations) -> dict[str, Any]:
    document = evaluations.to_dict()
    prototype = prototype_of(evaluations)
    for entry, evaluation in zip(document["evaluations"], evaluations, strict=True):
        entry["seconds_per_task"] = _measured(seconds_per_task(evaluation))
        if prototype is not None:
            entry["difference_to_prototype"] = interval_dict(evaluations.difference(evaluation.method, prototype))
    setting = evaluations[0].setting
    return {"setting": asdict(setting), "prototype": prototype, "verdict": verdict(evaluations), **document}


def _measured(seconds: float) -> float | None:
    return seconds if math.isfinite(seconds) else None


def _convergence_dict(trace: Convergence) -> dict[str, Any]:
    return {
        "method": trace.method,
        "setting": asdict(trace.setting),
        "tasks": len(trace.objective),
        "mean_updates": float(trace.iterations.mean()),
        "most_updates": int(trace.iterations.max()),
        "converged": float(trace.converged.mean()),
        "tasks_with_a_rise": int(trace.rises.sum()),
        "mean_objective": trace.filled.mean(axis=0).tolist(),
    }


def _published_dict(key: str, all_evaluations: Sequence[Evaluations]) -> dict[str, Any]:
    published = load_published()
    figures = [
        published.to_dict(figure)
        for evaluations in all_evaluations
        for figure in published.matching(key, evaluations[0].setting)
    ]
    return {"key": key, "title": published.title(key), "figures": figures, "notes": list(published_notes(key))}


DEFAULT = "laplacianshot"
# What the others are set against: the first of these that was run.
PROTOTYPES = ("simpleshot-cl2", "nearest-prototype")

PARTIAL = "Partial result: the run was interrupted."


def prototype_of(evaluations: Evaluations) -> str | None:
    """The nearest-prototype method that others are set against, if one was run."""
    return next((name for name in PROTOTYPES if name in evaluations.names), None)


def ranked(evaluations: Evaluations) -> tuple[Evaluation, ...]:
    """Best first."""
    return tuple(sorted(evaluations, key=lambda evaluation: -evaluation.mean))


def seconds_per_task(evaluation: Evaluation) -> float:
    """Mean time of a task; NaN where it was not measured."""
    return evaluation.seconds / evaluation.n_tasks


def short_name(setting: Setting, others: Sequence[Setting]) -> str:
    """Way and shot, and the protocol where several were run: ``5w 1s dirichlet``."""
    if setting.is_inat:
        return setting.protocol
    size = setting.title.split(",")[0].replace("-way", "w").replace("-shot", "s")
    return size if len({other.protocol for other in others}) == 1 else f"{size} {setting.protocol}"


def setting_table(evaluations: Evaluations) -> Table:
    """All methods on the tasks of one setting, best first."""
    setting, best, prototype = evaluations[0].setting, evaluations.best, prototype_of(evaluations)
    counts_updates = any(evaluation.iterations is not None for evaluation in evaluations)
    is_timed = any(math.isfinite(evaluation.seconds) for evaluation in evaluations)
    rows = []
    for evaluation in ranked(evaluations):
        cells: list[str | Cell] = [evaluation.method, _accuracy(evaluation)]
        if prototype is not None:
            is_prototype = evaluation.method == prototype
            cells.append(Cell("-", "quiet") if is_prototype else _gap(evaluations, evaluation.method, prototype))
        if setting.is_inat:
            cells.append(f"{100 * evaluation.mean_class_accuracy:.2f}")
        is_best = evaluation is best
        cells.append(Cell("best", "good") if is_best else _gap(evaluations, evaluation.method, best.method))
        if is_timed:
            cells.append(milliseconds(seconds_per_task(evaluation)))
        if counts_updates:
            cells.append("" if evaluation.iterations is None else f"{evaluation.iterations.mean():.1f}")
        rows.append(row(*cells, bold=evaluation.method == DEFAULT))
    head = ["Method", "Accuracy, %"]
    if prototype is not None:
        head.append("To prototype")
    if setting.is_inat:
        head.append("Per class, %")
    head.append("To the best")
    if is_timed:
        head.append("ms/task")
    if counts_updates:
        head.append("Updates")
    notes = (setting.description, *_notes(evaluations))
    return Table(setting.title, tuple(head), tuple(rows), notes, spare=2 + is_timed)


def classes_table(evaluations: Evaluations, most: int = 50) -> Table:
    """Accuracy of each class, hardest first, for the default (or the best method) and the nearest prototype."""
    first = evaluations[DEFAULT] if DEFAULT in evaluations.names else evaluations.best
    prototype = prototype_of(evaluations)
    shown = [first] + ([evaluations[prototype]] if prototype not in (None, first.method) else [])
    found = np.flatnonzero(np.isfinite(first.class_accuracies))
    order = found[np.argsort(first.class_accuracies[found], kind="stable")][:most]
    rows = [
        row(first.class_names[c], *(f"{100 * evaluation.class_accuracies[c]:.1f}" for evaluation in shown))
        for c in order
    ]
    notes = () if len(order) == len(found) else (f"The {most} hardest of {len(found)} classes.",)
    head = ("Class", *(f"{evaluation.method}, %" for evaluation in shown))
    return Table(f"Classes: {first.setting.title}", head, tuple(rows), notes)


def overview_table(all_evaluations: Sequence[Evaluations]) -> Table:
    """Gain over nearest prototype, or accuracy where that was not run, method by setting."""
    settings = [evaluations[0].setting for evaluations in all_evaluations]
    prototype = prototype_of(all_evaluations[0])
    names = dict.fromkeys(name for evaluations in all_evaluations for name in evaluations.names)
    rows = []
    for name in names:
        if name == prototype:
            continue
        cells = []
        for evaluations in all_evaluations:
            if name not in evaluations.names or (prototype and prototype not in evaluations.names):
                cells.append(Cell("", "quiet"))
            elif prototype is None:
                cells.append(Cell(f"{100 * evaluations[name].mean:.2f}"))
            else:
                difference = evaluations.difference(name, prototype)
                cells.append(Cell(f"{100 * difference.mean:+.2f}", _tone(difference)))
        rows.append(row(name, *cells, bold=name == DEFAULT))
    title = f"Gain over {prototype}, points" if prototype else "Accuracy, %"
    head = ("Method", *(short_name(setting, settings) for setting in settings))
    return Table(title, head, tuple(rows))


def ablation_table(evaluations: Evaluations, published: str | None = None) -> Table:
    """The paper's four rows: prototype term, with the graph, with rectification, with both."""
    setting = evaluations[0].setting
    figures = load_published().ablation(published, setting) if published else {}
    rows = []
    for evaluation in evaluations:
        graph, rectified = ABLATION[evaluation.method]
        is_first = evaluation.method == "prototype"
        gain = Cell("-", "quiet") if is_first else _gap(evaluations, evaluation.method, "prototype")
        cells: list[str | Cell] = ["yes", _yes(graph), _yes(rectified), _accuracy(evaluation), gain]
        if figures:
            figure = figures[evaluation.method]
            cells.append(f"{figure.text} ({figure.status})")
        rows.append(row(*cells))
    head = ["Prototype term", "Laplacian", "Rectified", "Accuracy, %", "To prototype"]
    if figures:
        head.append("Published, %")
    title = f"Ablation of laplacianshot-reference: {setting.title}"
    return Table(title, tuple(head), tuple(rows), _notes(evaluations), words=(1, 2, 5))


def convergence_table(traces: Sequence[Convergence]) -> Table:
    """Updates of each recipe, and in how many tasks its objective rose."""
    rows = []
    for trace in traces:
        n, rises = len(trace.objective), int(trace.rises.sum())
        rows.append(
            row(
                trace.method,
                trace.setting.title,
                f"{n:,}",
                f"{trace.iterations.mean():.1f}",
                str(int(trace.iterations.max())),
                percentage(trace.converged.mean(), 1),
                Cell(f"{rises:,}", "bad" if rises else "good"),
                bold=trace.method == DEFAULT,
            )
        )
    head = ("Method", "Setting", "Tasks", "Mean updates", "Most", "Settled", "Tasks with a rise")
    return Table("Convergence", head, tuple(rows), words=(1,))


def timing_table(evaluations: Evaluations) -> Table:
    """Time of a task of each method, fastest first."""
    prototype = prototype_of(evaluations)
    base = seconds_per_task(evaluations[prototype] if prototype else min(evaluations, key=seconds_per_task))
    rows = [
        row(
            evaluation.method,
            milliseconds(seconds_per_task(evaluation)),
            f"{seconds_per_task(evaluation) / base:.1f}",
            f"{1 / seconds_per_task(evaluation):,.0f}",
            f"{evaluation.seconds:,.2f}",
            f"{evaluation.n_tasks:,}",
            bold=evaluation.method == DEFAULT,
        )
        for evaluation in sorted(evaluations, key=seconds_per_task)
    ]
    against = f"x {prototype}" if prototype else "x the fastest"
    head = ("Method", "ms/task", against, "Tasks/s", "Seconds", "Tasks")
    return Table(f"Time: {evaluations[0].setting.title}", head, tuple(rows))


def methods_table(settings: Mapping[str, str]) -> Table:
    """What each method ran with."""
    rows = tuple(row(name, text, bold=name == DEFAULT) for name, text in settings.items())
    return Table("Methods", ("Method", "Settings"), rows, words=(1,))


def published_tables(key: str, all_evaluations: Sequence[Evaluations]) -> tuple[Table, ...]:
    """Published figures beside ours, a table a setting; all that must be said about them is below the last."""
    published = load_published()
    tables = []
    for evaluations in all_evaluations:
        setting = evaluations[0].setting
        rows = [
            row(
                _published_name(figure),
                figure.text,
                _ours(figure, evaluations),
                figure.status,
                f"{published.sources[figure.source].short}, {figure.place}",
            )
            for figure in published.matching(key, setting)
        ]
        title = f"Published figures, {published.title(key)}: {setting.title}"
        notes = []
        if not rows:
            notes.append(f"There is no published figure of {published.title(key)} for these tasks.")
        elif setting.center == "task":
            notes.append("Ours are centered at each task, theirs at the mean of the base classes.")
        head = ("Method", "Published, %", "Ours, %", "Status", "Source")
        tables.append(Table(title, head, tuple(rows), tuple(notes), words=(3, 4)))
    last = tables.pop()
    return (*tables, replace(last, notes=(*last.notes, *published_notes(key))))


def published_notes(key: str) -> tuple[str, ...]:
    """What must be said wherever figures of this data set and network are printed."""
    published = load_published()
    claim = (
        f"That these features are those of {published.title(key)} is the user's claim: only the number of classes and "
        "of features was checked."
    )
    return (claim, *(caveat.text for caveat in published.caveats_for(key)))


def _accuracy(evaluation: Evaluation) -> str:
    mark = "†" if _fewer(evaluation) else ""
    return percent(evaluation.interval, digits=2) + mark


def _fewer(evaluation: Evaluation) -> bool:
    return evaluation.n_tasks < evaluation.setting.tasks


def _gap(evaluations: Evaluations, method: str, other: str) -> Cell:
    return gap_cell(evaluations.difference(method, other))


def _tone(difference: PairedDifference) -> Tone:
    if not difference.clear:
        return "quiet"
    return "good" if difference.mean > 0 else "bad"


def gap_cell(difference: PairedDifference) -> Cell:
    """A paired difference in points, marked where it is clear."""
    return Cell(percent(difference, digits=2, sign=True), _tone(difference))


def _yes(value: bool) -> str:
    return "yes" if value else "no"


def _notes(evaluations: Evaluations) -> tuple[str, ...]:
    notes = []
    fewer = [evaluation for evaluation in evaluations if _fewer(evaluation)]
    if fewer:
        counts = ", ".join(f"{evaluation.method} {evaluation.n_tasks:,}" for evaluation in fewer)
        asked = evaluations[0].setting.tasks
        notes.append(f"† on the first of the {asked:,} tasks only: {counts}; differences are over shared tasks.")
    if evaluations.interrupted:
        notes.append(PARTIAL)
    return tuple(notes)


def _published_name(figure: Figure) -> str:
    kind = "" if figure.measure == "accuracy" else f", {figure.transform}, {figure.measure}"
    return f"{figure.method}{kind}"


def _ours(figure: Figure, evaluations: Evaluations) -> str | Cell:
    """Our accuracy where we ran the same method; per class where the figure is."""
    if figure.ours is None or figure.ours not in evaluations.names:
        return Cell("", "quiet")
    evaluation = evaluations[figure.ours]
    if figure.measure == "per class":
        return f"{100 * evaluation.mean_class_accuracy:.2f}"
    return _accuracy(evaluation)
