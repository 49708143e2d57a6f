from __future__ import annotations

from typing import Self

import numpy as np
import pytest
from sklearn.base import BaseEstimator

from laplacianshot.episodes.methods import make_method
from laplacianshot.episodes.whole_set import Comparison, Repeat, draw_labeled, keep_labels, run_repeat, run_repeats

LABELS = np.repeat([0, 1, 2], [5, 7, 9])


class Always(BaseEstimator):
    """Gives every row the same label."""

    def __init__(self, label: int = 0) -> None:
        self.label = label

    def fit(self, X, y) -> Self:
        self.transduction_ = np.full(len(X), self.label)
        return self


def test_a_draw_holds_as_many_different_rows_of_each_class():
    rows = draw_labeled(LABELS, 3, seed=0)
    assert np.bincount(LABELS[rows]).tolist() == [3, 3, 3]
    assert len(set(rows.tolist())) == 9


def test_a_draw_depends_on_seed_and_repeat_alone():
    first = draw_labeled(LABELS, 2, seed=1, repeat=4)
    np.testing.assert_array_equal(first, draw_labeled(LABELS, 2, seed=1, repeat=4))
    assert first.tolist() != draw_labeled(LABELS, 2, seed=1, repeat=5).tolist()
    assert first.tolist() != draw_labeled(LABELS, 2, seed=2, repeat=4).tolist()


@pytest.mark.parametrize("per_class", [0, -1, 5, 6])
def test_a_draw_that_leaves_nothing_or_labels_nothing_is_refused(per_class):
    with pytest.raises(ValueError, match=f"1 to 4, got {per_class}"):
        draw_labeled(LABELS, per_class, seed=0)


def test_every_draw_of_a_row_is_equally_likely():
    drawn = np.concatenate([draw_labeled(LABELS, 1, seed=0, repeat=r) for r in range(900)])
    shares = np.bincount(drawn, minlength=len(LABELS)) / 900
    np.testing.assert_allclose(shares, 1 / np.bincount(LABELS)[LABELS], atol=0.06)


def test_labels_are_hidden_everywhere_but_at_the_drawn_rows():
    assert keep_labels(np.array([4, 5, 6]), np.array([1])).tolist() == [-1, 5, -1]


def test_accuracy_counts_only_rows_without_a_label():
    # Hidden: 4 rows of class 0, 6 of class 1, 8 of class 2.
    rows = draw_labeled(LABELS, 1, seed=0)
    found = run_repeat(np.zeros((21, 1)), LABELS, rows, {"zero": Always(0), "two": Always(2)})
    assert found.accuracies == {"zero": pytest.approx(4 / 18), "two": pytest.approx(8 / 18)}
    assert all(seconds >= 0 for seconds in found.seconds.values())


def test_all_methods_see_the_same_choices(clusters):
    X, truth, _ = clusters(3, 20, 2, spread=2.0)
    methods = {"first": make_method("nearest-prototype"), "second": make_method("nearest-prototype")}
    comparison = Comparison(1, tuple(run_repeats(X, truth, methods, per_class=1, repeats=4, seed=0)))
    assert comparison.difference("first", "second").mean == 0
    assert comparison.difference("first", "second").ci95 == 0
    assert comparison.accuracy("first").ci95 > 0


def test_standings_are_ordered_and_paired_with_the_best():
    repeats = (
        Repeat({"a": 0.5, "b": 0.8, "c": 0.6}, {"a": 1.0, "b": 2.0, "c": 3.0}),
        Repeat({"a": 0.3, "b": 0.6, "c": 0.8}, {"a": 3.0, "b": 2.0, "c": 3.0}),
        Repeat({"a": 0.1, "b": 0.9, "c": 0.8}, {"a": 9.0, "b": 2.0, "c": 3.0}),
    )
    first, second, third = Comparison(1, repeats).standings()
    assert [(s.place, s.name) for s in (first, second, third)] == [(1, "b"), (2, "c"), (3, "a")]
    assert first.behind_best is None
    assert second.behind_best.mean == pytest.approx((-0.2 + 0.2 - 0.1) / 3)
    assert third.accuracy.mean == pytest.approx(0.3)
    assert third.seconds == 3.0


def test_a_comparison_of_nothing_is_refused():
    with pytest.raises(ValueError, match="at least one repeat"):
        Comparison(1, ())
