"""The sets of whole_set.py and how a task is drawn from one: real features, small tables, generated families."""

from __future__ import annotations

import zlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Literal, TypeAlias

import numpy as np
from sklearn import datasets

from laplacianshot import FeatureSet
from laplacianshot.runtime.types import Floats, Ints

Sizes: TypeAlias = Literal["natural", "long-tailed"]
SIZES: tuple[Sizes, ...] = ("natural", "long-tailed")
LABELS = (1, 2, 5, 10)
# Classes of a task; where a set has more, each draw has others.
MAX_CLASSES = 100
# Unlabeled rows of the largest class to those of the smallest, in a long tail.
TAIL = 10.0
# Rows per class of the generated families.
WEAK_ROWS, PLANE_ROWS = 100, 500

Rows: TypeAlias = tuple[Floats, Ints]


@dataclass(frozen=True)
class Source:
    """A set: what it is, the half it is in, and either its file or how rows are generated, anew in each draw."""

    what: str
    half: Literal["choose", "confirm"]
    read: Callable[[Path], Rows] | None = None
    generate: Callable[[np.random.Generator], Rows] | None = None

    def rows(self, data: Path, rng: np.random.Generator) -> Rows:
        """Features (n, D) and labels (n,)."""
        if self.generate is not None:
            return self.generate(rng)
        assert self.read is not None
        return self.read(data)


def _file(path: str) -> Callable[[Path], Rows]:
    @cache
    def read(data: Path) -> Rows:
        found = FeatureSet.load(data / path)
        return np.ascontiguousarray(found.features, dtype=np.float32), found.labels.astype(np.int64)

    return read


@cache
def _omniglot(data: Path) -> Rows:
    with np.load(data / "omniglot" / "omniglot28.npz", allow_pickle=False) as arrays:
        labels = arrays["labels"].astype(np.int64)
        return arrays["images"].reshape(len(labels), -1).astype(np.float32) / 255, labels


def _bundled(load: Callable[..., Rows]) -> Callable[[Path], Rows]:
    def read(_: Path) -> Rows:
        X, y = load(return_X_y=True)
        return X, y.astype(np.int64)

    return read


def _weak(scale: float) -> Callable[[np.random.Generator], Rows]:
    """40 classes in 512 columns: a mean ``scale N(0, I)`` plus noise ``N(0, I)``."""

    def generate(rng: np.random.Generator) -> Rows:
        means = scale * rng.standard_normal((40, 512))
        y = np.repeat(np.arange(40), WEAK_ROWS)
        return (means[y] + rng.standard_normal((len(y), 512))).astype(np.float32), y

    return generate


def _moons(rng: np.random.Generator) -> Rows:
    X, y = datasets.make_moons(2 * PLANE_ROWS, noise=0.1, random_state=int(rng.integers(2**31)))
    return X, y.astype(np.int64)


def _rings(rng: np.random.Generator) -> Rows:
    """Three rings about one center, of radius 1, 2 and 3, with noise 0.1."""
    y = np.repeat(np.arange(3), PLANE_ROWS)
    angle = rng.uniform(0, 2 * np.pi, len(y))
    X = (1 + y)[:, None] * np.column_stack([np.cos(angle), np.sin(angle)])
    return X + 0.1 * rng.standard_normal(X.shape), y


