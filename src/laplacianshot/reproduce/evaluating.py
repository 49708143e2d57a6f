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
from laplacianshot.episodes.plans import EvaluationPlan, EvaluationRun, FeatureFile
from laplacianshot.episodes.results import Convergence, Evaluations, Setting
from laplacianshot.reproduce.experiment import Protocol
from laplacianshot.reproduce.parts import (
    load_part,
    pack_convergence,
    pack_evaluations,
    save_part,
    unpack_convergence,
    unpack_evaluations,
)
from laplacianshot.reproduce.tuning import PAPER, REFERENCE, Constants
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
