"""From pictures to a report: each step once, and again only when its inputs have changed."""

from __future__ import annotations

import platform
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any, Literal, Protocol

import numpy as np

from laplacianshot import __version__
from laplacianshot.datasets.feature_set import FeatureSet
from laplacianshot.datasets.pictures import Pictures, open_pictures
from laplacianshot.embedding.extraction import extract
from laplacianshot.episodes.evaluation import validation_score
from laplacianshot.episodes.methods import find_method
from laplacianshot.episodes.plans import FeatureFile
from laplacianshot.episodes.tasks import draw_tasks
from laplacianshot.reports.evaluation import EvaluationReport
from laplacianshot.reports.published import load_published
from laplacianshot.reports.reproduction import Reproduction, StepTime, write_reproduction
from laplacianshot.reproduce.evaluating import (
    PAPER,
    REFERENCE,
    TRANSFORMS,
    Constants,
    Measurement,
    cells,
    load_measured,
    transformed,
    tune_all,
)
from laplacianshot.reproduce.experiment import Experiment
from laplacianshot.reproduce.steps import Step, StepRecord, digest, parts_hash, read_json
from laplacianshot.runtime.files import FolderLock
from laplacianshot.runtime.keyed_folder import KeyedFolder, arrays_hash
from laplacianshot.runtime.progress import Progress, Watch, no_watch
from laplacianshot.runtime.threads import available_threads, torch_threads
from laplacianshot.training import Checkpoint, train
from laplacianshot.training.checkpoint import BEST, LAST, MODEL
from laplacianshot.training.plan import eval_view
from laplacianshot.training.state import ConfigError, TrainError, TrainStatus
from laplacianshot.training.trainer import world_of_environment

# Raised by one whenever a step would make something else from the same inputs.
_VERSIONS = {"train": 1, "extract": 1, "tune": 1, "evaluate": 1, "report": 1}
STEPS = tuple(_VERSIONS)

# In an output folder: whose it is.
_OWNER = "reproduce.json"
# Below the folder of an extraction.
_FEATURES = "features"


class Display(Protocol):
    """Receives progress updates; shows nothing unless its methods are replaced."""

    def note(self, text: str) -> None:
        """Print a line."""
        return

    def watch(self, what: str) -> Progress:
        """Return a ``progress(done, total)`` callback for a stage."""
        return no_watch(what)

    def training(self, status: TrainStatus) -> None:
        """Show the status of the training."""
        return


class _Silence(Display):
    """A display that shows nothing."""


