"""Colored shapes of 28 pixels in class folders, and a setting under which everything takes seconds."""

from __future__ import annotations

from pathlib import Path

import numpy as np
from PIL import Image, ImageDraw

COLORS = {"red": (220, 40, 40), "green": (40, 200, 60), "blue": (60, 80, 230), "yellow": (220, 210, 40)}
SHAPES = ("disc", "box", "ring", "triangle")
# Of each shape two colors are for training, one for validation, one for the test.
SPLITS = {"red": "base", "green": "base", "blue": "val", "yellow": "novel"}

SETTING = """\
title = "Colored shapes"

[train]
dataset = "folder"
network = "conv4"
image_size = 16
resize = 16
epochs = 3
batch_size = 16
learning_rate = 0.05
validation_way = 3
validation_query = 5
validation_tasks = 20
workers = 0
threads = 1
device = "cpu"

[evaluation]
ways = [3]
shots = [1]
query = 5
tasks = 40
timing_tasks = 3
tuning_tasks = 10
methods = ["simpleshot-cl2", "laplacianshot", "laplacianshot-paper", "laplacianshot-reference"]
"""


def draw_shapes(root: Path, *, per_class: int = 10, seed: int = 0) -> Path:
    """Every shape in every color, each picture with a place, a size and a tint of its own."""
    rng = np.random.default_rng(seed)
    for color, split in SPLITS.items():
        for shape in SHAPES:
            folder = root / split / f"{color} {shape}"
            folder.mkdir(parents=True)
            for number in range(per_class):
                _drawn(shape, COLORS[color], rng).save(folder / f"{number:02}.png")
    return root


def _drawn(shape: str, color: tuple[int, int, int], rng: np.random.Generator) -> Image.Image:
    picture = Image.new("RGB", (28, 28), tuple(rng.integers(0, 60, 3).tolist()))
    radius = int(rng.integers(6, 10))
    x, y = rng.integers(radius, 28 - radius, 2).tolist()
    tint = tuple(np.clip(np.array(color) + rng.integers(-30, 31, 3), 0, 255).tolist())
    box = (x - radius, y - radius, x + radius, y + radius)
    draw = ImageDraw.Draw(picture)
    if shape == "disc":
        draw.ellipse(box, fill=tint)
    elif shape == "box":
        draw.rectangle(box, fill=tint)
    elif shape == "ring":
        draw.ellipse(box, outline=tint, width=3)
    else:
        draw.polygon([(x, y - radius), (x - radius, y + radius), (x + radius, y + radius)], fill=tint)
    return picture
