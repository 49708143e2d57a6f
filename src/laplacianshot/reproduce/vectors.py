"""The steps that need torch: a network is trained, and its vectors go into a store."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from laplacianshot.datasets.feature_store import FeatureStore
from laplacianshot.embedding.extraction import extract
from laplacianshot.episodes.evaluation import validation_score
from laplacianshot.reproduce.steps import digest
from laplacianshot.runtime.keyed_folder import arrays_hash
from laplacianshot.runtime.threads import torch_threads
from laplacianshot.training import Checkpoint, TrainConfig, train
from laplacianshot.training.checkpoint import BEST, LAST, MODEL
from laplacianshot.training.plan import eval_view
from laplacianshot.training.world import world_of_environment

if TYPE_CHECKING:
    from laplacianshot.datasets.pictures import Pictures
    from laplacianshot.training.state import EpochRecord, TrainStatus

# Below the folder of an extraction.
FEATURES = "features"

# What is the same in every run of a training.
_NOTED = ("epoch", "learning_rate", "loss", "accuracy", "validation", "validation_ci95")


def train_network(
    config: TrainConfig, pictures: Pictures, folder: Path, progress: Callable[[TrainStatus], object]
) -> tuple[str, float]:
    """Train, from wherever the run in the folder stands; the hash of what came of it, and the seconds it took.

    The hash covers the weights that were kept and all that was noted but times.
    """
    result = train(config, pictures, folder, score=validation_score, progress=progress)
    noted = [[getattr(record, name) for name in _NOTED] for record in result.history]
    weights = Checkpoint.read(result.best).part(MODEL)
    return arrays_hash(weights, digest([noted, result.best_epoch])), sum(record.seconds for record in result.history)


def trained_epochs(folder: Path) -> tuple[tuple[EpochRecord, ...], int]:
    """The epochs of a finished training, and the one whose weights were kept."""
    state = Checkpoint.read(folder / LAST).state
    return state.history, state.epoch if state.best is None else state.best.epoch


def extract_features(
    trained: Path, config: TrainConfig, pictures: Pictures, folder: Path, progress: Callable[[int, int], object]
) -> str:
    """Put the vectors of all pictures into a store, from wherever it stands; the hash of the store."""
    device = world_of_environment().device(config.device)
    network = Checkpoint.read(trained / BEST).network().to(device)
    with torch_threads(config.threads):
        found = extract(
            network,
            pictures,
            folder / FEATURES,
            view=eval_view(config),
            workers=config.workers,
            progress=progress,
        )
    return store_hash(found.store)


def store_hash(store: FeatureStore) -> str:
    """SHA-256 of the vectors of a store and of what is beside them."""
    names = ("features", "labels", "split", "class_names", "names")
    return arrays_hash({name: np.asarray(getattr(store, name)) for name in names})