SOURCES: Mapping[str, Source] = {
    "digits": Source("8 x 8 pixels, 10 classes", "choose", _bundled(datasets.load_digits)),
    "CUB": Source(
        "EfficientNet-Lite0, 200 kinds of birds, all splits", "choose", _file("cub/cub_efficientnet_lite0.npz")
    ),
    "BANKING77": Source("MiniLM, 77 intents", "choose", _file("banking77/minilm_int8.npz")),
    "GoEmotions": Source("MiniLM, 28 emotions, few rows of most", "choose", _file("goemotions/minilm.npz")),
    "wine": Source("table of 13 columns, 3 classes", "choose", _bundled(datasets.load_wine)),
    "iris": Source("table of 4 columns, 3 classes", "choose", _bundled(datasets.load_iris)),
    "weak Gaussian 0.15": Source("40 classes, 512 columns, means 0.15 N(0, I)", "choose", generate=_weak(0.15)),
    "weak Gaussian 0.25": Source("40 classes, 512 columns, means 0.25 N(0, I)", "choose", generate=_weak(0.25)),
    "moons": Source("two half moons in the plane, noise 0.1", "choose", generate=_moons),
    "Omniglot": Source("28 x 28 pixels, 1,623 characters", "confirm", _omniglot),
    "CIFAR-FS": Source(
        "EfficientNet-Lite0, 100 classes, all splits",
        "confirm",
        _file("cifar_fs/cifarfs_efficientnet_lite0_128px.npz"),
    ),
    "SNIPS": Source("MiniLM, 7 intents", "confirm", _file("snips/minilm.npz")),
    "PlantDoc": Source("EfficientNet-Lite0, 27 leaf diseases", "confirm", _file("plantdoc/efficientnet_lite0.npz")),
    "WHU-RS19": Source("CLIP ViT-B/32, 19 kinds of places", "confirm", _file("whu_rs19/clip_vit-b-32.npz")),
    "breast cancer": Source("table of 30 columns, 2 classes", "confirm", _bundled(datasets.load_breast_cancer)),
    "rings": Source("three rings in the plane, noise 0.1", "confirm", generate=_rings),
}


@dataclass(frozen=True)
class Cell:
    """One kind of tasks."""

    name: str
    sizes: Sizes
    per_class: int

    @property
    def key(self) -> str:
        """The cell in the JSON file."""
        return f"{self.name}/{self.sizes}/{self.per_class}"

    def task(self, data: Path, *, draw: int, seed: int, max_rows: int) -> Rows:
        """Features (n, D) and labels (n,) of a draw, which depends on the cell, the draw and the seed alone."""
        rng = np.random.default_rng([seed, draw, zlib.crc32(self.key.encode())])
        X, y = SOURCES[self.name].rows(data, rng)
        rows = draw_rows(y, self.per_class, sizes=self.sizes, max_rows=max_rows, rng=rng)
        return X[rows], y[rows]


def draw_rows(labels: Ints, per_class: int, *, sizes: Sizes, max_rows: int, rng: np.random.Generator) -> Ints:
    """Draw the rows of a task from labels (n,); row numbers in rising order.

    Classes are those with more than ``per_class`` rows, at most 100 of them, in random order c = 0..C-1. Beside the
    ``per_class`` rows that will be labeled, class c has ``u_c`` rows, at least 1: all others that it has (natural) or,
    with m the median of that over classes, at most ``m / 10^(c / (C - 1))`` (long-tailed). Where this makes more than
    ``max_rows`` rows in all, every ``u_c`` is reduced by one factor, and rounded.
    """
    classes, counts = np.unique(labels, return_counts=True)
    chosen = rng.permutation(np.flatnonzero(counts > per_class))[:MAX_CLASSES]
    if len(chosen) < 2:
        raise ValueError(f"a task needs two classes of more than {per_class} rows, there are {len(chosen)}.")
    unlabeled = (counts[chosen] - per_class).astype(np.float64)
    if sizes == "long-tailed":
        place = np.arange(len(chosen)) / (len(chosen) - 1)
        unlabeled = np.minimum(unlabeled, np.median(unlabeled) * TAIL**-place)
    room = max_rows - per_class * len(chosen)
    unlabeled *= min(1.0, room / unlabeled.sum())
    kept = per_class + np.maximum(1, np.round(unlabeled)).astype(np.int64)
    rows = [rng.permutation(np.flatnonzero(labels == c))[:n] for c, n in zip(classes[chosen], kept, strict=True)]
    return np.sort(np.concatenate(rows))
