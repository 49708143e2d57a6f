from __future__ import annotations

from typing import Self

import numpy as np
import pytest
from sklearn.base import BaseEstimator

from laplacianshot.episodes.methods import make_method
from laplacianshot.episodes.whole_set import draw_labeled, evaluate_whole_set, keep_labels

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
    methods = {"zero": Always(0), "two": Always(2)}
    found = evaluate_whole_set(np.zeros((21, 1)), LABELS, methods, per_class=1, repeats=2, seed=0)
    assert found["zero"].accuracies.tolist() == [pytest.approx(4 / 18)] * 2
    assert found["two"].accuracies.tolist() == [pytest.approx(8 / 18)] * 2
    assert found.best.method == "two"
    assert all(one.seconds >= 0 for one in found)


def test_all_methods_see_the_same_choices(clusters):
    X, truth, _ = clusters(3, 20, 2, spread=2.0)
    methods = {"first": make_method("nearest-prototype"), "second": make_method("nearest-prototype")}
    found = evaluate_whole_set(X, truth, methods, per_class=1, repeats=4, seed=0)
    assert found.difference("first", "second").mean == 0
    assert found.difference("first", "second").ci95 == 0
    assert found["first"].ci95 > 0


def test_the_time_is_the_median_of_a_fit_for_each_repeat(monkeypatch):
    clock = iter([0.0, 1.0, 0.0, 3.0, 0.0, 9.0])
    monkeypatch.setattr("laplacianshot.episodes.whole_set.perf_counter", lambda: next(clock))
    found = evaluate_whole_set(np.zeros((21, 1)), LABELS, {"zero": Always(0)}, per_class=1, repeats=3, seed=0)
    assert found["zero"].seconds / found["zero"].n_tasks == 3.0


def test_an_interruption_keeps_the_finished_repeats_and_marks_them():
    calls = 0

    def interrupt_at_the_second() -> None:
        nonlocal calls
        calls += 1
        if calls == 2:
            raise KeyboardInterrupt

    arguments = {"per_class": 1, "repeats": 5, "seed": 0, "done": interrupt_at_the_second}
    found = evaluate_whole_set(np.zeros((21, 1)), LABELS, {"zero": Always(0)}, **arguments)
    assert found.interrupted
    assert found["zero"].n_tasks == 2


def test_an_interruption_before_the_first_repeat_is_passed_on():
    class Interrupting(Always):
        def fit(self, X, y) -> Self:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        evaluate_whole_set(np.zeros((21, 1)), LABELS, {"no": Interrupting()}, per_class=1, repeats=2, seed=0)
