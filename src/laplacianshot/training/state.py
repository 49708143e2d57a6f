"""Where a run stands, what it has found and how it may fail: plain data for JSON, CSV and progress, without torch."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self

from laplacianshot.runtime.errors import InputError


class TrainError(InputError):
    """Training that cannot begin, go on or be resumed: one line that names what is wrong and what to do."""


class ConfigError(TrainError):
    """A setting that is not possible, alone, with another, or with these pictures."""


class TrainingInterrupted(KeyboardInterrupt):
    """Training was stopped by a signal between two steps; the checkpoint holds everything up to there."""

    def __init__(self, checkpoint: Path, number: int) -> None:
        super().__init__(f"stopped; {checkpoint} holds everything so far.")
        self.checkpoint = checkpoint
        self.signal = number


@dataclass(frozen=True)
class EpochRecord:
    """One epoch, as in ``log.csv``."""

    epoch: int  # from 1
    learning_rate: float  # at its last step
    loss: float  # mean over the augmented pictures, each as the network was when it met them
    accuracy: float  # on the same pictures
    validation: float | None  # mean accuracy over the validation tasks; None where it was not measured
    validation_ci95: float | None  # half-width of its 95% interval
    images_per_second: float  # of training alone
    seconds: float  # with validation


@dataclass(frozen=True)
class Best:
    """The epoch with the best validation so far; the first of equals."""

    epoch: int
    validation: float


@dataclass(frozen=True)
class TrainState:
    """Where a run stands between two steps."""

    epoch: int = 0  # epochs finished, validation included
    step: int = 0  # steps done of the next one
    loss_sum: float = 0.0  # over the pictures of those steps, as the next two
    correct: int = 0
    seen: int = 0
    train_seconds: float = 0.0  # spent on those steps
    history: tuple[EpochRecord, ...] = ()
    best: Best | None = None
    scaler: dict[str, float] = dataclasses.field(default_factory=dict)  # of gradients in float16; empty otherwise

    def to_json(self) -> dict[str, Any]:
        """For a JSON document; floats come back exactly."""
        return dataclasses.asdict(self) | {"history": [dataclasses.asdict(record) for record in self.history]}

    @classmethod
    def from_json(cls, document: dict[str, Any]) -> Self:
        """Inverse of :meth:`to_json`."""
        history = tuple(EpochRecord(**record) for record in document["history"])
        best = None if document["best"] is None else Best(**document["best"])
        return cls(**{**document, "history": history, "best": best})


@dataclass(frozen=True)
class TrainStatus:
    """Status of a run, reported a few times per second."""

    phase: str  # "train", "validate" or "done"
    epoch: int  # the epoch at work, from 1
    epochs: int
    step: int  # steps done of this epoch, or batches of the validation
    steps: int
    loss: float  # mean over the epoch so far; NaN before its first step
    accuracy: float
    learning_rate: float
    images_per_second: float
    seconds_left: float  # until the end of the run; NaN before anything is known
    latest: EpochRecord | None  # the epoch finished last
    best: Best | None


@dataclass(frozen=True)
class TrainResult:
    """A finished run."""

    best: Path  # checkpoint of the epoch with the best validation
    last: Path  # checkpoint of the last epoch
    history: tuple[EpochRecord, ...]
    best_epoch: int  # from 1; the last one where there was no validation
    best_validation: float | None
