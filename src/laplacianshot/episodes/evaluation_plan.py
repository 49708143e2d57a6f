"""What one call of ``laplacianshot evaluate`` is to do, and doing it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass, field, replace
from typing import Any

import numpy as np
from sklearn.base import clone

from laplacianshot.baselines import BASELINES
from laplacianshot.datasets.feature_set import FeatureSet
from laplacianshot.episodes.convergence import trace_convergence
from laplacianshot.episodes.evaluation import center_for, evaluate
from laplacianshot.episodes.methods import runnables
from laplacianshot.episodes.results import Convergence, Evaluation, Evaluations, Setting
from laplacianshot.episodes.tasks import INAT_LEAKING, draw_tasks
from laplacianshot.estimator import LaplacianShot
from laplacianshot.reports.evaluation import EvaluationReport, FeatureFile
from laplacianshot.reports.evaluation_tables import ABLATION, RECIPES, is_inat, setting_title
from laplacianshot.runtime.progress import Watch, no_watch

# What can be chosen in the recipes paper and reference.
TUNABLE = ("lam", "n_neighbors", "rectify")

# Tasks of a convergence curve at most: the mean of more looks the same.
CONVERGENCE_TASKS = 500


@dataclass(frozen=True, repr=False)
class EvaluationPlan:
    """Methods, settings, and what else is to be found out.

    Attributes
    ----------
    feature_set : FeatureSet
    methods : dict of str to estimator
    settings : tuple of Setting
        All on the same split.
    base_mean
        See :func:`~laplacianshot.evaluate`.
    slow_tasks, threads : int or None
    ablation, convergence, timing : bool
    constants : dict
        Of the recipes paper and reference in the ablation and the convergence curves, where they are not among the
        methods.
    engine, address : str
        See :func:`~laplacianshot.evaluate`.
    """

    feature_set: FeatureSet
    methods: Mapping[str, Any]
    settings: tuple[Setting, ...]
    base_mean: Any = None
    slow_tasks: int | None = None
    threads: int | None = None
    ablation: bool = False
    convergence: bool = False
    timing: bool = False
    constants: Mapping[str, Any] = field(default_factory=dict)
    engine: str = "local"
    address: str | None = None

    def check(self) -> None:
        """Raise ValueError for tasks that cannot be drawn, and for methods that cannot run on them."""
        center = center_for(self.feature_set, self.base_mean)
        for setting in self.settings:
            draw_tasks(self.feature_set, **task_arguments(replace(setting, tasks=1)))
            runnables(dict(self.methods), center, self.feature_set.dim, leaking=setting.protocol == INAT_LEAKING)

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

    def run(
        self, file: str, *, command: str = "", published: str | None = None, watch: Watch = no_watch
    ) -> EvaluationReport:
        """Do it all. Ctrl-C ends it early: the report then holds what was finished, and says so.

        Parameters
        ----------
        file, command, published : str
            For the report.
        watch : callable
            Called with what comes next; gives what is to be called with the tasks done and their number.
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
                traces.extend(() if is_inat(setting) else self._traces(setting, watch))
        except KeyboardInterrupt:
            interrupted = True
        return EvaluationReport(
            features=self.features(file),
            methods={name: self._settings(name) for name in self.methods},
            evaluations=tuple(found),
            ablation=tuple(ablation),
            convergence=tuple(traces),
            timing=self.timing,
            published=published,
            command=command,
            interrupted=interrupted,
        )

    def _settings(self, name: str) -> str:
        """What a method runs with, in words."""
        text = BASELINES[name].settings
        if RECIPES.get(name) not in ("paper", "reference"):
            return text
        usual, given = BASELINES[name].make().get_params(), self.methods[name].get_params()
        other = [key for key in TUNABLE if key in self.constants or given[key] != usual[key]]
        return f"{text}; but {', '.join(f'{key} {given[key]}' for key in other)}" if other else text

    def _evaluate(self, setting: Setting, watch: Watch) -> Evaluations:
        if not is_inat(setting):
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
            **task_arguments(setting),
            base_mean=self.base_mean,
            slow_tasks=self.slow_tasks,
            threads=self.threads,
            progress=watch(f"{setting_title(setting)}: {what}"),
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
                **task_arguments(replace(setting, tasks=min(setting.tasks, CONVERGENCE_TASKS))),
                base_mean=self.base_mean,
                progress=watch(f"{setting_title(setting)}: convergence of {name}"),
                threads=self.threads,
            )


def _keep(done: list[Evaluations], evaluations: Evaluations) -> None:
    """Add a result; an interrupted one ends the run."""
    done.append(evaluations)
    if evaluations.interrupted:
        raise KeyboardInterrupt


def task_arguments(setting: Setting) -> dict[str, Any]:
    """A setting as keyword arguments of the functions that draw tasks."""
    return {key: value for key, value in asdict(setting).items() if key != "center"}
