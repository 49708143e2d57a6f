from __future__ import annotations

import numpy as np
import pytest
from scipy.sparse.csgraph import minimum_spanning_tree
from scipy.spatial.distance import cdist
from sklearn.linear_model import LogisticRegression
from sklearn.neighbors import KNeighborsClassifier

from laplacianshot import LaplacianShot
from laplacianshot.baselines import Inductive, NearestPrototype, PublishedLabelSpreading, tree_bandwidth


def test_the_nearest_prototype_is_the_reference_recipe_without_graph_and_rectification(clusters):
    X, _, y = clusters(4, 25, 3, spread=1.5)
    ours = LaplacianShot.reference(lam=0, rectify=False).fit(X, y)
    np.testing.assert_array_equal(NearestPrototype().fit(X, y).transduction_, ours.transduction_)


def test_the_nearest_prototype_on_a_line_splits_at_the_midpoint():
    X = np.array([[0.0], [2.0], [10.0], [5.9], [6.1]])
    fitted = NearestPrototype("none").fit(X, [0, 0, 1, -1, -1])
    # The means are 1 and 10, the midpoint is 5.5.
    assert fitted.transduction_.tolist() == [0, 0, 1, 1, 1]


@pytest.mark.parametrize("center", ["pooled", "support"])
def test_the_center_can_be_given_by_name_or_as_a_vector(center, clusters):
    X, _, y = clusters(3, 20, 2, spread=1.5)
    mean = X.mean(axis=0) if center == "pooled" else X[y >= 0].mean(axis=0)
    by_name = NearestPrototype(center=center).fit(X, y).transduction_
    np.testing.assert_array_equal(by_name, NearestPrototype(center=mean).fit(X, y).transduction_)


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


def test_the_bandwidth_puts_the_first_edge_between_classes_at_three_standard_deviations():
    # Groups {0, 1} and {5, 6}: they are joined by the edge of length 4.
    X = np.array([[0.0], [1.0], [5.0], [6.0]])
    assert tree_bandwidth(X, np.array([0, -1, -1, 1])) == pytest.approx(9 / 16)


def test_the_bandwidth_passes_by_edges_between_groups_of_one_class():
    # The edge of length 2 joins class 0 with itself, that of length 3 joins the classes.
    X = np.array([[0.0], [2.0], [5.0]])
    assert tree_bandwidth(X, np.array([0, 0, 1])) == pytest.approx(9 / 9)


def test_the_bandwidth_uses_the_bottleneck_between_labeled_rows_of_different_classes(clusters):
    X, _, y = clusters(3, 12, 2, spread=1.0)
    tree = minimum_spanning_tree(cdist(X, X)).toarray()
    tree = np.maximum(tree, tree.T)
    bottleneck = np.where(tree > 0, tree, np.inf)
    np.fill_diagonal(bottleneck, 0)
    for via in range(len(X)):
        bottleneck = np.minimum(bottleneck, np.maximum(bottleneck[:, [via]], bottleneck[[via]]))
    labeled = np.flatnonzero(y >= 0)
    pairs = [bottleneck[a, b] for a in labeled for b in labeled if y[a] != y[b]]
    assert tree_bandwidth(X, y) == pytest.approx(9 / min(pairs) ** 2)


@pytest.mark.parametrize(
    ("X", "codes"),
    [
        (np.zeros((3, 2)), np.array([0, 1, -1])),
        (np.array([[0.0], [1.0]]), np.array([0, -1])),
        (np.array([[0.0], [0.0], [1.0]]), np.array([0, 1, -1])),
        (np.array([[0.0]]), np.array([0])),
        (np.array([[0.0], [1e-300]]), np.array([0, 1])),
    ],
    ids=["equal rows", "one class", "two classes on one point", "one row", "rows closer than squares can tell"],
)
def test_the_bandwidth_is_finite_and_positive_for(X, codes):
    assert 0 < tree_bandwidth(X, codes) < np.inf


def test_the_answer_of_label_spreading_does_not_depend_on_the_scale_of_the_rows(clusters):
    X, _, y = clusters(3, 20, 2, spread=1.5)
    fitted = PublishedLabelSpreading("rbf")
    plain = fitted.fit(X, y).transduction_.copy()
    np.testing.assert_array_equal(fitted.fit(1000 * X, y).transduction_, plain)


def test_label_spreading_follows_a_chain_that_prototypes_cut():
    # Two parallel chains; each labeled at its left end.
    along = np.arange(0, 20, 0.5)
    X = np.concatenate([np.c_[along, np.zeros_like(along)], np.c_[along + 8, np.full_like(along, 3.0)]])
    truth = np.repeat([0, 1], len(along))
    y = np.full(len(X), -1)
    y[[0, len(along)]] = [0, 1]
    spread = PublishedLabelSpreading("rbf", max_iter=300).fit(X, y).transduction_
    assert np.mean(spread == truth) == 1.0
    assert np.mean(NearestPrototype("none").fit(X, y).transduction_ == truth) < 0.9


def test_more_neighbors_than_rows_are_cut_to_the_rows():
    X = np.array([[0.0], [0.1], [5.0], [5.1]])
    assert PublishedLabelSpreading("knn").fit(X, [0, -1, 1, -1]).transduction_.shape == (4,)
