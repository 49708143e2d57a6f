"""From pictures to a report: each step once, and again only when what it is made from has changed."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, Protocol

import numpy as np

from laplacianshot.datasets.feature_set import FeatureSet
from laplacianshot.episodes.tasks import draw_tasks
from laplacianshot.reproduce.evaluating import Constants, Measured, Measurement, cells, tune_all
from laplacianshot.reproduce.experiment import Experiment
from laplacianshot.reproduce.reporting import make_report
from laplacianshot.reproduce.steps import Step, StepRecord, digest, part_hash, read_json
from laplacianshot.runtime.files import FolderLock, put_file
from laplacianshot.training.errors import ConfigError, OutputInUse

if TYPE_CHECKING:
    from laplacianshot.datasets.pictures import Pictures
    from laplacianshot.training.state import TrainStatus

STEPS = ("train", "extract", "tune", "evaluate", "report")

# Raised by one whenever a step would make something else from the same inputs.
_VERSIONS = {"train": 1, "extract": 1, "tune": 1, "evaluate": 1, "report": 1}

# What an output folder holds.
_OWNER = "reproduce.json"


class Display(Protocol):
    """Receives progress updates."""

    def note(self, text: str) -> None:
        """Print a line."""

    def watch(self, what: str) -> Callable[[int, int], object]:
        """Return a ``progress(done, total)`` callback for a stage."""

    def training(self, status: TrainStatus) -> None:
        """Show the status of the training."""


class _Silence:
    """A display that shows nothing."""

    def note(self, text: str) -> None:
        """Say nothing."""

    def watch(self, what: str) -> Callable[[int, int], object]:
        """Count nothing."""
        return lambda done, total: None

    def training(self, status: TrainStatus) -> None:
        """Show nothing."""


@dataclass(frozen=True)
class Outcome:
    """Result of a run.

    Attributes
    ----------
    steps : tuple of StepRecord
        Those that are done, in order.
    ran : tuple of str
        Those that ran now.
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
    display: Display | None = None,
    *,
    target_data: Path | None = None,
    steps: Sequence[str] = STEPS,
    on_error: Literal["raise", "skip"] = "raise",
    command: str = "",
) -> Outcome:
    """Train, extract, tune, evaluate and report a setting, as far as that is not done already.

    Killed at any moment and started again it continues where it stopped, and ends with the same numbers.

    Parameters
    ----------
    experiment : Experiment
    data : Path
        Folder of the pictures.
    output : Path
        A folder for this setting; created if it does not exist. Cross-domain settings share that of their source.
    display : Display, optional
    target_data : Path, optional
        Folder of the pictures that tasks are drawn from, for cross-domain settings; without it ``data``.
    steps : sequence of str
        Those to be done; the ones before them must have been done.
    on_error : {"raise", "skip"}
        Whether a picture that cannot be read is an error, or is left out and named.
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

    told = _Silence() if display is None else display
    pictures = open_pictures(experiment.config.dataset, data, on_error=on_error)
    target = None
    if experiment.target is not None:
        target = open_pictures(experiment.target, target_data or data, on_error=on_error)
    for fault in (*pictures.skipped, *(() if target is None else target.skipped)):
        told.note(f"left out: {fault}")
    check_tasks(experiment, pictures if target is None else target)
    output.mkdir(parents=True, exist_ok=True)
    with FolderLock(output, OutputInUse, holder="a reproduction"):
        _claim(output, experiment)
        return _Chain(experiment, pictures, target, output, told, command).run(steps)


def check_tasks(experiment: Experiment, pictures: Pictures) -> None:
    """Draw one task of each kind, so that one that cannot be is an error now and not after the training."""
    rows = FeatureSet(np.zeros((len(pictures), 1), np.float32), pictures.labels, pictures.split)
    for setting in cells(experiment.protocol):
        try:
            draw_tasks(rows, **dataclasses.replace(setting, tasks=1).arguments)
        except ValueError as error:
            raise ConfigError(f"{experiment.name}: {error}") from error


def _claim(output: Path, experiment: Experiment) -> None:
    """One source a folder: hours of training are not to be replaced by a slip of the keyboard."""
    path = output / _OWNER
    found = read_json(path)
    if found is not None:
        owner = found.get("setting", "something else")
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
        self._wanted: Sequence[str] = STEPS
        self._records: list[StepRecord] = []
        self._ran: list[str] = []
        # Hash of what each step has made.
        self._made: dict[str, str] = {}

    def run(self, wanted: Sequence[str]) -> Outcome:
        """Go through the steps up to the last that is wanted."""
        self._wanted = wanted
        last = max(STEPS.index(step) for step in wanted)
        for prepare in (self._train, self._extract, self._tune, self._evaluate, self._report)[: last + 1]:
            prepare()
        return Outcome(tuple(self._records), tuple(self._ran), self._own("report") if "report" in wanted else None)

    def _do(self, folder: Path, inputs: dict[str, Any], work: Callable[[Step], str], adopt: str | None = None) -> None:
        """A step, unless it was done with these inputs before."""
        name = folder.name
        kind = name.partition("-")[0]
        step = Step(name, folder, {"version": _VERSIONS[kind], **inputs}, adopt=adopt)
        back = step.bring_back() if kind in self._wanted else None
        if back is not None:
            self._display.note(f"{name}: what was put aside in {back.name} is taken up again.")
        record = step.record
        if record is None:
            if kind not in self._wanted:
                wanted = ",".join(self._wanted)
                raise ConfigError(f"--steps {wanted}: {name} comes first, and is not done with these inputs.")
            changed = step.changed()
            if changed:
                self._display.note(f"{name}: again, as {', '.join(changed)} changed.")
            aside = step.begin()
            if aside is not None:
                self._display.note(f"{name}: what was there is kept in {aside}.")
            record = step.finish(work(step))
            self._ran.append(name)
            self._display.note(f"{name}: done in {record.seconds:,.1f} s.")
        else:
            self._display.note(f"{name}: done before.")
        self._records.append(record)
        self._made[name] = record.outputs

    def _train(self) -> None:
        from laplacianshot.training.checkpoint import LAST

        inputs = {"config": self._config.experiment(), "pictures": self._pictures.content_key()}
        # A folder that laplacianshot train has left is as good as one of ours: train checks whose it is.
        self._do(self._output / "train", inputs, self._train_now, adopt=LAST)

    def _train_now(self, step: Step) -> str:
        from laplacianshot.reproduce.vectors import train_network

        def progress(status: TrainStatus) -> None:
            step.tick()
            self._display.training(status)

        outputs, seconds = train_network(self._config, self._pictures, step.folder, progress)
        step.at_least(seconds)
        return outputs

    def _extract(self) -> None:
        parts = {self._output / "extract": self._pictures}
        if self._target is not None:
            parts[self._own("extract")] = self._target.select(self._protocol.test_split)
        for folder, pictures in parts.items():
            inputs = {"train": self._made["train"], "pictures": pictures.content_key()}
            self._do(folder, inputs, partial(self._extract_now, pictures=pictures))

    def _extract_now(self, step: Step, pictures: Pictures) -> str:
        from laplacianshot.reproduce.vectors import extract_features

        progress = self._watch(step)("pictures")
        return extract_features(self._output / "train", self._config, pictures, step.folder, progress)

    def _tune(self) -> None:
        protocol = self._protocol.to_mapping()
        names = ("ways", "shots", "query", "tuning_tasks", "test_split", "seed")
        inputs = {"features": self._made["extract"]} | {name: protocol[name] for name in names}
        self._do(self._output / "tune", inputs, self._tune_now)

    def _tune_now(self, step: Step) -> str:
        features = self._features("extract")
        tune_all(features, self._protocol, step.folder, self._watch(step), step.tick)
        return parts_hash(step.folder)

    def _evaluate(self) -> None:
        inputs = {
            "features": self._made[self._own("extract").name],
            "base features": self._made["extract"],
            "tune": self._made["tune"],
            "protocol": self._protocol.to_mapping(),
        }
        self._do(self._own("evaluate"), inputs, self._evaluate_now)

    def _evaluate_now(self, step: Step) -> str:
        source = self._features("extract")
        features = source if self._target is None else self._features(self._own("extract").name)
        constants = Constants.load(self._output / "tune", self._protocol, tuple(source.splits))
        center = source.base_mean(self._config.base_split)
        name = self._experiment.target or self._config.dataset
        measurement = Measurement(features, center, name, self._protocol, constants, step.folder)
        measurement.run(self._watch(step), step.tick)
        return parts_hash(step.folder)

    def _report(self) -> None:
        experiment = self._experiment
        inputs = {
            "train": self._made["train"],
            "tune": self._made["tune"],
            "evaluate": self._made[self._own("evaluate").name],
            "setting": [experiment.name, experiment.title, experiment.published],
        }
        self._do(self._own("report"), inputs, self._report_now)

    def _report_now(self, step: Step) -> str:
        from laplacianshot.reports.reproduction import write_reproduction
        from laplacianshot.reproduce.vectors import trained_epochs

        found = make_report(
            self._experiment,
            *trained_epochs(self._output / "train"),
            Constants.load(self._output / "tune", self._protocol, tuple(self._pictures.splits)),
            Measured.load(self._own("evaluate"), self._protocol),
            self._records,
            self._command,
        )
        write_reproduction(found, step.folder)
        return digest(found.results())

    def _features(self, step: str) -> FeatureSet:
        from laplacianshot.reproduce.vectors import FEATURES

        return FeatureSet.load(self._output / step / FEATURES)

    def _own(self, kind: str) -> Path:
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


def parts_hash(folder: Path) -> str:
    """SHA-256 of the parts of a step; those that hold times are none of its results."""
    parts = sorted(path for path in folder.glob("*.npz") if not path.name.startswith((".", "time-")))
    return digest({path.name: part_hash(path) for path in parts})
