import numpy as np
import pytest

from laplacianshot.engine.passes import rows_in_cache
from laplacianshot.runtime import kernel_parts as kernels
from laplacianshot.runtime.arrays import mean_of_rows
from laplacianshot.runtime.kernel_parts import add_rows, squares_about


@pytest.mark.parametrize(
    ("exp", "dtype", "rtol"), [(kernels._exp_single, np.float32, 1.2e-7), (kernels._exp_double, np.float64, 1e-14)]
)
def test_the_exponential_is_that_of_numpy(exp, dtype, rtol):
    x = -np.concatenate([np.linspace(0, 80, 4001), np.geomspace(1e-12, 1, 50)]).astype(dtype)
    found = np.array([exp(value) for value in x])
    np.testing.assert_allclose(found, np.exp(x.astype(np.float64)), rtol=rtol)
    assert exp(dtype(0)) == 1


@pytest.mark.parametrize(
    ("exp", "dtype"), [(kernels._exp_single, np.float32), (kernels._exp_double, np.float64)], ids=["float32", "float64"]
)
def test_far_below_zero_the_exponential_vanishes_and_stays_finite(exp, dtype):
    for x in (-100, -1e4, -1e30, -np.inf):
        assert 0 <= exp(dtype(x)) < 1e-37


@pytest.mark.parametrize("n", [1, 2, 3, 4, 5, 16, 101])
def test_the_largest_entry_is_found_wherever_it_is(n):
    for place in range(n):
        x = -np.arange(1.0, n + 1)
        x[place] = 0.5
        assert kernels.largest(x) == 0.5


@pytest.mark.parametrize("n_neighbors", [0, 1, 3, 4, 7, 8])
def test_the_field_is_the_weighted_sum_of_the_neighbors(n_neighbors):
    rng = np.random.default_rng(n_neighbors)
    Y, weights = rng.random((20, 6)), rng.random(n_neighbors)
    neighbors = rng.integers(0, 20, n_neighbors)
    field = np.empty(6)
    kernels.gather_rows(Y, neighbors, weights, field)
    np.testing.assert_allclose(field, weights @ Y[neighbors] if n_neighbors else np.zeros(6), atol=1e-14)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("n", [0, 1, 3, 4, 7, 100])
def test_sums_over_rows(n, dtype):
    rng = np.random.default_rng(n)
    X, center = (1 + rng.standard_normal((n, 9))).astype(dtype), rng.standard_normal(9).astype(dtype)
    sums = np.ones(9)
    add_rows(X, sums)
    np.testing.assert_allclose(sums, 1 + X.sum(axis=0, dtype=np.float64), rtol=1e-12)
    expected = np.square(X.astype(np.float64) - center).sum(axis=1)
    np.testing.assert_allclose(squares_about(X, center), expected, rtol=1e-6)
    lengths = np.square(X.astype(np.float64)).sum(axis=1)
    np.testing.assert_allclose(squares_about(X, np.zeros(9, dtype)), lengths, rtol=1e-12)


def test_sums_of_many_single_numbers_are_those_of_doubles():
    X = np.full((100_000, 2), 0.1, dtype=np.float32)
    X[0, 0] = 1e7
    sums = np.zeros(2)
    add_rows(X, sums)
    np.testing.assert_allclose(sums, X.sum(axis=0, dtype=np.float64), rtol=1e-14)


@pytest.mark.parametrize("n", [3000, 5000])
def test_the_mean_is_the_same_however_rows_lie_in_memory(n):
    X = np.random.default_rng(0).standard_normal((n, 12)).astype(np.float32)
    expected = X.mean(axis=0, dtype=np.float64)
    frozen = X.copy()
    frozen.flags.writeable = False
    swapped = X.astype(X.dtype.newbyteorder())
    for rows in (X, np.asfortranarray(X), np.repeat(X, 2, axis=1)[:, ::2], frozen, swapped, X.astype(np.float64)):
        np.testing.assert_allclose(mean_of_rows(rows), expected, atol=1e-12)
    np.testing.assert_allclose(mean_of_rows(X.astype(np.float16)), expected, atol=1e-4)


@pytest.mark.parametrize(("dim", "rows"), [(1280, 102), (10**6, 16), (1, 2**17)])
def test_rows_in_cache(dim, rows):
    assert rows_in_cache(np.empty((0, dim), np.float32)) == rows
