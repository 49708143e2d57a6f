"""The learning rate at every step."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from laplacianshot.training.config import TrainConfig


def learning_rate(config: TrainConfig, epoch: int, step: int = 0, steps: int = 1) -> float:
    """Learning rate of one step; epochs and steps count from 0.

    With E epochs, t = epoch + step/steps, w the epochs of warm-up and r the given rate::

        constant    r
        milestones  r gamma^m,  m = number of milestones f with epoch >= floor(f E)
        every       r gamma^floor(epoch / every)
        cosine      r (1 + cos(pi (t - w) / (E - w))) / 2

    all times (t + 1/steps) / w while t < w.

    Parameters
    ----------
    config : TrainConfig
    epoch : int
    step, steps : int
        The step within its epoch, of how many.
    """
    time = epoch + step / steps
    if config.schedule == "milestones":
        factor = config.gamma ** sum(epoch >= math.floor(at * config.epochs) for at in config.milestones)
    elif config.schedule == "every":
        factor = config.gamma ** (epoch // config.every)
    elif config.schedule == "cosine":
        share = (time - config.warmup_epochs) / (config.epochs - config.warmup_epochs)
        factor = (1 + math.cos(math.pi * max(0.0, share))) / 2
    else:
        factor = 1.0
    if time < config.warmup_epochs:
        factor *= (time + 1 / steps) / config.warmup_epochs
    return config.learning_rate * factor
