"""Kernels against the formulas they stand for."""

import numpy as np
import pytest

from laplacianshot.runtime import kernel_parts as kernels


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
