"""Picture sets made up for the tests."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

from laplacianshot.datasets.pictures import Pictures, open_pictures


@pytest.fixture
def bundle(tmp_path: Path) -> Callable[[Any], Pictures]:
    """Pictures of an array, uint8 (n, H, W) or (n, H, W, 3), exactly as they are."""

    def make(images: Any) -> Pictures:
        path = tmp_path / "made_up.npz"
        np.savez(path, images=images, labels=np.arange(len(images)) % 2, class_names=np.array(["a", "b"]))
        return open_pictures("cifarfs", path)

    return make


@pytest.fixture
def folder(tmp_path: Path) -> Callable[[Iterable[tuple[int, int]]], Pictures]:
    """Random PNG files of the given (width, height), half of each class."""

    def make(sizes: Iterable[tuple[int, int]]) -> Pictures:
        rng = np.random.default_rng(0)
        for i, (width, height) in enumerate(sizes):
            path = tmp_path / "pictures" / "ab"[i % 2] / f"{i:03d}.png"
            path.parent.mkdir(parents=True, exist_ok=True)
            Image.fromarray(rng.integers(0, 256, (height, width, 3), dtype=np.uint8)).save(path)
        return open_pictures("folder", tmp_path / "pictures")

    return make
