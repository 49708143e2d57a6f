from __future__ import annotations

import dataclasses
import os
import stat

import numpy as np
import pytest
from matplotlib.figure import Figure
from matplotlib.image import imread

from laplacianshot.reports.demo import draw_demo, save_demo_figure, shown_rows
from laplacianshot.reports.figures import spread_out


def test_the_picture_is_a_png_of_decent_size(small_result, few_digits, tmp_path):
    path = tmp_path / "demo.png"
    save_demo_figure(small_result, few_digits, path)
    height, width = imread(path).shape[:2]
    assert (width, height) == (1755, 1040)
    assert path.stat().st_size < 300_000
    assert [entry.name for entry in tmp_path.iterdir()] == ["demo.png"]


def test_the_picture_can_be_read_by_whom_the_umask_allows(small_result, few_digits, tmp_path):
    old = os.umask(0o022)
    try:
        save_demo_figure(small_result, few_digits, tmp_path / "demo.svg")
    finally:
        os.umask(old)
    assert stat.S_IMODE((tmp_path / "demo.svg").stat().st_mode) == 0o644


def test_a_failure_leaves_the_old_picture_and_no_litter(small_result, few_digits, tmp_path, monkeypatch):
    path = tmp_path / "demo.png"
    path.write_text("old")

    def full_disk(*_: object, **__: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(Figure, "savefig", full_disk)
    with pytest.raises(OSError, match="No space"):
        save_demo_figure(small_result, few_digits, path)
    assert path.read_text() == "old"
    assert [entry.name for entry in tmp_path.iterdir()] == ["demo.png"]


def test_every_method_is_named_in_the_picture(small_result, few_digits):
    figure = draw_demo(small_result, few_digits)
    texts = {text.get_text() for axes in figure.subfigs[1].axes for text in axes.texts}
    assert {method.title for method in small_result.methods} <= texts


def test_nothing_finished_cannot_be_drawn(small_result, few_digits):
    with pytest.raises(ValueError, match="nothing to draw"):
        draw_demo(dataclasses.replace(small_result, comparison=None), few_digits)


def test_shown_rows_run_from_the_surest_to_the_least_sure(small_result, few_digits):
    example = small_result.example
    hidden = np.ones(len(few_digits.labels), dtype=bool)
    hidden[example.rows] = False
    rows = shown_rows(example, hidden, 3, 5)
    candidates = np.flatnonzero(hidden & (example.found == 3))
    confidence = example.confidence[rows]
    assert set(rows) <= set(candidates)
    assert np.all(np.diff(confidence) <= 0)
    assert confidence[0] == example.confidence[candidates].max()
    assert confidence[-1] == example.confidence[candidates].min()


def test_a_class_that_found_few_rows_shows_them_all_and_one_that_found_none_shows_none(small_result):
    example = dataclasses.replace(small_result.example, found=np.array([0, 0, 1]), confidence=np.array([0.5, 0.9, 0.7]))
    hidden = np.ones(3, dtype=bool)
    assert shown_rows(example, hidden, 0, 5).tolist() == [1, 0]
    assert shown_rows(example, hidden, 2, 5).tolist() == []


def test_labels_that_have_room_stay_where_they_are():
    assert spread_out({"a": 10.0, "b": 5.0}, 1.0, 20.0) == {"a": 10.0, "b": 5.0}


def test_labels_that_meet_move_apart_by_as_little_as_possible():
    assert spread_out({"a": 5.0, "b": 5.0}, 1.0, 20.0) == {"a": 5.5, "b": 4.5}


def test_labels_stay_below_the_top_in_order():
    placed = spread_out({"low": 9.0, "high": 10.0, "middle": 9.5}, 2.0, 10.0)
    assert list(placed) == ["high", "middle", "low"]
    assert placed["high"] <= 10.0
    assert placed["high"] - placed["middle"] >= 2.0 - 1e-9
    assert placed["middle"] - placed["low"] >= 2.0 - 1e-9
