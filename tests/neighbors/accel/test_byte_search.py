"""The exact search by products of bytes, against brute force."""

import os
import subprocess
import sys

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from laplacianshot.neighbors import accel, exact
from laplacianshot.neighbors.accel import _vector_kernels as _vectors
from laplacianshot.neighbors.accel import byte_search
from laplacianshot.neighbors.accel._byte_kernels import FACTS, PANEL, STRIP, meet_panels
from laplacianshot.neighbors.exact import ExactIndex
from laplacianshot.runtime.threads import Workers

LARGE = 10**9

needs_bytes = pytest.mark.skipif(not byte_search.applies(64), reason="this processor does not multiply bytes")


def rows_of(n, dim, seed=0, dtype=np.float32):
    rng = np.random.default_rng(seed)
    means = rng.standard_normal((7, dim))
    return (means[rng.integers(7, size=n)] + rng.standard_normal((n, dim))).astype(dtype)


def searched(X, m):
    """Keys and ids of the m nearest by bytes, and the rows that they were found from."""
    index = ExactIndex(X)
    heaps = exact.Heaps.empty(len(X), m, len(X))
    with Workers(LARGE) as workers:
        byte_search.search_by_bytes(workers, index._rows, index._halves, heaps.keys, heaps.ids)
    return heaps.keys, heaps.ids, index._rows


def check(X, m):
    """The rows found are as near as the nearest, and their keys are half squared distances."""
    keys, ids, rows = searched(X, m)
    wide = rows.astype(np.float64)
    halves = np.square(wide).sum(axis=1) / 2
    distances = halves[:, None] + halves - wide @ wide.T
    np.fill_diagonal(distances, np.inf)
    rounding = 1e-5 * (halves.max() + 1e-30)
    assert not np.any(ids == np.arange(len(X))[:, None])
    assert all(len(set(row)) == m for row in ids.tolist())
    found = np.take_along_axis(distances, ids.astype(np.int64), axis=1)
    np.testing.assert_allclose(keys, found, atol=rounding)
    np.testing.assert_allclose(np.sort(found, axis=1), np.sort(distances, axis=1)[:, :m], atol=rounding)


@needs_bytes
def test_rows_are_their_codes_and_what_rounding_lost():
    X = rows_of(100, 70)
    halves = (np.square(X.astype(np.float64)).sum(axis=1) / 2).astype(np.float32)
    with Workers(LARGE) as workers:
        rounded = byte_search.QuantizedRows.of(workers, X, halves)
        points = byte_search.QuantizedPoints.of(workers, rounded)
    codes = rounded.strips.transpose(0, 2, 1, 3).reshape(-1, 72)
    assert len(codes) == 3 * PANEL
    assert not codes[:, 70:].any()
    assert not codes[100:].any()
    np.testing.assert_array_equal(rounded.begins, -128 * codes.astype(np.int32).sum(axis=1))
    columns = points.panels.transpose(0, 2, 1, 3).reshape(-1, 72)
    np.testing.assert_array_equal(columns.astype(np.int16), codes.astype(np.int16) + 128)
    half, scale, length, error, left, slack = rounded.facts[:100].astype(np.float64).T
    wide, rounded_rows = X.astype(np.float64), scale[:, None] * codes[:100, :70]
    np.testing.assert_allclose(np.abs(codes[:100]).max(axis=1), 127)
    assert np.all(np.abs(half - np.square(wide).sum(axis=1) / 2) <= slack)
    assert np.all(slack < 1e-5 * half)
    for bound, true in ((length, wide), (error, wide - rounded_rows), (left, rounded_rows)):
        norms = np.linalg.norm(true, axis=1)
        assert np.all(bound >= norms)
        assert np.all(bound <= norms + 1e-4 * length)
    np.testing.assert_array_equal(points.facts.transpose(0, 2, 1).reshape(-1, FACTS), rounded.facts)


