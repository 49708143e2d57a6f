"""The tasks on which confidence is fitted and checked: whole feature sets, a few labels per class.

Every set is in halves of other classes: one for the design, one that the design never saw. Digits and Omniglot's
evaluation alphabets are for the check alone; no set of digits and no raw pixels but Omniglot's were seen before.
"""

from __future__ import annotations

import zlib
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import numpy as np
from recipe_study.common import FeatureSet, large_task, load

from laplacianshot.runtime.types import Floats, Ints

DESIGN = ("cub-base", "cub-val", "cifar-base", "cifar-val", "bank-even", "omni-back")
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
    """A set, how many of its classes (0: all), labels per class, and whether class sizes fall to a twentieth."""

    name: str
    way: int
    shots: int
    tail: bool


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


@cache
def feature_set(name: str, data: Path) -> FeatureSet:
    """One of the sets by name."""
    return load(name, data)


def draw_task(setting: Setting, draw: int, data: Path) -> Task:
    """Draw number ``draw``, the same on every machine."""
    fs = feature_set(setting.name, data)
    seed = zlib.crc32(f"{setting.name}/{setting.way}/{setting.tail}/{setting.shots}/{draw}".encode())
    if setting.way:
        classes = np.random.default_rng(seed).choice(len(fs.by_class), setting.way, replace=False)
        rows = np.concatenate([fs.by_class[c] for c in classes])
        sizes = [len(fs.by_class[c]) for c in classes]
        fs = FeatureSet(setting.name, fs.x[rows], np.repeat(np.arange(setting.way), sizes), None)
    picked, support, query = large_task(fs, setting.shots, seed, setting.tail)
    truth = np.concatenate([support, query])
    return Task(fs.x[picked], np.where(np.arange(len(truth)) < len(support), truth, -1), truth)
