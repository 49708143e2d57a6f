"""1-shot accuracy of a network's features on classes it was not trained on."""

from __future__ import annotations

from collections.abc import Callable, Iterable

import numpy as np
import torch
from torch import Tensor, nn

from laplacianshot.datasets.feature_set import FeatureSet
from laplacianshot.episodes.evaluation import evaluate
from laplacianshot.episodes.results import Evaluation
from laplacianshot.runtime.types import Floats, Ints
from laplacianshot.training.config import TrainConfig

# The nearest mean of L2-normalized features.
METHOD = "simpleshot-l2"


@torch.inference_mode()
def features_of(network: nn.Module, batches: Iterable[Tensor], done: Callable[[], object] = lambda: None) -> Floats:
    """Features (n, D) of batches of images (B, C, H, W), in order; the network's mode is restored afterwards.

    Parameters
    ----------
    network : nn.Module
        Images to (features, logits).
    batches : iterable of Tensor
        On the network's device.
    done : callable
        Called after each batch.
    """
    was_training = network.training
    network.eval()
    try:
        parts = []
        for images in batches:
            parts.append(network(images)[0].float().cpu().numpy())
            done()
        return np.concatenate(parts)
    finally:
        network.train(was_training)


def validate(features: Floats, labels: Ints, config: TrainConfig, threads: int | None = None) -> Evaluation:
    """Nearest prototype with L2 features on the validation tasks, which are the same every time.

    Parameters
    ----------
    features : array of shape (n, D)
    labels : int array of shape (n,)
    config : TrainConfig
    threads : int, optional
    """
    return evaluate(
        FeatureSet(features, labels),
        METHOD,
        way=config.validation_way,
        shot=config.validation_shot,
        query=config.validation_query,
        tasks=config.validation_tasks,
        seed=config.validation_seed,
        threads=threads,
    )
