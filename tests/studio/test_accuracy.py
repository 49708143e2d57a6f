from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from laplacianshot.studio.accuracy import MIN_CHECKED, HeldBack, held_back_parts, hold_back
from laplacianshot.studio.graph_cache import build_cache


@given(st.lists(st.integers(-1, 3), min_size=1, max_size=60), st.integers(0, 10), st.integers(2, 10))
def test_each_label_is_held_back_once_and_each_class_keeps_one(codes, seed, n_parts):
    codes = np.array(codes)
    asked = np.random.default_rng(seed).random(len(codes)) < 0.8
    asked &= codes >= 0
    parts = list(held_back_parts(codes, asked, n_parts))
    held = np.concatenate([np.zeros(0, int), *parts])
    counts = np.bincount(codes[codes >= 0], minlength=4)
    assert sorted(held.tolist()) == np.flatnonzero(asked & (counts[codes] >= 2)).tolist()
    for part in parts:
        left = np.delete(codes, part)
        assert set(left[left >= 0]) == set(codes[codes >= 0])


@pytest.mark.parametrize(("right", "checked"), [(0, 5), (5, 5), (37, 40), (500, 1000)])
def test_the_interval_holds_the_shares_that_are_not_refuted(right, checked):
    found = HeldBack(right, checked)
    low, high = found.interval
    assert 0 <= low <= found.estimate <= high <= 1
    # Wilson: at the ends the share found is just 1.96 standard errors away.
    for end in {low, high} - {0.0, 1.0}:
        error = math.sqrt(end * (1 - end) / checked)
        assert abs(found.estimate - end) == pytest.approx(1.959964 * error, rel=1e-6)


def test_labels_of_well_parted_clusters_all_come_back_and_planted_wrong_ones_do_not(clusters):
    X, truth, y = clusters(3, 40, 6, dim=8, spread=0.1, dtype=np.float32)
    cache = build_cache(np.arange(len(X)), X)
    parts = (cache.center, cache.class_graph(3))
    assert hold_back(X, y, y >= 0, *parts) == HeldBack(18, 18)
    wrong = np.flatnonzero(y >= 0)[0]
    y[wrong] = (truth[wrong] + 1) % 3
    found = hold_back(X, y, y >= 0, *parts)
    assert found is not None
    assert found.right <= 17


def test_too_few_labels_and_accepted_ones_say_nothing(clusters):
    X, _, y = clusters(2, 20, 2, dtype=np.float32)
    cache = build_cache(np.arange(len(X)), X)
    assert MIN_CHECKED > 4
    assert hold_back(X, y, y >= 0, cache.center, cache.class_graph(2)) is None
    assert hold_back(X, y, np.zeros(len(y), bool), cache.center, cache.class_graph(2)) is None
    assert hold_back(X, y, y >= 0, cache.center, cache.class_graph(2), stopped=lambda: True) is None
