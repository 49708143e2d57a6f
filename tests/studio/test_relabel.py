from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from laplacianshot.inference.clues import HeldBack
from laplacianshot.labeling.core import LabelOptions, label_vectors
from laplacianshot.studio.relabel import (
    MAX_NEIGHBORS,
    MIN_CHECKED,
    QUEUE,
    _held_back_parts,
    build_cache,
    columns_of,
    hold_back,
    recipe_neighbors,
    relabel,
    update,
)


@pytest.fixture
def task(clusters):
    """GraphCache clusters, the truth as class ids (3, 5, 9, 12) and the given ones, -1 elsewhere."""

    def make(seed: int = 0, per_class: int = 60, spread: float = 0.8):
        X, truth, y = clusters(4, per_class, 3, dim=16, seed=seed, spread=spread, dtype=np.float32)
        ids = np.array([3, 5, 9, 12])
        return build_cache(np.arange(len(X)), X), ids[truth], np.where(y >= 0, ids[y], -1)

    return make


@pytest.mark.parametrize("transform", ["cl2", "power"])
@pytest.mark.parametrize("seed", range(3))
def test_relabeling_is_what_label_does_about_the_same_center(task, seed, transform):
    cache, _, given = task(seed)
    if transform == "power":
        # Wide rows without negative entries.
        cache = build_cache(cache.positions, np.maximum(np.hstack([cache.vectors, -cache.vectors] * 4), 0))
    assert cache.transform == transform
    found = relabel(cache, given)
    class_ids, codes = columns_of(given)
    expected = label_vectors(
        cache.vectors, codes, 4, LabelOptions(base_mean=cache.center, suggest=QUEUE, transform=transform)
    )
    assert class_ids.tolist() == [3, 5, 9, 12]
    np.testing.assert_array_equal(found.codes, expected.codes)
    np.testing.assert_array_equal(found.suggestions, expected.suggestions)
    np.testing.assert_array_equal(found.disputes, expected.disputes)
    # The last edge of a row is that of its list here, of the graph there: where labels spread by it, shares differ.
    np.testing.assert_allclose(found.confidence, expected.confidence, atol=5e-4)
    np.testing.assert_allclose(found.novelty, expected.novelty, rtol=1e-3)


def test_the_graph_for_more_classes_is_cut_from_that_for_two(task):
    cache, _, _ = task()
    for n_classes in (2, 4, 30):
        fresh = build_cache(cache.positions, cache.vectors).graph(recipe_neighbors(len(cache), n_classes))
        assert abs(cache.class_graph(n_classes) - fresh).max() == 0
    assert cache.neighbors.indices.shape[1] <= MAX_NEIGHBORS


@pytest.mark.parametrize("seed", range(4))
def test_the_quick_answer_to_a_new_label_is_that_of_the_whole_one_but_for_a_few_items(task, seed):
    cache, truth, given = task(seed)
    last = relabel(cache, given)
    more = given.copy()
    new = int(np.flatnonzero(given < 0)[7 + seed])
    more[new] = truth[new]
    answer, whole = update(last, more), relabel(cache, more)
    assert answer is not None
    assert answer.codes[new] == whole.codes[new]
    assert answer.confidence[new] == 1
    assert np.mean(answer.codes == whole.codes) > 0.97
    assert np.mean(np.abs(answer.confidence - whole.confidence)) < 0.05


def test_without_a_new_label_the_quick_answer_stays_where_it_is(task):
    cache, _, given = task(spread=0.5)
    last = relabel(cache, given)
    same = update(last, given)
    assert same is not None
    np.testing.assert_array_equal(same.codes, last.codes)
    np.testing.assert_allclose(same.confidence, last.confidence, atol=0.02)
    np.testing.assert_array_equal(same.suggestions, last.suggestions)


def test_the_quick_answer_follows_a_wrong_label_and_its_undoing(task):
    cache, truth, given = task(spread=0.4)
    last = relabel(cache, given)
    item = int(np.flatnonzero((given < 0) & (truth == 3))[0])
    wrong = given.copy()
    wrong[item] = 5
    misled = update(last, wrong)
    assert misled is not None
    assert misled.class_ids[misled.codes[item]] == 5
    back = update(misled, given)
    assert back is not None
    assert back.class_ids[back.codes[item]] == 3


def test_the_quick_answer_waits_for_the_whole_one_when_classes_come_or_go(task):
    cache, truth, given = task()
    last = relabel(cache, given)
    more = given.copy()
    more[np.flatnonzero(given < 0)[0]] = 77
    assert update(last, more) is None
    assert update(last, np.where(given == 3, -1, given)) is None
    assert update(last, truth) is None


@pytest.mark.parametrize("n_labels", [0, 1, 2])
def test_with_fewer_than_two_classes_there_is_only_a_queue(task, n_labels):
    cache, _, _ = task()
    given = np.full(len(cache), -1)
    given[:n_labels] = 3
    found = relabel(cache, given)
    assert (found.codes == -1).all()
    assert sorted(found.suggestions[found.suggestions > 0].tolist()) == list(range(1, QUEUE + 1))
    assert not found.suggestions[:n_labels].any()
    assert update(found, given) is None


@given(st.lists(st.integers(-1, 3), min_size=1, max_size=60), st.integers(2, 10))
def test_each_label_is_held_back_once_and_each_class_keeps_one(codes, n_parts):
    codes = np.array(codes)
    parts = list(_held_back_parts(codes, n_parts))
    held = np.concatenate([np.zeros(0, int), *parts])
    counts = np.bincount(codes[codes >= 0], minlength=4)
    assert sorted(held.tolist()) == np.flatnonzero((codes >= 0) & (counts[codes] >= 2)).tolist()
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
    assert hold_back(cache, y) == HeldBack(18, 18)
    wrong = np.flatnonzero(y >= 0)[0]
    y[wrong] = (truth[wrong] + 1) % 3
    found = hold_back(cache, y)
    assert found is not None
    assert found.right <= 17


def test_too_few_labels_say_nothing(clusters):
    X, _, y = clusters(2, 20, 2, dtype=np.float32)
    cache = build_cache(np.arange(len(X)), X)
    assert MIN_CHECKED > 4
    assert hold_back(cache, y) is None
    assert hold_back(cache, y, stopped=lambda: True) is None
