import subprocess
import sys

import numpy as np
import pytest

from laplacianshot.neighbors import exact, small
from laplacianshot.neighbors import knn as door
from laplacianshot.neighbors.knn import knn, point_index
from laplacianshot.runtime.threads import Workers


@pytest.fixture(params=["numpy", "kernels"], autouse=True)
def path(request, monkeypatch):
    """Every test of this file holds for small sets in numpy and for the compiled search."""
    if request.param == "kernels":
        monkeypatch.setattr(door, "SMALL_ROWS", -1)
    return request.param


def brute_force(X, k):
    distances = ((X[:, None].astype(float) - X[None].astype(float)) ** 2).sum(axis=2)
    np.fill_diagonal(distances, np.inf)
    order = np.argsort(distances, axis=1, kind="stable")[:, :k]
    return order, np.take_along_axis(distances, order, axis=1)


@pytest.mark.parametrize("dtype", [np.float16, np.float32, np.float64])
@pytest.mark.parametrize(("n", "k"), [(2, 1), (5, 3), (64, 10), (257, 7)])
def test_equals_brute_force(n, k, dtype):
    X = np.random.default_rng(n).standard_normal((n, 9)).astype(dtype)
    indices, distances = brute_force(X, k)
    found = knn(X, k)
    np.testing.assert_array_equal(found.indices, indices)
    np.testing.assert_allclose(found.distances, distances, rtol=1e-12)
    # As queries the rows also find themselves.
    np.testing.assert_array_equal(knn(X, k + 1, queries=X).indices[:, 1:], indices)


def test_blocks_do_not_change_the_answer(monkeypatch):
    X = np.random.default_rng(0).standard_normal((300, 5))
    whole = knn(X, 6)
    monkeypatch.setattr(exact, "_BLOCK_ROWS", 37)
    monkeypatch.setattr(exact, "_BLOCK_COLUMNS", 53)
    monkeypatch.setattr(small, "_BLOCK_PRODUCTS", 300 * 37)
    monkeypatch.setattr(small, "_MIN_ROWS", 1)
    pieces = knn(X, 6)
    np.testing.assert_array_equal(pieces.indices, whole.indices)
    np.testing.assert_array_equal(knn(X, 7, queries=X).indices[:, 1:], whole.indices)


@pytest.mark.parametrize("threads", ["1", "2", "5"])
def test_threads_do_not_change_the_answer(monkeypatch, threads):
    X = np.random.default_rng(1).standard_normal((900, 4)).astype(np.float32)
    expected, _ = brute_force(X, 8)
    monkeypatch.setenv("OMP_NUM_THREADS", threads)
    np.testing.assert_array_equal(knn(X, 8).indices, expected)


