from __future__ import annotations

import numpy as np
import pytest
from sklearn import linear_model
from sklearn.metrics.pairwise import cosine_similarity

from laplacianshot.baselines import EntropyTuning, LogisticRegression, MatchingAttention, RidgeRegression


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


def loss(V, support, labels, query, temperature):
    """L(V) of the docstring, row by row in the features."""

    def shares(x):
        powers = [np.exp(temperature * (v @ x)) for v in V]
        return np.array(powers) / sum(powers)

    cross_entropy = [-np.log(shares(x)[c]) for x, c in zip(support, labels, strict=True)]
    entropy = [-sum(p * np.log(p) for p in shares(x)) for x in query]
    return np.mean(cross_entropy) + np.mean(entropy)


def tune_slowly(support, labels, query, n_classes, temperature, n_steps):
    """Gradients by central differences."""
    V = np.array([support[labels == c].mean(axis=0) for c in range(n_classes)])
    V /= np.linalg.norm(V, axis=1, keepdims=True)
    reach = [np.mean(np.abs(support @ x)) + np.mean(np.abs(query @ x)) for x in (*support, *query)]
    step = 1 / (temperature**2 * max(reach))
    for _ in range(n_steps):
        gradient = np.zeros_like(V)
        for entry in np.ndindex(V.shape):
            nudge = np.zeros_like(V)
            nudge[entry] = 1e-5
            above, below = (loss(W, support, labels, query, temperature) for W in (V + nudge, V - nudge))
            gradient[entry] = (above - below) / 2e-5
        V = V - step * gradient
    return temperature * query @ V.T


@pytest.mark.parametrize(("shots", "n_query", "temperature"), [((1, 1, 1), 7, 3.0), ((1, 3), 5, 10.0)])
def test_scores_are_those_of_a_head_tuned_in_the_features(shots, n_query, temperature, make_tasks):
    tasks = make_tasks(shots, n_query, dim=4, n_tasks=2, spread=0.4)
    found = EntropyTuning(temperature=temperature, n_steps=4).scores(tasks.batch)
    for task, labels in enumerate(tasks.labels):
        expected = tune_slowly(tasks.support[task], labels, tasks.query[task], tasks.n_classes, temperature, 4)
        np.testing.assert_allclose(found[task], expected, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("temperature", [1.0, 10.0, 50.0])
def test_the_loss_falls_with_every_step(temperature, tasks):
    tasks.rows[...] /= np.linalg.norm(tasks.rows, axis=2, keepdims=True)
    heads = [EntropyTuning(temperature=temperature, n_steps=n).head(tasks.batch) for n in range(12)]
    for task, labels in enumerate(tasks.labels):
        losses = [
            loss(head[task] @ tasks.rows[task], tasks.support[task], labels, tasks.query[task], temperature)
            for head in heads
        ]
        assert np.all(np.diff(losses) <= 1e-12)
        assert losses[-1] < losses[0]


def test_without_steps_the_head_is_the_direction_of_the_class_means(tasks):
    found = EntropyTuning(n_steps=0, temperature=2.0).scores(tasks.batch)
    for task, labels in enumerate(tasks.labels):
        means = np.array([tasks.support[task][labels == c].mean(axis=0) for c in range(tasks.n_classes)])
        expected = 2 * tasks.query[task] @ (means / np.linalg.norm(means, axis=1, keepdims=True)).T
        np.testing.assert_allclose(found[task], expected, atol=1e-9)


@pytest.mark.parametrize("temperature", [1.0, 10.0])
def test_a_query_takes_the_labels_of_the_support_in_the_share_it_attends_to_them(temperature, tasks):
    found = MatchingAttention(temperature=temperature).scores(tasks.batch)
    for task in range(len(tasks.rows)):
        attention = np.exp(temperature * cosine_similarity(tasks.query[task], tasks.support[task]))
        expected = attention @ tasks.one_hot(task) / attention.sum(axis=1, keepdims=True)
        np.testing.assert_allclose(found[task], expected, atol=1e-12)


def test_shares_sum_to_one(tasks):
    np.testing.assert_allclose(MatchingAttention().scores(tasks.batch).sum(axis=2), 1)


def test_without_attention_the_class_with_most_support_wins(make_tasks):
    found = MatchingAttention(temperature=0).scores(make_tasks((1, 3, 2), 5).batch)
    np.testing.assert_allclose(found, np.broadcast_to([1 / 6, 3 / 6, 2 / 6], found.shape))
