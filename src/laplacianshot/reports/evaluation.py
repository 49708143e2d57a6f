"""The report of ``laplacianshot evaluate``: tables, sentences, and the same as plain data."""

from __future__ import annotations

import csv
import io
import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any

import numpy as np

from laplacianshot import __version__
from laplacianshot.episodes.plans import ABLATION, EvaluationRun
from laplacianshot.episodes.results import Convergence, Evaluation, Evaluations, PairedDifference, Setting
from laplacianshot.reports.published import Figure, load_published
from laplacianshot.reports.table import (
    Cell,
    Columns,
    Table,
    columns_table,
    interval_dict,
    milliseconds,
    percentage,
    points,
    row,
    side,
)

DEFAULT = "laplacianshot"
# What the other methods are compared with: the first of these that was run.
PROTOTYPES = ("simpleshot-cl2", "nearest-prototype")

PARTIAL = "Partial result: the run was interrupted."


@dataclass(frozen=True, repr=False)
class EvaluationReport(EvaluationRun):
    """The results of one call of the command, as tables and plain data."""

    published: str | None = None  # data set and network of the features, as the user says
    command: str = ""

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
    """Say which method is best, and how the default compares, in plain words."""
    best = evaluations.best
    text = f"{best.method} is best with {100 * best.mean:.2f}%"
    if len(evaluations) == 1:
        return f"{text}."
    subject, rival = best, ranked(evaluations)[1].method
    if best.method != DEFAULT and DEFAULT in evaluations.names:
        subject, rival = evaluations[DEFAULT], best.method
    parts = []
    for name in dict.fromkeys((rival, prototype_of(evaluations))):
        if name is not None and name != subject.method:
            gap = evaluations.difference(subject.method, name)
            parts.append(f"{points(gap, digits=2)} {side(gap.mean)} {name}")
    start = f"{text}: " if subject is best else f"{text}. {subject.method} is "
    return f"{start}{' and '.join(parts)}."


def csv_text(report: EvaluationReport) -> str:
    """One line per method and setting, numbers in full, accuracies as shares."""
    rows = []
    for evaluations in report.evaluations:
        prototype = prototype_of(evaluations)
        for evaluation in evaluations:
            setting, numbers = asdict(evaluation.setting), evaluation.to_dict()
            gaps = {
                "to_prototype": evaluations.difference(evaluation.method, prototype) if prototype else None,
                "to_best": evaluation.difference(evaluations.best),
            }
            line = {"file": report.features.file, **setting, "tasks_asked": setting["tasks"]}
            line |= {key: numbers[key] for key in ("method", "tasks", "mean", "ci95", "mean_class_accuracy")}
            for name, gap in gaps.items():
                values = {"mean": None, "ci95": None} if gap is None else interval_dict(gap)
                line |= {name: values["mean"], f"{name}_ci95": values["ci95"]}
            line["seconds_per_task"] = _finite(seconds_per_task(evaluation))
            rows.append(line | {key: numbers[key] for key in ("mean_iterations", "interrupted")})
    buffer = io.StringIO()
    writer = csv.DictWriter(buffer, fieldnames=list(rows[0]) if rows else ["method"], lineterminator="\n")
    writer.writeheader()
    writer.writerows(rows)
    return buffer.getvalue()


def _evaluations_dict(evaluations: Evaluations) -> dict[str, Any]:
    document = evaluations.to_dict()
    prototype = prototype_of(evaluations)
    for entry, evaluation in zip(document["evaluations"], evaluations, strict=True):
        entry["seconds_per_task"] = _finite(seconds_per_task(evaluation))
        if prototype is not None:
            entry["difference_to_prototype"] = interval_dict(evaluations.difference(evaluation.method, prototype))
    setting = evaluations[0].setting
    return {"setting": asdict(setting), "prototype": prototype, "verdict": verdict(evaluations), **document}


def _finite(seconds: float) -> float | None:
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


def prototype_of(evaluations: Evaluations) -> str | None:
    """The nearest-prototype method that others are compared with, if one was run."""
    return next((name for name in PROTOTYPES if name in evaluations.names), None)


def ranked(evaluations: Evaluations) -> tuple[Evaluation, ...]:
    """Best first."""
    return tuple(sorted(evaluations, key=lambda evaluation: -evaluation.mean))


def seconds_per_task(evaluation: Evaluation) -> float:
    """Mean time of a task; NaN where it was not measured."""
    return evaluation.seconds / evaluation.n_tasks


