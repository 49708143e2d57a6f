"""Vectors of any number with real structure, for scale.py: rows of a seed set mixed within classes.

A mixture ``a x + (1 - a) x'`` of two rows of a class, a uniform in [0, 1], lies where rows of that class lie, and there
are as many of them as one likes.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.datasets import load_digits

from laplacianshot.runtime.types import Floats, Ints

D = 512
SEEDS = ("digits", "cifar")
_BLOCK_ROWS = 50_000


def write_vectors(path: Path, n: int, n_classes: int, seed_set: str, data: Path | None, seed: int = 0) -> Ints:
    """Write ``n`` rows of 512 float32 to a .npy file, block by block, and give their classes (n,)."""
    rng = np.random.default_rng([seed, n_classes])
    truth = rng.integers(0, n_classes, n)
    truth[:n_classes] = np.arange(n_classes)
    out = np.lib.format.open_memmap(path, "w+", np.float32, (n, D))
    make: Any = _digits(n_classes, rng) if seed_set == "digits" else _pictures(n_classes, rng, data)
    for start in range(0, n, _BLOCK_ROWS):
        out[start : start + _BLOCK_ROWS] = make(truth[start : start + _BLOCK_ROWS])
    out.flush()
    return truth


def few_labels(truth: Ints, n_classes: int, shots: int, seed: int = 0) -> Ints:
    """``shots`` labels of each class, -1 for all other rows."""
    order = np.random.default_rng(seed).permutation(len(truth))
    order = order[np.argsort(truth[order], kind="stable")]
    firsts = np.searchsorted(truth[order], np.arange(n_classes))
    y = np.full(len(truth), -1)
    for c in range(n_classes):
        y[order[firsts[c] : firsts[c] + shots]] = c
    return y


def _digits(n_classes: int, rng: np.random.Generator) -> Any:
    """Random features of scikit-learn's digits side by side: a class is a number of two or three digits."""
    pixels, digits = load_digits(return_X_y=True)
    pixels = pixels.astype(np.float32) / 16
    places = len(str(n_classes)) - 1
    members = [np.flatnonzero(digits == digit) for digit in range(10)]
    features = rng.standard_normal((64 * places, D), dtype=np.float32)

    def make(truth: Ints) -> Floats:
        written = np.empty((len(truth), 64 * places), np.float32)
        for place in range(places):
            digit = truth // 10**place % 10
            written[:, 64 * place : 64 * (place + 1)] = _mixed(pixels, members, digit, digit, rng)
        made: Floats = np.maximum(written @ features, 0)
        return made

    return make


def _pictures(n_classes: int, rng: np.random.Generator, data: Path | None) -> Any:
    """512 random directions of CIFAR-FS's EfficientNet-Lite0 vectors: a class is one of the 100, or a pair of them."""
    if data is None:
        raise SystemExit("--vectors cifar needs --data, the folder that holds cifar_fs/")
    with np.load(data / "cifar_fs" / "cifarfs_efficientnet_lite0_128px.npz", allow_pickle=False) as arrays:
        rows, labels = arrays["features"].astype(np.float32), arrays["labels"].astype(np.int64)
    directions = np.linalg.qr(rng.standard_normal((rows.shape[1], D)))[0].astype(np.float32)
    rows = (rows - rows.mean(axis=0)) @ directions
    members = [np.flatnonzero(labels == c) for c in range(100)]

    def make(truth: Ints) -> Floats:
        first = truth % 100
        second = first if n_classes == 100 else (first + 1 + 7 * (truth // 100)) % 100
        return _mixed(rows, members, first, second, rng, low=0.0 if n_classes == 100 else 0.6)

    return make


def _mixed(
    rows: Floats, members: Sequence[Ints], first: Ints, second: Ints, rng: np.random.Generator, low: float = 0.0
) -> Floats:
    """``a x + (1 - a) x'`` with x of class ``first``, x' of class ``second`` and a uniform in [low, 1]."""
    chosen = np.empty((2, len(first)), dtype=np.int64)
    for side, classes in enumerate((first, second)):
        for c in np.unique(classes):
            mine = np.flatnonzero(classes == c)
            chosen[side, mine] = rng.choice(members[c], len(mine))
    a = rng.uniform(low, 1 if low == 0 else 0.9, (len(first), 1)).astype(np.float32)
    mixed: Floats = a * rows[chosen[0]] + (1 - a) * rows[chosen[1]]
    return mixed
