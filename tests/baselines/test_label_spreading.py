from __future__ import annotations

import numpy as np
import pytest
from sklearn.exceptions import ConvergenceWarning
from sklearn.semi_supervised import LabelSpreading

from laplacianshot.baselines import PublishedLabelSpreading, tree_bandwidth
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
