"""The exact search that forms few products in full, against the one that forms all of them."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from laplacianshot.neighbors import accel, exact
from laplacianshot.neighbors.accel import byte_search
from laplacianshot.neighbors.accel import directions as projection
from laplacianshot.neighbors.exact import ExactIndex
from laplacianshot.runtime.threads import Workers

LARGE = 10**9


def groups(n, dim, n_groups, noise, seed=0, inner=None):
    """Rows about a few centers; what sets them apart, and most of the noise, is in ``inner`` directions."""
    rng = np.random.default_rng(seed)
    inner = dim if inner is None else inner
    basis = np.linalg.qr(rng.standard_normal((dim, inner)))[0]
    rows = rng.standard_normal((n_groups, inner))[rng.integers(n_groups, size=n)]
    rows = (rows + noise * rng.standard_normal((n, inner))) @ basis.T
    return (rows + 0.02 * rng.standard_normal((n, dim))).astype(np.float32)


@pytest.fixture
def small(monkeypatch):
    """Projections of sets that are small enough for a brute-force search."""
    monkeypatch.setattr(byte_search, "applies", lambda dim: False)
    monkeypatch.setattr(accel, "MIN_ROWS", 400)
    monkeypatch.setattr(accel, "_ROWS", 200)
    monkeypatch.setattr(projection, "_SAMPLE", 200)
    monkeypatch.setattr(projection, "_STEP", 8)
    monkeypatch.setattr(projection, "_FEW", 16)
    monkeypatch.setattr(projection, "_ROWS_PER_DIRECTION", 20)
    monkeypatch.setattr(exact, "_BOUNDED_BLOCK_ROWS", 60)
    used = []

    def project(*arguments):
        used.append(projection.project(*arguments))
        return used[-1]

    monkeypatch.setattr(accel, "project", project)
    return used


def projected(X, k=5):
    index = ExactIndex(X)
    with Workers(LARGE) as workers:
        trial = accel.Trial.of_rows(workers, index._rows, index._halves, k)
        return index, projection.project(workers, index._rows, index._halves, trial, 0.7)


def all_distances(X):
    X = X.astype(np.float64)
    distances = np.square(X[:, None] - X[None]).sum(axis=2)
    np.fill_diagonal(distances, np.inf)
    return distances


def check(found, X, k):
    """The k neighbors of each row are as near as the k nearest, to the last distance, whichever of equals they are."""
    distances = all_distances(X)
    assert not np.any(found == np.arange(len(X))[:, None])
    assert all(len(set(row)) == k for row in found.tolist())
    np.testing.assert_allclose(
        np.sort(np.take_along_axis(distances, found.astype(np.int64), axis=1), axis=1),
        np.sort(distances, axis=1)[:, :k],
        rtol=1e-12,
        atol=1e-20,
    )


def test_bounds_are_never_below_the_products(small):
    X = groups(900, 96, 8, 0.3, inner=12)
    index, found = projected(X)
    assert found is not None
    assert found.coordinates.shape[1] <= 33
    np.testing.assert_array_equal(np.sort(found.order), np.arange(900))
    rows = index._rows[found.order].astype(np.float64)
    bounds = found.coordinates.astype(np.float64) @ found.coordinates.T.astype(np.float64)
    assert np.all(bounds >= rows @ rows.T)
    # And not far above them, where the directions see nearly all.
    assert np.mean(bounds - rows @ rows.T) < 0.2


def test_neighbors_lie_near_one_another_in_the_order(small):
    X = groups(900, 96, 8, 0.3, inner=12)
    index, found = projected(X)
    place = np.argsort(found.order)
    near = index.neighbors(5).indices
    assert np.median(np.abs(place[near] - place[:, None])) < 120


@pytest.mark.parametrize("threads", ["1", "2", "5"])
@pytest.mark.parametrize(("n_groups", "noise"), [(8, 0.3), (2, 0.5), (40, 0.05)])
def test_the_search_equals_brute_force(small, monkeypatch, n_groups, noise, threads):
    """Two groups: most blocks leave so much in question that they are multiplied in full."""
    monkeypatch.setenv("OMP_NUM_THREADS", threads)
    X = groups(900, 96, n_groups, noise, inner=12)
    distances = all_distances(X)
    for k in (1, 7):
        expected = np.argsort(distances, axis=1)[:, :k]
        np.testing.assert_array_equal(ExactIndex(X).neighbors(k).indices, expected)
        np.testing.assert_array_equal(np.sort(ExactIndex(X).neighbor_sets(k), axis=1), np.sort(expected, axis=1))
    assert all(found is not None for found in small)


@settings(max_examples=25, deadline=None)
@given(
    seed=st.integers(0, 2**32 - 1),
    n=st.integers(400, 700),
    n_groups=st.integers(1, 60),
    noise=st.floats(0, 1),
    copies=st.integers(0, 200),
    k=st.integers(1, 12),
    offset=st.sampled_from([0.0, 3.0, 1e3]),
)
def test_any_rows_find_their_nearest(seed, n, n_groups, noise, copies, k, offset):
    with pytest.MonkeyPatch.context() as patch:
        for name, value in (("_SAMPLE", 150), ("_STEP", 8), ("_FEW", 8)):
            patch.setattr(projection, name, value)
        patch.setattr(byte_search, "applies", lambda dim: False)
        patch.setattr(accel, "MIN_ROWS", 400)
        patch.setattr(accel, "MAX_DIRECTIONS_COST", 9.0)
        patch.setattr(accel, "_ROWS", 150)
        patch.setattr(projection, "_TOO_FAR", 9.0)
        patch.setattr(projection, "_ROWS_PER_DIRECTION", 20)
        patch.setattr(exact, "_BOUNDED_BLOCK_ROWS", 70)
        X = groups(n, 64, n_groups, noise, seed=seed, inner=10)
        X[:copies] = X[n - 1]
        X += np.float32(offset)
        check(ExactIndex(X).neighbors(k).indices, X, k)


@pytest.mark.parametrize(("n", "tried"), [(300, []), (900, [None])])
def test_rows_without_directions_of_their_own_are_multiplied_in_full(small, n, tried):
    """Few rows are not worth it, and in noise no direction tells more than another."""
    X = np.random.default_rng(0).standard_normal((n, 96)).astype(np.float32)
    check(ExactIndex(X).neighbors(6).indices, X, 6)
    assert small == tried


def test_equal_rows_have_no_directions(small):
    X = np.ones((900, 96), dtype=np.float32)
    found = ExactIndex(X).neighbors(4).indices
    assert all(len(set(row)) == 4 and q not in row for q, row in enumerate(found.tolist()))
    assert small == [None]


def test_a_real_set_is_searched_by_few_directions():
    """scikit-learn's digits in random features, as large as it takes."""
    from sklearn.datasets import load_digits

    pixels = np.tile(load_digits().data / 16, (3, 1))[:4500]
    rng = np.random.default_rng(0)
    X = np.maximum((pixels + 0.05 * rng.standard_normal(pixels.shape)) @ rng.standard_normal((64, 256)), 0)
    X = (X - X.mean(axis=0)).astype(np.float32)
    index, found = projected(X, 12)
    assert found is not None
    fast = index.neighbor_sets(12)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(accel, "project", lambda *arguments: None)
        plain = index.neighbor_sets(12)
    np.testing.assert_array_equal(np.sort(fast, axis=1), np.sort(plain, axis=1))
