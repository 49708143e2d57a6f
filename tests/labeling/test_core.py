from __future__ import annotations

import tracemalloc

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given, settings
from hypothesis import strategies as st

from laplacianshot.inference.transforms import base_mean, transform_features
from laplacianshot.labeling.core import LabelOptions, label_vectors
from laplacianshot.labeling.errors import LabelingError
from laplacianshot.labeling.suggestions import cover_affinity, suggest
from laplacianshot.neighbors.rows import Rows


def clusters(n_classes=3, per_class=20, labeled=2, spread=0.15, seed=0):
    """Rows around unit vectors, the first ``labeled`` of each class labeled; too many columns for a table."""
    rng = np.random.default_rng(seed)
    truth = np.repeat(np.arange(n_classes), per_class)
    X = np.eye(n_classes, 49)[truth] + spread * rng.standard_normal((len(truth), 49)) / 7
    codes = np.where(np.tile(np.arange(per_class), n_classes) < labeled, truth, -1)
    return X.astype(np.float32), codes, truth


def test_separated_classes_are_labeled_without_a_fault_and_confidently():
    X, codes, truth = clusters()
    found = label_vectors(X, codes, 3)
    np.testing.assert_array_equal(found.codes, truth)
    assert found.confidence[codes < 0].mean() > 0.8


def test_a_given_label_is_kept_and_certain_unless_it_is_disputed():
    X, codes, truth = clusters()
    wrong = np.flatnonzero(codes == 0)[0]
    codes[wrong] = 1
    found = label_vectors(X, codes, 3)
    assert found.codes[wrong] == 1
    assert found.disputes[wrong] == truth[wrong]
    assert found.confidence[wrong] < 0.5
    others = (codes >= 0) & (np.arange(len(X)) != wrong)
    assert (found.disputes[others] == -1).all()
    assert (found.confidence[others] == 1).all()


@settings(max_examples=25, deadline=None)
@given(
    seed=st.integers(0, 10**6),
    spread=st.floats(0, 8),
    rate=st.floats(0, 1),
    requested=st.integers(0, 80),
    labeled=st.integers(1, 20),
)
def test_whatever_is_asked_the_answer_is_whole(seed, spread, rate, requested, labeled):
    X, codes, _ = clusters(labeled=labeled, spread=spread, seed=seed)
    found = label_vectors(X, codes, 3, LabelOptions(suggest=requested, reject=rate))
    free = codes < 0
    np.testing.assert_array_equal(found.codes[~free], codes[~free])
    np.testing.assert_allclose(found.probabilities.sum(axis=1), 1, rtol=1e-5)
    assert ((found.confidence >= 0) & (found.confidence <= 1)).all()
    # Rejected rows have no label, and no other row lacks one.
    np.testing.assert_array_equal(np.flatnonzero(found.codes < 0), found.rejected)
    assert len(found.rejected) == int(np.floor(rate * free.sum() + 0.5))
    assert free[found.rejected].all()
    # Ranks are 1, 2, ... on unlabeled rows only.
    ranked = found.suggestions[found.suggestions > 0]
    np.testing.assert_array_equal(np.sort(ranked), np.arange(1, min(requested, free.sum()) + 1))
    assert free[found.suggestions > 0].all()


def test_a_rejected_row_is_stranger_than_every_row_that_stays():
    X, codes, _ = clusters(spread=3)
    found = label_vectors(X, codes, 3, LabelOptions(reject=0.2))
    stays = (codes < 0) & (found.codes >= 0)
    assert found.novelty[found.rejected].min() >= found.novelty[stays].max()


def test_without_labels_items_are_suggested_and_nothing_is_labeled():
    X, _, truth = clusters(n_classes=4)
    found = label_vectors(X, np.full(len(X), -1), 0, LabelOptions(suggest=4))
    assert found.model is None
    assert (found.codes == -1).all()
    first = np.argsort(found.suggestions)[-4:]
    assert len(set(truth[first])) == 4


def test_with_every_row_given_nothing_is_left_to_predict():
    X, _, truth = clusters()
    found = label_vectors(X, truth, 3, LabelOptions(suggest=5, reject=0.5))
    np.testing.assert_array_equal(found.codes, truth)
    assert not found.suggestions.any()
    assert not len(found.rejected)


def test_the_order_of_the_rows_does_not_matter():
    X, codes, _ = clusters(spread=2)
    order = np.random.default_rng(1).permutation(len(X))
    straight = label_vectors(X, codes, 3)
    shuffled = label_vectors(X[order], codes[order], 3)
    np.testing.assert_array_equal(shuffled.codes, straight.codes[order])
    np.testing.assert_allclose(shuffled.confidence, straight.confidence[order], atol=1e-3)


@pytest.mark.parametrize("dtype", [np.float16, np.float32, np.float64])
def test_vectors_of_any_precision_are_taken(dtype):
    X, codes, truth = clusters()
    np.testing.assert_array_equal(label_vectors(X.astype(dtype), codes, 3).codes, truth)


@pytest.mark.parametrize(
    ("option", "value"), [("reject", 1.5), ("reject", -0.1), ("reject", float("nan")), ("suggest", -1)]
)
def test_an_option_out_of_range_is_named(option, value):
    with pytest.raises(LabelingError, match=option):
        LabelOptions(**{option: value})


