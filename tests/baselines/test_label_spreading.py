from __future__ import annotations

import numpy as np
import pytest
from scipy.sparse.csgraph import minimum_spanning_tree
from scipy.spatial.distance import cdist
from sklearn.exceptions import ConvergenceWarning
from sklearn.semi_supervised import LabelSpreading

from laplacianshot.baselines import (
    LabelPropagation,
    NearestPrototype,
    PublishedLabelSpreading,
    tree_bandwidth,
)
from laplacianshot.baselines.contract import row_distances
from laplacianshot.baselines.label_spreading import tpn_graph
from laplacianshot.episodes.methods import make_method


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
@pytest.mark.parametrize("kernel", ["rbf", "knn"])
@pytest.mark.parametrize("max_iter", [1, 30])
def test_scores_are_the_label_distributions_of_scikit_learn(kernel, max_iter, tasks):
    n_support = tasks.labels.shape[1]
    found = PublishedLabelSpreading(kernel, max_iter=max_iter, n_neighbors=4).scores(tasks.batch)
    for task, (rows, y) in enumerate(zip(tasks.rows, tasks.targets, strict=True)):
        gamma = tree_bandwidth(rows, y)
        spreading = LabelSpreading(kernel=kernel, gamma=gamma, alpha=0.99, max_iter=max_iter, n_neighbors=4, tol=0)
        sums = found[task].sum(axis=1, keepdims=True)
        expected = spreading.fit(rows, y).label_distributions_[n_support:]
        np.testing.assert_allclose(found[task] / np.where(sums > 0, sums, 1), expected, atol=1e-9)


@pytest.mark.parametrize("name", ["label-spreading-rbf", "label-spreading-knn"])
@pytest.mark.parametrize("seed", range(3))
def test_batches_in_single_precision_get_the_labels_of_scikit_learn(name, seed, make_tasks):
    tasks = make_tasks((1, 2, 1, 3, 2), 40, dim=32, seed=seed, spread=1.5)
    method = make_method(name)
    expected = [method.fit(rows, y).transduction_ for rows, y in zip(tasks.rows, tasks.targets, strict=True)]
    tasks = make_tasks((1, 2, 1, 3, 2), 40, dim=32, seed=seed, spread=1.5, dtype=np.float32)
    found = method.scores(tasks.batch).argmax(axis=2)
    np.testing.assert_array_equal(found, np.array(expected)[:, tasks.labels.shape[1] :])


def test_many_rounds_reach_the_closed_form(make_tasks):
    tasks = make_tasks((1, 2, 1), 12)
    found = PublishedLabelSpreading(alpha=0.9, gamma=0.5, max_iter=400).scores(tasks.batch)
    for task, rows in enumerate(tasks.rows):
        W = np.exp(-0.5 * np.square(rows[:, None] - rows[None]).sum(axis=2))
        np.fill_diagonal(W, 0)
        D = np.diag(1 / np.sqrt(W.sum(axis=1)))
        Y = np.zeros((len(rows), 3))
        Y[:4] = tasks.one_hot(task)
        expected = (np.linalg.inv(np.eye(len(rows)) - 0.9 * D @ W @ D) @ Y)[4:]
        shares, expected = (x / x.sum(axis=1, keepdims=True) for x in (found[task], expected))
        np.testing.assert_allclose(shares, expected, atol=1e-10)


@pytest.mark.parametrize("far", [[60, 0], [6000, 0]])
def test_a_row_far_from_all_others_still_hears_of_the_nearest_label(far, make_tasks):
    tasks = make_tasks((1, 1), 6, dim=2, n_tasks=1, dtype=np.float32)
    tasks.rows[0] = [[0, 0], [1, 0], [0.1, 0], [0.9, 0], [0.1, 0.1], [0.9, 0.1], [0, 0.1], far]
    tasks.labels[0] = [0, 1]
    found = PublishedLabelSpreading(gamma=9.0).scores(tasks.batch)[0, -1]
    assert found[1] > found[0] >= 0