@needs_bytes
@pytest.mark.parametrize("uneven", [0.0, 1.0, 5.0])
@pytest.mark.parametrize("dim", [3, 64, 1280, 20_000])
def test_bounds_hold_for_every_pair(dim, uneven):
    """As many points as one panel has room for: the group of each is its own, and all of them wait."""
    n = PANEL - 1
    X = rows_of(n, dim, dim) * np.exp(uneven * np.random.default_rng(1).standard_normal((n, 1))).astype(np.float32)
    X[3], X[4], X[5] = 0, X[6], -X[6]
    halves = np.einsum("nd,nd->n", X, X) / 2
    with Workers(1) as workers:
        rounded = byte_search.QuantizedRows.of(workers, X, halves)
        points = byte_search.QuantizedPoints.of(workers, rounded)
    minima, limits = (
        np.full((PANEL, 3 * PANEL), np.inf, np.float32),
        np.full(PANEL, np.finfo(np.float32).max, np.float32),
    )
    lowers, waiting, counts = np.empty((n, n), np.float32), np.empty((n, n), np.int32), np.zeros(n, np.int32)
    keys, ids = np.empty((n, n - 1), np.float32), np.empty((n, n - 1), np.int32)
    state = (minima, limits, lowers, waiting, counts, keys, ids)
    codes = (rounded.strips, rounded.begins, rounded.facts, points.panels, points.facts)
    meet_panels(X, halves, *codes, *state, 0, n, 0, 1)
    wide = X.astype(np.float64)
    exact = np.square(wide[:, None] - wide[None]).sum(axis=2) / 2
    np.testing.assert_array_equal(counts, n - 1)
    np.testing.assert_array_equal(np.sort(waiting[:, :-1], axis=1), [np.delete(np.arange(n), i) for i in range(n)])
    np.testing.assert_array_equal(np.isinf(minima[:n, :n]), np.eye(n, dtype=bool))
    lower = np.full((n, n), -np.inf)
    np.put_along_axis(lower, waiting[:, :-1].astype(np.int64), lowers[:, :-1].astype(np.float64), axis=1)
    assert np.all(lower <= exact)
    assert np.all((exact <= minima[:n, :n]) | np.eye(n, dtype=bool))
    if not uneven:
        # And no wider than rounding to 127 steps makes them.
        lengths = np.linalg.norm(wide, axis=1)
        widths = (minima[:n, :n] - lower)[~np.eye(n, dtype=bool)]
        assert np.median(widths / np.outer(lengths, lengths)[~np.eye(n, dtype=bool)].clip(1e-9)) < 0.08


@needs_bytes
@pytest.mark.parametrize("threads", ["1", "2", "5"])
@pytest.mark.parametrize(("n", "dim"), [(2, 3), (STRIP + 1, 1), (47, 16), (49, 17), (600, 4), (1000, 70), (700, 256)])
def test_the_search_equals_brute_force(monkeypatch, n, dim, threads):
    monkeypatch.setenv("OMP_NUM_THREADS", threads)
    X = rows_of(n, dim)
    for m in (1, 9, 40):
        if m < n:
            check(X, m)


@needs_bytes
@pytest.mark.parametrize("threads", ["1", "3"])
def test_many_small_blocks_find_the_same(monkeypatch, threads):
    """Every side of every pair of blocks."""
    monkeypatch.setenv("OMP_NUM_THREADS", threads)
    monkeypatch.setattr(byte_search, "_BLOCK_BYTES", 1)
    check(rows_of(900, 20), 6)


@needs_bytes
def test_more_wait_than_there_is_room_for(monkeypatch):
    """In pure noise nearly all rows are in question: they are compared before their time."""
    monkeypatch.setattr(byte_search, "_ROOM", 1)
    X = np.random.default_rng(0).standard_normal((800, 512)).astype(np.float32)
    check(X, 12)


@needs_bytes
@settings(max_examples=40, deadline=None)
@given(
    seed=st.integers(0, 2**32 - 1),
    n=st.integers(2, 400),
    dim=st.integers(1, 90),
    m=st.integers(1, 50),
    copies=st.integers(0, 300),
    zeros=st.integers(0, 50),
    scale=st.sampled_from([1e-25, 1e-3, 1.0, 1e12]),
    offset=st.sampled_from([0.0, 3.0, 1e4]),
    uneven=st.booleans(),
)
def test_any_rows_find_their_nearest(seed, n, dim, m, copies, zeros, scale, offset, uneven):
    X = rows_of(n, dim, seed)
    if uneven:
        X *= np.exp(3 * np.random.default_rng(seed).standard_normal((n, 1))).astype(np.float32)
    X[:copies] = X[n - 1]
    X[:zeros] = 0
    check((X + np.float32(offset)) * np.float32(scale), min(m, n - 1))


def test_a_single_outlier_and_rows_of_very_different_length():
    X = rows_of(300, 32)
    X[0] *= 1e6
    X[1:20] *= 1e-6
    if byte_search.applies(32):
        check(X, 8)


