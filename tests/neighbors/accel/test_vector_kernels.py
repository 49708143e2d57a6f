"""Products with few classes, against numpy's in float64, and fits with them against fits by matrix products."""

import numpy as np
import pytest
from sklearn.base import clone

from laplacianshot import LaplacianShot
from laplacianshot.neighbors.accel import _vector_kernels
from laplacianshot.neighbors.accel._vector_kernels import add_class_sums, applies, multiply_rows, processor_has

needs_wide_registers = pytest.mark.skipif(not processor_has("avx512f"), reason="this processor has no such registers")


def rows(n, dim=64, seed=0, dtype=np.float32):
    return np.random.default_rng(seed).standard_normal((n, dim)).astype(dtype)


@needs_wide_registers
@pytest.mark.parametrize("n", [5, 6, 9, 10, 57])
@pytest.mark.parametrize("n_classes", [*range(2, 12), 20, 37, 40])
@pytest.mark.parametrize("dim", [64, 320])
def test_products_and_sums_are_right(n, n_classes, dim):
    X, M, Y = rows(n, dim), rows(n_classes, dim, seed=1), np.abs(rows(n, n_classes, seed=2))
    assert applies(X, n_classes)
    products = np.full((n + 1, n_classes), np.nan, dtype=np.float32)
    multiply_rows(X, M, products[:n])
    np.testing.assert_allclose(products[:n], X.astype(np.float64) @ M.T, rtol=1e-5, atol=1e-4)
    assert np.isnan(products[n]).all()
    sums = np.ones((n_classes + 1, dim), dtype=np.float32)
    add_class_sums(Y, X, sums[:n_classes])
    np.testing.assert_allclose(sums[:n_classes], 1 + Y.T.astype(np.float64) @ X, rtol=1e-5, atol=1e-4)
    assert np.all(sums[n_classes] == 1)


@needs_wide_registers
@pytest.mark.parametrize("n_classes", [1, 2, 7])
def test_no_rows_add_nothing(n_classes):
    # What lies in memory behind no rows at all.
    X, Y = np.full((4, 64), np.nan, np.float32), np.full((4, n_classes), np.nan, np.float32)
    sums = np.ones((n_classes, 64), np.float32)
    add_class_sums(Y[:0], X[:0], sums)
    assert np.all(sums == 1)


@needs_wide_registers
def test_rows_may_be_part_of_a_wider_array():
    wide = rows(12, 200)
    X, M = wide[2:, 64:128], rows(6, 64, seed=1)
    assert applies(X, 6)
    products, sums = np.empty((10, 6), np.float32), np.zeros((6, 64), np.float32)
    multiply_rows(X, M, products)
    add_class_sums(products, X, sums)
    np.testing.assert_allclose(products, X @ M.T, rtol=1e-5, atol=1e-4)
    np.testing.assert_allclose(sums, products.T @ X, rtol=1e-4, atol=1e-3)


@pytest.mark.parametrize(
    ("X", "n_classes"),
    [
        (rows(9, dtype=np.float64), 5),
        (rows(4), 5),
        (rows(9, 63), 5),
        (rows(9), 1),
        (rows(9), 41),
        (np.asfortranarray(rows(9)), 5),
        (rows(9, 128)[:, ::2], 5),
    ],
    ids=["float64", "few rows", "63 coordinates", "one class", "many classes", "columns together", "with gaps"],
)
def test_other_rows_are_left_to_matrix_products(X, n_classes):
    assert not applies(X, n_classes)


def test_processors_without_wide_registers_are_left_to_matrix_products(monkeypatch):
    monkeypatch.setattr(_vector_kernels, "processor_has", lambda *features: False)
    assert not applies(rows(9), 5)


@needs_wide_registers
@pytest.mark.parametrize("threads", ["1", "2"])
@pytest.mark.parametrize(("n", "n_classes"), [(150, 2), (300, 3), (1500, 7), (1500, 40)])
def test_a_fit_is_the_same_by_matrix_products(monkeypatch, n, n_classes, threads):
    monkeypatch.setenv("OMP_NUM_THREADS", threads)
    rng = np.random.default_rng(n)
    truth = np.arange(n) % n_classes
    X = (rng.standard_normal((n_classes, 128))[truth] + rng.standard_normal((n, 128))).astype(np.float32)
    y = np.where(np.arange(n) < 2 * n_classes, truth, -1)
    # A certain number of rounds: rounding may decide which is the last.
    model = LaplacianShot(max_iter=12, tol=1e-300)
    fast = clone(model).fit(X, y)
    assert applies(X, n_classes)
    monkeypatch.setattr(_vector_kernels, "processor_has", lambda *features: False)
    plain = clone(model).fit(X, y)
    assert fast.n_iter_ == plain.n_iter_ == 12
    np.testing.assert_array_equal(fast.transduction_, plain.transduction_)
    np.testing.assert_allclose(fast.objective_, plain.objective_, rtol=2e-5)
    np.testing.assert_allclose(fast.label_distributions_, plain.label_distributions_, atol=2e-4)
    np.testing.assert_allclose(fast.prototypes_, plain.prototypes_, atol=1e-4)
