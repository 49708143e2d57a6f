"""The report of a setting, put together from what its steps have left on disk."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from laplacianshot.baselines import BASELINES
from laplacianshot.reports.evaluation import EvaluationReport
from laplacianshot.reports.published import load_published
from laplacianshot.reports.reproduction import Epoch, Reproduction, StepTime
from laplacianshot.reproduce.environment import environment
from laplacianshot.reproduce.evaluating import TRANSFORMS, Measured, transformed
from laplacianshot.reproduce.experiment import Experiment
from laplacianshot.reproduce.steps import StepRecord
from laplacianshot.reproduce.tuning import PAPER, REFERENCE, Constants


def make_report(
    experiment: Experiment,
    trained: Path,
    constants: Constants,
    measured: Measured,
    records: Sequence[StepRecord],
    command: str,
) -> Reproduction:
    """All that the report says.

    Parameters
    ----------
    experiment : Experiment
    trained : Path
        Folder of the training.
    constants : Constants
    measured : Measured
    records : sequence of StepRecord
        Of the steps before.
    command : str
    """
    epochs, best = training_facts(trained)
    return Reproduction(
        name=experiment.name,
        title=experiment.title,
        facts=_facts(experiment, measured, best),
        config=experiment.config.experiment(),
        epochs=epochs,
        best_epoch=best,
        tuned=tuple((method, transform, one) for (method, transform, _, _), one in constants.found.items()),
        evaluation=EvaluationReport(
            features=measured.features,
            methods={name: _settings(name) for name in experiment.protocol.methods},
            evaluations=measured.evaluations,
            ablation=measured.ablation,
            convergence=measured.convergence,
            published=_published(experiment, measured),
        ),
        transforms=measured.transforms,
        pairs=tuple((transform, prototype, transformed(transform)) for transform, prototype in TRANSFORMS.items()),
        times=measured.times,
        steps=tuple(StepTime(record.step, record.seconds, record.finished) for record in records),
        environment=environment(),
        command=command,
    )


def training_facts(folder: Path) -> tuple[tuple[Epoch, ...], int]:
    """The epochs of a finished training, and the one whose weights were kept."""
    from laplacianshot.training import Checkpoint
    from laplacianshot.training.checkpoint import LAST

    state = Checkpoint.read(folder / LAST).state
    names = ("epoch", "learning_rate", "loss", "accuracy", "validation", "validation_ci95")
    epochs = tuple(Epoch(**{name: getattr(record, name) for name in names}) for record in state.history)
    return epochs, state.epoch if state.best is None else state.best.epoch


def _facts(experiment: Experiment, measured: Measured, best: int) -> dict[str, str]:
    config, protocol = experiment.config, experiment.protocol
    features = measured.features
    facts = {
        "Setting": experiment.name,
        "Trained on": f"{config.dataset}, classes of {config.base_split}",
        "Network": f"{config.network}, {features.dimension} features, pictures of {config.image_size} px",
        "Training": f"{config.epochs} epochs of SGD, batches of {config.batch_size}, label smoothing "
        f"{config.label_smoothing:g}; weights of epoch {best}, the best on validation tasks",
        "Tasks from": f"{features.file}, {features.split_classes} classes of {features.split}, "
        f"{features.split_rows:,} pictures",
        "Tasks": f"{protocol.tasks:,} of each kind, {protocol.slow_tasks:,} for slow methods; {protocol.query} queries "
        "a class",
        "Centre of CL2": f"mean of the features of {config.dataset}, classes of {config.base_split}",
        "Seeds": f"training {config.seed}, validation tasks {config.validation_seed}, tuning and test tasks "
        f"{protocol.seed}",
    }
    return facts


def _settings(name: str) -> str:
    text = BASELINES[name].settings
    return f"{text}; but lam and n_neighbors tuned, see there" if name in (PAPER, REFERENCE) else text


def _published(experiment: Experiment, measured: Measured) -> str | None:
    """Whose published figures may stand beside ours; none where these are other classes or another network."""
    key, features = experiment.published, measured.features
    if not key or load_published().mismatch(key, features.split_classes, features.dimension) is not None:
        return None
    return key