@pytest.fixture
def tried(monkeypatch):
    """The choice among ways to search, with few rows; what was searched by bytes."""
    monkeypatch.setattr(accel, "MIN_ROWS", 400)
    monkeypatch.setattr(accel, "_ROWS", 300)
    monkeypatch.setattr(accel, "project", lambda *arguments: None)
    searches = []

    def search(workers, rows, *rest):
        searches.append(len(rows))
        search_by_bytes(workers, rows, *rest)

    search_by_bytes = byte_search.search_by_bytes
    monkeypatch.setattr(byte_search, "search_by_bytes", search)
    return searches


def brute_force(X, k):
    X = X.astype(np.float64)
    halves = np.square(X).sum(axis=1) / 2
    distances = halves[:, None] + halves - X @ X.T
    np.fill_diagonal(distances, np.inf)
    return np.argsort(distances, axis=1)[:, :k]


@needs_bytes
@pytest.mark.parametrize("dtype", [np.float16, np.float32, np.float64])
def test_neighbors_are_found_by_bytes_where_that_is_cheaper(tried, dtype):
    rng = np.random.default_rng(0)
    X = (rng.standard_normal((2500, 6)) @ rng.standard_normal((6, 64))).astype(dtype)
    X = X.astype(np.float32) if dtype == np.float16 else X
    expected = brute_force(X, 7)
    np.testing.assert_array_equal(ExactIndex(X).neighbors(7).indices, expected)
    np.testing.assert_array_equal(np.sort(ExactIndex(X).neighbor_sets(7), axis=1), np.sort(expected, axis=1))
    assert tried == [2500, 2500]


@needs_bytes
def test_rows_that_bytes_hardly_tell_apart_are_multiplied_in_full(tried):
    """Distances in pure noise are nearly equal: nearly all pairs would be in question."""
    X = np.random.default_rng(0).standard_normal((900, 1000)).astype(np.float32)
    np.testing.assert_array_equal(ExactIndex(X).neighbors(5).indices, brute_force(X, 5))
    assert tried == []


def test_without_the_instruction_rows_are_multiplied_in_full(tried, monkeypatch):
    monkeypatch.setattr(byte_search, "processor_has", lambda *features: False)
    rng = np.random.default_rng(0)
    X = (rng.standard_normal((2500, 6)) @ rng.standard_normal((6, 64))).astype(np.float32)
    np.testing.assert_array_equal(ExactIndex(X).neighbors(7).indices, brute_force(X, 7))
    assert tried == []


@pytest.mark.parametrize(("dim", "possible"), [(0, False), (1, True), (66_000, True), (67_000, False)])
def test_sums_of_bytes_must_not_overflow(monkeypatch, dim, possible):
    monkeypatch.setattr(byte_search, "processor_has", lambda *features: True)
    assert byte_search.applies(dim) == possible


@needs_bytes
def test_the_largest_sums_do_not_overflow():
    """All codes at their largest, as many as there may be."""
    X = np.ones((50, 66_000), dtype=np.float32)
    X[::2] *= -1
    X[:, :50] += np.eye(50, dtype=np.float32) / 4
    check(X, 3)


@pytest.mark.parametrize("features", [("avx512f",), ("avx512f", "avx512vnni")])
def test_kernels_that_are_not_compiled_have_no_instructions(monkeypatch, features):
    monkeypatch.setattr(_vectors.config, "DISABLE_JIT", 1)
    assert not _vectors.processor_has.__wrapped__(*features)


def test_a_processor_without_the_instructions_fits_as_well(tmp_path):
    """The whole path in a process that compiles for another processor."""
    code = """
import os
import subprocess
import sys

import numpy as np
from laplacianshot import LaplacianShot
from laplacianshot.neighbors.accel import _vector_kernels
from laplacianshot.neighbors.accel import byte_search

rng = np.random.default_rng(0)
truth = np.arange(4500) % 5
X = (rng.standard_normal((5, 64))[truth] + rng.standard_normal((4500, 64))).astype(np.float32)
model = LaplacianShot().fit(X, np.where(np.arange(4500) < 25, truth, -1))
assert not byte_search.applies(64) and not _vector_kernels.applies(X, 5)
assert np.mean(model.transduction_ == truth) > 0.99
"""
    other = {"NUMBA_CPU_NAME": "generic", "NUMBA_CPU_FEATURES": "", "NUMBA_CACHE_DIR": str(tmp_path)}
    subprocess.run([sys.executable, "-c", code], check=True, env={**os.environ, **other}, timeout=300)
