"""Every method on the test tasks, part by part: each part on disk is done."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any, TypeAlias

from laplacianshot.datasets.feature_set import FeatureSet
from laplacianshot.episodes.evaluation import evaluate
from laplacianshot.episodes.methods import make_method
from laplacianshot.episodes.plans import EvaluationPlan, EvaluationRun, FeatureFile, Tuned, TuningPlan
from laplacianshot.episodes.results import Convergence, Evaluations, Setting
from laplacianshot.episodes.tasks import draw_tasks
from laplacianshot.reproduce.experiment import Protocol
from laplacianshot.reproduce.steps import (
    load_part,
    load_tuned,
    pack_convergence,
    pack_evaluations,
    save_part,
    save_tuned,
    unpack_convergence,
    unpack_evaluations,
)
from laplacianshot.runtime.progress import Watch
from laplacianshot.runtime.types import Floats

# Plain data and arrays of a part.
Part: TypeAlias = tuple[dict[str, Any], dict[str, Any]]

# The transforms of the paper, with the method that is the prototype alone on each.
TRANSFORMS = {"none": "simpleshot-un", "l2": "simpleshot-l2", "cl2": "simpleshot-cl2"}


def cells(protocol: Protocol) -> Iterator[Setting]:
    """All kinds of task, in the order of the report."""
    if protocol.inat:
        yield Setting("inat", split=protocol.test_split, seed=protocol.seed, tasks=1)
        return
    for way in protocol.ways:
        for shot in protocol.shots:
            yield _setting(protocol, "balanced", way, shot)
    for shot in protocol.shots:
        yield _setting(protocol, "dirichlet", protocol.ways[0], shot)


def _setting(protocol: Protocol, kind: str, way: int, shot: int) -> Setting:
    return Setting(kind, way, shot, protocol.query, protocol.tasks, protocol.seed, protocol.test_split)


@dataclass(frozen=True)
class Measurement:
    """One run of the evaluation.

    Attributes
    ----------
    feature_set : FeatureSet
        What the tasks are drawn from.
    base_mean : array of shape (D,)
        Of the classes that the network was trained on.
    name : str
        What the report calls the features.
    protocol : Protocol
    constants : Constants
    folder : Path
        Where the parts go.
    """

    feature_set: FeatureSet
    base_mean: Floats | None
    name: str
    protocol: Protocol
    constants: Constants
    folder: Path

    def run(self, watch: Watch, done: Callable[[], object]) -> None:
        """Measure whatever has no part yet; ``done`` is called after each."""
        for setting in cells(self.protocol):
            self._part("tasks", setting, self._cell, watch, done)
        if self.protocol.inat:
            return
        for shot in self.protocol.shots:
            setting = _setting(self.protocol, "balanced", self.protocol.ways[0], shot)
            self._part("transforms", setting, self._transforms, watch, done)
            self._part("time", setting, self._times, watch, done)

    def _part(
        self,
        kind: str,
        setting: Setting,
        measure: Callable[[Setting, Watch], Part],
        watch: Watch,
        done: Callable[[], object],
    ) -> None:
        path = self.folder / f"{kind}-{setting.slug}.npz"
        if not path.exists():
            save_part(path, *measure(setting, watch))
            done()

    def _cell(self, setting: Setting, watch: Watch) -> Part:
        balanced = setting.protocol == "balanced"
        plan = self._plan(setting, ablation=setting.protocol != "dirichlet", convergence=balanced)
        report = self._whole(plan.run(self.name, watch=watch))
        plain: dict[str, Any] = {"features": asdict(report.features), "methods": dict(report.methods)}
        arrays: dict[str, Any] = {}
        pack_evaluations("evaluations", report.evaluations, plain, arrays)
        pack_evaluations("ablation", report.ablation, plain, arrays)
        pack_convergence("convergence", report.convergence, plain, arrays)
        return plain, arrays

    def _times(self, setting: Setting, watch: Watch) -> Part:
        fewer = replace(setting, tasks=min(setting.tasks, self.protocol.timing_tasks))
        report = self._whole(self._plan(fewer, timing=True).run(self.name, watch=watch))
        plain: dict[str, Any] = {}
        arrays: dict[str, Any] = {}
        pack_evaluations("evaluations", report.evaluations, plain, arrays)
        return plain, arrays

    def _transforms(self, setting: Setting, watch: Watch) -> Part:
        methods: dict[str, Any] = {}
        for transform, prototype in TRANSFORMS.items():
            methods[prototype] = make_method(prototype)
            estimator = self.constants.estimator(REFERENCE, setting.way, int(str(setting.shot)), transform)
            methods[transformed(transform)] = estimator
        found = evaluate(
            self.feature_set,
            methods,
            **setting.arguments,
            base_mean=self.base_mean,
            progress=watch(f"{setting.title}: transforms"),
        )
        plain: dict[str, Any] = {}
        arrays: dict[str, Any] = {}
        pack_evaluations("evaluations", [found], plain, arrays)
        return plain, arrays

    def _plan(self, setting: Setting, **also: Any) -> EvaluationPlan:
        methods = {name: make_method(name) for name in self.protocol.methods}
        for name in (PAPER, REFERENCE):
            if name in methods:
                methods[name] = self.constants.estimator(name, setting.way, int(str(setting.shot)))
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


@dataclass(frozen=True)
class Measured:
    """What a finished evaluation found.

    Attributes
    ----------
    features : FeatureFile
    evaluations, ablation : tuple of Evaluations
        A group for each setting. Without times: those are no result.
    convergence : tuple of Convergence
    transforms : tuple of Evaluations
    times : tuple of Evaluations
        Each method alone.
    """

    features: FeatureFile
    evaluations: tuple[Evaluations, ...]
    ablation: tuple[Evaluations, ...]
    convergence: tuple[Convergence, ...]
    transforms: tuple[Evaluations, ...]
    times: tuple[Evaluations, ...]

    @classmethod
    def load(cls, folder: Path, protocol: Protocol) -> Measured:
        """The parts of a finished step."""
        found: dict[str, list[Any]] = {"evaluations": [], "ablation": [], "transforms": []}
        convergence: list[Convergence] = []
        times: list[Evaluations] = []
        for setting in cells(protocol):
            plain, arrays = load_part(folder / f"tasks-{setting.slug}.npz")
            found["evaluations"] += unpack_evaluations("evaluations", plain, arrays)
            found["ablation"] += unpack_evaluations("ablation", plain, arrays)
            convergence += unpack_convergence("convergence", plain, arrays)
        features = FeatureFile(**plain["features"])
        for shot in () if protocol.inat else protocol.shots:
            slug = _setting(protocol, "balanced", protocol.ways[0], shot).slug
            found["transforms"] += unpack_evaluations("evaluations", *load_part(folder / f"transforms-{slug}.npz"))
            times += unpack_evaluations("evaluations", *load_part(folder / f"time-{slug}.npz"))
        untimed = {name: tuple(_untimed(group) for group in groups) for name, groups in found.items()}
        return cls(features=features, convergence=tuple(convergence), times=tuple(times), **untimed)


def _untimed(group: Evaluations) -> Evaluations:
    return Evaluations(tuple(replace(one, seconds=math.nan) for one in group))


REFERENCE, PAPER = "laplacianshot-reference", "laplacianshot-paper"

# Whose constants are chosen, on which transform; all ways on CL2, the first way alone on the others.
TUNED = ((REFERENCE, "cl2"), (PAPER, "cl2"), (REFERENCE, "l2"), (REFERENCE, "none"))


@dataclass(frozen=True)
class Choice:
    """One thing to be tuned: a recipe on a transform, for tasks of one size."""

    method: str
    transform: str
    setting: Setting

    @property
    def file(self) -> str:
        """Name of its part."""
        return f"{self.method}-{self.transform}-{self.setting.slug}.npz"


def choices(protocol: Protocol, splits: tuple[str, ...]) -> Iterator[Choice]:
    """All that is to be tuned."""
    split = lam_split(splits)
    for method, transform in TUNED:
        for way in protocol.ways if transform == "cl2" else protocol.ways[:1]:
            for shot in protocol.shots:
                size = Setting("balanced", way, shot, protocol.query, protocol.tuning_tasks, protocol.seed, split)
                yield Choice(method, transform, size)


def lam_split(splits: tuple[str, ...]) -> str:
    """The classes that choose lambda: those for validation, else the base classes."""
    return "val" if "val" in splits else "base"


def tune_all(
    feature_set: FeatureSet, protocol: Protocol, folder: Path, watch: Watch, done: Callable[[], object]
) -> None:
    """Tune whatever has no part in the folder yet; ``done`` is called after each."""
    for choice in choices(protocol, tuple(feature_set.splits)):
        if (folder / choice.file).exists() or not _possible(feature_set, choice.setting):
            continue
        shown = protocol.test_split if protocol.test_split in feature_set.splits else None
        plan = TuningPlan(
            feature_set,
            make_method(choice.method).set_params(transform=choice.transform),
            (choice.setting,),
            neighbor_split="base",
            test_split=shown,
        )
        plan.check()
        result = plan.run(watch=_named(f"{choice.method} {choice.transform}", watch))
        if result.interrupted:
            raise KeyboardInterrupt
        save_tuned(folder / choice.file, choice.method, result.tuned[0])
        done()


def _named(name: str, watch: Watch) -> Watch:
    return lambda what: watch(f"{name}, {what}")


def _possible(feature_set: FeatureSet, setting: Setting) -> bool:
    """Whether the classes that choose are enough for tasks of this size."""
    one: dict[str, Any] = {**setting.arguments, "tasks": 1}
    try:
        draw_tasks(feature_set, **one)
        draw_tasks(feature_set, **{**one, "split": "base"})
    except ValueError:
        return False
    return True


@dataclass(frozen=True)
class Constants:
    """What was tuned, looked up by the size of a task.

    Attributes
    ----------
    found : dict of (method, transform, way, shot) to Tuned
    """

    found: dict[tuple[str, str, int, int], Tuned]

    @classmethod
    def load(cls, folder: Path, protocol: Protocol, splits: tuple[str, ...]) -> Constants:
        """The parts of a finished step."""
        found = {}
        for choice in choices(protocol, splits):
            if (folder / choice.file).exists():
                size = choice.setting
                _, tuned = load_tuned(folder / choice.file)
                found[choice.method, choice.transform, size.way, int(str(size.shot))] = tuned
        return cls(found)

    def estimator(self, method: str, way: int, shot: int, transform: str = "cl2") -> Any:
        """A recipe with the constants for tasks of this size; where these were not tuned, of the nearest size."""
        near = [key for key in self.found if key[:2] == (method, transform)]
        made = make_method(method).set_params(transform=transform)
        if not near:
            return made
        key = min(near, key=lambda key: (abs(key[2] - way), abs(key[3] - shot)))
        tuning = self.found[key].tuning
        return made.set_params(lam=tuning.lam, n_neighbors=tuning.n_neighbors)
