import pickle
import tracemalloc

import numpy as np
import pytest
import scipy.sparse as sp
import sklearn.linear_model  # noqa: F401  # its code counts as memory when a fit is the first to import it

from laplacianshot import LaplacianShot
from laplacianshot.engine import plan
from laplacianshot.estimator import fit_large


@pytest.fixture(scope="module")
def digits(vectors):
    return vectors


@pytest.fixture(scope="module")
def small(digits):
    X, _, y = digits
    return LaplacianShot().fit(X, y)


def test_a_large_set_gets_an_approximate_graph_and_the_same_labels(digits, small, large):
    X, truth, y = digits
    clf = LaplacianShot().fit(X, y)
    assert clf.graph_report_.method == "cells"
    assert 0.93 < clf.graph_recall_ <= 1
    assert clf.graph_recall_ == clf.graph_report_.recall
    assert clf.dropped_mass_ == 0
    assert np.mean(clf.transduction_ == small.transduction_) > 0.98
    np.testing.assert_array_equal(clf.transduction_[y >= 0], y[y >= 0])
    np.testing.assert_array_equal(clf.transduction_, clf.classes_[clf.label_distributions_.argmax(axis=1)])
    assert abs(np.mean(clf.transduction_ == truth) - np.mean(small.transduction_ == truth)) < 0.015


def test_a_small_set_says_that_its_graph_is_exact(small):
    assert small.graph_recall_ == 1
    assert small.dropped_mass_ == 0
    assert not hasattr(small, "graph_report_")


def test_the_graph_of_a_large_set_is_there_when_it_is_asked_for(digits, small, large):
    X, _, y = digits
    clf = LaplacianShot()
    assert not hasattr(clf, "affinity_")
    W = clf.fit(X, y).affinity_
    assert W.shape == (len(X), len(X))
    assert W is clf.affinity_
    assert abs(W - W.T).max() == 0
    shared = W.multiply(small.affinity_ > 0).nnz
    assert shared > 0.9 * small.affinity_.nnz


def test_new_rows_are_classified(digits, small, large):
    X, _, y = digits
    clf = LaplacianShot().fit(X, y)
    new = X[:300] + 0.1
    assert np.mean(clf.predict(new) == small.predict(new)) >= 0.99
    np.testing.assert_allclose(clf.predict_proba(new).sum(axis=1), 1, rtol=1e-5)
    again = pickle.loads(pickle.dumps(clf))
    np.testing.assert_array_equal(again.predict_proba(new), clf.predict_proba(new))


def test_fitting_twice_gives_the_same(digits, large):
    X, _, y = digits
    first, second = (LaplacianShot().fit(X, y) for _ in range(2))
    np.testing.assert_array_equal(first.label_distributions_, second.label_distributions_)
    clf = first.fit(X[:400], y[:400])
    assert clf.graph_recall_ == 1
    assert not hasattr(clf, "graph_report_")
    assert clf.affinity_.shape == (400, 400)


@pytest.mark.parametrize("dtype", [np.float16, np.float32])
def test_a_memory_mapped_file_is_labeled(digits, small, large, tmp_path, dtype):
    X, _, y = digits
    np.save(tmp_path / "X.npy", X.astype(dtype))
    clf = LaplacianShot().fit(np.load(tmp_path / "X.npy", mmap_mode="r"), y)
    assert np.mean(clf.transduction_ == small.transduction_) > 0.98
    assert clf.predict_proba(X[:10]).shape == (10, 10)


def test_many_classes_are_kept_sparse(digits, small, large, monkeypatch):
    for module in ("runtime.limits", "engine.plan"):
        monkeypatch.setattr(f"laplacianshot.{module}.LARGE_ASSIGNMENTS", 5000)
    X, _, y = digits
    clf = LaplacianShot().fit(X, y)
    assert sp.issparse(clf.label_distributions_)
    np.testing.assert_allclose(clf.label_distributions_.sum(axis=1), 1, rtol=1e-5)
    assert np.mean(clf.transduction_ == small.transduction_) > 0.98
    assert 0 <= clf.dropped_mass_ < 0.01
    assert np.mean(clf.predict(X[:300]) == small.predict(X[:300])) > 0.98


