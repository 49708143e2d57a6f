"""Whole runs of ``laplacianshot evaluate`` and ``tune``: several settings, Ctrl-C at any time."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from sklearn.base import clone

from laplacianshot.datasets.feature_set import FeatureSet
from laplacianshot.episodes.centers import Centers, center_for
from laplacianshot.episodes.evaluation import evaluate, trace_convergence
from laplacianshot.episodes.methods import find_method, make_method
from laplacianshot.episodes.results import Convergence, Evaluation, Evaluations, MeanInterval, Setting, Tuning
from laplacianshot.episodes.runners import method_name, runnables
from laplacianshot.episodes.tasks import INAT_LEAKING, draw_tasks
from laplacianshot.episodes.tuning import LAMS, NEIGHBORS, tune
from laplacianshot.estimator import LaplacianShot
from laplacianshot.runtime.progress import Watch, no_watch

# Our recipes by the name of their method.
RECIPES: Mapping[str, str] = {
    "laplacianshot": "default",
    "laplacianshot-paper": "paper",
    "laplacianshot-reference": "reference",
}
# Rows of the paper's ablation table: graph or not, rectification or not.
ABLATION: Mapping[str, tuple[bool, bool]] = {
    "prototype": (False, False),
    "laplacian": (True, False),
    "rectified": (False, True),
    "both": (True, True),
}

# What can be chosen in the recipes paper and reference.
_TUNABLE = ("lam", "n_neighbors", "rectify")

# Tasks of a convergence curve at most: the mean of more looks the same.
_CONVERGENCE_TASKS = 500


@dataclass(frozen=True)
class FeatureFile:
    """What the tasks were drawn from: the whole file, and its split (None: all rows)."""

    file: str
    rows: int
    dimension: int
    classes: int
    split: str | None
    split_rows: int
    split_classes: int

    def __str__(self) -> str:
        part = "all rows" if self.split is None else f"split {self.split}"
        return (
            f"{self.file}: {part}, {self.split_rows:,} rows of {self.split_classes} classes, "
            f"{self.dimension} features per row"
        )


@dataclass(frozen=True, repr=False)
class EvaluationRun:
    """All results of one evaluation plan."""

    features: FeatureFile
    methods: Mapping[str, str]  # what each method ran with
    evaluations: tuple[Evaluations, ...]  # one per setting
    ablation: tuple[Evaluations, ...] = ()  # the four rows of ABLATION, one per setting
    convergence: tuple[Convergence, ...] = ()
    timing: bool = False  # whether each method was run alone, so that times can be compared
    interrupted: bool = False


@dataclass(frozen=True, repr=False)
class EvaluationPlan:
    """Methods, settings, and what else is to be measured. Other fields are arguments of :func:`evaluate`."""

    feature_set: FeatureSet
    methods: Mapping[str, Any]
    settings: tuple[Setting, ...]  # all on the same split
    base_mean: Any = None
    slow_tasks: int | None = None
    threads: int | None = None
    ablation: bool = False
    convergence: bool = False
    timing: bool = False
    # Parameters of paper and reference in the ablation and the convergence curves, if they are not among the methods.
    constants: Mapping[str, Any] = field(default_factory=dict)
    engine: str = "local"
    address: str | None = None

    def check(self) -> None:
        """Raise ValueError for tasks that cannot be drawn, and for methods that cannot run on them."""
        centers = Centers(self.feature_set, self.base_mean)
        for setting in self.settings:
            draw_tasks(self.feature_set, **replace(setting, tasks=1).arguments)
            runnables(dict(self.methods), centers, self.feature_set.dim, leaking=setting.protocol == INAT_LEAKING)

    def features(self, file: str) -> FeatureFile:
        """What the tasks are drawn from."""
        split = self.settings[0].split
        codes = self.feature_set.codes[self.feature_set.rows(split)]
        return FeatureFile(
            file=file,
            rows=self.feature_set.n_rows,
            dimension=self.feature_set.dim,
            classes=self.feature_set.n_classes,
            split=split,
            split_rows=len(codes),
            split_classes=len(np.unique(codes)),
        )

    def run(self, file: str, *, watch: Watch = no_watch) -> EvaluationRun:
        """Run everything. Ctrl-C ends it early: the result then holds what was finished, and is marked.

        Parameters
        ----------
        file : str
            Name of the features in the report.
        watch : callable
            ``watch(stage)`` returns a ``progress(done, total)`` callback.
        """
        found: list[Evaluations] = []
        ablation: list[Evaluations] = []
        traces: list[Convergence] = []
        interrupted = False
        try:
            for setting in self.settings:
                _keep(found, self._evaluate(setting, watch))
            for setting in self.settings if self.ablation else ():
                _keep(ablation, self._over_tasks(self._ablated(), setting, watch, "ablation"))
            for setting in self.settings if self.convergence else ():
                # The one large task of iNat is fitted on its features, without a trace.
                traces.extend(() if setting.is_inat else self._traces(setting, watch))
        except KeyboardInterrupt:
            interrupted = True
        return EvaluationRun(
            features=self.features(file),
            methods={name: self._settings(name) for name in self.methods},
            evaluations=tuple(found),
            ablation=tuple(ablation),
            convergence=tuple(traces),
            timing=self.timing,
            interrupted=interrupted,
        )

    def _settings(self, name: str) -> str:
        """What a method runs with, in words."""
        text = find_method(name).settings
        if RECIPES.get(name) not in ("paper", "reference"):
            return text
        usual, given = make_method(name).get_params(), self.methods[name].get_params()
        other = [key for key in _TUNABLE if key in self.constants or given[key] != usual[key]]
        return f"{text}; but {', '.join(f'{key} {given[key]}' for key in other)}" if other else text

    def _evaluate(self, setting: Setting, watch: Watch) -> Evaluations:
        if not setting.is_inat:
            # Once before the clock runs: kernels are loaded or compiled at their first call.
            self._over_tasks(self.methods, replace(setting, tasks=1), watch, "getting ready")
        if not self.timing:
            return self._over_tasks(self.methods, setting, watch, f"{len(self.methods)} methods")
        done: list[Evaluation] = []
        try:
            for name, estimator in self.methods.items():
                done += self._over_tasks({name: estimator}, setting, watch, name)
                if done[-1].interrupted:
                    break
        except KeyboardInterrupt:
            if not done:
                raise
            done[-1] = replace(done[-1], interrupted=True)
        return Evaluations(tuple(done))

    def _over_tasks(self, methods: Mapping[str, Any], setting: Setting, watch: Watch, what: str) -> Evaluations:
        result = evaluate(
            self.feature_set,
            dict(methods),
            **setting.arguments,
            base_mean=self.base_mean,
            slow_tasks=self.slow_tasks,
            threads=self.threads,
            progress=watch(f"{setting.title}: {what}"),
            partial=True,
            engine=self.engine,
            address=self.address,
        )
        assert isinstance(result, Evaluations)  # several methods were given
        # After Ctrl-C a slow method may not have come to its first task.
        found = tuple(evaluation for evaluation in result if evaluation.n_tasks > 0)
        if not found:
            raise KeyboardInterrupt
        return Evaluations(found)

    def _ablated(self) -> dict[str, LaplacianShot]:
        whole = self._recipe("laplacianshot-reference")
        return {
            name: clone(whole).set_params(lam=whole.lam if graph else 0.0, rectify=rectified)
            for name, (graph, rectified) in ABLATION.items()
        }

    def _recipe(self, name: str) -> LaplacianShot:
        """A recipe as it is among the methods, else with the constants."""
        recipe, found = RECIPES[name], self.methods.get(name)
        if found is None:
            found = LaplacianShot() if recipe == "default" else getattr(LaplacianShot, recipe)(**self.constants)
        estimator: LaplacianShot = found
        return estimator

    def _traces(self, setting: Setting, watch: Watch) -> Iterator[Convergence]:
        for name in RECIPES:
            yield trace_convergence(
                self.feature_set,
                self._recipe(name),
                **replace(setting, tasks=min(setting.tasks, _CONVERGENCE_TASKS)).arguments,
                base_mean=self.base_mean,
                progress=watch(f"{setting.title}: convergence of {name}"),
                threads=self.threads,
            )


def _keep(done: list[Evaluations], evaluations: Evaluations) -> None:
    """Add a result; an interrupted one ends the run."""
    done.append(evaluations)
    if evaluations.interrupted:
        raise KeyboardInterrupt


@dataclass(frozen=True)
class Tuned:
    """One setting: the curves that chose, and the same lambdas on classes that took no part in the choice."""

    tuning: Tuning
    test: tuple[MeanInterval, ...] | None = None  # at each lambda on test_split, at the chosen number of neighbors
    test_split: str | None = None


@dataclass(frozen=True, repr=False)
class TuningRun:
    """All results of one tuning plan, one per setting."""

    method: str
    tuned: tuple[Tuned, ...]
    interrupted: bool = False


@dataclass(frozen=True, repr=False)
class TuningPlan:
    """A recipe, settings on the split that chooses lambda, and the values to try."""

    feature_set: FeatureSet
    method: Any  # a recipe by name, or an estimator
    settings: tuple[Setting, ...]
    lams: tuple[float, ...] = LAMS
    neighbors: tuple[int, ...] = NEIGHBORS
    neighbor_split: str | None = None  # classes that choose the neighbors
    test_split: str | None = None  # classes that are only shown
    base_mean: Any = None
    threads: int | None = None

    def check(self) -> None:
        """Raise ValueError for tasks that cannot be drawn."""
        center_for(self.feature_set, self.base_mean)
        splits = {self.settings[0].split, self.neighbor_split, self.test_split or self.neighbor_split}
        for setting in self.settings:
            for split in splits:
                draw_tasks(self.feature_set, **replace(setting, tasks=1, split=split).arguments)

    def run(self, *, watch: Watch = no_watch) -> TuningRun:
        """Run everything. Ctrl-C ends it early: the result then holds the settings that were finished."""
        tuned: list[Tuned] = []
        interrupted = False
        try:
            for setting in self.settings:
                title = setting.title
                tuning = self._tune(setting, self.neighbors, self.neighbor_split, watch, title)
                if self.test_split is None:
                    tuned.append(Tuned(tuning))
                    continue
                tested = replace(setting, split=self.test_split)
                shown = self._tune(tested, (tuning.n_neighbors,), self.test_split, watch, f"{title}, {self.test_split}")
                tuned.append(Tuned(tuning, shown.lam_curve, self.test_split))
        except KeyboardInterrupt:
            interrupted = True
        return TuningRun(method_name(self.method), tuple(tuned), interrupted)

    def _tune(
        self, setting: Setting, neighbors: tuple[int, ...], neighbor_split: str | None, watch: Watch, what: str
    ) -> Tuning:
        return tune(
            self.feature_set,
            self.method,
            **setting.arguments,
            lams=self.lams,
            neighbors=neighbors,
            neighbor_split=neighbor_split,
            base_mean=self.base_mean,
            progress=watch(what),
            threads=self.threads,
        )
