"""Where a run stands, and what it has found: plain numbers for JSON, CSV and progress."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self


@dataclass(frozen=True)
class EpochRecord:
    """One epoch, as in ``log.csv``.

    Attributes
    ----------
    epoch : int
        From 1.
    learning_rate : float
        At its last step.
    loss, accuracy : float
        Mean over the augmented pictures of the epoch, each as the network was when it met them.
    validation, validation_ci95 : float or None
        Mean accuracy over the validation tasks and its 95% margin; None where it was not measured.
    images_per_second, seconds : float
        Of training alone, and of the epoch with its validation.
    """

    epoch: int
    learning_rate: float
    loss: float
    accuracy: float
    validation: float | None
    validation_ci95: float | None
    images_per_second: float
    seconds: float


@dataclass(frozen=True)
class Best:
    """The epoch with the best validation so far; the first of equals."""

    epoch: int
    validation: float


@dataclass(frozen=True)
class TrainState:
    """Where a run stands between two steps.

    Attributes
    ----------
    epoch : int
        Epochs finished, validation included.
    step : int
        Steps done of the next one.
    loss_sum, correct, seen : float, int, int
        Over the pictures of those steps.
    train_seconds : float
        Spent on those steps.
    history : tuple of EpochRecord
    best : Best or None
    scaler : dict
        Of the loss in float16; empty otherwise.
    """

    epoch: int = 0
    step: int = 0
    loss_sum: float = 0.0
    correct: int = 0
    seen: int = 0
    train_seconds: float = 0.0
    history: tuple[EpochRecord, ...] = ()
    best: Best | None = None
    scaler: dict[str, float] = dataclasses.field(default_factory=dict)

    def to_json(self) -> dict[str, Any]:
        """For a JSON document; floats come back exactly."""
        return dataclasses.asdict(self) | {"history": [dataclasses.asdict(record) for record in self.history]}

    @classmethod
    def from_json(cls, document: dict[str, Any]) -> Self:
        """Inverse of :meth:`to_json`."""
        values = dict(document)
        values["history"] = tuple(EpochRecord(**record) for record in values["history"])
        values["best"] = None if values["best"] is None else Best(**values["best"])
        return cls(**values)


@dataclass(frozen=True)
class TrainStatus:
    """Status of a run, reported a few times per second.

    Attributes
    ----------
    phase : str
        ``"train"``, ``"validate"`` or ``"done"``.
    epoch, epochs : int
        The epoch at work, from 1, of how many.
    step, steps : int
        Steps done of this epoch, or batches of the validation.
    loss, accuracy : float
        Means over the epoch so far; NaN before its first step.
    learning_rate : float
    images_per_second : float
    seconds_left : float
        Until the end of the run; NaN before anything is known.
    latest : EpochRecord or None
        The epoch finished last.
    best : Best or None
    """

    phase: str
    epoch: int
    epochs: int
    step: int
    steps: int
    loss: float
    accuracy: float
    learning_rate: float
    images_per_second: float
    seconds_left: float
    latest: EpochRecord | None
    best: Best | None


@dataclass(frozen=True)
class TrainResult:
    """A finished run.

    Attributes
    ----------
    best, last : Path
        Checkpoints: of the epoch with the best validation, and of the last epoch.
    history : tuple of EpochRecord
    best_epoch : int
        From 1; the last one where there was no validation.
    best_validation : float or None
    """

    best: Path
    last: Path
    history: tuple[EpochRecord, ...]
    best_epoch: int
    best_validation: float | None