@pytest.mark.parametrize("labels", ["strings", "negative"])
def test_labels_of_any_kind_come_back(digits, large, labels):
    X, truth, y = digits
    names = np.array([f"d{d}" for d in range(10)], dtype=object) if labels == "strings" else -5 * np.arange(10) - 7
    given = np.where(y >= 0, names[y], None if labels == "strings" else -1)
    clf = LaplacianShot().fit(X, given)
    assert np.mean(clf.transduction_ == names[truth]) > 0.87


def test_stages_are_told(digits, large):
    X, _, y = digits
    seen = {}

    def watch(name):
        seen[name] = []
        return lambda done, total: seen[name].append((done, total))

    clf = fit_large(LaplacianShot(), X, y, watch=watch)
    assert list(seen) == ["Neighbors", "Graph", "Updates"]
    assert seen["Neighbors"][-1] == (len(X), len(X))
    assert seen["Updates"][0] == (1, 40)
    assert len(seen["Updates"]) >= clf.n_iter_


@pytest.mark.parametrize("bad", [np.nan, np.inf])
@pytest.mark.parametrize("dtype", [np.float16, np.float32])
def test_a_number_that_is_none_is_found_in_a_large_file(monkeypatch, bad, dtype):
    monkeypatch.setattr("laplacianshot.runtime.arrays._BLOCKS_FROM", 1000)
    X = np.zeros((9000, 4), dtype=dtype)
    X[8700, 2] = bad
    with pytest.raises(ValueError, match="Input X contains"):
        LaplacianShot().fit(X, np.r_[0, 1, np.full(8998, -1)])


def test_numbers_too_large_to_square_are_found_in_a_large_file(monkeypatch):
    monkeypatch.setattr("laplacianshot.runtime.arrays._BLOCKS_FROM", 1000)
    X = np.ones((5000, 4), dtype=np.float32)
    X[4999, 3] = -1e30
    with pytest.raises(ValueError, match="squares overflow"):
        LaplacianShot().fit(X, np.r_[0, 1, np.full(4998, -1)])


def test_almost_no_unlabeled_row_is_no_large_task(digits, large):
    X, truth, _ = digits
    for n_query in (0, 1, 2):
        y = truth.copy()
        y[len(y) - n_query :] = -1
        clf = LaplacianShot().fit(X, y)
        np.testing.assert_array_equal(clf.transduction_[: len(y) - n_query], truth[: len(y) - n_query])


@pytest.mark.parametrize("recipe", ["paper", "reference"])
def test_other_recipes_keep_their_exact_graph(digits, large, recipe):
    X, _, y = digits
    clf = LaplacianShot(recipe).fit(X, y)
    assert clf.graph_recall_ == 1
    with pytest.raises(ValueError, match="graph='cells' belongs to recipe='default'"):
        LaplacianShot(recipe, graph="cells").fit(X, y)


def test_the_exact_graph_can_be_asked_for(digits, small, large):
    X, _, y = digits
    clf = LaplacianShot(graph="exact").fit(X, y)
    assert clf.graph_recall_ == 1
    np.testing.assert_array_equal(clf.label_distributions_, small.label_distributions_)


def test_a_graph_of_ones_own_is_taken_as_it_is(digits, large):
    X, _, y = digits
    W = sp.random(len(X), len(X), density=0.01, random_state=np.random.default_rng(0), format="csr")
    clf = LaplacianShot(graph=W).fit(X, y)
    assert clf.graph_recall_ == 1
    assert not hasattr(clf, "graph_report_")


@pytest.fixture(scope="module")
def many():
    """30,000 rows of 300 classes, with two labels each."""
    rng = np.random.default_rng(0)
    truth = np.tile(np.arange(300), 100)
    X = (rng.standard_normal((300, 16))[truth] + 0.3 * rng.standard_normal((30_000, 16))).astype(np.float32)
    return X, np.where(np.arange(30_000) < 600, truth, -1)


