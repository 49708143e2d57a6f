"""Pictures that a program draws: three shapes in three colors, each at a place and in a size of its own."""

from __future__ import annotations

import csv
from pathlib import Path

import numpy as np
from PIL import Image, ImageDraw

CLASSES = ("ball", "box", "kite")
_COLORS = ((200, 60, 50), (40, 130, 80), (50, 80, 190))


def draw(kind: int, seed: int, size: int = 64) -> Image.Image:
    """A shape of class ``kind`` on a noisy ground."""
    rng = np.random.default_rng([kind, seed])
    ground = rng.integers(190, 256, (size, size, 3), dtype=np.uint8)
    picture = Image.fromarray(ground)
    x, y = rng.integers(size // 8, size // 4, 2)
    side = int(rng.integers(size // 3, size // 2))
    pen = ImageDraw.Draw(picture)
    color = tuple(int(v) for v in np.clip(np.array(_COLORS[kind]) + rng.integers(-20, 20, 3), 0, 255))
    box = (int(x), int(y), int(x) + side, int(y) + side)
    if kind == 0:
        pen.ellipse(box, fill=color)
    elif kind == 1:
        pen.rectangle(box, fill=color)
    else:
        middle = (box[0] + box[2]) // 2
        pen.polygon(
            [(middle, box[1]), (box[2], (box[1] + box[3]) // 2), (middle, box[3]), (box[0], box[3])], fill=color
        )
    return picture


def draw_folder(folder: Path, per_class: int = 8) -> dict[str, str]:
    """Pictures in a folder and below it, without a word of their class in the names; the truth by id."""
    truth = {}
    for seed in range(per_class):
        for kind, name in enumerate(CLASSES):
            place = folder if seed % 2 else folder / "more" / "deep"
            place.mkdir(parents=True, exist_ok=True)
            path = place / f"{3 * seed + (kind + seed) % 3:03}.png"
            draw(kind, seed).save(path)
            truth[path.relative_to(folder).as_posix()] = name
    return truth


def write_labels(path: Path, labels: dict[str, str]) -> Path:
    """A CSV with the columns id and label."""
    with path.open("w", newline="", encoding="utf-8") as file:
        csv.writer(file).writerows([("id", "label"), *labels.items()])
    return path


def first_of_each(truth: dict[str, str], count: int = 1) -> dict[str, str]:
    """The first ``count`` labels of each class."""
    chosen: dict[str, str] = {}
    for name, label in truth.items():
        if list(chosen.values()).count(label) < count:
            chosen[name] = label
    return chosen
