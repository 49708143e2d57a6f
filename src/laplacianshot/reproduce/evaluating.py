"""Tuning, and every method on the test tasks, part by part: each part on disk is done."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

from laplacianshot.datasets.feature_set import FeatureSet
from laplacianshot.episodes.evaluation import evaluate
from laplacianshot.episodes.methods import make_method
from laplacianshot.episodes.plans import EvaluationPlan, EvaluationRun, FeatureFile, Tuned, TuningPlan
from laplacianshot.episodes.results import Convergence, Evaluation, Evaluations, MeanInterval, Setting, Tuning
from laplacianshot.episodes.tasks import draw_tasks
from laplacianshot.reproduce.experiment import Protocol
from laplacianshot.reproduce.steps import Part
from laplacianshot.runtime.progress import Watch
from laplacianshot.runtime.types import Floats

# The transforms of the paper, with the method that is the prototype alone on each.
TRANSFORMS = {"none": "simpleshot-un", "l2": "simpleshot-l2", "cl2": "simpleshot-cl2"}


def cells(protocol: Protocol) -> Iterator[Setting]:
    """All kinds of tasks, in the order of the report."""
    if protocol.inat:
        yield Setting("inat", split=protocol.test_split, seed=protocol.seed, tasks=1)
        return
    for way in protocol.ways:
        for shot in protocol.shots:
            yield _setting(protocol, "balanced", way, shot)
    for shot in protocol.shots:
        yield _setting(protocol, "dirichlet", protocol.ways[0], shot)


def _first_way(protocol: Protocol) -> list[Setting]:
    """The balanced tasks of the first way, on which transforms and times are measured."""
    return [] if protocol.inat else [_setting(protocol, "balanced", protocol.ways[0], n) for n in protocol.shots]


def _setting(protocol: Protocol, kind: str, way: int, shot: int) -> Setting:
    return Setting(kind, way, shot, protocol.query, protocol.tasks, protocol.seed, protocol.test_split)


@dataclass(frozen=True)
class Measurement:
    """One run of the evaluation."""

    feature_set: FeatureSet  # what the tasks are drawn from
    base_mean: Floats | None  # (D,), of the classes that the network was trained on
    name: str  # of the features in the report
    protocol: Protocol
    constants: Constants
    folder: Path  # of the parts

    def run(self, watch: Watch, done: Callable[[], object]) -> None:
        """Measure the parts that do not exist yet; ``done`` is called after each."""
        parts = [("tasks", self._tasks, setting) for setting in cells(self.protocol)]
        for setting in _first_way(self.protocol):
            parts += [("transforms", self._transforms, setting), ("time", self._times, setting)]
        for kind, measure, setting in parts:
            path = self.folder / f"{kind}-{setting.slug}.npz"
            if not path.exists():
                measure(setting, watch).save(path)
                done()

    def _tasks(self, setting: Setting, watch: Watch) -> Part:
        balanced = setting.protocol == "balanced"
        plan = self._plan(setting, ablation=setting.protocol != "dirichlet", convergence=balanced)
        report = self._whole(plan.run(self.name, watch=watch))
        part = Part({"features": asdict(report.features), "methods": dict(report.methods)})
        part.add("evaluations", report.evaluations).add("ablation", report.ablation)
        return part.add("convergence", report.convergence)

    def _times(self, setting: Setting, watch: Watch) -> Part:
        fewer = replace(setting, tasks=min(setting.tasks, self.protocol.timing_tasks))
        report = self._whole(self._plan(fewer, timing=True).run(self.name, watch=watch))
        return Part().add("evaluations", report.evaluations)

    def _transforms(self, setting: Setting, watch: Watch) -> Part:
        methods: dict[str, Any] = {}
        for transform, prototype in TRANSFORMS.items():
            methods[prototype] = make_method(prototype)
            methods[transformed(transform)] = self.constants.estimator(REFERENCE, setting, transform)
        found = evaluate(
            self.feature_set,
            methods,
            **setting.arguments,
            base_mean=self.base_mean,
            progress=watch(f"{setting.title}: transforms"),
        )
        return Part().add("evaluations", [found])

    def _plan(self, setting: Setting, **also: Any) -> EvaluationPlan:
        methods = {name: make_method(name) for name in self.protocol.methods}
        for name in (PAPER, REFERENCE):
            if name in methods:
                methods[name] = self.constants.estimator(name, setting)
        return EvaluationPlan(
            self.feature_set,
            methods,
            (setting,),
            base_mean=self.base_mean,
            slow_tasks=self.protocol.slow_tasks,
            **also,
        )

    @staticmethod
    def _whole(report: EvaluationRun) -> EvaluationRun:
        if report.interrupted:
            raise KeyboardInterrupt
        return report


def transformed(transform: str) -> str:
    """What a table calls the recipe on a transform."""
    return f"{REFERENCE} {transform}"


def load_measured(
    folder: Path, protocol: Protocol
) -> tuple[EvaluationRun, tuple[Evaluations, ...], tuple[Evaluations, ...]]:
    """Return the results of a finished evaluation: all settings, the transforms, and each method's times alone.

    The first two come without times, which are not results.
    """
    tasks = [Part.load(folder / f"tasks-{setting.slug}.npz") for setting in cells(protocol)]
    transforms, times = (
        [Part.load(folder / f"{kind}-{setting.slug}.npz") for setting in _first_way(protocol)]
        for kind in ("transforms", "time")
    )
    run = EvaluationRun(
        features=FeatureFile(**tasks[-1].plain["features"]),
        methods=tasks[-1].plain["methods"],
        evaluations=_untimed(_groups(tasks, "evaluations")),
        ablation=_untimed(_groups(tasks, "ablation")),
        convergence=tuple(trace for part in tasks for trace in part.get("convergence", Convergence)),
    )
    return run, _untimed(_groups(transforms, "evaluations")), _groups(times, "evaluations")


def _groups(parts: Sequence[Part], name: str) -> tuple[Evaluations, ...]:
    return tuple(Evaluations(group) for part in parts for group in part.get(name, Evaluation))


def _untimed(groups: Sequence[Evaluations]) -> tuple[Evaluations, ...]:
    return tuple(Evaluations(tuple(replace(one, seconds=math.nan) for one in group)) for group in groups)


REFERENCE, PAPER = "laplacianshot-reference", "laplacianshot-paper"

# Whose constants are chosen, on which transform; all ways on CL2, the first way alone on the others.
_TUNED = ((REFERENCE, "cl2"), (PAPER, "cl2"), (REFERENCE, "l2"), (REFERENCE, "none"))


def _choices(protocol: Protocol, splits: tuple[str, ...]) -> Iterator[tuple[str, str, Setting, str]]:
    """Everything that is tuned: a recipe, its transform, the tasks, and the file of what was chosen.

    Lambda is tuned on validation classes, or on base classes where there are none.
    """
    split = "val" if "val" in splits else "base"
    for method, transform in _TUNED:
        for way in protocol.ways if transform == "cl2" else protocol.ways[:1]:
            for shot in protocol.shots:
                size = Setting("balanced", way, shot, protocol.query, protocol.tuning_tasks, protocol.seed, split)
                yield method, transform, size, f"{method}-{transform}-{size.slug}.npz"


def tune_all(
    feature_set: FeatureSet, protocol: Protocol, folder: Path, watch: Watch, done: Callable[[], object]
) -> None:
    """Tune the parts that the folder does not have yet; ``done`` is called after each."""
    shown = protocol.test_split if protocol.test_split in feature_set.splits else None
    for method, transform, setting, file in _choices(protocol, tuple(feature_set.splits)):
        if (folder / file).exists() or not _possible(feature_set, setting):
            continue
        estimator = make_method(method).set_params(transform=transform)
        plan = TuningPlan(feature_set, estimator, (setting,), neighbor_split="base", test_split=shown)
        plan.check()
        result = plan.run(watch=lambda what, of=f"{method} {transform}": watch(f"{of}, {what}"))  # type: ignore[misc]
        if result.interrupted:
            raise KeyboardInterrupt
        _save_tuned(folder / file, method, result.tuned[0])
        done()


def _save_tuned(path: Path, method: str, one: Tuned) -> None:
    test = None if one.test is None else [asdict(point) for point in one.test]
    Part({"method": method, "test_split": one.test_split, "test": test}).add("", one.tuning).save(path)


def _load_tuned(path: Path) -> Tuned:
    """What was tuned, without its time, which is not a result."""
    part = Part.load(path)
    test = part.plain["test"]
    points = None if test is None else tuple(MeanInterval(**point) for point in test)
    return Tuned(replace(part.get("", Tuning), seconds=0.0), points, part.plain["test_split"])


def _possible(feature_set: FeatureSet, setting: Setting) -> bool:
    """Whether there are enough classes to tune on tasks of this size."""
    one: dict[str, Any] = {**setting.arguments, "tasks": 1}
    try:
        draw_tasks(feature_set, **one)
        draw_tasks(feature_set, **{**one, "split": "base"})
    except ValueError:
        return False
    return True


@dataclass(frozen=True)
class Constants:
    """What was tuned: method, transform and the curves that chose, for each size of task."""

    found: tuple[tuple[str, str, Tuned], ...]

    @classmethod
    def load(cls, folder: Path, protocol: Protocol, splits: tuple[str, ...]) -> Constants:
        """Read the parts of a finished step."""
        choices = [choice for choice in _choices(protocol, splits) if (folder / choice[-1]).exists()]
        return cls(tuple((method, transform, _load_tuned(folder / file)) for method, transform, _, file in choices))

    def estimator(self, method: str, setting: Setting, transform: str = "cl2") -> Any:
        """A recipe with the constants for tasks of this size; where these were not tuned, of the nearest size."""
        made = make_method(method).set_params(transform=transform)
        tuned = [one.tuning for *key, one in self.found if key == [method, transform]]
        if not tuned:
            return made
        near = min(tuned, key=lambda one: _distance(one.setting, setting))
        return made.set_params(lam=near.lam, n_neighbors=near.n_neighbors)


def _distance(one: Setting, other: Setting) -> tuple[int, int]:
    return abs(one.way - other.way), abs(int(str(one.shot)) - int(str(other.shot)))