class TestMemory:
    def test_a_budget_that_cannot_be_kept_is_refused_before_the_work(self, digits, large):
        X, _, y = digits
        clf = LaplacianShot(memory="1MB")
        with pytest.raises(MemoryError, match=r"^memory=1 MB cannot be kept: this needs [\d.]+ MB \("):
            clf.fit(X, y)
        assert not hasattr(clf, "classes_")

    @pytest.mark.parametrize("recipe", ["paper", "reference"])
    def test_other_recipes_keep_or_refuse_it_too(self, digits, recipe):
        X, _, y = digits
        assert LaplacianShot(recipe, memory="1GB").fit(X, y).classes_.shape == (10,)
        with pytest.raises(MemoryError, match="cannot be kept"):
            LaplacianShot(recipe, memory=10_000).fit(X, y)

    def test_a_generous_one_changes_nothing(self, digits, small):
        X, _, y = digits
        clf = LaplacianShot(memory="4GB").fit(X, y)
        np.testing.assert_array_equal(clf.label_distributions_, small.label_distributions_)

    @pytest.mark.parametrize("memory", ["lots", "-3GB", "0", "12XB", ""])
    def test_one_that_is_no_number_of_bytes_is_named(self, digits, memory):
        X, _, y = digits
        with pytest.raises(ValueError, match="memory is"):
            LaplacianShot(memory=memory).fit(X, y)

    def test_assignments_become_sparse_where_all_of_them_do_not_fit(self, large, many):
        X, y = many
        dense = LaplacianShot(n_neighbors=5, memory="300MB").fit(X, y)
        tight = LaplacianShot(n_neighbors=5, memory="90MB").fit(X, y)
        assert not sp.issparse(dense.label_distributions_)
        assert sp.issparse(tight.label_distributions_)
        assert np.mean(dense.transduction_ == tight.transduction_) > 0.99

    @pytest.mark.parametrize("dtype", [np.float32, np.float64])
    @pytest.mark.parametrize(("inner", "width"), [(16, 1024), (48, 48)])
    def test_a_small_task_holds_no_more_than_is_planned_for_it(self, dtype, inner, width, monkeypatch):
        """Rows of few directions, which are copied in the order of the search, and others, which are kept in bytes."""
        monkeypatch.setenv("OMP_NUM_THREADS", "2")
        rng = np.random.default_rng(0)
        centers = rng.standard_normal((20, inner))
        truth = np.arange(9000) % 20
        X = (centers[truth] + 0.3 * rng.standard_normal((9000, inner))) @ rng.standard_normal((inner, width))
        X, y = X.astype(dtype), np.where(np.arange(9000) < 100, truth, -1)
        LaplacianShot(graph="exact").fit(X[:2000], y[:2000])  # compile
        tracemalloc.start()
        model = LaplacianShot(graph="exact").fit(X, y)
        peak = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        k = int(np.diff(model.affinity_.indptr).min())
        assert peak < plan.small_plan(9000, 8900, 20, width, k, np.dtype(dtype).itemsize).total

    def test_an_exact_graph_of_any_size_is_planned_with_its_rows(self):
        """``graph="exact"`` holds all of them, however many."""
        few, many = (plan.small_plan(n, n - 100, 20, 512, 10, 4).total for n in (50_000, 200_000))
        assert 3.5 * few < many < 4 * few

    @pytest.mark.parametrize("memory", ["300MB", "90MB"])
    def test_it_is_kept(self, large, many, memory, monkeypatch):
        monkeypatch.setenv("OMP_NUM_THREADS", "2")
        X, y = many
        LaplacianShot(n_neighbors=5, memory=memory).fit(X[:3000], y[:3000])  # compile
        tracemalloc.start()
        LaplacianShot(n_neighbors=5, memory=memory).fit(X, y)
        peak = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        assert peak < float(memory[:-2]) * 1e6
