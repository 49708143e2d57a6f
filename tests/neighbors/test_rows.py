import tracemalloc

import numpy as np
import pytest

from laplacianshot.inference.transforms import base_mean, before_center, transform_features
from laplacianshot.neighbors.kernels import halves_to_single
from laplacianshot.neighbors.rows import Rows


@pytest.mark.parametrize("transform", ["none", "l2", "cl2", "power"])
@pytest.mark.parametrize("dtype", [np.float16, np.float32, np.float64])
def test_rows_are_transformed_as_by_transform_features(transform, dtype):
    X = (3 + np.random.default_rng(0).standard_normal((300, 7))).astype(dtype)
    X[7:9] *= -1
    X[20] = 0
    center = base_mean(X, transform) if transform in ("cl2", "power") else None
    rows = Rows.transformed(X, transform, center)
    expected = transform_features(X, transform, center)
    # Unit roots lie closer to their center than to zero, so that float32 loses a digit.
    np.testing.assert_allclose(rows[:], expected, rtol=2e-6, atol=2e-6 if transform == "power" else 2e-7)
    np.testing.assert_array_equal(rows[40:90], rows[:][40:90])
    np.testing.assert_array_equal(rows[np.array([5, 3, 5])], rows[:][[5, 3, 5]])
    assert rows[:].dtype == np.float32


def test_an_order_of_an_order_is_followed():
    X = np.random.default_rng(0).standard_normal((50, 3)).astype(np.float32)
    rng = np.random.default_rng(1)
    first, second = rng.permutation(50), rng.permutation(50)[:20]
    rows = Rows.transformed(X).ordered(first).ordered(second)
    np.testing.assert_array_equal(rows[:], X[first][second])
    assert rows.shape == (20, 3)


@pytest.mark.parametrize("transform", ["l2", "cl2", "power"])
def test_a_row_without_direction_stays_zero(transform):
    X = np.full((5, 4), 0.1, dtype=np.float32)
    X[0] = 7, 0, 7, 7
    center = before_center(X[1:2], transform)[0].astype(np.float64) if transform != "l2" else None
    if transform == "l2":
        X[1:] = 0
    rows = Rows.transformed(X, transform, center)[:]
    np.testing.assert_array_equal(rows[1:], 0)
    np.testing.assert_allclose(np.linalg.norm(rows[0]), 1, rtol=1e-6)


@pytest.mark.parametrize("size", [1e-30, 1e15])
@pytest.mark.parametrize("transform", ["l2", "power"])
def test_tiny_and_huge_rows_become_directions(size, transform):
    X = (size * np.random.default_rng(0).standard_normal((20, 6))).astype(np.float32)
    rows = Rows.transformed(X, transform, np.zeros(6))[:]
    np.testing.assert_allclose(np.linalg.norm(rows, axis=1), 1, rtol=1e-5)


def test_every_finite_half_is_converted_exactly():
    halves = np.arange(2**16, dtype=np.uint16).view(np.float16)
    halves = halves[np.isfinite(halves)][None]
    single = np.empty(halves.shape, dtype=np.float32)
    halves_to_single(halves.view(np.uint16), single)
    np.testing.assert_array_equal(single, halves.astype(np.float32))
    np.testing.assert_array_equal(np.signbit(single), np.signbit(halves))


@pytest.mark.parametrize("transform", ["cl2", "power"])
@pytest.mark.parametrize("dtype", [np.float16, np.float32])
def test_a_memory_mapped_file_is_never_copied_whole(tmp_path, dtype, transform):
    X = np.lib.format.open_memmap(tmp_path / "X.npy", "w+", dtype, (40_000, 64))
    X[:] = np.random.default_rng(0).standard_normal(64)
    X.flush()
    mapped = np.load(tmp_path / "X.npy", mmap_mode="r")
    Rows.transformed(mapped[:10], transform, np.zeros(64))[0:2]  # compile
    base_mean(mapped[:5000], transform)
    tracemalloc.start()
    rows = Rows.transformed(mapped, transform, base_mean(mapped, transform))
    for start in range(0, len(rows), 1000):
        rows[start : start + 1000]
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 0.25 * 40_000 * 64 * 4


def test_centered_rows_have_the_same_distances_and_mean_zero():
    X = (1000 + np.random.default_rng(0).standard_normal((200, 5))).astype(np.float64)
    rows = Rows.transformed(X).centered()[:]
    np.testing.assert_allclose(rows.mean(axis=0), 0, atol=1e-4)
    np.testing.assert_allclose(rows[1:] - rows[0], X[1:] - X[0], atol=1e-6)
