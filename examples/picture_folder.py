"""Label a folder of pictures: which to label first, then all the rest."""

import tempfile
from pathlib import Path

import numpy as np
from PIL import Image, ImageDraw

from laplacianshot import label_source


def draw(shape: str, seed: int) -> Image.Image:
    """Draw a circle, a square or a triangle on a noisy background."""
    rng = np.random.default_rng(seed)
    picture = Image.fromarray(rng.integers(170, 256, (96, 96, 3), dtype=np.uint8))
    x, y, size = (int(v) for v in rng.integers((8, 8, 40), (32, 32, 56)))
    color = tuple(int(v) for v in rng.integers(0, 150, 3))
    pen = ImageDraw.Draw(picture)
    if shape == "circle":
        pen.ellipse((x, y, x + size, y + size), fill=color)
    elif shape == "square":
        pen.rectangle((x, y, x + size, y + size), fill=color)
    else:
        pen.polygon([(x, y + size), (x + size // 2, y), (x + size, y + size)], fill=color)
    return picture


with tempfile.TemporaryDirectory() as folder:
    truth = {}
    for i in range(45):
        shape = ("circle", "square", "triangle")[i % 3]
        draw(shape, i).save(Path(folder) / f"{i:03}.png")
        truth[f"{i:03}.png"] = shape

    # Which pictures help most when a person labels them?
    first = label_source(folder, suggest=9)
    to_label = [first.ids[i] for i in first.suggested]
    print("please label:", ", ".join(to_label))

    # Here the person is a dictionary that knows the answers.
    result = label_source(folder, {name: truth[name] for name in to_label}, suggest=3)

unlabeled = [i for i, origin in enumerate(result.origins) if origin == "predicted"]
correct = np.mean([result.labels[i] == truth[result.ids[i]] for i in unlabeled])
print(f"{len(unlabeled)} pictures labeled, {correct:.0%} correctly")
print(f"mean confidence {result.confidence[unlabeled].mean():.0%}")
print("label next:", ", ".join(result.ids[i] for i in result.suggested))
