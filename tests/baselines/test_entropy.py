from __future__ import annotations

import numpy as np
import pytest

from laplacianshot.baselines import EntropyTuning


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
