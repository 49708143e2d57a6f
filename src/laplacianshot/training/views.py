"""How pictures are seen, by config."""

from __future__ import annotations

from laplacianshot.embedding.pictures import EvalView, TrainView
from laplacianshot.training.config import TrainConfig


def train_view(config: TrainConfig) -> TrainView:
    """In training: another way each epoch."""
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
    """In validation, and wherever features of the trained network are extracted."""
    return EvalView(resize=config.resize, crop=config.image_size, channels=config.channels)