def short_name(setting: Setting, others: Sequence[Setting]) -> str:
    """Way and shot, and the protocol where several were run: ``5w 1s dirichlet``, ``20w 1s 5 present``."""
    if setting.is_inat:
        return setting.protocol
    size = setting.title.split(",")[0].replace("-way", "w").replace("-shot", "s")
    return size if len({other.short_protocol for other in others}) == 1 else f"{size} {setting.short_protocol}"


def setting_table(evaluations: Evaluations) -> Table:
    """All methods on the tasks of one setting, best first."""
    setting, best, prototype = evaluations[0].setting, evaluations.best, prototype_of(evaluations)
    order = ranked(evaluations)
    columns: Columns = {
        "Method": [one.method for one in order],
        "Accuracy, %": [_accuracy(one) for one in order],
    }
    if prototype is not None:
        columns["To prototype"] = [_gap_to(one, evaluations[prototype], Cell("-", "quiet")) for one in order]
    if setting.is_inat:
        columns["Per class, %"] = [f"{100 * one.mean_class_accuracy:.2f}" for one in order]
    columns["To the best"] = [_gap_to(one, best, Cell("best", "good")) for one in order]
    is_timed = any(math.isfinite(one.seconds) for one in order)
    if is_timed:
        columns["ms/task"] = [milliseconds(seconds_per_task(one)) for one in order]
    if any(one.iterations is not None for one in order):
        columns["Updates"] = ["" if one.iterations is None else f"{one.iterations.mean():.1f}" for one in order]
    notes = (setting.description, *_notes(evaluations))
    return columns_table(setting.title, columns, bold=_are_default(order), notes=notes, spare=2 + is_timed)


def classes_table(evaluations: Evaluations, max_classes: int = 50) -> Table:
    """Accuracy of each class, hardest first, for the default (or the best method) and the nearest prototype."""
    first = evaluations[DEFAULT] if DEFAULT in evaluations.names else evaluations.best
    prototype = prototype_of(evaluations)
    shown = [first] + ([evaluations[prototype]] if prototype not in (None, first.method) else [])
    measured = np.flatnonzero(np.isfinite(first.class_accuracies))
    order = measured[np.argsort(first.class_accuracies[measured], kind="stable")][:max_classes]
    columns: Columns = {"Class": [first.class_names[c] for c in order]}
    columns |= {f"{one.method}, %": [f"{100 * one.class_accuracies[c]:.1f}" for c in order] for one in shown}
    notes = () if len(order) == len(measured) else (f"The {max_classes} hardest of {len(measured)} classes.",)
    return columns_table(f"Classes: {first.setting.title}", columns, notes=notes)


def overview_table(all_evaluations: Sequence[Evaluations]) -> Table:
    """Gain over nearest prototype, or accuracy where that was not run, method by setting."""
    settings = [evaluations[0].setting for evaluations in all_evaluations]
    prototype = prototype_of(all_evaluations[0])
    names = [name for evaluations in all_evaluations for name in evaluations.names if name != prototype]
    names = list(dict.fromkeys(names))
    columns: Columns = {"Method": [*names]}
    for setting, evaluations in zip(settings, all_evaluations, strict=True):
        column = columns.setdefault(short_name(setting, settings), [])
        for name in names:
            if name not in evaluations.names or (prototype and prototype not in evaluations.names):
                column.append(Cell("", "quiet"))
            elif prototype is None:
                column.append(f"{100 * evaluations[name].mean:.2f}")
            else:
                gap = evaluations.difference(name, prototype)
                column.append(Cell(f"{100 * gap.mean:+.2f}", gap_cell(gap).tone))
    title = f"Gain over {prototype}, points" if prototype else "Accuracy, %"
    return columns_table(title, columns, bold=[name == DEFAULT for name in names])


def ablation_table(evaluations: Evaluations, published: str | None = None) -> Table:
    """The paper's four rows: prototype term, with the graph, with rectification, with both."""
    setting = evaluations[0].setting
    switches = [ABLATION[one.method] for one in evaluations]
    columns: Columns = {
        "Prototype term": ["yes" for _ in evaluations],
        "Laplacian": ["yes" if graph else "no" for graph, _ in switches],
        "Rectified": ["yes" if rectified else "no" for _, rectified in switches],
        "Accuracy, %": [_accuracy(one) for one in evaluations],
        "To prototype": [_gap_to(one, evaluations["prototype"], Cell("-", "quiet")) for one in evaluations],
    }
    words = ["Laplacian", "Rectified"]
    figures = load_published().ablation(published, setting) if published else {}
    if figures:
        rows = [figures[one.method] for one in evaluations]
        columns["Published, %"] = [f"{figure.text} ({figure.status})" for figure in rows]
        words.append("Published, %")
    title = f"Ablation of laplacianshot-reference: {setting.title}"
    return columns_table(title, columns, notes=_notes(evaluations), words=words)


