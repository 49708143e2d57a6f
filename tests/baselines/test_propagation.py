from __future__ import annotations

import numpy as np
import pytest

from laplacianshot.baselines import LabelPropagation
from laplacianshot.baselines.contract import row_distances
from laplacianshot.baselines.label_spreading import tpn_graph


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
