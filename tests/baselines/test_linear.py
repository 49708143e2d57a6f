from __future__ import annotations

import numpy as np
import pytest
from sklearn import linear_model

from laplacianshot.baselines import LogisticRegression, RidgeRegression


@pytest.mark.parametrize("penalty", [0.1, 1.0, 30.0])
def test_ridge_scores_are_those_of_scikit_learn_on_the_features(penalty, tasks):
    found = RidgeRegression(penalty=penalty).scores(tasks.batch)
    ridge = linear_model.Ridge(alpha=penalty, fit_intercept=False, solver="cholesky")
    for task in range(len(tasks.rows)):
        ridge.fit(tasks.support[task], tasks.one_hot(task))
        np.testing.assert_allclose(found[task], ridge.predict(tasks.query[task]), atol=1e-10)


def scikit_learn_logits(tasks, task, penalty):
    """Logits (N, C) that sum to zero over the classes."""
    two = tasks.n_classes == 2
    solver = linear_model.LogisticRegression(C=(2 if two else 1) / penalty, solver="newton-cholesky", tol=1e-10)
    logits = solver.fit(tasks.support[task], tasks.labels[task]).decision_function(tasks.query[task])
    return np.column_stack([-logits / 2, logits / 2]) if two else logits - logits.mean(axis=1, keepdims=True)


@pytest.mark.parametrize("penalty", [0.1, 1.0, 30.0])
def test_logistic_scores_are_those_of_scikit_learn_on_the_features(penalty, tasks):
    found = LogisticRegression(penalty=penalty, tol=1e-10).scores(tasks.batch)
    found -= found.mean(axis=2, keepdims=True)
    for task in range(len(tasks.rows)):
        np.testing.assert_allclose(found[task], scikit_learn_logits(tasks, task, penalty), atol=1e-5)


def test_the_default_tolerance_leaves_hardly_anything_to_improve_on_normalized_rows(tasks):
    tasks.rows[...] /= np.linalg.norm(tasks.rows, axis=2, keepdims=True)
    found = LogisticRegression().scores(tasks.batch)
    found -= found.mean(axis=2, keepdims=True)
    for task in range(len(tasks.rows)):
        np.testing.assert_allclose(found[task], scikit_learn_logits(tasks, task, 1.0), atol=2e-4)


def test_at_the_minimum_the_coefficients_are_what_is_left_of_the_labels(tasks):
    penalty = 0.3
    coefficients, intercept = LogisticRegression(penalty=penalty, tol=1e-10)._fit(tasks.batch)
    for task in range(len(tasks.rows)):
        A = coefficients[task].T
        logits = tasks.support[task] @ tasks.support[task].T @ A + intercept[task]
        shares = np.exp(logits) / np.exp(logits).sum(axis=1, keepdims=True)
        np.testing.assert_allclose(penalty * A, tasks.one_hot(task) - shares, atol=1e-8)
        np.testing.assert_allclose(A.sum(axis=0), 0, atol=1e-8)


def test_steps_end_at_the_tolerance_and_not_at_their_limit(make_tasks):
    tasks = make_tasks((5,) * 10, 10, n_tasks=3, dtype=np.float32)
    enough = LogisticRegression(max_iter=100).scores(tasks.batch)
    np.testing.assert_array_equal(LogisticRegression(max_iter=1000).scores(tasks.batch), enough)
