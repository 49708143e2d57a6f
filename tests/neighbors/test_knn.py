import tracemalloc

import numpy as np
import pytest

from laplacianshot.neighbors import cells as cells_module
from laplacianshot.neighbors.cells import (
    CellIndex,
    ExactSample,
    complete,
    nearest_centroids,
    probes_for,
    train_centroids,
)
from laplacianshot.neighbors.knn import knn
from laplacianshot.neighbors.rows import Rows
from laplacianshot.neighbors.types import Neighbors


def true_recall(X, found, k):
    """Share of true neighbors found, over all rows, by distance."""
    reach = knn(X, k).distances[:, -1]
    gaps = X[:, None] - X[found.clip(0)]
    squares = np.where(found < 0, np.inf, np.einsum("nkd,nkd->nk", gaps, gaps))
    return float((squares <= reach[:, None] * (1 + 1e-4) + 1e-6).mean())


@pytest.mark.parametrize("k", [1, 7, 30])
def test_searching_every_cell_is_exact(groups, k):
    X = groups(1500)
    centroids = train_centroids(Rows.transformed(X), 30)
    index, probes = CellIndex.build(Rows.transformed(X), centroids, len(centroids))
    found = index.neighbors(k, probes)
    expected = knn(X, k)
    np.testing.assert_array_equal(np.sort(index.order[found.indices]), np.sort(expected.indices[index.order]))
    np.testing.assert_allclose(found.distances, expected.distances[index.order], rtol=1e-3, atol=1e-4)


@pytest.mark.parametrize("count", [1, 4, 100])
def test_the_nearest_of_many_centroids_are_found_a_part_at_a_time(groups, monkeypatch, count):
    rows, centroids = groups(300), groups(50, seed=1)
    gaps = np.square(rows[:, None] - centroids).sum(axis=2)
    whole = nearest_centroids(rows, centroids, count)
    monkeypatch.setattr("laplacianshot.neighbors.cells._CENTROID_COLUMNS", 7)
    for found in (whole, nearest_centroids(rows, centroids, count)):
        np.testing.assert_array_equal(found, gaps.argsort(axis=1)[:, :count])


def test_new_rows_find_their_neighbors_too(groups):
    X, new = groups(1500), groups(100, seed=1)
    centroids = train_centroids(Rows.transformed(X), 30)
    index, _ = CellIndex.build(Rows.transformed(X), centroids, len(centroids))
    found = index.neighbors_of(new, 5)
    np.testing.assert_array_equal(index.order[found.indices], knn(X, 5, queries=new).indices)


def test_a_neighbor_that_only_the_other_row_found_is_taken_over():
    X = np.array([[0.0], [1.0], [2.1], [10.0]], dtype=np.float32)
    lists = np.array([[1, 3], [2, -1], [1, 0], [2, 1]], dtype=np.int32)
    squares = np.where(lists < 0, np.inf, (X[:, 0][:, None] - X[lists, 0]) ** 2).astype(np.float32)
    found = Neighbors(lists, squares)
    complete(found)
    np.testing.assert_array_equal(found.indices, [[1, 2], [0, 2], [1, 0], [2, 1]])
    np.testing.assert_allclose(found.distances, (X[:, 0][:, None] - X[found.indices, 0]) ** 2, rtol=1e-6)


def test_completion_finds_more_true_neighbors_and_loses_none(groups):
    X = groups(4000, 32, 40, spread=1.0)
    centroids = train_centroids(Rows.transformed(X), 250)
    index, probes = CellIndex.build(Rows.transformed(X), centroids, 5)
    found = index.neighbors(10, probes)
    rows = X[index.order]
    before = true_recall(rows, found.indices, 10)
    complete(found)
    after = true_recall(rows, found.indices, 10)
    assert before < after - 0.01
    assert np.all(np.diff(found.distances, axis=1) >= 0)
    assert all(len(set(row)) == 10 and q not in row for q, row in enumerate(found.indices.tolist()))


def test_the_recall_reported_is_the_recall_measured_on_all_rows(groups):
    X = groups(6000, 32, 200)
    found = knn(X, 10, method="cells", target_recall=0.8)
    report = found.report
    assert report.method == "cells"
    assert 0 < report.parameters["probes"] < report.parameters["cells"]
    assert abs(true_recall(X, found.indices, 10) - report.recall) < 0.03


