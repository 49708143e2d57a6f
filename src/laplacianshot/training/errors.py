"""Errors of training: one line that names what is wrong and what to do."""

from __future__ import annotations

from pathlib import Path

from laplacianshot.runtime.errors import InputError


class TrainError(InputError):
    """Any of the errors below."""


class ConfigError(TrainError):
    """A setting that cannot be, alone, with another, or with these pictures."""


class CheckpointError(TrainError):
    """A checkpoint that cannot be read, or does not belong to this run."""


class OutputInUse(TrainError):
    """An output folder in which another process is at work, or which holds a run already."""


class Diverged(TrainError):
    """A loss that is no longer finite."""


class TrainingInterrupted(KeyboardInterrupt):
    """Training was stopped between two steps; the checkpoint holds everything up to there.

    Attributes
    ----------
    checkpoint : Path
    signal : int
        Which signal it was.
    """

    def __init__(self, checkpoint: Path, number: int) -> None:
        super().__init__(f"stopped; {checkpoint} holds everything so far.")
        self.checkpoint = checkpoint
        self.signal = number
