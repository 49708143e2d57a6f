"""iLPC: each of its steps against plain loops, and what follows from them."""

from __future__ import annotations

import numpy as np
import pytest

from laplacianshot.baselines import ILPC
from laplacianshot.baselines.ilpc import balance, propagator, smallest_of_classes


@pytest.mark.parametrize("k", [1, 3, 50])
def test_labels_spread_as_the_series_over_the_graph_does(k):
    rng = np.random.default_rng(k)
    rows = rng.standard_normal((9, 4))
    rows /= np.linalg.norm(rows, axis=1, keepdims=True)
    cosines, graph = rows @ rows.T, np.zeros((9, 9))
    for i in range(9):
        others = [j for j in range(9) if j != i]
        for j in sorted(others, key=lambda j: -cosines[i, j])[:k]:
            graph[i, j] = max(cosines[i, j], 0) ** 3
    graph = (graph + graph.T) / 2
    degrees = graph.sum(axis=1)
    scale = np.array([1 / np.sqrt(d) if d > 0 else 0 for d in degrees])
    walk, power = 0.8 * graph * scale[:, None] * scale, np.eye(9)
    total = np.eye(9)
    for _ in range(300):
        power = power @ walk
        total += power
    np.testing.assert_allclose(propagator(cosines[None], k, 3.0, 0.8)[0], total, atol=1e-10)


def test_balanced_rows_have_the_sums_of_their_certainty_and_classes_equal_ones():
    rng = np.random.default_rng(0)
    spread, known = rng.random((3, 20, 4)) ** 2, rng.random((3, 20)) < 0.3
    plan = balance(spread, known, 3.0)
    shares = spread / spread.sum(axis=2, keepdims=True)
    certainty = 1 + (shares * np.log(shares)).sum(axis=2) / np.log(4)
    np.testing.assert_allclose(plan.sum(axis=2), np.where(known, 0, certainty), rtol=1e-6)
    np.testing.assert_allclose(plan.sum(axis=1), np.tile(plan.sum(axis=(1, 2))[:, None] / 4, 4), rtol=1e-4)
    # Up to factors of rows and classes it is what was given: cross ratios are those of the cubes.
    (b, c) = np.flatnonzero(~known[0])[:2]
    ratio = [m[0, b, 0] * m[0, c, 1] / (m[0, b, 1] * m[0, c, 0]) for m in (plan, spread**3)]
    np.testing.assert_allclose(ratio[0], ratio[1], rtol=1e-6)


@pytest.mark.parametrize("count", [1, 3, 100])
def test_the_smallest_losses_of_each_class_are_found(count):
    rng = np.random.default_rng(count)
    losses, labels = rng.random((4, 30)), rng.integers(-1, 5, size=(4, 30))
    found = smallest_of_classes(losses, labels, count)
    for b in range(4):
        expected = set()
        for c in range(5):
            members = np.flatnonzero(labels[b] == c)
            expected |= set(members[np.argsort(losses[b, members])][:count].tolist())
        assert set(np.flatnonzero(found[b]).tolist()) == expected


@pytest.mark.parametrize("n_best", [1, 3, 100])
@pytest.mark.parametrize("space", ["cl2", "power"])
def test_well_separated_clusters_are_labeled_without_a_mistake(clusters, n_best, space):
    X, truth, y = clusters(4, 20, 1, spread=0.2)
    np.testing.assert_array_equal(ILPC(n_best=n_best, space=space).fit(X, y).transduction_, truth)


def test_the_mean_loss_is_that_of_gradient_descent_on_the_cross_entropy(tasks):
    method = ILPC(n_steps=4, temperature=3.0)
    rows = tasks.rows / np.linalg.norm(tasks.rows, axis=2, keepdims=True)
    labels = np.random.default_rng(0).integers(tasks.n_classes, size=rows.shape[:2])
    found = method._losses(rows @ np.swapaxes(rows, 1, 2), labels, tasks.n_classes)
    for b, X in enumerate(rows):
        n = len(X)
        target = np.eye(tasks.n_classes)[labels[b]]
        heads = np.array([X[labels[b] == c].mean(axis=0) if (labels[b] == c).any() else 0 * X[0]
                          for c in range(tasks.n_classes)])  # fmt: skip
        losses, means = [], []
        for _ in range(4):
            p = np.exp(3 * X @ heads.T)
            p /= p.sum(axis=1, keepdims=True)
            losses.append(-np.log(p[range(n), labels[b]]))
            means.append(losses[-1].mean())
            # 2 / temperature^2 times the gradient of the mean loss.
            heads = heads - 2 / 3**2 * 3 * (p - target).T @ X / n
        np.testing.assert_allclose(found[b], np.mean(losses, axis=0), rtol=1e-9)
        assert np.all(np.diff(means) <= 1e-12)


def test_every_query_ends_with_a_distribution_over_the_classes(tasks):
    found = ILPC().scores(tasks.batch)
    assert np.all(found >= 0)
    np.testing.assert_allclose(found.sum(axis=2), 1)


def test_classes_get_about_equal_numbers_even_where_one_has_all_queries(make_tasks):
    rows = make_tasks((1, 1), 30, spread=0.3)
    support, member = rows.support, rows.query[:, :1]
    rng = np.random.default_rng(3)
    query = member + 0.3 * rng.standard_normal((len(member), 30, rows.rows.shape[2]))
    batch = type(rows)(np.concatenate([support, query], axis=1), rows.labels, 2).batch
    counts = (ILPC().scores(batch).argmax(axis=2) == 0).sum(axis=1)
    assert np.all((counts >= 8) & (counts <= 22))
