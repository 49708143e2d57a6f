"""The data of the map."""

from __future__ import annotations

import base64
import json
import re
from dataclasses import replace

import numpy as np
import pytest

from laplacianshot.reports.label_items import choose
from laplacianshot.reports.label_map import map_block, map_data, places_of
from laplacianshot.reports.page import Section, render_page
from tests.reports.labels_made_up import HOSTILE, result, unlabeled


def unpacked(text, dtype):
    return np.frombuffer(base64.b64decode(text), dtype)


def map_html(found, data, classes):
    """The map as it is in a page."""
    return render_page("Map", [Section("map", "Map", (map_block(found, data, classes),))])


def test_the_data_hold_what_the_result_holds():
    found = result()
    places = places_of(found)
    data = map_data(found, places, None, None)
    grid = unpacked(data["places"], "<u2").reshape(-1, 2)
    np.testing.assert_allclose(grid / 32767.5 - 1, places, atol=2e-5)
    np.testing.assert_array_equal(unpacked(data["codes"], "<i4"), found.codes)
    np.testing.assert_allclose(unpacked(data["confidence"], "u1") / 200, found.confidence, atol=0.003)
    origins = unpacked(data["origins"], "u1")
    assert [("predicted", "given", "rejected")[o] for o in origins] == list(found.origins)
    np.testing.assert_array_equal(data["suggested"], found.suggested)
    assert data["disputes"] == [[0, 1], [1, 2]]
    assert data["texts"] == list(found.ids)
    assert len(data["light"]) == len(data["dark"]) == 4


def test_only_what_is_certain_is_drawn_as_certain():
    found = replace(result(), confidence=np.resize([0.0, 1e-5, 0.5, 0.994, 0.99999, 1.0], 60))
    data = map_data(found, np.zeros((60, 2)), None, None)
    assert unpacked(data["confidence"], "u1").tolist()[:6] == [0, 1, 100, 199, 199, 200]


def test_no_name_ends_the_data_or_begins_an_element():
    found = result(60, HOSTILE)
    page = map_html(found, map_data(found, places_of(found), HOSTILE * 9, None), choose(found).classes)
    inside = re.search(r'<script type="application/json" id="map-data">(.*?)</script>', page, re.DOTALL)[1]
    assert "<" not in inside
    assert json.loads(inside)["texts"][0] == HOSTILE[0]
    assert page.count("<script") == 1
    assert "<!--" not in page


@pytest.mark.parametrize("texts", [False, True])
def test_a_hundred_thousand_items_of_a_thousand_classes_are_a_few_megabytes(texts):
    n = 100_000
    found = result(n, tuple(f"class {c} with a rather long name" for c in range(1000)), with_vectors=False)
    long = tuple(f"a/folder/with/a/long/name/{'é' * 40}/{i:06d}.jpg" for i in range(n))
    object.__setattr__(found, "ids", long)
    places = np.random.default_rng(0).uniform(-1, 1, (n, 2))
    data = map_data(found, places, long if texts else None, None)
    page = map_html(found, data, choose(found).classes)
    assert len(page.encode()) < 5_000_000
    assert all(len(text) <= 20 for text in data["texts"])


def test_without_vectors_there_is_no_map():
    assert places_of(result(with_vectors=False)) is None


def test_before_the_first_label_the_map_is_gray():
    found = unlabeled()
    places = places_of(found)
    assert places.shape == (30, 2)
    data = map_data(found, places, None, None)
    assert data["light"] == ["#9aa3ad"]
    page = map_html(found, data, ())
    assert "Color by" not in page
    assert "to label next" in page


@pytest.mark.parametrize("n_classes", [12, 30])
def test_classes_are_listed_as_people_count(n_classes):
    """Up to two dozen as buttons, more in a list too."""
    found = result(20 * n_classes, tuple(sorted(f"c{i}" for i in range(n_classes))))
    html = map_html(found, map_data(found, places_of(found), None, None), choose(found).classes)
    pressed = [int(code) for code in re.findall(r'data-class="(\d+)"', html)]
    names = [int(found.classes[code][1:]) for code in pressed]
    assert names == sorted(names)
    assert len(names) == min(n_classes, 24)
    listed = [int(name) for name in re.findall(r"<option value=\"\d+\">c(\d+)</option>", html)]
    assert listed == (list(range(n_classes)) if n_classes > 24 else [])
