"""Base training of the networks.

Names are loaded when they are first used: a config can be read and checked without torch.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from laplacianshot.runtime.extras import lazy_names, require
from laplacianshot.training.config import TrainConfig, config_names, load_config
from laplacianshot.training.state import EpochRecord, TrainError, TrainingInterrupted, TrainResult, TrainStatus

if TYPE_CHECKING:
    from laplacianshot.training.checkpoint import Checkpoint
    from laplacianshot.training.run import train

__all__ = [
    "Checkpoint",
    "EpochRecord",
    "TrainConfig",
    "TrainError",
    "TrainResult",
    "TrainStatus",
    "TrainingInterrupted",
    "config_names",
    "load_config",
    "train",
]

# What needs torch.
_HOMES = {"Checkpoint": "laplacianshot.training.checkpoint", "train": "laplacianshot.training.run"}

_load, __dir__ = lazy_names(__name__, _HOMES)


def __getattr__(name: str) -> Any:
    if name in _HOMES:
        for module in ("torch", "safetensors", "PIL.Image"):
            require(module, "train")
    return _load(name)