class TestLarge:
    """Rows searched by cells, as sets of more than 50,000 are."""

    def test_they_are_labeled_as_few_are(self):
        X, codes, truth = clusters(5, 400, spread=1.5)
        small = label_vectors(X, codes, 5, LabelOptions(suggest=4, reject=0.05))
        large = label_vectors(X, codes, 5, LabelOptions(suggest=4, reject=0.05, graph="cells"))
        assert large.model.graph_report_.method in ("cells", "exact")
        assert np.mean(large.codes == small.codes) > 0.97
        assert np.mean(np.abs(large.confidence - small.confidence)) < 0.02
        assert np.mean(truth[large.codes >= 0] == large.codes[large.codes >= 0]) > 0.9
        assert np.count_nonzero(large.suggestions) == 4
        assert len(large.rejected) == len(small.rejected)

    def test_sparse_assignments_give_nearly_the_same(self, monkeypatch):
        X, codes, _ = clusters(40, 50, spread=1.0)
        X = X + np.random.default_rng(1).standard_normal((40, 49)).astype(np.float32)[np.repeat(np.arange(40), 50)]
        codes[0] = 7  # a label to be disputed
        options = LabelOptions(suggest=4, reject=0.05, graph="cells")
        dense = label_vectors(X, codes, 40, options)
        for module in ("runtime.limits", "engine.plan"):
            monkeypatch.setattr(f"laplacianshot.{module}.LARGE_ASSIGNMENTS", 1000)
        sparse = label_vectors(X, codes, 40, options)
        assert sp.issparse(sparse.model.label_distributions_)
        assert sp.issparse(sparse.probabilities)
        assert sparse.probabilities.shape == (len(X), 40)
        assert np.mean(sparse.codes == dense.codes) > 0.99
        # What is not kept weighs more in a few rows with labels.
        assert np.mean(np.abs(sparse.confidence - dense.confidence) > 0.03) < 0.02
        np.testing.assert_allclose(sparse.novelty, dense.novelty, atol=0.1)
        np.testing.assert_array_equal(sparse.disputes, dense.disputes)
        assert np.mean(np.abs(sparse.probabilities - dense.probabilities)) < 0.002

    def test_what_to_label_first_is_found_by_cells_too(self, monkeypatch):
        X, _, truth = clusters(8, 200, spread=1.0)
        nothing = np.full(len(X), -1)
        exact = label_vectors(X, nothing, 0, LabelOptions(suggest=8))
        monkeypatch.setattr("laplacianshot.labeling.core.LARGE_ROWS", 1000)
        seen = []
        found = label_vectors(X, nothing, 0, LabelOptions(suggest=8), watch=lambda name: seen.append(name))
        assert seen == ["Neighbors", "Graph"]
        assert len(np.unique(truth[found.suggestions > 0])) >= len(np.unique(truth[exact.suggestions > 0])) - 1

    def test_no_array_of_all_rows_and_features_is_made(self, tmp_path, monkeypatch):
        X, codes, _ = clusters(4, 5000, spread=1.0)
        np.save(tmp_path / "X.npy", X.astype(np.float16))
        formed = []
        form = Rows.formed

        def watched(self, *arguments):
            made = form(self, *arguments)
            formed.append(len(made))
            return made

        monkeypatch.setattr(Rows, "formed", watched)
        monkeypatch.setattr("laplacianshot.engine.plan._SAMPLE_ROWS", 2048)
        label_vectors(np.load(tmp_path / "X.npy", mmap_mode="r"), codes, 4, LabelOptions(graph="cells", reject=0.1))
        # The largest part is the sample that cells are made from: 96 times the root of the number of rows.
        assert max(formed) <= 96 * len(X) ** 0.5 + 96

    @pytest.mark.parametrize(("n_classes", "asked", "memory"), [(40, 0, "110MB"), (200, 0, "140MB"), (40, 5, "560MB")])
    def test_a_budget_is_kept(self, n_classes, asked, memory, monkeypatch):
        monkeypatch.setenv("OMP_NUM_THREADS", "2")
        rng = np.random.default_rng(0)
        truth = rng.integers(n_classes, size=30_000)
        X = (rng.standard_normal((n_classes, 16))[truth] + 0.4 * rng.standard_normal((30_000, 16))).astype(np.float32)
        codes = np.full(len(X), -1)
        first = np.unique(truth, return_index=True)[1]
        codes[first] = truth[first]
        options = LabelOptions(suggest=asked, reject=0.01, graph="cells", memory=memory)
        label_vectors(*clusters(5, 400)[:2], 5, options)  # compile
        tracemalloc.start()
        found = label_vectors(X, codes, n_classes, options)
        peak = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        assert np.mean(found.codes == truth) > 0.8
        assert peak < float(memory[:-2]) * 1e6, f"{peak / 1e6:.0f} MB"

    @pytest.mark.parametrize("memory", ["3 MB", "40 MB"])
    def test_a_budget_that_cannot_be_kept_is_refused_before_the_work(self, memory):
        X, codes, _ = clusters(4, 5000)
        # The message names the user's budget, not what is left of it for the fit.
        with pytest.raises(MemoryError, match=rf"^memory={memory} cannot be kept: this needs [\d.]+ MB \("):
            label_vectors(X, codes, 4, LabelOptions(memory=memory), watch=pytest.fail)

    def test_a_budget_that_is_not_a_number_of_bytes_is_named(self):
        with pytest.raises(LabelingError, match=r"memory is 'lots'; give bytes, or text such as '8GB'"):
            LabelOptions(memory="lots")


def test_first_suggestions_of_rows_without_negative_entries_are_those_of_their_unit_roots(clusters):
    X = np.maximum(clusters(4, 30, 1, dim=60)[0], 0)
    nothing, options = np.full(len(X), -1), LabelOptions(suggest=6)
    found = label_vectors(X, nothing, 0, options)
    rows = transform_features(X, "power", base_mean(X, "power"))
    expected = suggest(np.zeros((len(X), 1)), nothing, 6, affinity=cover_affinity(rows, 6))
    np.testing.assert_array_equal(np.argsort(found.suggestions)[-6:], expected)
