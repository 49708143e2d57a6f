"""The feature sets of suggestions.py and rejection.py: vectors of pretrained networks and class numbers."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from laplacianshot.runtime.types import Floats, Ints

SETS = {
    "CUB": "bird pictures, EfficientNet-Lite0",
    "CIFAR-FS": "32-pixel pictures, EfficientNet-Lite0",
    "BANKING77": "sentences, MiniLM",
}
# Rows of a class that a draw keeps, at most: the sets are brought to a like size, and a draw differs from the next.
ROWS_A_CLASS = 60


def load(name: str, data: Path) -> tuple[Floats, Ints]:
    """Rows (n, D) as float32 and classes (n,), without those that the methods were designed on.

    The design used CUB's validation classes, CIFAR-FS's base classes and the training sentences of BANKING77.
    """
    if name == "CUB":
        with np.load(data / "cub" / "cub_efficientnet_lite0.npz", allow_pickle=False) as arrays:
            features, labels, keep = arrays["features"], arrays["labels"], arrays["split"] != "val"
    elif name == "CIFAR-FS":
        path = data / "cifar_fs" / "cifarfs_efficientnet_lite0_128px.npz"
        with np.load(path, allow_pickle=False) as arrays:
            features, labels, keep = arrays["features"], arrays["labels"], arrays["split"] != "base"
    else:
        with np.load(data / "banking77" / "minilm_int8.npz", allow_pickle=False) as arrays:
            features, labels, keep = arrays["features"], arrays["labels"], arrays["is_test"]
    return np.ascontiguousarray(features[keep], dtype=np.float32), labels[keep].astype(np.int64)


def draw_classes(labels: Ints, n_classes: int, rng: np.random.Generator) -> list[Ints]:
    """Rows of ``n_classes`` classes drawn at random, at most ROWS_A_CLASS of each, a list an entry a class."""
    classes = rng.permutation(np.unique(labels))[:n_classes]
    return [rng.permutation(np.flatnonzero(labels == c))[:ROWS_A_CLASS] for c in classes]
