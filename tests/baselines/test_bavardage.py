"""BAVARDAGE: the projection by what defines it, the mixture by its formulas, and both on clusters."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.special import digamma
from sklearn.discriminant_analysis import LinearDiscriminantAnalysis

from laplacianshot.baselines import Bavardage, NearestPrototype
from laplacianshot.baselines.bavardage import coordinates, discriminant_rows


def scatters(rows, shares):
    """Within and between the classes that shares (n, C) make of rows (n, D)."""
    n, dim = rows.shape
    within, between, center = np.zeros((dim, dim)), np.zeros((dim, dim)), rows.mean(axis=0)
    for c in range(shares.shape[1]):
        mass = shares[:, c].sum()
        mean = (shares[:, c, None] * rows).sum(axis=0) / mass
        within += sum(s * np.outer(x - mean, x - mean) for s, x in zip(shares[:, c], rows, strict=True)) / n
        between += mass / n * np.outer(mean - center, mean - center)
    return within, between


def soft_task(n=60, dim=7, n_classes=4, seed=0):
    rng = np.random.default_rng(seed)
    labels = rng.integers(n_classes, size=n)
    rows = 1.5 * rng.standard_normal((n_classes, dim))[labels] + rng.standard_normal((n, dim))
    shares = 0.7 * np.eye(n_classes)[labels] + 0.3 * rng.dirichlet(np.ones(n_classes), size=n)
    return rows - rows.mean(axis=0), shares, labels


def test_projected_rows_have_unit_scatter_within_classes_and_diagonal_scatter_between_them():
    rows, shares, _ = soft_task()
    found = discriminant_rows(rows[None], shares[None], 0.0)[0]
    assert found.shape == (60, 3)
    within, between = scatters(found, shares)
    np.testing.assert_allclose(within, np.eye(3), atol=1e-8)
    np.testing.assert_allclose(between, np.diag(np.diag(between)), atol=1e-8)
    # All that tells the classes apart is kept.
    full = scatters(rows, shares)
    np.testing.assert_allclose(np.trace(between), np.trace(np.linalg.solve(*full)), rtol=1e-8)


def test_the_projection_of_certain_classes_is_that_of_scikit_learn():
    rows, _, labels = soft_task()
    found = discriminant_rows(rows[None], np.eye(4)[labels][None], 0.0)[0]
    theirs = LinearDiscriminantAnalysis().fit(rows, labels).transform(rows)
    # Axes may be turned round: distances are the same.
    distances = [np.square(u[:, None] - u[None]).sum(axis=2) for u in (found, theirs)]
    np.testing.assert_allclose(distances[0], distances[1], rtol=1e-6, atol=1e-8)


def test_shrinkage_of_one_keeps_the_metric_of_the_rows_within_the_span_of_class_means():
    rows, shares, _ = soft_task()
    found = discriminant_rows(rows[None], shares[None], 1.0)[0]
    means = (shares / shares.sum(axis=0)).T @ rows
    basis = np.linalg.svd(means - rows.mean(axis=0), full_matrices=False)[2][:3]
    scale = np.trace(scatters(rows, shares)[0]) / rows.shape[1]
    expected = rows @ basis.T / np.sqrt(scale)
    for i, j in [(0, 1), (5, 20), (7, 59)]:
        np.testing.assert_allclose(np.sum((found[i] - found[j]) ** 2), np.sum((expected[i] - expected[j]) ** 2))


def test_coordinates_have_the_distances_of_the_rows_and_mean_zero(tasks):
    found = coordinates(tasks.batch)
    np.testing.assert_allclose(found.mean(axis=1), 0, atol=1e-8)
    for b, rows in enumerate(tasks.rows):
        expected = np.square(rows[:, None] - rows[None]).sum(axis=2)
        np.testing.assert_allclose(np.square(found[b][:, None] - found[b][None]).sum(axis=2), expected, atol=1e-8)


def test_responsibilities_are_the_expected_likelihoods_of_the_mixture():
    rows, shares, _ = soft_task()
    found = Bavardage(alpha=1.5, beta=4.0)._expectation(rows[None], shares[None])[0]
    masses = shares.sum(axis=0)
    for i, row in enumerate(rows):
        logits = []
        for c in range(4):
            strength = 4.0 + masses[c]
            mean = (shares[:, c, None] * rows).sum(axis=0) / strength
            # E |x - mu|^2 under N(mean, I / strength): the distance and the variance of each of 7 features.
            expected = np.sum((row - mean) ** 2) + 7 / strength
            logits.append(digamma(1.5 + masses[c]) - expected / 2)
        weights = np.exp(logits - np.max(logits))
        np.testing.assert_allclose(found[i], weights / weights.sum(), atol=1e-9)


def test_no_rounds_are_one_step_of_soft_k_means(tasks):
    found = Bavardage(n_iter=0, start_temperature=2.0).scores(tasks.batch)
    distances = -NearestPrototype().scores(tasks.batch)
    expected = np.exp(-2 * (distances - distances.min(axis=2, keepdims=True)))
    np.testing.assert_allclose(found, expected / expected.sum(axis=2, keepdims=True), atol=1e-9)


@pytest.mark.parametrize("shots", [1, 3])
def test_well_separated_clusters_are_labeled_without_a_mistake(clusters, shots):
    X, truth, y = clusters(4, 20, shots, spread=0.2)
    np.testing.assert_array_equal(Bavardage().fit(X, y).transduction_, truth)


def test_it_gains_over_nearest_prototype_where_classes_overlap(clusters):
    gains = []
    for seed in range(6):
        X, truth, y = clusters(3, 30, 1, seed=seed)
        right = [np.mean(method.fit(X, y).transduction_ == truth) for method in (Bavardage(), NearestPrototype())]
        gains.append(right[0] - right[1])
    assert np.mean(gains) > 0.03


def test_a_class_without_queries_is_left_nearly_empty(clusters):
    X, truth, y = clusters(4, 30, 1, spread=0.2)
    kept = (truth != 2) | (y == 2)
    found = Bavardage().fit(X[kept], y[kept]).transduction_
    assert np.mean(found == truth[kept]) > 0.95