@pytest.mark.parametrize("target", [0.7, 0.95])
def test_the_target_is_reached(groups, target):
    X = groups(6000, 32, 200, seed=2)
    found = knn(X, 10, method="cells", target_recall=target)
    report = found.report
    assert report.recall >= target - 0.01
    assert true_recall(X, found.indices, 10) >= target - 0.01


def test_distances_belong_to_the_indices(groups):
    X = groups(3000) + 50
    found = knn(X, 6, method="cells")
    gaps = X[:, None] - X[found.indices]
    np.testing.assert_allclose(found.distances, np.einsum("nkd,nkd->nk", gaps, gaps), rtol=1e-3, atol=1e-3)
    assert np.all(np.diff(found.distances, axis=1) >= 0)
    assert not np.any(found.indices == np.arange(3000)[:, None])


def test_neither_threads_nor_blocks_change_the_answer(groups, monkeypatch):
    X = groups(5000)
    results = []
    for threads, rows in (("1", 8192), ("3", 8192), ("2", 700)):
        monkeypatch.setenv("OMP_NUM_THREADS", threads)
        monkeypatch.setattr(cells_module, "QUERY_ROWS", rows)
        results.append(knn(X, 8, method="cells", seed=3))
    for found in results[1:]:
        np.testing.assert_array_equal(found.indices, results[0].indices)
        assert found.report.parameters == results[0].report.parameters
        assert found.report.recall == results[0].report.recall


def test_the_seed_decides(groups):
    X = groups(5000, 32, 300)
    first, again, other = (knn(X, 8, method="cells", seed=seed).indices for seed in (0, 0, 1))
    np.testing.assert_array_equal(first, again)
    assert np.any(first != other)


def test_rows_without_structure_are_searched_exactly():
    X = np.random.default_rng(0).standard_normal((2000, 64)).astype(np.float32)
    found = knn(X, 5, method="cells")
    report = found.report
    assert (report.method, report.recall) == ("exact", 1.0)
    np.testing.assert_array_equal(found.indices, knn(X, 5).indices)


def test_few_rows_and_a_target_of_one_are_searched_exactly(groups, monkeypatch):
    monkeypatch.setattr("laplacianshot.neighbors.knn.LARGE_ROWS", 1000)
    assert knn(groups(900), 5).report.method == "exact"
    assert knn(groups(1100), 5).report.method == "cells"
    assert knn(groups(1100), 5, target_recall=1.0).report.method == "exact"


def test_duplicates_neither_stop_nor_slow_the_search(monkeypatch):
    """Half of all rows are one and the same: its cell is cut into parts, and any of them is as good."""
    monkeypatch.setattr(cells_module, "_MAX_CELL", 2)
    rng = np.random.default_rng(0)
    X = np.concatenate([np.ones((2000, 8)), rng.standard_normal((2000, 8))]).astype(np.float32)
    centroids = train_centroids(Rows.transformed(X), 100)
    index, _ = CellIndex.build(Rows.transformed(X), centroids, 20)
    assert np.diff(index.starts).max() <= 2 * 40
    assert index.starts[-1] == 4000
    found = knn(X, 5, method="cells")
    report = found.report
    assert np.all(found.indices >= 0)
    assert np.all(found.distances[:2000] < 1e-4)
    assert not np.any(found.indices == np.arange(4000)[:, None])
    assert report.recall > 0.9


def test_equal_rows_get_k_others():
    found = knn(np.ones((3000, 4), np.float32), 5, method="cells")
    report = found.report
    assert report.recall == 1
    assert all(len(set(row)) == 5 and q not in row for q, row in enumerate(found.indices.tolist()))


@pytest.mark.parametrize("method", ["auto", "exact", "cells"])
@pytest.mark.parametrize(("n", "k", "shape"), [(1, 3, (1, 0)), (2, 3, (2, 1)), (5, 100, (5, 4))])
def test_more_neighbors_than_rows_means_all_the_others(method, n, k, shape):
    X = np.random.default_rng(0).standard_normal((n, 3)).astype(np.float32)
    found = knn(X, k, method=method)
    report = found.report
    assert found.indices.shape == found.distances.shape == shape
    assert report.recall == 1


def test_progress_counts_up_to_all_rows(groups):
    seen = []
    knn(groups(3000), 4, method="cells", progress=lambda done, total: seen.append((done, total)))
    assert seen == sorted(seen)
    assert seen[-1] == (3000, 3000)