def test_a_labeled_row_far_from_all_others_leaves_them_to_the_other_labels(make_tasks):
    tasks = make_tasks((1, 1, 1), 4, dim=2, n_tasks=1, dtype=np.float32)
    tasks.rows[0] = [[0, 0], [1, 0], [60, 0], [0.1, 0], [0.9, 0], [0.1, 0.1], [0.9, 0.1]]
    tasks.labels[0] = [0, 1, 2]
    assert PublishedLabelSpreading(gamma=9.0).scores(tasks.batch)[0].argmax(axis=1).tolist() == [0, 1, 0, 1]


@pytest.mark.parametrize("space", ["l2", "cl2"])
def test_another_space_can_be_chosen(space, clusters):
    X, _, y = clusters(3, 20, 2, spread=1.5)
    rows = X - X.mean(axis=0) if space == "cl2" else X
    rows = rows / np.linalg.norm(rows, axis=1, keepdims=True)
    expected = PublishedLabelSpreading().fit(rows, y).transduction_
    np.testing.assert_array_equal(PublishedLabelSpreading(space=space).fit(X, y).transduction_, expected)


def test_rounds_that_end_at_their_limit_are_no_warning(clusters, recwarn):
    X, _, y = clusters(2, 10, 1)
    PublishedLabelSpreading(max_iter=2).fit(X, y)
    assert not [warning for warning in recwarn if issubclass(warning.category, ConvergenceWarning)]


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


def propagate_slowly(rows, one_hot, alpha, k):
    n = len(rows)
    k = min(k, n)
    distance = np.array([[np.linalg.norm(a - b) for b in rows] for a in rows])
    scale = [sorted(distance[i])[k - 1] / 3 for i in range(n)]
    kept = [set(np.argsort(distance[i])[:k].tolist()) for i in range(n)]
    W = np.zeros((n, n))
    for i in range(n):
        for j in range(n):
            if j in kept[i] or i in kept[j]:
                W[i, j] = np.exp(-(distance[i, j] ** 2) / (2 * scale[i] * scale[j]))
    D = np.diag(1 / np.sqrt(W.sum(axis=1)))
    Y = np.zeros((n, one_hot.shape[1]))
    Y[: len(one_hot)] = one_hot
    return (np.linalg.inv(np.eye(n) - alpha * D @ W @ D) @ Y)[len(one_hot) :]


@pytest.mark.parametrize(("alpha", "k"), [(0.99, 20), (0.5, 4)])
def test_scores_are_those_of_an_explicit_graph(alpha, k, tasks):
    found = LabelPropagation(alpha=alpha, n_neighbors=k).scores(tasks.batch)
    for task in range(len(tasks.rows)):
        expected = propagate_slowly(tasks.rows[task], tasks.one_hot(task), alpha, k)
        np.testing.assert_allclose(found[task], expected, rtol=1e-6, atol=1e-9)


def test_the_weight_at_the_edge_of_the_graph_is_that_of_three_standard_deviations():
    # The corners of a square are all alike: each has its neighbors at 0, 1, 1 and sqrt(2).
    corners = np.array([[0.0, 0.0], [1.0, 0.0], [1.0, 1.0], [0.0, 1.0]])
    distances = np.square(corners[:, None] - corners[None]).sum(axis=2)[None]
    graph = tpn_graph(distances, 3)[0]
    near = np.exp(-4.5)
    np.testing.assert_allclose(graph[0], np.array([1, near, 0, near]) / (1 + 2 * near), atol=1e-12)


def test_the_answer_does_not_depend_on_the_scale_of_the_rows(make_tasks):
    tasks = make_tasks((1, 2, 2), 20)
    plain = LabelPropagation().scores(tasks.batch)
    tasks.rows[...] *= 1000
    np.testing.assert_allclose(LabelPropagation().scores(tasks.batch), plain, rtol=1e-6)


def test_distances_between_rows_are_those_of_the_features_and_zero_between_equal_rows(make_tasks):
    tasks = make_tasks((1, 2), 6, dtype=np.float32)
    tasks.rows[:, 4] = tasks.rows[:, 2]
    found = row_distances(tasks.batch)
    expected = np.square(tasks.rows[:, :, None].astype(np.float64) - tasks.rows[:, None]).sum(axis=3)
    np.testing.assert_allclose(found, expected, rtol=1e-4, atol=1e-4)
    assert np.all(found[:, 2, 4] == 0)
    assert np.all(np.einsum("bii->bi", found) == 0)
