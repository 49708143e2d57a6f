import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given, settings
from hypothesis import strategies as st

from laplacianshot.inference.affinity import check_affinity, knn_affinity, normalize, psd_shift, symmetrize


@pytest.fixture
def X():
    return np.random.default_rng(0).standard_normal((60, 4))


def test_directed_has_k_ones_a_row_and_an_empty_diagonal(X):
    W = knn_affinity(X, 4, symmetry="directed").toarray()
    assert np.all(W.sum(axis=1) == 4)
    assert set(np.unique(W)) == {0.0, 1.0}
    assert np.all(np.diag(W) == 0)


def test_mutual_keeps_the_edges_that_both_ends_chose(X):
    A = knn_affinity(X, 4, symmetry="directed").toarray()
    np.testing.assert_array_equal(knn_affinity(X, 4, symmetry="mutual").toarray(), A * A.T)


def test_symmetric_leaves_the_pairwise_energy_of_the_directed_graph(X):
    A = knn_affinity(X, 4, symmetry="directed")
    W = knn_affinity(X, 4)
    Y = np.random.default_rng(1).dirichlet(np.ones(3), 60)
    np.testing.assert_array_equal(W.toarray(), W.toarray().T)
    np.testing.assert_allclose((Y * (W @ Y)).sum(), (Y * (A @ Y)).sum(), rtol=1e-13)


def test_heat_weights_fall_from_one_with_the_distance(X):
    W = knn_affinity(X, 5, symmetry="directed", weights="heat")
    binary = knn_affinity(X, 5, symmetry="directed")
    np.testing.assert_array_equal(W.indices, binary.indices)
    assert np.all((W.data > 0) & (W.data < 1))
    q = 7
    columns = W.indices[W.indptr[q] : W.indptr[q + 1]]
    distances = ((X[columns] - X[q]) ** 2).sum(axis=1)
    assert np.corrcoef(distances, W.data[W.indptr[q] : W.indptr[q + 1]])[0, 1] < 0


def test_heat_weights_of_duplicates_are_one_and_not_nan():
    W = knn_affinity(np.repeat(np.eye(3), 4, axis=0), 3, weights="heat")
    assert np.all(W.data == 1)


def test_normalized_graph_has_eigenvalues_within_one(X):
    values = np.linalg.eigvalsh(normalize(knn_affinity(X, 3)).toarray())
    assert values[0] >= -1
    np.testing.assert_allclose(values[-1], 1, atol=1e-12)


def test_an_isolated_node_stays_isolated():
    W = sp.csr_array(np.array([[0, 1, 0], [1, 0, 0], [0, 0, 0]], dtype=float))
    np.testing.assert_array_equal(normalize(W).toarray(), W.toarray())


@settings(max_examples=40, deadline=None)
@given(seed=st.integers(0, 10**6), n=st.integers(1, 30), density=st.floats(0, 1))
def test_the_shift_is_the_least_that_makes_a_graph_psd(seed, n, density):
    rng = np.random.default_rng(seed)
    dense = rng.random((n, n)) * (rng.random((n, n)) < density)
    W = symmetrize(sp.csr_array(dense))
    smallest = np.linalg.eigvalsh(W.toarray())[0]
    np.testing.assert_allclose(psd_shift(W), max(0, -smallest), atol=1e-9)
    assert np.linalg.eigvalsh(W.toarray() + psd_shift(W) * np.eye(n))[0] >= -1e-12 * max(1, abs(smallest))


def test_the_shift_of_a_large_graph_comes_from_lanczos_and_suffices():
    X = np.random.default_rng(0).standard_normal((700, 5))
    W = knn_affinity(X, 4)
    exact = -np.linalg.eigvalsh(W.toarray())[0]
    assert exact <= psd_shift(W) <= 1.01 * exact


@pytest.mark.parametrize(
    ("graph", "error", "match"),
    [
        (np.eye(4), TypeError, "scipy sparse"),
        (sp.eye_array(3), ValueError, r"shape \(3, 3\), expected \(4, 4\)"),
        (-sp.eye_array(4), ValueError, "negative"),
        (sp.diags_array([1.0, np.nan, 1, 1]), ValueError, "NaN or infinite"),
        (sp.diags_array([1.0, np.inf, 1, 1]), ValueError, "NaN or infinite"),
    ],
)
def test_a_graph_that_cannot_be_used_is_refused_by_name(graph, error, match):
    with pytest.raises(error, match=match):
        check_affinity(graph, 4, dtype=np.float64)