@dataclass(frozen=True)
class Outcome:
    """Result of a run."""

    steps: tuple[StepRecord, ...]  # all that are done, in order
    ran: tuple[str, ...]  # those that ran now
    folder: Path | None  # of the report; None if that step was not requested


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
        Folder of the pictures that tasks are drawn from, for cross-domain settings; default: ``data``.
    steps : sequence of str
        The steps to run; those before them must be done already.
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
        After Ctrl-C; everything that was done is kept.
    """
    shown = _Silence() if display is None else display
    pictures = open_pictures(experiment.config.dataset, data, on_error=on_error)
    target = None
    if experiment.target is not None:
        target = open_pictures(experiment.target, target_data or data, on_error=on_error)
    for fault in (*pictures.skipped, *(() if target is None else target.skipped)):
        shown.note(f"left out: {fault}")
    _check_tasks(experiment, pictures if target is None else target)
    output.mkdir(parents=True, exist_ok=True)
    with FolderLock(output, TrainError, holder="a reproduction"):
        _claim(output, experiment)
        return _Chain(experiment, pictures, target, output, shown, command, steps).run()


def _check_tasks(experiment: Experiment, pictures: Pictures) -> None:
    """Draw one task of each kind, so that an impossible one is an error now and not after the training."""
    rows = FeatureSet(np.zeros((len(pictures), 1), np.float32), pictures.labels, pictures.split)
    for setting in cells(experiment.protocol):
        try:
            draw_tasks(rows, **replace(setting, tasks=1).arguments)
        except ValueError as error:
            raise ConfigError(f"{experiment.name}: {error}") from error


def _claim(output: Path, experiment: Experiment) -> None:
    """Refuse the folder of another source: a typing error must not replace hours of training."""
    found = read_json(output / _OWNER)
    if found is None:
        KeyedFolder(str(output)).put_json(_OWNER, {"setting": experiment.source})
    elif (owner := found.get("setting", "something else")) != experiment.source:
        raise TrainError(f"{output}: holds a run of {owner}; choose another folder for {experiment.name}.")


@dataclass
class _Chain:
    """The steps of one setting, each made from the outputs of those before."""

    experiment: Experiment
    pictures: Pictures
    target: Pictures | None
    output: Path
    display: Display
    command: str
    requested: Sequence[str]
    records: dict[str, StepRecord] = field(default_factory=dict)
    ran: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.config, self.protocol = self.experiment.config, self.experiment.protocol

    def run(self) -> Outcome:
        """Go through the steps up to the last requested one."""
        last = max(STEPS.index(step) for step in self.requested)
        for prepare in (self._train, self._extract, self._tune, self._evaluate, self._report)[: last + 1]:
            prepare()
        folder = self._own("report") if "report" in self.requested else None
        return Outcome(tuple(self.records.values()), tuple(self.ran), folder)

    def _do(self, folder: Path, inputs: dict[str, Any], work: Callable[[Step], str], adopt: str | None = None) -> None:
        """Run a step, unless it is done with these inputs already."""
        name = folder.name
        kind = name.partition("-")[0]
        step = Step(folder, {"version": _VERSIONS[kind], **inputs}, adopt=adopt)
        if kind in self.requested:
            said = step.begin()
            if said:
                self.display.note(f"{name}: {said}")
        record = step.record
        if record is not None:
            self.display.note(f"{name}: done before.")
        elif kind not in self.requested:
            steps = ",".join(self.requested)
            raise ConfigError(f"--steps {steps}: {name} comes first, and is not done with these inputs.")
        else:
            record = step.finish(work(step))
            self.ran.append(name)
            self.display.note(f"{name}: done in {record.seconds:,.1f} s.")
        self.records[name] = record

    def _made(self, folder: Path) -> str:
        """Hash of what a step has made."""
        return self.records[folder.name].outputs

    def _train(self) -> None:
        inputs = {"config": self.config.experiment(), "pictures": self.pictures.content_key()}
        # A folder of laplacianshot train is as good as one of ours: train checks whose it is.
        self._do(self.output / "train", inputs, self._train_now, adopt=LAST)

    def _train_now(self, step: Step) -> str:
        def progress(status: TrainStatus) -> None:
            step.tick()
            self.display.training(status)

        result = train(self.config, self.pictures, step.folder, score=validation_score, progress=progress)
        step.at_least(sum(record.seconds for record in result.history))
        # Everything that is the same in every run: no times.
        names = ("epoch", "learning_rate", "loss", "accuracy", "validation", "validation_ci95")
        history = [[getattr(record, name) for name in names] for record in result.history]
        return arrays_hash(Checkpoint.read(result.best).part(MODEL), digest([history, result.best_epoch]))

    def _extract(self) -> None:
        parts = {self.output / "extract": self.pictures}
        if self.target is not None:
            parts[self._own("extract")] = self.target.select(self.protocol.test_split)
        for folder, pictures in parts.items():
            inputs = {"train": self._made(self.output / "train"), "pictures": pictures.content_key()}
            self._do(folder, inputs, partial(self._extract_now, pictures=pictures))

    def _extract_now(self, step: Step, pictures: Pictures) -> str:
        device = world_of_environment().device(self.config.device)
        network = Checkpoint.read(self.output / "train" / BEST).network().to(device)
        with torch_threads(self.config.threads):
            store = extract(
                network,
                pictures,
                step.folder / _FEATURES,
                view=eval_view(self.config),
                workers=self.config.workers,
                progress=self._watch(step)("pictures"),
            ).store
        names = ("features", "labels", "split", "class_names", "names")
        return arrays_hash({name: np.asarray(getattr(store, name)) for name in names})

    def _tune(self) -> None:
        protocol = self.protocol.to_mapping()
        names = ("ways", "shots", "query", "tuning_tasks", "test_split", "seed")
        inputs = {"features": self._made(self.output / "extract")} | {name: protocol[name] for name in names}
        self._do(self.output / "tune", inputs, self._tune_now)

    def _tune_now(self, step: Step) -> str:
        features = FeatureSet.load(self.output / "extract" / _FEATURES)
        tune_all(features, self.protocol, step.folder, self._watch(step), step.tick)
        return parts_hash(step.folder)

    def _evaluate(self) -> None:
        inputs = {
            "features": self._made(self._own("extract")),
            "base features": self._made(self.output / "extract"),
            "tune": self._made(self.output / "tune"),
            "protocol": self.protocol.to_mapping(),
        }
        self._do(self._own("evaluate"), inputs, self._evaluate_now)

    def _evaluate_now(self, step: Step) -> str:
        source = FeatureSet.load(self.output / "extract" / _FEATURES)
        features = source if self.target is None else FeatureSet.load(self._own("extract") / _FEATURES)
        constants = Constants.load(self.output / "tune", self.protocol, tuple(source.splits))
        center = source.base_mean(self.config.base_split)
        name = self.experiment.target or self.config.dataset
        measurement = Measurement(features, center, name, self.protocol, constants, step.folder)
        measurement.run(self._watch(step), step.tick)
        return parts_hash(step.folder)

    def _report(self) -> None:
        experiment = self.experiment
        inputs = {
            "train": self._made(self.output / "train"),
            "tune": self._made(self.output / "tune"),
            "evaluate": self._made(self._own("evaluate")),
            "setting": [experiment.name, experiment.title, experiment.published],
        }
        self._do(self._own("report"), inputs, self._report_now)

    def _report_now(self, step: Step) -> str:
        experiment = self.experiment
        state = Checkpoint.read(self.output / "train" / LAST).state
        best = state.epoch if state.best is None else state.best.epoch
        run, transforms, times = load_measured(self._own("evaluate"), self.protocol)
        features, published = run.features, experiment.published
        if published and load_published().mismatch(published, features.split_classes, features.dimension):
            # Other classes or another network: these figures may not stand beside ours.
            published = None
        methods = {name: _settings(name) for name in self.protocol.methods}
        found = Reproduction(
            name=experiment.name,
            title=experiment.title,
            facts=_facts(experiment, features, best),
            config=self.config.experiment(),
            epochs=state.history,
            best_epoch=best,
            tuned=Constants.load(self.output / "tune", self.protocol, tuple(self.pictures.splits)).found,
            evaluation=EvaluationReport(**vars(run) | {"methods": methods}, published=published or None),
            transforms=transforms,
            pairs=tuple((transform, prototype, transformed(transform)) for transform, prototype in TRANSFORMS.items()),
            times=times,
            steps=tuple(StepTime(record.step, record.seconds, record.finished) for record in self.records.values()),
            environment=_environment(),
            command=self.command,
        )
        write_reproduction(found, step.folder)
        return digest(found.results())

    def _own(self, kind: str) -> Path:
        """Folder of a step of this setting; a cross-domain setting has its own beside those of its source."""
        return self.output / (kind if self.target is None else f"{kind}-{self.experiment.target}")

    def _watch(self, step: Step) -> Watch:
        def watch(what: str) -> Progress:
            count = self.display.watch(f"{step.folder.name}: {what}")

            def progress(done: int, total: int) -> None:
                step.tick()
                count(done, total)

            return progress

        return watch


def _facts(experiment: Experiment, features: FeatureFile, best: int) -> dict[str, str]:
    config, protocol = experiment.config, experiment.protocol
    kept = "the best on validation tasks" if config.validation_split else "the last one"
    return {
        "Setting": experiment.name,
        "Trained on": f"{config.dataset}, classes of {config.base_split}",
        "Network": f"{config.network}, {features.dimension} features, pictures of {config.image_size} px",
        "Training": f"{config.epochs} epochs of SGD, batches of {config.batch_size}, label smoothing "
        f"{config.label_smoothing:g}; weights of epoch {best}, {kept}",
        "Tasks from": f"{features.file}, {features.split_classes} classes of {features.split}, "
        f"{features.split_rows:,} pictures",
        "Tasks": f"{protocol.tasks:,} of each kind, {protocol.slow_tasks:,} for slow methods; {protocol.query} queries "
        "per class",
        "Center of CL2": f"mean of the features of {config.dataset}, classes of {config.base_split}",
        "Seeds": f"training {config.seed}, validation tasks {config.validation_seed}, tuning and test tasks "
        f"{protocol.seed}",
    }


def _settings(name: str) -> str:
    text = find_method(name).settings
    return f"{text}; but lam and n_neighbors tuned, see there" if name in (PAPER, REFERENCE) else text


_PACKAGES = ("numpy", "scipy", "scikit-learn", "numba", "torch", "safetensors", "pillow")


def _environment() -> dict[str, str]:
    """Versions and cores, by name."""
    found = {
        "laplacianshot": __version__,
        "Python": platform.python_version(),
        "system": f"{platform.system()} {platform.machine()}",
        "cores": str(available_threads()),
    }
    for name in _PACKAGES:
        try:
            found[name] = version(name)
        except PackageNotFoundError:
            continue
    return found
