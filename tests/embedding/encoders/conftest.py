"""Networks are written once a session, into a cache of its own."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pytest
from PIL import Image


@pytest.fixture(scope="session", autouse=True)
def cache(tmp_path_factory) -> Iterator[object]:
    folder = tmp_path_factory.mktemp("cache")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("LAPLACIANSHOT_CACHE", str(folder))
        yield folder


@pytest.fixture(scope="session")
def pictures() -> list[Image.Image]:
    """Smooth pictures of several sizes and modes."""
    rng = np.random.default_rng(0)
    found = []
    for size, mode in [
        ((300, 400), "RGB"),
        ((400, 300), "RGB"),
        ((64, 64), "L"),
        ((17, 90), "RGB"),
        ((256, 256), "RGB"),
    ]:
        coarse = Image.fromarray(rng.integers(0, 256, (9, 9, 3), dtype=np.uint8))
        found.append(coarse.resize(size, Image.Resampling.BICUBIC).convert(mode))
    return found
