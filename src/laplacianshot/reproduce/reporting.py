"""The report of a setting, put together from what its steps have left on disk."""

from __future__ import annotations

import platform
from collections.abc import Sequence
from dataclasses import replace
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

from laplacianshot import __version__
from laplacianshot.episodes.methods import find_method
from laplacianshot.episodes.plans import FeatureFile
from laplacianshot.reports.evaluation import EvaluationReport
from laplacianshot.reports.published import load_published
from laplacianshot.reports.reproduction import Reproduction, StepTime
from laplacianshot.reproduce.evaluating import PAPER, REFERENCE, TRANSFORMS, Constants, load_measured, transformed
from laplacianshot.reproduce.experiment import Experiment
from laplacianshot.reproduce.steps import StepRecord
from laplacianshot.runtime.threads import available_threads
from laplacianshot.training.state import TrainState


def make_report(
    experiment: Experiment,
    state: TrainState,
    constants: Constants,
    evaluated: Path,
    records: Sequence[StepRecord],
    command: str,
) -> Reproduction:
    """Put the report together from the state of the training, the folder of the evaluation, and earlier records."""
    run, transforms, times = load_measured(evaluated, experiment.protocol)
    best = state.epoch if state.best is None else state.best.epoch
    methods = {name: _settings(name) for name in experiment.protocol.methods}
    published = _published(experiment, run.features)
    return Reproduction(
        name=experiment.name,
        title=experiment.title,
        facts=_facts(experiment, run.features, best),
        config=experiment.config.experiment(),
        epochs=state.history,
        best_epoch=best,
        tuned=tuple((method, transform, one) for (method, transform, _, _), one in constants.found.items()),
        evaluation=EvaluationReport.of(replace(run, methods=methods), published=published),
        transforms=transforms,
        pairs=tuple((transform, prototype, transformed(transform)) for transform, prototype in TRANSFORMS.items()),
        times=times,
        steps=tuple(StepTime(record.step, record.seconds, record.finished) for record in records),
        environment=_environment(),
        command=command,
    )


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


def _published(experiment: Experiment, features: FeatureFile) -> str | None:
    """Which published figures may stand beside ours; None where these are other classes or another network."""
    key = experiment.published
    if not key or load_published().mismatch(key, features.split_classes, features.dimension) is not None:
        return None
    return key


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
