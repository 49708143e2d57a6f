"""Base training of the networks.

Names are loaded when they are first used: a config can be read and checked without torch.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from laplacianshot.training.config import TrainConfig
from laplacianshot.training.errors import TrainError
from laplacianshot.training.named import config_names, load_config
from laplacianshot.training.state import Best, EpochRecord, TrainResult, TrainState, TrainStatus

if TYPE_CHECKING:
    from laplacianshot.training.checkpoint import Checkpoint
    from laplacianshot.training.interruption import TrainingInterrupted
    from laplacianshot.training.run import train

__all__ = [
    "Best",
    "Checkpoint",
    "EpochRecord",
    "TrainConfig",
    "TrainError",
    "TrainResult",
    "TrainState",
    "TrainStatus",
    "TrainingInterrupted",
    "config_names",
    "load_config",
    "train",
]

# What needs torch.
_HOMES = {
    "Checkpoint": "laplacianshot.training.checkpoint",
    "TrainingInterrupted": "laplacianshot.training.interruption",
    "train": "laplacianshot.training.run",
}


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from laplacianshot.embedding._extras import require

    require("torch", "train")
    require("safetensors", "train")
    return getattr(import_module(_HOMES[name]), name)


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