def test_duplicates_are_neighbors_of_one_another_and_never_of_themselves():
    X = np.repeat(np.random.default_rng(0).standard_normal((10, 3)), 4, axis=0)
    found = knn(X, 3)
    assert not np.any(found.indices == np.arange(40)[:, None])
    np.testing.assert_array_equal(found.indices // 4, np.repeat(np.arange(10), 4)[:, None].repeat(3, axis=1))
    assert np.all(found.distances == 0)


def test_rows_that_are_all_equal_still_get_k_other_rows():
    found = knn(np.ones((30, 4), dtype=np.float32), 5)
    assert all(len(set(row)) == 5 and q not in row for q, row in enumerate(found.indices.tolist()))


@pytest.mark.parametrize("k", [9, 10, 1000])
def test_more_neighbors_than_there_are_others_means_all_the_others(k):
    found = knn(np.random.default_rng(0).standard_normal((10, 2)), k)
    assert found.indices.shape == (10, 9)
    assert all(sorted([*row, q]) == list(range(10)) for q, row in enumerate(found.indices.tolist()))


@pytest.mark.parametrize("n", [0, 1])
def test_fewer_than_two_rows_have_no_neighbors(n):
    assert knn(np.ones((n, 3)), 4).indices.shape == (n, 0)


@pytest.mark.parametrize("scale", [1e-20, 1e12])
@pytest.mark.parametrize("offset", [0.0, 1e4])
def test_float32_products_do_not_blur_near_neighbors(scale, offset):
    rng = np.random.default_rng(3)
    X = (offset + rng.standard_normal((200, 16))) * scale
    expected, _ = brute_force(X / scale, 5)
    np.testing.assert_array_equal(knn(X, 5).indices, expected)


def test_a_row_equal_to_a_point_finds_it_first():
    points = np.random.default_rng(0).standard_normal((50, 4))
    found = knn(points, 3, queries=points[10:20])
    np.testing.assert_array_equal(found.indices[:, 0], np.arange(10, 20))
    assert np.all(found.distances[:, 0] == 0)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize(("n", "k"), [(2, 1), (64, 10), (700, 7), (700, 699)])
def test_sets_hold_the_nearest_neighbors(n, k, dtype, monkeypatch):
    monkeypatch.setattr(exact, "_BLOCK_ROWS", 100)
    monkeypatch.setattr(small, "_MIN_ROWS", 100)
    X = np.random.default_rng(n).standard_normal((n, 9)).astype(dtype)
    found = point_index(X).neighbor_sets(k)
    np.testing.assert_array_equal(np.sort(found, axis=1), np.sort(brute_force(X, k)[0], axis=1))


def test_sets_are_exact_where_float32_cannot_tell_neighbors_apart(path):
    rng = np.random.default_rng(0)
    # Circles of points about each of a few: their distances from it differ by less than float32 can see.
    centers = rng.standard_normal((6, 40))
    directions = rng.standard_normal((6, 12, 40))
    directions /= np.linalg.norm(directions, axis=2, keepdims=True)
    reach = 0.1 * (1 + 1e-7 * rng.permutation(72).reshape(6, 12, 1))
    X = np.concatenate([centers, (centers[:, None] + reach * directions).reshape(-1, 40)])
    expected = np.sort(brute_force(X, 6)[0], axis=1)
    index = point_index(X)
    np.testing.assert_array_equal(np.sort(index.neighbor_sets(6), axis=1), expected)
    if path == "numpy":
        return
    # The keys alone would not do.
    with Workers(len(X) ** 2) as workers:
        keys = index._candidates(workers, 6).nearest(workers, X, 6, np.full(len(X), -1, np.float32))
    assert np.any(np.sort(keys, axis=1) != expected)


@pytest.mark.parametrize("scale", [1e-20, 1.0, 1e12])
@pytest.mark.parametrize("offset", [0.0, 1e4])
def test_sets_do_not_depend_on_where_the_rows_lie(scale, offset):
    X = (offset + np.random.default_rng(3).standard_normal((200, 16))) * scale
    expected = np.sort(brute_force(X / scale, 5)[0], axis=1)
    np.testing.assert_array_equal(np.sort(point_index(X).neighbor_sets(5), axis=1), expected)


def test_float32_rows_near_zero_are_searched_where_they_are():
    X = np.random.default_rng(0).standard_normal((100, 8)).astype(np.float32)
    assert exact.ExactIndex(X)._rows is X
    assert exact.ExactIndex(X + 100)._rows is not X
    for few in (X[:0], X[:1], np.zeros_like(X)):
        assert len(point_index(few).neighbor_sets(3)) == len(few)


@pytest.mark.parametrize("ranked", [True, False])
def test_of_piles_of_equal_rows_small_sets_take_the_smallest_numbers(ranked):
    rng = np.random.default_rng(0)
    piles = np.repeat(rng.standard_normal((4, 6)), [90, 5, 40, 3], axis=0)[rng.permutation(138)]
    for X in (piles, np.zeros((200, 5), np.float32), (1e4 + piles).astype(np.float32)):
        index = small.SmallIndex(X)
        expected, distances = brute_force(X, 8)
        if ranked:
            found = index.neighbors(8)
            np.testing.assert_array_equal(found.indices, expected)
            np.testing.assert_allclose(found.distances, distances, rtol=1e-12)
        else:
            np.testing.assert_array_equal(np.sort(index.neighbor_sets(8), axis=1), np.sort(expected, axis=1))


@pytest.mark.parametrize("distance", [1e3, 1e30])
def test_queries_far_from_all_points_find_the_nearest(distance):
    rng = np.random.default_rng(0)
    points = rng.standard_normal((300, 4))
    directions = rng.standard_normal((20, 4))
    found = knn(points, 5, queries=distance * directions)
    if distance < 1e6:
        gaps = ((distance * directions[:, None] - points) ** 2).sum(axis=2)
        np.testing.assert_array_equal(found.indices, np.argsort(gaps, axis=1, kind="stable")[:, :5])
    assert np.all(np.isfinite(found.distances))


def test_no_queries_and_no_points_give_nothing():
    points = np.ones((5, 3))
    assert knn(points, 2, queries=points[:0]).indices.shape == (0, 2)
    assert knn(points[:0], 2, queries=points).indices.shape == (5, 0)


def test_small_sets_compile_nothing():
    program = """
import sys
import numpy as np
from laplacianshot.neighbors.knn import knn, point_index
X = np.random.default_rng(0).standard_normal((4096, 8))
for dtype in (np.float16, np.float32, np.float64):
    index = point_index(X.astype(dtype))
    index.neighbor_sets(5), index.neighbors_of(index.points[:50], 3), knn(index.points[:500], 4)
assert "numba" not in sys.modules
"""
    subprocess.run([sys.executable, "-c", program], check=True)
