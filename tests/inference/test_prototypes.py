import numpy as np
import pytest

from laplacianshot.inference.prototypes import class_means, rectify_prototypes, squared_distances


@pytest.fixture
def task():
    rng = np.random.default_rng(0)
    labels = np.array([2, 0, 1, 0, 2, 2])  # unsorted, unequal shots
    centers = rng.standard_normal((3, 7))
    support = centers[labels] + 0.3 * rng.standard_normal((6, 7))
    query = centers[rng.integers(0, 3, 25)] + 0.3 * rng.standard_normal((25, 7)) + 0.2
    return support, labels, query


def dense_rectification(support, labels, query, temperature, by_cosine):
    """The definition, row by row."""
    plain = np.array([support[labels == c].mean(axis=0) for c in range(3)])
    shift = support.mean(axis=0) - query.mean(axis=0)
    rows = np.concatenate([support, query + shift])
    cos = np.array([[z @ m / np.linalg.norm(z) / np.linalg.norm(m) for m in plain] for z in rows])
    w = np.exp(temperature * cos)
    w /= w.sum(axis=1, keepdims=True)
    groups = cos.argmax(axis=1)
    if not by_cosine:
        groups = np.array([np.argmin([(z - m) @ (z - m) for m in plain]) for z in rows])
        groups[: len(labels)] = labels
    rectified = [np.mean([w[i, c] * rows[i] for i in np.flatnonzero(groups == c)], axis=0) for c in range(3)]
    return np.array(rectified), shift


def test_prototypes_are_class_means_for_unsorted_labels_and_unequal_shots(task):
    support, labels, _ = task
    means = class_means(support, labels, 3)
    for c in range(3):
        np.testing.assert_allclose(means[c], support[labels == c].mean(axis=0), rtol=1e-13)


@pytest.mark.parametrize(("temperature", "by_cosine"), [(1.0, False), (10.0, True)], ids=["paper", "reference"])
def test_rectification_equals_its_definition(task, temperature, by_cosine):
    found = rectify_prototypes(*task, 3, temperature=temperature, by_cosine=by_cosine)
    prototypes, shift = dense_rectification(*task, temperature, by_cosine)
    np.testing.assert_allclose(found.prototypes, prototypes, rtol=1e-12)
    np.testing.assert_allclose(found.query_shift, shift, rtol=1e-12)


def test_a_class_that_no_row_is_assigned_to_keeps_its_plain_prototype():
    # Class 1's rows point opposite ways: their mean is nearly zero and its direction is that of class 0's rows.
    support = np.array([[1.0, 0.0], [0.9, -1.0], [0.1, 1.0], [0.0, -1.0]])
    labels = np.array([0, 1, 1, 2])
    query = np.array([[1.0, 0.05], [1.0, -0.05], [0.05, -1.0]])
    query += support.mean(axis=0) - query.mean(axis=0)
    plain = class_means(support, labels, 3)
    cos = (support @ plain.T) / np.linalg.norm(support, axis=1)[:, None] / np.linalg.norm(plain, axis=1)
    cos_query = (query @ plain.T) / np.linalg.norm(query, axis=1)[:, None] / np.linalg.norm(plain, axis=1)
    taken = set(cos.argmax(axis=1)) | set(cos_query.argmax(axis=1))
    dropped = sorted({0, 1, 2} - taken)
    assert dropped, "the example must leave a class without rows"
    found = rectify_prototypes(support, labels, query, 3, temperature=10, by_cosine=True)
    np.testing.assert_array_equal(found.prototypes[dropped], plain[dropped])
    assert np.all(np.isfinite(found.prototypes))


def test_the_paper_groups_a_query_by_distance_where_the_authors_code_goes_by_angle():
    # From (2, 1) the nearest prototype is (1.5, -0.5), and the best aligned one (8, 4).
    support, labels = np.array([[8.0, 4.0], [1.5, -0.5]]), np.array([0, 1])
    query = np.array([[2.0, 1.0], [7.5, 2.5]])
    np.testing.assert_allclose(query.mean(axis=0), support.mean(axis=0))
    # Weights are softmax_c(cos(z, m_c)): of each row, for the class it is grouped to.
    rows = np.concatenate([support, query])
    cos = (rows @ support.T) / np.linalg.norm(rows, axis=1)[:, None] / np.linalg.norm(support, axis=1)
    w = np.exp(cos) / np.exp(cos).sum(axis=1, keepdims=True)
    by_distance = [w[[0, 3], 0] @ rows[[0, 3]] / 2, w[[1, 2], 1] @ rows[[1, 2]] / 2]
    by_angle = [w[[0, 2, 3], 0] @ rows[[0, 2, 3]] / 3, w[1, 1] * rows[1]]
    found = rectify_prototypes(support, labels, query, 2)
    np.testing.assert_allclose(found.prototypes, by_distance, rtol=1e-12)
    found = rectify_prototypes(support, labels, query, 2, by_cosine=True)
    np.testing.assert_allclose(found.prototypes, by_angle, rtol=1e-12)


def test_without_queries_rectification_changes_nothing(task):
    support, labels, query = task
    found = rectify_prototypes(support, labels, query[:0], 3)
    np.testing.assert_allclose(found.prototypes, class_means(support, labels, 3), rtol=1e-13)
    assert np.all(found.query_shift == 0)


def test_zero_rows_give_no_nan(task):
    support, labels, query = task
    support[1] = 0
    query[:2] = 0
    found = rectify_prototypes(support, labels, query, 3)
    assert np.all(np.isfinite(found.prototypes))


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_unary_terms_are_squared_distances_even_far_from_the_origin(dtype):
    rng = np.random.default_rng(0)
    X = (1000 + rng.standard_normal((30, 5))).astype(dtype)
    M = (1000 + rng.standard_normal((4, 5))).astype(dtype)
    exact = ((X[:, None].astype(float) - M[None].astype(float)) ** 2).sum(axis=2)
    found = squared_distances(X, M)
    assert found.dtype == dtype
    np.testing.assert_allclose(found, exact, rtol=1e-6)
