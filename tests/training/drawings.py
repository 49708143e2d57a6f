"""Small colored drawings in a bundle, and settings under which a run over them takes a second."""

from __future__ import annotations

import dataclasses
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from laplacianshot.datasets.pictures import Pictures, open_pictures
from laplacianshot.episodes import validation_score
from laplacianshot.training import Checkpoint, EpochRecord, TrainConfig, plan, run

# Classes of each split.
SPLITS = {"base": 4, "val": 4, "novel": 3}
PER_CLASS = 12


train = partial(run.train, score=validation_score)
make_plan = partial(plan.make_plan, score=validation_score)


def write_bundle(path: Path, *, per_class: int = PER_CLASS, size: int = 20, seed: int = 0) -> Path:
    """Each class has a color and a place for its square, both a little off in each picture."""
    rng = np.random.default_rng(seed)
    names = np.repeat(list(SPLITS), list(SPLITS.values()))
    labels = np.repeat(np.arange(len(names)), per_class)
    colors = rng.integers(60, 255, (len(names), 3))
    corners = rng.integers(0, size - 8, (len(names), 2))
    images = rng.integers(0, 60, (len(labels), size, size, 3))
    for image, label in zip(images, labels, strict=True):
        top, left = np.clip(corners[label] + rng.integers(-1, 2, 2), 0, size - 8)
        image[top : top + 8, left : left + 8] = colors[label] - rng.integers(0, 30, 3)
    np.savez(
        path,
        images=images.astype(np.uint8),
        labels=labels.astype(np.int16),
        class_names=np.array([f"square {c}" for c in range(len(names))]),
        split=names[labels],
    )
    return path


def read_bundle(path: Path) -> Pictures:
    return open_pictures("cub84", path)


def tiny(**settings: Any) -> TrainConfig:
    """Conv4 at 16 pixels, six steps an epoch."""
    usual: dict[str, Any] = {
        "dataset": "cub84",
        "network": "conv4",
        "image_size": 16,
        "resize": 16,
        "epochs": 3,
        "batch_size": 8,
        "learning_rate": 0.05,
        "validation_tasks": 20,
        "validation_way": 3,
        "validation_query": 5,
        "device": "cpu",
        "threads": 1,
        "workers": 1,
    }
    return TrainConfig(**{**usual, **settings})


class Plain(nn.Module):
    """A network without batch normalization: what it makes of a picture does not depend on the others."""

    def __init__(self, n_classes: int = 4, channels: int = 3) -> None:
        super().__init__()
        self.convolution = nn.Conv2d(channels, 6, 3, stride=2)
        self.classifier = nn.Linear(6, n_classes)

    def forward(self, images: Tensor) -> tuple[Tensor, Tensor]:
        features = torch.tanh(self.convolution(images)).mean(dim=(2, 3))
        return features, self.classifier(features)


def same_tensors(a: dict[str, Tensor], b: dict[str, Tensor]) -> bool:
    """Equal names and equal bits."""
    return a.keys() == b.keys() and all(torch.equal(a[name], b[name]) for name in a)


def without_times(history: tuple[EpochRecord, ...]) -> list[EpochRecord]:
    return [dataclasses.replace(record, images_per_second=0.0, seconds=0.0) for record in history]


def same_runs(one: Path, other: Path) -> bool:
    """Whether two output folders hold the same weights, momentum, generators and history."""
    same = True
    for name in ("last", "best"):
        a, b = (Checkpoint.read(folder / f"{name}.safetensors") for folder in (one, other))
        same &= same_tensors(dict(a.tensors), dict(b.tensors))
        same &= without_times(a.state.history) == without_times(b.state.history)
        same &= a.state.best == b.state.best
    return same
