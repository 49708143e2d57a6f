"""The tasks on which confidence is fitted and checked: whole feature sets, a few labels per class.

Every set is in halves of other classes: one for the design, one that the design never saw. Digits and Omniglot's
evaluation alphabets are for the check alone; no set of digits and no raw pixels but Omniglot's were seen before.

Weak features are part of the design as classes with Gaussian noise, and as sets of which a share of the rows have the
class of another row: there rows lie in clusters that say little of their classes.
"""

from __future__ import annotations

import zlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from itertools import product
from pathlib import Path

import numpy as np
from recipe_study.common import FeatureSet, large_task, load

from laplacianshot.runtime.types import Floats, Ints

DESIGN = ("cub-base", "cub-val", "cifar-base", "cifar-val", "bank-even", "omni-back")
# Scales of the means of classes with noise N(0, I), and shares of the rows that have the class of another.
GAUSSIANS = tuple(f"gauss-{scale}" for scale in (0.1, 0.15, 0.2, 0.3))
SHUFFLED = (0.3, 0.7)
HELD_OUT = ("cub-novel", "cifar-test", "bank-odd")
# No network made these vectors.
PIXELS = ("digits", "omni-eval")

NAMES = {
    "cub": "CUB",
    "cifar": "CIFAR-FS",
    "bank": "BANKING77",
    "omni": "Omniglot pixels",
    "digits": "digits pixels",
}


@dataclass(frozen=True)
class Setting:
    """A set, how many of its classes (0: all), labels per class, and whether class sizes fall to a twentieth.

    ``shuffled``: share of the rows that have the class of another row.
    """

    name: str
    way: int
    shots: int
    tail: bool
    shuffled: float = 0.0


@dataclass(frozen=True)
class Task:
    """Rows, their codes (-1: unlabeled) and the truth."""

    X: Floats
    codes: Ints
    truth: Ints


def settings(name: str) -> Iterator[Setting]:
    """All settings of a set: 5, 10, 20 and all classes; 1, 2, 5 and 10 labels; balanced and long-tailed."""
    small = name.startswith("omni")
    ways = {"omni": (5, 10, 20, 50), "digits": (5, 0), "cifar": (5, 10, 0)}.get(name.split("-")[0], (5, 10, 20, 0))
    if name == "cifar-base":
        ways = (5, 10, 20, 0)
    for way in ways:
        for tail in (False, True):
            # Omniglot has twenty drawings a class.
            for shots in (1, 2, 5) if small else (1, 2, 5, 10):
                yield Setting(name, way, shots, tail)


def design_settings(names: Sequence[str]) -> Iterator[Setting]:
    """All settings of the design sets, weak features among them."""
    for name in names:
        yield from settings(name)
        for way, shuffled, shots in product((10, 0), SHUFFLED, (1, 2, 5) if name.startswith("omni") else (1, 2, 5, 10)):
            yield Setting(name, way or (50 if name.startswith("omni") else 0), shots, False, shuffled)
    for name, way, shots in product(GAUSSIANS, (10, 0), (1, 2, 5, 10)):
        yield Setting(name, way, shots, False)


@cache
def feature_set(name: str, data: Path) -> FeatureSet:
    """One of the sets by name."""
    if name not in GAUSSIANS:
        return load(name, data)
    rng = np.random.default_rng(0)
    y = np.repeat(np.arange(40), 60)
    means = float(name.removeprefix("gauss-")) * rng.standard_normal((40, 512))
    return FeatureSet(name, (means[y] + rng.standard_normal((len(y), 512))).astype(np.float32), y, None)


def draw_task(setting: Setting, draw: int, data: Path, most: int | None = None) -> Task:
    """Draw number ``draw``, the same on every machine; ``most``: at most this many rows of a class."""
    fs = feature_set(setting.name, data)
    seed = zlib.crc32(f"{setting.name}/{setting.way}/{setting.tail}/{setting.shots}/{draw}".encode())
    if setting.way:
        classes = np.random.default_rng(seed).choice(len(fs.by_class), setting.way, replace=False)
        rows = np.concatenate([fs.by_class[c] for c in classes])
        sizes = [len(fs.by_class[c]) for c in classes]
        fs = FeatureSet(setting.name, fs.x[rows], np.repeat(np.arange(setting.way), sizes), None)
    if setting.shuffled:
        rng = np.random.default_rng(seed)
        y, moved = fs.y.copy(), np.flatnonzero(rng.random(len(fs.y)) < setting.shuffled)
        y[moved] = y[rng.permutation(moved)]
        fs = FeatureSet(setting.name, fs.x, y, None)
    picked, support, query = large_task(fs, setting.shots, seed, setting.tail, most)
    truth = np.concatenate([support, query])
    return Task(fs.x[picked], np.where(np.arange(len(truth)) < len(support), truth, -1), truth)
