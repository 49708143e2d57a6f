"""Cross-validation with unlabeled rows."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sklearn.datasets import load_digits
from sklearn.model_selection import GridSearchCV, cross_val_score

from laplacianshot import LaplacianShot, SemiSupervisedKFold


@given(
    st.lists(st.integers(-1, 3), min_size=8, max_size=60).filter(
        lambda y: np.bincount([c for c in y if c >= 0] or [0]).max() >= 2
    ),
    st.integers(2, 4),
)
def test_every_label_that_can_be_is_held_out_once_and_every_class_stays_known(labels, n_splits):
    y = np.array(labels)
    counts = np.bincount(y[y >= 0], minlength=4)
    held = [i for i in range(len(y)) if y[i] >= 0 and counts[y[i]] >= 2]
    if len(held) < n_splits:
        with pytest.raises(ValueError, match="fewer than n_splits"):
            list(SemiSupervisedKFold(n_splits).split(None, y))
        return
    folds = list(SemiSupervisedKFold(n_splits).split(None, y))
    assert sorted(np.concatenate([test for _, test in folds]).tolist()) == held
    for train, test in folds:
        assert sorted([*train, *test]) == list(range(len(y)))
        assert set(y[y >= 0]) == set(y[train][y[train] >= 0])
        assert np.isin(np.flatnonzero(y < 0), train).all()


def test_strings_and_none_are_divided_too():
    y = np.array(["a", "a", "b", "b", None, None], dtype=object)
    folds = list(SemiSupervisedKFold(2).split(None, y))
    assert [sorted(y[test]) for _, test in folds] == [["a", "b"], ["a", "b"]]


def test_a_search_over_parameters_scores_labeled_rows_and_does_not_warn(recwarn):
    X, digits = load_digits(return_X_y=True)
    y = np.where(np.arange(len(X)) < 60, digits, -1)
    found = GridSearchCV(LaplacianShot(), {"lam": [None, 0.0]}, cv=SemiSupervisedKFold(3)).fit(X, y)
    assert found.best_score_ > 0.7
    assert not [one for one in recwarn if "unlabeled" in str(one.message)]


def test_an_ordinary_splitter_is_warned_of_and_unlabeled_rows_are_not_scored():
    X, digits = load_digits(return_X_y=True)
    y = np.where(np.random.default_rng(0).permutation(len(X)) < 100, digits, -1)
    with pytest.warns(UserWarning, match="SemiSupervisedKFold"):
        scores = cross_val_score(LaplacianShot(), X, y, cv=3)
    assert scores.mean() > 0.5


def test_a_score_without_unlabeled_rows_is_the_mean_accuracy():
    X, digits = load_digits(return_X_y=True)
    clf = LaplacianShot().fit(X[:300], np.where(np.arange(300) < 60, digits[:300], -1))
    right = clf.predict(X[300:400]) == digits[300:400]
    assert clf.score(X[300:400], digits[300:400]) == right.mean()
    weights = np.arange(100)
    assert clf.score(X[300:400], digits[300:400], weights) == pytest.approx(np.average(right, weights=weights))


@pytest.mark.parametrize("n_splits", [1, 0, True, 2.5])
def test_a_number_of_folds_that_cannot_be_is_named(n_splits):
    with pytest.raises(ValueError, match="n_splits"):
        SemiSupervisedKFold(n_splits)


def test_labels_that_cannot_be_divided_are_named():
    with pytest.raises(ValueError, match="one label of each class"):
        list(SemiSupervisedKFold().split(None, [0, 1, -1]))
    with pytest.raises(ValueError, match="y is None"):
        list(SemiSupervisedKFold().split(None, None))
