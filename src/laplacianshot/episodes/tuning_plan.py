"""What one call of ``laplacianshot tune`` is to do, and doing it."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

from laplacianshot.datasets.feature_set import FeatureSet
from laplacianshot.episodes.evaluation import center_for
from laplacianshot.episodes.evaluation_plan import task_arguments
from laplacianshot.episodes.methods import method_name
from laplacianshot.episodes.results import Setting, Tuning
from laplacianshot.episodes.tasks import draw_tasks
from laplacianshot.episodes.tuning import LAMS, NEIGHBORS, tune
from laplacianshot.reports.evaluation_tables import setting_title
from laplacianshot.reports.tuning import Tuned, TuningReport
from laplacianshot.runtime.progress import Watch, no_watch


@dataclass(frozen=True, repr=False)
class TuningPlan:
    """A recipe, settings and the values to be tried.

    Attributes
    ----------
    feature_set : FeatureSet
    method : str or LaplacianShot
        A recipe by name, or an estimator.
    settings : tuple of Setting
        All on the split that chooses lambda.
    lams, neighbors : tuple
    neighbor_split, test_split : str or None
        Classes that choose the neighbors, and those that are only shown.
    base_mean
        See :func:`~laplacianshot.evaluate`.
    threads : int or None
    """

    feature_set: FeatureSet
    method: Any
    settings: tuple[Setting, ...]
    lams: tuple[float, ...] = LAMS
    neighbors: tuple[int, ...] = NEIGHBORS
    neighbor_split: str | None = None
    test_split: str | None = None
    base_mean: Any = None
    threads: int | None = None

    def check(self) -> None:
        """Raise ValueError for tasks that cannot be drawn."""
        center_for(self.feature_set, self.base_mean)
        splits = {self.settings[0].split, self.neighbor_split, self.test_split or self.neighbor_split}
        for setting in self.settings:
            for split in splits:
                draw_tasks(self.feature_set, **task_arguments(replace(setting, tasks=1, split=split)))

    def run(self, file: str, *, command: str = "", watch: Watch = no_watch) -> TuningReport:
        """Do it all. Ctrl-C ends it early: the report then holds the settings that were finished, and says so."""
        tuned: list[Tuned] = []
        interrupted = False
        try:
            for setting in self.settings:
                title = setting_title(setting)
                tuning = self._tune(setting, self.neighbors, self.neighbor_split, watch, title)
                if self.test_split is None:
                    tuned.append(Tuned(tuning))
                    continue
                tested = replace(setting, split=self.test_split)
                shown = self._tune(tested, (tuning.n_neighbors,), self.test_split, watch, f"{title}, {self.test_split}")
                tuned.append(Tuned(tuning, shown.lam_curve, self.test_split))
        except KeyboardInterrupt:
            interrupted = True
        return TuningReport(file, method_name(self.method), tuple(tuned), command, interrupted)

    def _tune(
        self, setting: Setting, neighbors: tuple[int, ...], neighbor_split: str | None, watch: Watch, what: str
    ) -> Tuning:
        return tune(
            self.feature_set,
            self.method,
            **task_arguments(setting),
            lams=self.lams,
            neighbors=neighbors,
            neighbor_split=neighbor_split,
            base_mean=self.base_mean,
            progress=watch(what),
            threads=self.threads,
        )
