from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from laplacianshot.labeling.core import LabelOptions, label_vectors
from laplacianshot.labeling.errors import LabelingError


def clusters(n_classes=3, per_class=20, labelled=2, spread=0.15, seed=0):
    """Rows around unit vectors, the first ``labelled`` of each class labelled."""
    rng = np.random.default_rng(seed)
    truth = np.repeat(np.arange(n_classes), per_class)
    X = np.eye(n_classes, 16)[truth] + spread * rng.standard_normal((len(truth), 16)) / 4
    codes = np.where(np.tile(np.arange(per_class), n_classes) < labelled, truth, -1)
    return X.astype(np.float32), codes, truth


def test_separated_classes_are_labelled_without_a_fault_and_confidently():
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
    wanted=st.integers(0, 80),
    labelled=st.integers(1, 20),
)
def test_whatever_is_asked_the_answer_is_whole(seed, spread, rate, wanted, labelled):
    X, codes, _ = clusters(labelled=labelled, spread=spread, seed=seed)
    found = label_vectors(X, codes, 3, LabelOptions(suggest=wanted, reject=rate))
    free = codes < 0
    np.testing.assert_array_equal(found.codes[~free], codes[~free])
    np.testing.assert_allclose(found.probabilities.sum(axis=1), 1, rtol=1e-5)
    assert ((found.confidence >= 0) & (found.confidence <= 1)).all()
    # Rejected rows have no label, and no other row lacks one.
    np.testing.assert_array_equal(np.flatnonzero(found.codes < 0), found.rejected)
    assert len(found.rejected) == int(np.floor(rate * free.sum() + 0.5))
    assert free[found.rejected].all()
    # Ranks are 1, 2, ... on unlabelled rows only.
    ranked = found.suggestions[found.suggestions > 0]
    np.testing.assert_array_equal(np.sort(ranked), np.arange(1, min(wanted, free.sum()) + 1))
    assert free[found.suggestions > 0].all()


def test_a_rejected_row_is_stranger_than_every_row_that_stays():
    X, codes, _ = clusters(spread=3)
    found = label_vectors(X, codes, 3, LabelOptions(reject=0.2))
    stays = (codes < 0) & (found.codes >= 0)
    assert found.strangeness[found.rejected].min() >= found.strangeness[stays].max()


def test_without_labels_items_are_suggested_and_nothing_is_labelled():
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