def test_a_budget_that_is_too_small_is_refused_before_the_work(groups):
    calls = []
    with pytest.raises(MemoryError, match=r"memory=10 kB cannot be kept: this needs .*cells"):
        knn(groups(3000), 4, method="cells", memory="10kB", progress=lambda *_: calls.append(1))
    assert calls == []


@pytest.mark.parametrize(
    ("arguments", "message"),
    [({"method": "annoy"}, "method must be one of"), ({"target_recall": 1.5}, "target_recall must be")],
)
def test_bad_arguments_are_named(arguments, message):
    with pytest.raises(ValueError, match=message):
        knn(np.eye(4, dtype=np.float32), 2, **arguments)


def test_many_rows_are_searched_exactly_without_a_copy(groups, monkeypatch, tmp_path):
    monkeypatch.setattr("laplacianshot.neighbors.knn.LARGE_ROWS", 500)
    np.save(tmp_path / "X.npy", groups(9000, 64))
    X = np.load(tmp_path / "X.npy", mmap_mode="r")
    knn(X[:600], 4, method="exact")  # compile
    tracemalloc.start()
    found = knn(X, 4, method="exact", memory="9MB")
    report = found.report
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert report.method == "exact"
    assert true_recall(np.asarray(X), found.indices, 4) == 1
    assert not np.any(found.indices == np.arange(9000)[:, None])
    assert peak < 9e6


def test_cells_that_are_too_many_to_keep_are_found_again(groups, monkeypatch):
    X = groups(5000, 32, 40, spread=1.0)
    kept = knn(X, 8, method="cells", target_recall=0.7)
    report = kept.report
    assert report.parameters["probes"] > 2
    monkeypatch.setattr(cells_module, "MAX_KEPT", 2)
    again = knn(X, 8, method="cells", target_recall=0.7)
    second = again.report
    np.testing.assert_array_equal(again.indices, kept.indices)
    assert second.parameters == report.parameters


def test_the_sample_knows_the_true_neighbors(groups):
    X = groups(3000)
    sample = np.array([5, 17, 2999])
    exact = ExactSample.search(Rows.transformed(X), sample, 9)
    np.testing.assert_array_equal(exact.neighbors, knn(X, 9).indices[sample])
    shares = exact.shares_found(Rows.transformed(X), np.where(np.arange(9) < 3, exact.neighbors, -1))
    np.testing.assert_allclose(shares, 1 / 3)


def test_the_nearest_centroids_are_the_nearest(groups):
    X, centroids = groups(500), groups(60, seed=5)
    squares = ((X[:, None] - centroids[None]) ** 2).sum(axis=2)
    np.testing.assert_array_equal(nearest_centroids(X, centroids, 1)[:, 0], squares.argmin(axis=1))
    np.testing.assert_array_equal(nearest_centroids(X, centroids, 7), squares.argsort(axis=1)[:, :7])


def test_cells_are_about_equally_large(groups):
    X = groups(8000, 16, 40)
    centroids = train_centroids(Rows.transformed(X), 100)
    sizes = np.bincount(nearest_centroids(X, centroids, 1)[:, 0], minlength=len(centroids))
    assert 90 <= len(centroids) <= 110
    assert sizes.max() < 6 * sizes.mean()


@pytest.mark.parametrize("target", [0.3, 0.9, 1.0])
def test_probes_are_the_fewest_that_are_surely_enough(target):
    ranks = np.random.default_rng(0).geometric(0.2, (60, 7)) - 1
    shares = [np.mean(ranks < probes, axis=1) for probes in range(1, ranks.max() + 2)]
    enough = [share.mean() - 2 * share.std() / 60**0.5 >= target for share in shares]
    assert probes_for(ranks, target) == enough.index(True) + 1


def test_memory_mapped_rows_are_searched_like_rows_in_memory(groups, monkeypatch, tmp_path):
    monkeypatch.setattr("laplacianshot.neighbors.knn.LARGE_ROWS", 500)
    X = groups(3000, 24)
    np.save(tmp_path / "X.npy", X)
    expected = knn(X, 6, method="exact")
    mapped = np.load(tmp_path / "X.npy", mmap_mode="r")
    found = knn(mapped, 6, method="exact")
    np.testing.assert_array_equal(found.indices, expected.indices)
    np.testing.assert_allclose(found.distances, expected.distances, rtol=1e-3, atol=1e-5)
    sets = knn(mapped, 6, method="exact", distances=False)
    assert sets.distances.shape == (3000, 0)
    np.testing.assert_array_equal(np.sort(sets.indices), np.sort(expected.indices))
