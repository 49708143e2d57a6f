"""Pictures inside a page."""

from __future__ import annotations

import base64
import io

import numpy as np
import pytest
from PIL import Image

from laplacianshot.labeling.sources import open_source
from laplacianshot.ui import thumbnails
from laplacianshot.ui.thumbnails import CELL, SIDE, inline_picture, read_pictures, sheet_of


def decoded(src):
    head, _, content = src.partition(",")
    assert head.startswith("data:image/")
    assert head.endswith(";base64")
    return np.asarray(Image.open(io.BytesIO(base64.b64decode(content))))


def plain(width, height, color):
    return Image.new("RGB", (width, height), color)


def test_a_tiny_picture_keeps_every_pixel():
    pixels = np.random.default_rng(0).integers(0, 255, (8, 8), dtype=np.uint8)
    small = inline_picture(Image.fromarray(pixels))
    assert small.tiny
    np.testing.assert_array_equal(decoded(small.src), pixels)


@pytest.mark.parametrize("webp", [True, False])
def test_a_photograph_is_kept_to_the_eye(webp, monkeypatch):
    monkeypatch.setattr(thumbnails, "picture_format", lambda: "WEBP" if webp else "JPEG")
    x, y = np.meshgrid(np.linspace(0, 255, SIDE), np.linspace(0, 255, 80))
    pixels = np.stack([x, y, 255 - x], axis=2).astype(np.uint8)
    small = inline_picture(Image.fromarray(pixels))
    assert not small.tiny
    assert np.abs(decoded(small.src).astype(int) - pixels).mean() < 6


def test_the_noisiest_picture_does_not_make_the_page_long():
    noise = np.random.default_rng(0).integers(0, 255, (SIDE, SIDE, 3), dtype=np.uint8)
    assert len(inline_picture(Image.fromarray(noise)).src) < 8000


def test_a_sheet_holds_each_picture_in_its_cell():
    colors = {3: (200, 0, 0), 5: (0, 200, 0), 9: (0, 0, 200)}
    pictures = {item: plain(90, 60 + 10 * place, color) for place, (item, color) in enumerate(colors.items())}
    sheet = sheet_of(pictures, [5, 7, 9, 3])
    assert sheet.items == (5, 9, 3)
    pixels = decoded(sheet.src).astype(int)
    for place, (item, (width, height)) in enumerate(zip(sheet.items, sheet.sizes, strict=True)):
        left, top = place % sheet.columns * sheet.cell, place // sheet.columns * sheet.cell
        middle = pixels[top + height // 2, left + width // 2]
        assert np.abs(middle - colors[item]).max() < 25
        assert max(width, height) == sheet.cell == CELL
        assert abs(width / height - pictures[item].width / pictures[item].height) < 0.05


def test_a_sheet_of_many_has_several_rows_and_bounded_bytes():
    rng = np.random.default_rng(0)
    noise = [Image.fromarray(rng.integers(0, 255, (CELL, CELL, 3), dtype=np.uint8)) for _ in range(20)]
    pictures = {item: noise[item % 20] for item in range(2000)}
    sheet = sheet_of(pictures, range(2000))
    assert decoded(sheet.src).shape == (45 * CELL, 45 * CELL, 3)
    assert len(sheet.src) < 4_000_000


def test_without_pictures_there_is_no_sheet():
    assert sheet_of({}, [1, 2]) is None


def test_pictures_that_are_gone_are_left_out(tmp_path):
    for name in ("a", "b", "c"):
        plain(300, 200, "#808080").save(tmp_path / f"{name}.png")
    source = open_source(tmp_path)
    (tmp_path / "a.png").unlink()
    (tmp_path / "b.png").write_bytes(b"no picture any more")
    steps = []
    found = read_pictures(source, {10: 0, 11: 1, 12: 2}, lambda done, total: steps.append((done, total)))
    assert {item: picture.size for item, picture in found.items()} == {12: (SIDE, 75)}
    assert steps == [(3, 3)]
