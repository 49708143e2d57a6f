"""Pictures drawn for the tests."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from PIL import Image

from tests.datasets.made_up import pixels, png_of_size


@pytest.fixture
def draw() -> Callable[..., Any]:
    """Write a random picture, ``draw(path, seed)``; gives its pixels."""

    def write(path: Path, seed: int = 0, **shape: int) -> Any:
        path.parent.mkdir(parents=True, exist_ok=True)
        drawn = pixels(seed, **shape)
        Image.fromarray(drawn).save(path)
        return drawn

    return write


@pytest.fixture
def spoil() -> Callable[[Path, str], None]:
    """Make a picture unreadable in one of the ways in which real ones are."""

    def write(path: Path, how: str) -> None:
        whole = path.read_bytes() if path.exists() else b""
        match how:
            case "empty":
                path.write_bytes(b"")
            case "text":
                path.write_text("<html>404 not found</html>")
            case "truncated":
                path.write_bytes(whole[: len(whole) * 2 // 3])
            case "without its end":
                path.write_bytes(whole[:-30])
            case "huge":
                path.write_bytes(png_of_size(60_000, 60_000))
            case "large":
                path.write_bytes(png_of_size(9_500, 9_500))
            case "gone":
                path.unlink()
            case "damaged inside":
                middle = len(whole) // 2
                path.write_bytes(
                    whole[:middle] + bytes(b ^ 0x55 for b in whole[middle : middle + 8]) + whole[middle + 8 :]
                )
            case _:
                raise AssertionError(how)

    return write
