"""What is trained on, in which order, and how a step is shared out."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Protocol, TypeAlias

import numpy as np

from laplacianshot.embedding.pictures import EvalView, TrainView
from laplacianshot.embedding.pictures.views import epoch_order
from laplacianshot.runtime.types import Floats, Ints
from laplacianshot.training.config import TrainConfig
from laplacianshot.training.state import ConfigError

if TYPE_CHECKING:
    from laplacianshot.datasets.pictures import Pictures

# Few-shot accuracy of features (n, D) with these labels, on the validation tasks of a config and a number of threads:
# an object with mean and ci95. Tasks belong to a later room, so a run is given the function.
Score: TypeAlias = Callable[[Floats, Ints, TrainConfig, int | None], "_Scored"]


class _Scored(Protocol):
    """A mean accuracy and the half-width of its 95% interval."""

    @property
    def mean(self) -> float:
        """Mean accuracy over tasks."""

    @property
    def ci95(self) -> float:
        """Half-width of its 95% interval."""


@dataclass(frozen=True)
class Plan:
    """Rows and classes of a run."""

    config: TrainConfig
    rows: Ints  # pictures to train on, ascending, (n,)
    classes: Ints  # their labels, sorted: number k is logit k, (K,)
    class_names: tuple[str, ...]  # K
    validation_rows: Ints  # empty without validation
    data_key: str  # SHA-256 over names, labels and splits of all pictures

    def steps(self, processes: int) -> int:
        """Steps of an epoch: all pictures, but for a last step with fewer than two for a process."""
        whole, rest = divmod(len(self.rows), self.config.batch_size)
        return whole + (rest >= 2 * processes)

    def order(self, epoch: int) -> Ints:
        """Rows in the order of an epoch (n,): a function of seed and epoch alone."""
        return self.rows[epoch_order(self.config.seed, epoch, len(self.rows))]

    def shares(self, rank: int, processes: int) -> tuple[list[int], list[slice]]:
        """For each step its number of pictures, and which places of the epoch's order this process takes."""
        size = self.config.batch_size
        sizes = [min(size, len(self.rows) - step * size) for step in range(self.steps(processes))]
        mine = [
            slice(step * size + rank * n // processes, step * size + (rank + 1) * n // processes)
            for step, n in enumerate(sizes)
        ]
        return sizes, mine


def make_plan(config: TrainConfig, pictures: Pictures, processes: int = 1, score: Score | None = None) -> Plan:
    """Find the rows and check that they can be trained and validated on, or raise :class:`ConfigError`."""
    parts = config.accumulate * processes
    if config.batch_size % parts:
        raise ConfigError(
            f"batch_size = {config.batch_size}: must be a multiple of accumulate times the number of processes, "
            f"{config.accumulate} x {processes}."
        )
    rows = _rows(pictures, config.base_split, "base_split")
    classes = np.unique(pictures.labels[rows])
    if len(classes) < 2:
        raise ConfigError(f"base_split = {config.base_split!r}: has {len(classes)} class; training needs at least two.")
    validation_rows: Ints = np.zeros(0, dtype=np.int64)
    if config.validation_split:
        validation_rows = _rows(pictures, config.validation_split, "validation_split")
        _check_tasks(config, pictures.labels[validation_rows], score)
    names = tuple(pictures.class_names[c] for c in classes)
    plan = Plan(config, rows, classes, names, validation_rows, _data_key(pictures))
    if plan.steps(processes) == 0:
        raise ConfigError(
            f"base_split = {config.base_split!r}: {len(rows)} pictures are too few for {processes} processes."
        )
    return plan


def _rows(pictures: Pictures, split: str, setting: str) -> Ints:
    try:
        return pictures.rows(split)
    except ValueError as error:
        raise ConfigError(f"{setting} = {split!r}: {error}") from error


def _check_tasks(config: TrainConfig, labels: Ints, score: Score | None) -> None:
    """Score one validation task, so that tasks that cannot be drawn are an error now and not after an epoch."""
    if score is None:
        raise ConfigError(
            f"validation_split = {config.validation_split!r}: train() needs score= to validate, such as "
            'laplacianshot.episodes.validation_score; or set validation_split = "".'
        )
    try:
        score(np.ones((len(labels), 1)), labels, replace(config, validation_tasks=1), 1)
    except ValueError as error:
        raise ConfigError(f"validation_split = {config.validation_split!r}: {error}") from error


def _data_key(pictures: Pictures) -> str:
    """Which pictures these are; not the time of their files, so that a copy of a data set can go on with a run."""
    total = hashlib.sha256()
    for words in (pictures.names.tolist(), pictures.labels.tolist(), pictures.split.tolist()):
        total.update(repr(words).encode())
    return total.hexdigest()


def train_view(config: TrainConfig) -> TrainView:
    """The view of training, random in each epoch."""
    return TrainView(
        size=config.image_size,
        scale=(config.crop_scale[0], config.crop_scale[1]) if config.crop_scale else None,
        flip=config.flip,
        jitter=config.jitter,
        degrees=config.degrees,
        zoom=config.zoom,
        shift=config.shift,
        channels=config.channels,
    )


def eval_view(config: TrainConfig) -> EvalView:
    """The view of validation, and of extraction with the trained network."""
    return EvalView(resize=config.resize, crop=config.image_size, channels=config.channels)
