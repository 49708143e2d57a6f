"""The map of the vectors: near stays near, apart stays apart, and nothing is ever no number."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse as sp
from sklearn.manifold import trustworthiness

from laplacianshot.datasets import load_digits
from laplacianshot.ui._map_kernels import move_rows
from laplacianshot.ui.map import fit_square, map_2d, principal_plane


@pytest.fixture(scope="module")
def digits():
    rows = np.random.default_rng(0).permutation(1797)[:600]
    bundled = load_digits()
    return bundled.features[rows].astype(np.float32), bundled.labels[rows]


def test_neighbors_are_kept_far_better_than_by_the_principal_components(digits):
    X, _ = digits
    plane = principal_plane(X, np.random.default_rng(0))
    assert trustworthiness(X, map_2d(X), n_neighbors=10) > 0.95
    assert trustworthiness(X, plane, n_neighbors=10) < 0.88


def test_separated_clusters_stay_separated(clusters):
    X, truth, _ = clusters(6, 40, dim=20, spread=0.2)
    places = map_2d(X)
    centers = np.array([places[truth == c].mean(axis=0) for c in range(6)])
    nearest = ((places[:, None] - centers) ** 2).sum(axis=2).argmin(axis=1)
    np.testing.assert_array_equal(nearest, truth)


def test_the_same_seed_gives_the_same_map_on_any_number_of_threads(monkeypatch):
    # Enough points for several threads, in a ring.
    n = 6500
    X = np.random.default_rng(0).standard_normal((n, 3))
    graph = sp.csr_array((np.ones(n), (np.arange(n), (np.arange(n) + 1) % n)))
    maps = []
    for threads in ("1", "2", "3"):
        monkeypatch.setenv("OMP_NUM_THREADS", threads)
        maps.append(map_2d(X, graph, seed=4))
    np.testing.assert_array_equal(maps[0], maps[1])
    np.testing.assert_array_equal(maps[0], maps[2])
    assert not np.array_equal(maps[0], map_2d(X, graph, seed=5))


def test_a_map_fills_the_square_along_its_longer_side(digits):
    places = map_2d(digits[0])
    assert places.shape == (600, 2)
    np.testing.assert_allclose(np.abs(places).max(), 1)
    np.testing.assert_allclose(places.max(axis=0), -places.min(axis=0), atol=1e-12)


def test_the_longest_direction_of_a_map_lies_level(digits):
    places = map_2d(digits[0])
    covariance = np.cov(places.T)
    assert covariance[0, 0] > covariance[1, 1]
    np.testing.assert_allclose(covariance[0, 1], 0, atol=1e-12)


@pytest.mark.parametrize("n", [0, 1, 2, 3, 5])
def test_the_smallest_sets_have_a_map(n):
    places = map_2d(np.random.default_rng(0).standard_normal((n, 4)))
    assert places.shape == (n, 2)
    assert np.all(np.isfinite(places))
    assert len(np.unique(places, axis=0)) == n


@pytest.mark.parametrize(
    "X",
    [
        np.zeros((40, 6)),
        np.repeat(np.eye(4, 6), 10, axis=0),
        np.vstack([np.zeros((5, 6)), np.random.default_rng(0).standard_normal((30, 6))]),
        np.full((40, 6), 7.0, dtype=np.float16),
        np.arange(40.0)[:, None],
        1e30 * np.random.default_rng(0).standard_normal((40, 6)),
    ],
    ids=["zeros", "duplicates", "zero rows", "constant half floats", "one feature", "huge"],
)
def test_degenerate_rows_give_numbers(X):
    places = map_2d(X)
    assert np.all(np.isfinite(places))
    assert np.abs(places).max() <= 1 + 1e-12


def test_points_without_an_edge_stay_on_the_map(clusters):
    X, _, _ = clusters()
    places = map_2d(X, sp.csr_array((60, 60)))
    np.testing.assert_allclose(places, fit_square(principal_plane(X, np.random.default_rng(0))), atol=0.01)


def test_the_start_is_the_plane_of_the_principal_components():
    rng = np.random.default_rng(1)
    X = rng.standard_normal((300, 12)) * np.geomspace(10, 0.1, 12)
    plane = principal_plane(X, np.random.default_rng(0))
    left, sizes, _ = np.linalg.svd(X - X.mean(axis=0), full_matrices=False)
    for axis in range(2):
        assert abs(np.corrcoef(plane[:, axis], left[:, axis])[0, 1]) > 0.9999
    np.testing.assert_allclose(plane.std(axis=0), [2, 2 * sizes[1] / sizes[0]], rtol=0.01)


def one_step(W, places, *, most_edges=100, n_draws=1, repulsion=0.0, momentum=0.0, step=1.0, speeds=None):
    moved = np.empty_like(places)
    speeds = np.zeros_like(places) if speeds is None else speeds
    W = sp.csr_array(W)
    numbers = (most_edges, n_draws, repulsion, momentum, step, np.uint64(3))
    move_rows(W.indptr, W.indices, W.data, *numbers, places, speeds, moved, 0, len(places))
    return moved


def test_a_step_towards_neighbors_is_the_gradient_of_the_edges():
    rng = np.random.default_rng(0)
    places = rng.standard_normal((7, 2))
    W = rng.random((7, 7)) * (rng.random((7, 7)) < 0.6)
    np.fill_diagonal(W, 0)

    def loss(z, i):
        return (W[i] * np.log(2 + ((places - z) ** 2).sum(axis=1))).sum() / W[i].sum()

    moved = one_step(W, places)
    for i, place in enumerate(places):
        gradient = [(loss(place + h, i) - loss(place - h, i)) / 2e-6 for h in 1e-6 * np.eye(2)]
        np.testing.assert_allclose(moved[i] - place, -np.array(gradient), atol=1e-8)


def test_a_step_away_from_random_points_is_the_gradient_of_the_random_pairs():
    places = np.array([[0.0, 0.0], [1.5, -0.5]])
    W = np.array([[0.0, 1e-300], [1e-300, 0.0]])
    pull = one_step(W, places)
    # Of very many draws half are the point itself, which does not push.
    push = (one_step(W, places, n_draws=200_000, repulsion=2.0) - pull)[0]

    def loss(z):
        return -np.log(1 - 1 / (2 + ((z - places[1]) ** 2).sum()))

    gradient = [(loss(places[0] + h) - loss(places[0] - h)) / 2e-6 for h in 1e-6 * np.eye(2)]
    np.testing.assert_allclose(push, -np.array(gradient), rtol=0.01)


def test_momentum_carries_a_point_on():
    places = np.array([[0.0, 0.0], [0.0, 0.0]])
    speeds = np.array([[1.0, -2.0], [0.0, 0.0]])
    moved = one_step(np.array([[0.0, 1.0], [1.0, 0.0]]), places, momentum=0.5, speeds=speeds)
    np.testing.assert_allclose(moved, [[0.5, -1.0], [0.0, 0.0]])


def test_of_many_neighbors_a_run_of_a_few_takes_part_and_all_in_turn():
    n = 30
    places = np.zeros((n, 2))
    places[1:, 0] = np.arange(1, n)
    W = np.zeros((n, n))
    W[0, 1:] = 1
    pulls = 2 * places[1:, 0] / (2 + places[1:, 0] ** 2)
    runs = [np.mean(np.roll(pulls, -first)[:4]) for first in range(n - 1)]
    seen = set()
    for bits in range(300):
        moved = np.empty_like(places)
        graph = sp.csr_array(W)
        move_rows(
            graph.indptr, graph.indices, graph.data, 4, 1, 0.0, 0.0, 1.0, np.uint64(bits), places, np.zeros((n, 2)),
            moved, 0, n,
        )  # fmt: skip
        seen.add(int(np.argmin(np.abs(np.array(runs) - moved[0, 0]))))
        assert np.min(np.abs(np.array(runs) - moved[0, 0])) < 1e-12
    assert len(seen) > 20
