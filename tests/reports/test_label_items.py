"""Which items a page shows."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from laplacianshot.labeling.result import GIVEN, PREDICTED, REJECTED
from laplacianshot.reports.label_items import LIST, OF_CLASS, choose
from tests.reports.labels_made_up import result, unlabeled


def test_each_list_begins_with_what_is_most_worth_a_look():
    found = result(200)
    choice = choose(found)
    np.testing.assert_array_equal(found.suggestions[choice.suggested], [1, 2, 3, 4, 5])
    assert np.all(np.diff(found.confidence[choice.least_confident]) >= 0)
    assert np.all(np.diff(found.novelty[choice.rejected]) <= 0)
    assert {found.origins[i] for i in choice.least_confident} == {PREDICTED}
    assert {found.origins[i] for i in choice.rejected} == {REJECTED}
    assert found.confidence[choice.least_confident[0]] == min(
        found.confidence[i] for i in range(200) if found.origins[i] == PREDICTED
    )
    doubts = [found.probabilities[i, found.disputes[i]] for i in choice.disputed]
    assert len(doubts) == 2
    assert doubts == sorted(doubts, reverse=True)


def test_the_surest_are_of_all_classes_in_turn():
    found = result(300)
    surest = choose(found).most_confident
    assert len(surest) == LIST
    for turn in range(0, LIST, 3):
        assert sorted(found.codes[surest[turn : turn + 3]]) == [0, 1, 2]
    assert np.all(np.diff(found.confidence[surest[found.codes[surest] == 1]]) <= 0)


def test_every_item_of_a_class_is_counted_and_shown_at_most_once():
    found = result(200)
    choice = choose(found)
    assert sum(shown.n_items for shown in choice.classes) == np.sum(found.codes >= 0)
    for shown in choice.classes:
        items = [*shown.best, *shown.worst]
        assert len(items) == len(set(items)) == OF_CLASS
        assert set(found.codes[items]) == {shown.code}
        assert np.all(np.diff(found.confidence[shown.worst]) >= 0)
        predicted = [i for i in shown.best if found.origins[i] == PREDICTED]
        assert min(found.confidence[predicted]) >= max(found.confidence[shown.worst])
        assert found.origins[shown.best[0]] == GIVEN
        mine = np.array([c == shown.code and o == PREDICTED for c, o in zip(found.codes, found.origins, strict=True)])
        np.testing.assert_allclose(shown.confidence, found.confidence[mine].mean())


def test_the_largest_classes_come_first():
    found = result(200)
    sizes = np.array([10, 50, 140])
    choice = choose(replace(found, codes=np.repeat([0, 1, 2], sizes)))
    counts = [shown.n_items for shown in choice.classes]
    assert counts == sorted(counts, reverse=True)
    assert [shown.code for shown in choice.classes] == [2, 1, 0]


@pytest.mark.parametrize("n_classes", [2, 60, 100, 500, 2000])
def test_however_many_classes_there_are_few_items_are_shown(n_classes):
    found = result(8 * n_classes, tuple(f"class {c}" for c in range(n_classes)))
    choice = choose(found)
    assert len(choice.classes) == n_classes
    items = choice.items()
    assert len(items) == len(set(items.tolist()))
    assert len(items) <= 720 + 5 * LIST
    assert all(len(shown.best) for shown in choice.classes[: choice.n_pictured])


def test_a_class_of_given_items_only_has_no_average():
    found = result(60)
    only = replace(found, origins=(GIVEN,) * 60)
    choice = choose(only)
    assert all(np.isnan(shown.confidence) and shown.n_predicted == 0 for shown in choice.classes)
    assert len(choice.least_confident) == len(choice.most_confident) == len(choice.rejected) == 0


def test_before_the_first_label_only_suggestions_are_listed():
    choice = choose(unlabeled())
    assert len(choice.suggested) == 5
    assert choice.classes == ()
    np.testing.assert_array_equal(choice.items(), np.sort(choice.suggested))
