"""From pictures to a report: each step once, and again only when what it is made from has changed."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np

from laplacianshot.embedding.store.files import put_file
from laplacianshot.episodes import FeatureSet, draw_tasks
from laplacianshot.reports.evaluation_plan import task_arguments
from laplacianshot.reproduce.evaluating import Measured, Measurement, cells
from laplacianshot.reproduce.experiment import Experiment
from laplacianshot.reproduce.parts import part_hash
from laplacianshot.reproduce.reporting import make_report
from laplacianshot.reproduce.steps import Step, StepRecord, digest
from laplacianshot.reproduce.tuning import Constants, tune_all
from laplacianshot.training.errors import ConfigError, OutputInUse
from laplacianshot.training.lock import FolderLock

if TYPE_CHECKING:
    from laplacianshot.datasets.pictures import Pictures
    from laplacianshot.training.state import TrainStatus

STEPS = ("train", "extract", "tune", "evaluate", "report")

# Raised by one whenever a step would make something else from the same inputs.
_VERSIONS = {"train": 1, "extract": 1, "tune": 1, "evaluate": 1, "report": 1}

# What an output folder holds.
_OWNER = "reproduce.json"


class Display(Protocol):
    """Who is told how far a run is."""

    def note(self, text: str) -> None:
        """A line."""

    def watch(self, what: str) -> Callable[[int, int], object]:
        """What is to be called with the number done and of all."""

    def training(self, status: TrainStatus) -> None:
        """How far the training is."""


@dataclass(frozen=True)
class Outcome:
    """What became of a run.

    Attributes
    ----------
    steps : tuple of StepRecord
        Those that are done, in order.
    ran : tuple of str
        Those that were done now.
    folder : Path or None
        Where the report is; None if that step was not asked for.
    """

    steps: tuple[StepRecord, ...]
    ran: tuple[str, ...]
    folder: Path | None


def reproduce(
    experiment: Experiment,
    data: Path,
    output: Path,
    display: Display,
    *,
    target_data: Path | None = None,
    steps: Sequence[str] = STEPS,
    command: str = "",
) -> Outcome:
    """Train, extract, tune, evaluate and report a setting, as far as that is not done already.

    Killed at any moment and started again it goes on where it was, and ends with the same numbers.

    Parameters
    ----------
    experiment : Experiment
    data : Path
        Folder of the pictures.
    output : Path
        A folder for this setting; made if it is not there. Cross-domain settings share that of their source.
    display : Display
    target_data : Path, optional
        Folder of the pictures that tasks are drawn from, for cross-domain settings; without it ``data``.
    steps : sequence of str
        Those to be done; the ones before them must have been done.
    command : str
        For the report.

    Returns
    -------
    Outcome

    Raises
    ------
    TrainError, StoreError, ValueError, OSError
        One line that says what is wrong: a setting, the pictures, or the output folder.
    KeyboardInterrupt
        After Ctrl-C, with everything kept that was done.
    """
    from laplacianshot.datasets.pictures import open_pictures

    pictures = open_pictures(experiment.config.dataset, data)
    target = None if experiment.target is None else open_pictures(experiment.target, target_data or data)
    check_tasks(experiment, pictures if target is None else target)
    output.mkdir(parents=True, exist_ok=True)
    with FolderLock(output):
        _claim(output, experiment)
        return _Chain(experiment, pictures, target, output, display, command).run(steps)


def check_tasks(experiment: Experiment, pictures: Pictures) -> None:
    """Draw one task of each kind, so that one that cannot be is an error now and not after the training."""
    rows = FeatureSet(np.zeros((len(pictures), 1), np.float32), pictures.labels, pictures.split)
    for setting in cells(experiment.protocol):
        try:
            draw_tasks(rows, **task_arguments(dataclasses.replace(setting, tasks=1)))
        except ValueError as error:
            raise ConfigError(f"{experiment.name}: {error}") from error


def _claim(output: Path, experiment: Experiment) -> None:
    """One source a folder: hours of training are not to be replaced by a slip of the keyboard."""
    path = output / _OWNER
    if path.exists():
        owner = json.loads(path.read_text(encoding="utf-8"))["setting"]
        if owner != experiment.source:
            raise OutputInUse(f"{output}: holds a run of {owner}; choose another folder for {experiment.name}.")
        return
    text = json.dumps({"setting": experiment.source}) + "\n"
    put_file(path, lambda file: file.write(text.encode()))


class _Chain:
    """The steps of one setting, each made from the outputs of those before."""

    def __init__(
        self,
        experiment: Experiment,
        pictures: Pictures,
        target: Pictures | None,
        output: Path,
        display: Display,
        command: str,
    ) -> None:
        self._experiment, self._config, self._protocol = experiment, experiment.config, experiment.protocol
        self._pictures, self._target = pictures, target
        self._output, self._display, self._command = output, display, command
        self._records: list[StepRecord] = []
        self._ran: list[str] = []
        self._wanted: Sequence[str] = STEPS

    def run(self, wanted: Sequence[str]) -> Outcome:
        """Go through the steps up to the last that is wanted."""
        self._wanted = wanted
        last = max(STEPS.index(step) for step in wanted)
        for name in STEPS[: last + 1]:
            getattr(self, f"_{name}")()
        folder = self._folder("report") if "report" in wanted else None
        return Outcome(tuple(self._records), tuple(self._ran), folder)

    def _do(self, name: str, folder: Path, inputs: dict[str, Any], work: Callable[[Step], str]) -> str:
        """The hash of what a step has made, now or before."""
        kind = name.partition(" ")[0]
        step = Step(name, folder, {"version": _VERSIONS[kind], **inputs}, keep=kind == "train")
        record = step.record
        if record is not None:
            self._display.note(f"{name}: done before.")
        else:
            if kind not in self._wanted:
                raise ConfigError(
                    f"--steps {','.join(self._wanted)}: {name} comes first and has not been done with these inputs."
                )
            changed = step.changed()
            if changed:
                self._display.note(f"{name}: again, as {', '.join(changed)} changed.")
            aside = step.begin()
            if aside is not None:
                self._display.note(f"{name}: what was there is kept in {aside}.")
            record = step.finish(work(step))
            self._ran.append(name)
            self._display.note(f"{name}: done in {record.seconds:,.1f} s.")
        self._records.append(record)
        return record.outputs

    def _train(self) -> None:
        inputs = {"config": self._config.experiment(), "pictures": self._pictures.content_key()}
        self._trained = self._do("train", self._output / "train", inputs, self._train_now)

    def _train_now(self, step: Step) -> str:
        from laplacianshot.training import train

        def progress(status: TrainStatus) -> None:
            step.tick()
            self._display.training(status)

        train(self._config, self._pictures, step.folder, progress=progress)
        return weights_hash(step.folder)

    def _extract(self) -> None:
        source = {"train": self._trained, "pictures": self._pictures.content_key()}
        work = lambda step: self._extract_now(step, self._pictures)  # noqa: E731
        self._features = self._do("extract", self._output / "extract", source, work)
        self._target_features = self._features
        if self._target is not None:
            part = self._target.select(self._protocol.test_split)
            inputs = {"train": self._trained, "pictures": part.content_key()}
            work = lambda step: self._extract_now(step, part)  # noqa: E731
            name = f"extract {self._experiment.target}"
            self._target_features = self._do(name, self._folder("extract"), inputs, work)

    def _extract_now(self, step: Step, pictures: Pictures) -> str:
        from laplacianshot.embedding.extraction import extract
        from laplacianshot.training import Checkpoint
        from laplacianshot.training.checkpoint import BEST
        from laplacianshot.training.views import eval_view

        network = Checkpoint.read(self._output / "train" / BEST).network()
        count = self._display.watch(step.name)

        def progress(done: int, total: int) -> None:
            step.tick()
            count(done, total)

        found = extract(
            network, pictures, step.folder / "features", view=eval_view(self._config),
            workers=self._config.workers, progress=progress,
        )  # fmt: skip
        return store_hash(found.store)

    def _tune(self) -> None:
        protocol = self._protocol
        names = ("ways", "shots", "query", "tuning_tasks", "test_split", "seed")
        inputs = {"features": self._features} | {name: protocol.to_mapping()[name] for name in names}
        self._tuned = self._do("tune", self._output / "tune", inputs, self._tune_now)

    def _tune_now(self, step: Step) -> str:
        features = FeatureSet.load(self._output / "extract" / "features")
        tune_all(features, self._protocol, step.folder, self._watch(step), step.tick)
        return parts_hash(step.folder)

    def _evaluate(self) -> None:
        inputs: dict[str, Any] = {"features": self._features, "target": self._target_features, "tune": self._tuned}
        inputs["protocol"] = self._protocol.to_mapping()
        name = "evaluate" if self._target is None else f"evaluate {self._experiment.target}"
        self._evaluated = self._do(name, self._folder("evaluate"), inputs, self._evaluate_now)

    def _evaluate_now(self, step: Step) -> str:
        source = FeatureSet.load(self._output / "extract" / "features")
        features = source if self._target is None else FeatureSet.load(self._folder("extract") / "features")
        constants = Constants.load(self._output / "tune", self._protocol, tuple(source.splits))
        centre = source.base_mean(self._config.base_split)
        name = self._experiment.target or self._config.dataset
        measurement = Measurement(features, centre, name, self._protocol, constants, step.folder)
        measurement.run(self._watch(step), step.tick)
        return parts_hash(step.folder)

    def _report(self) -> None:
        inputs: dict[str, Any] = {"train": self._trained, "tune": self._tuned, "evaluate": self._evaluated}
        inputs |= {"setting": [self._experiment.name, self._experiment.title, self._experiment.published]}
        name = "report" if self._target is None else f"report {self._experiment.target}"
        self._do(name, self._folder("report"), inputs, self._report_now)

    def _report_now(self, step: Step) -> str:
        found = make_report(
            self._experiment,
            self._output / "train",
            Constants.load(self._output / "tune", self._protocol, tuple(self._pictures.splits)),
            Measured.load(self._folder("evaluate"), self._protocol),
            self._records,
            self._command,
        )
        from laplacianshot.reports.reproduction_page import write_reproduction

        write_reproduction(found, step.folder)
        return digest(found.results())

    def _folder(self, kind: str) -> Path:
        """Folder of a step of this setting; a cross-domain one has its own beside those of its source."""
        return self._output / (kind if self._target is None else f"{kind}-{self._experiment.target}")

    def _watch(self, step: Step) -> Callable[[str], Callable[[int, int], object]]:
        def watch(what: str) -> Callable[[int, int], object]:
            count = self._display.watch(f"{step.name}: {what}")

            def progress(done: int, total: int) -> None:
                step.tick()
                count(done, total)

            return progress

        return watch


def weights_hash(folder: Path) -> str:
    """SHA-256 of the weights that a training has kept, and of all that it noted but times."""
    from laplacianshot.embedding.store import arrays_hash
    from laplacianshot.reproduce.reporting import training_facts
    from laplacianshot.training import Checkpoint
    from laplacianshot.training.checkpoint import BEST

    epochs, best = training_facts(folder)
    return arrays_hash(Checkpoint.read(folder / BEST).tensors, digest([[vars(epoch) for epoch in epochs], best]))


def store_hash(store: Any) -> str:
    """SHA-256 of the vectors of a store and what is beside them."""
    from laplacianshot.embedding.store import arrays_hash

    names = ("features", "labels", "split", "class_names", "names")
    arrays = {name: np.asarray(getattr(store, name)) for name in names}
    return arrays_hash(arrays)


def parts_hash(folder: Path) -> str:
    """SHA-256 of the parts of a step; those that hold times are none of its results."""
    parts = sorted(path for path in folder.glob("*.npz") if not path.name.startswith((".", "time-")))
    return digest({path.name: part_hash(path) for path in parts})
