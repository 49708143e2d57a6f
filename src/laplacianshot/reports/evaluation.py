"""What ``laplacianshot evaluate`` found: tables, sentences, and the same as plain data."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

from laplacianshot import __version__
from laplacianshot.episodes.plans import EvaluationRun
from laplacianshot.episodes.results import Convergence, Evaluations, PairedDifference
from laplacianshot.reports.evaluation_tables import (
    DEFAULT,
    ablation_table,
    convergence_table,
    methods_table,
    overview_table,
    prototype_of,
    published_notes,
    published_tables,
    ranked,
    seconds_per_task,
    setting_table,
    timing_table,
)
from laplacianshot.reports.published import load_published
from laplacianshot.reports.table import Table
from laplacianshot.reports.text import interval_dict, points, side


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
