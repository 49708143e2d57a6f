from __future__ import annotations

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.linear_model import LogisticRegression
from sklearn.neighbors import KNeighborsClassifier

from laplacianshot import LaplacianShot
from laplacianshot.baselines import (
    Baseline,
    BatchedBaseline,
    Inductive,
    NearestPrototype,
    TransductiveClassifier,
)
from laplacianshot.episodes.methods import METHODS, make_method

NAMES = tuple(METHODS)
OURS = tuple(name for name in NAMES if isinstance(make_method(name), LaplacianShot))


@pytest.mark.parametrize("name", NAMES)
def test_each_baseline_labels_every_row_and_keeps_the_given_labels(name, clusters):
    X, truth, y = clusters(3, 20, 2)
    fitted = make_method(name).fit(X, y)
    assert fitted.transduction_.shape == y.shape
    np.testing.assert_array_equal(fitted.transduction_[y >= 0], y[y >= 0])
    assert np.mean(fitted.transduction_ == truth) > 0.9


@pytest.mark.parametrize("name", NAMES)
def test_a_given_label_is_kept_even_where_the_method_disagrees(name):
    X = np.array([[0.0, 1.0], [0.1, 1.0], [0.2, 1.0], [0.1, 1.1], [5.0, -1.0], [5.1, -1.0], [0.1, 1.05]])
    y = np.array([0, 0, 0, -1, 1, -1, 1])
    assert make_method(name).fit(X, y).transduction_[6] == 1


@pytest.mark.parametrize("name", NAMES)
def test_string_labels_give_the_same_answer_as_numbers(name, clusters):
    X, _, y = clusters(3, 15, 2)
    words = np.array(["cat", "dog", "owl", ""], dtype=object)
    numbers = make_method(name).fit(X, y)
    strings = make_method(name).fit(X, words[y])
    np.testing.assert_array_equal(words[numbers.transduction_], strings.transduction_)
    assert strings.classes_.tolist() == ["cat", "dog", "owl"]


@pytest.mark.parametrize("name", NAMES)
def test_nothing_left_to_label_is_no_error(name, clusters):
    X, truth, _ = clusters(2, 5, 1)
    np.testing.assert_array_equal(make_method(name).fit(X, truth).transduction_, truth)


@pytest.mark.parametrize("name", NAMES)
def test_labels_of_one_class_go_to_every_row_unless_the_method_refuses_them(name):
    X, y = np.arange(8.0).reshape(4, 2), np.array([3, -1, -1, -1])
    if name == "logistic-regression" or name in OURS:
        with pytest.raises(ValueError, match="class"):
            make_method(name).fit(X, y)
    else:
        assert make_method(name).fit(X, y).transduction_.tolist() == [3, 3, 3, 3]


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("bad", [np.nan, np.inf])
def test_nan_and_infinity_are_refused(name, bad):
    with pytest.raises(ValueError, match=r"NaN|infinity"):
        make_method(name).fit(np.array([[0.0], [bad], [1.0]]), [0, -1, 1])


@pytest.mark.parametrize("name", NAMES)
def test_no_label_at_all_is_refused(name):
    with pytest.raises(ValueError, match="no labeled row"):
        make_method(name).fit(np.eye(3), [-1, -1, -1])


@pytest.mark.parametrize("name", NAMES)
def test_rows_and_labels_of_different_length_are_refused(name):
    with pytest.raises(ValueError, match="X has 3 rows and y has 2 labels"):
        make_method(name).fit(np.eye(3), [0, 1])


@pytest.mark.parametrize("name", NAMES)
def test_each_baseline_can_be_cloned_and_keeps_the_contract(name, clusters):
    X, _, y = clusters(2, 10, 1)
    original = make_method(name)
    fitted = clone(original).fit(X, y)
    assert isinstance(fitted, LaplacianShot if name in OURS else Baseline)
    assert isinstance(fitted, TransductiveClassifier)
    assert not hasattr(original, "transduction_")


def test_every_recipe_of_ours_has_a_name():
    assert OURS == ("laplacianshot", "laplacianshot-balanced", "laplacianshot-paper", "laplacianshot-reference")
    assert make_method("laplacianshot").get_params() == LaplacianShot().get_params()
    assert make_method("laplacianshot-balanced").get_params() == LaplacianShot(balanced=True).get_params()
    assert make_method("laplacianshot-paper").get_params() == LaplacianShot.paper().get_params()
    assert make_method("laplacianshot-reference").get_params() == LaplacianShot.reference().get_params()


@pytest.mark.parametrize("name", NAMES)
def test_every_method_says_what_a_table_prints_of_it(name):
    entry = METHODS[name]
    assert entry.title
    assert "\n" not in entry.title + entry.settings
    assert len(entry.settings) < 80
    assert entry.slow in (True, False)


def test_no_two_methods_have_the_same_title():
    assert len({entry.title for entry in METHODS.values()}) == len(METHODS)


def test_an_unknown_name_is_answered_with_the_known_ones():
    with pytest.raises(ValueError, match="simpleshot-cl2") as caught:
        make_method("prototype")
    assert "'prototype'" in str(caught.value)
    assert all(name in str(caught.value) for name in NAMES)


def test_every_call_gives_a_new_object():
    assert make_method("nearest-prototype") is not make_method("nearest-prototype")


class Undecided(NearestPrototype):
    def scores(self, batch):
        return np.full((len(batch), batch.n_query, batch.n_classes), np.nan)

    _assign = BatchedBaseline._assign


def test_a_method_that_scores_nothing_is_refused_when_it_is_fitted_too(clusters):
    X, _, y = clusters(3, 20, 2)
    with pytest.raises(ValueError, match=r"^Undecided: scores gave NaN for 54 of 54 queries; .* \(1, 54, 3\)"):
        Undecided().fit(X, y)


def test_an_inductive_classifier_predicts_from_the_labeled_rows_alone(clusters):
    X, _, y = clusters(3, 20, 3, spread=1.5)
    labeled = y >= 0
    expected = KNeighborsClassifier(1).fit(X[labeled], y[labeled]).predict(X[~labeled])
    fitted = Inductive(KNeighborsClassifier(1)).fit(X, y)
    np.testing.assert_array_equal(fitted.transduction_[~labeled], expected)


def test_common_scaling_makes_the_answer_free_of_scale_and_shift(clusters):
    X, _, y = clusters(3, 20, 2, spread=1.5)
    classifier = Inductive(LogisticRegression(), scaling="common")
    plain = classifier.fit(X, y).transduction_.copy()
    np.testing.assert_array_equal(classifier.fit(1000 * X + 7, y).transduction_, plain)


def test_common_scaling_of_equal_rows_is_no_error():
    fitted = Inductive(LogisticRegression(), scaling="common").fit(np.ones((4, 2)), [0, 1, -1, -1])
    assert set(fitted.transduction_[2:]) <= {0, 1}