def convergence_table(traces: Sequence[Convergence]) -> Table:
    """Updates of each recipe, and in how many tasks its objective rose."""
    rises = [int(trace.rises.sum()) for trace in traces]
    columns: Columns = {
        "Method": [trace.method for trace in traces],
        "Setting": [trace.setting.title for trace in traces],
        "Tasks": [f"{len(trace.objective):,}" for trace in traces],
        "Mean updates": [f"{trace.iterations.mean():.1f}" for trace in traces],
        "Maximum": [str(int(trace.iterations.max())) for trace in traces],
        "Settled": [percentage(trace.converged.mean(), 1) for trace in traces],
        "Tasks with a rise": [Cell(f"{n:,}", "bad" if n else "good") for n in rises],
    }
    return columns_table("Convergence", columns, bold=_are_default(traces), words=["Setting"])


def timing_table(evaluations: Evaluations) -> Table:
    """Time per task of each method, fastest first."""
    prototype = prototype_of(evaluations)
    order = sorted(evaluations, key=seconds_per_task)
    base = seconds_per_task(evaluations[prototype] if prototype else order[0])
    columns: Columns = {
        "Method": [one.method for one in order],
        "ms/task": [milliseconds(seconds_per_task(one)) for one in order],
        f"x {prototype or 'the fastest'}": [f"{seconds_per_task(one) / base:.1f}" for one in order],
        "Tasks/s": [f"{1 / seconds_per_task(one):,.0f}" for one in order],
        "Seconds": [f"{one.seconds:,.2f}" for one in order],
        "Tasks": [f"{one.n_tasks:,}" for one in order],
    }
    return columns_table(f"Time: {evaluations[0].setting.title}", columns, bold=_are_default(order))


def methods_table(settings: Mapping[str, str]) -> Table:
    """What each method ran with."""
    rows = tuple(row(name, text, bold=name == DEFAULT) for name, text in settings.items())
    return Table("Methods", ("Method", "Settings"), rows, words=(1,))


def published_tables(key: str, all_evaluations: Sequence[Evaluations]) -> tuple[Table, ...]:
    """Published figures beside ours, one table per setting; all that must be said about them is below the last."""
    published = load_published()
    tables = []
    for evaluations in all_evaluations:
        setting = evaluations[0].setting
        figures = published.matching(key, setting)
        columns: Columns = {
            "Method": [_published_name(figure) for figure in figures],
            "Published, %": [figure.text for figure in figures],
            "Ours, %": [_ours(figure, evaluations) for figure in figures],
            "Status": [figure.status for figure in figures],
            "Source": [published.source_text(figure) for figure in figures],
        }
        title = f"Published figures, {published.title(key)}: {setting.title}"
        notes = []
        if not figures:
            notes.append(f"There is no published figure of {published.title(key)} for these tasks.")
        elif setting.center == "task":
            notes.append("Ours are centered at each task, theirs at the mean of the base classes.")
        tables.append(columns_table(title, columns, notes=notes, words=["Status", "Source"]))
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


def gap_cell(difference: PairedDifference) -> Cell:
    """A paired difference in points, marked where its interval leaves out zero."""
    text = difference.percent(digits=2, sign=True)
    if not difference.clear:
        return Cell(text, "quiet")
    return Cell(text, "good" if difference.mean > 0 else "bad")


def _gap_to(one: Evaluation, other: Evaluation, same: Cell) -> Cell:
    return same if one is other else gap_cell(one.difference(other))


def _are_default(entries: Sequence[Evaluation] | Sequence[Convergence]) -> list[bool]:
    return [entry.method == DEFAULT for entry in entries]


def _accuracy(evaluation: Evaluation) -> str:
    return evaluation.interval.percent(digits=2) + ("†" if _fewer(evaluation) else "")


def _fewer(evaluation: Evaluation) -> bool:
    return evaluation.n_tasks < evaluation.setting.tasks


def _notes(evaluations: Evaluations) -> tuple[str, ...]:
    notes = []
    fewer = [evaluation for evaluation in evaluations if _fewer(evaluation)]
    if fewer:
        counts = ", ".join(f"{evaluation.method} {evaluation.n_tasks:,}" for evaluation in fewer)
        tasks = evaluations[0].setting.tasks
        notes.append(f"† on the first of the {tasks:,} tasks only: {counts}; differences are over shared tasks.")
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
