"""The expected accuracy by its properties, and on draws of made-up classes."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from laplacianshot.labeling.core import label_vectors
from laplacianshot.labeling.result import ExpectedAccuracy


@given(
    st.lists(st.floats(0, 1), min_size=1, max_size=50),
    st.floats(0, 3),
    st.floats(0, 3),
)
def test_the_interval_contains_the_mean_confidence(confidence, below, above):
    said = ExpectedAccuracy.of_labels(np.array(confidence), (below, above), "")
    assert said.estimate == pytest.approx(np.mean(confidence), abs=1e-8)
    assert 0 <= said.low <= said.estimate <= said.high <= 1


def test_of_equal_confidences_the_ends_are_their_log_odds_moved():
    z, spread = np.log(0.8 / 0.2), 0.5
    said = ExpectedAccuracy.of_labels(np.full(10**7, 0.8), (spread, 2 * spread), "")
    assert said.low == pytest.approx(1 / (1 + np.exp(-z + 1.96 * spread)), abs=1e-4)
    assert said.high == pytest.approx(1 / (1 + np.exp(-z - 1.96 * 2 * spread)), abs=1e-4)


def test_without_spread_only_chance_is_left():
    said = ExpectedAccuracy.of_labels(np.full(400, 0.5), (0.0, 0.0), "")
    assert said.high - 0.5 == pytest.approx(1.96 * 0.5 / 20)
    assert said.low == pytest.approx(1 - said.high)


def test_nothing_is_said_of_no_labels():
    assert ExpectedAccuracy.of_labels(np.zeros(0), (1.0, 1.0), "") is None


def weak_classes(shots, seed):
    """Rows of six classes that overlap, codes of those that are labeled, and the truth."""
    rng = np.random.default_rng(seed)
    truth = np.repeat(np.arange(6), 40)
    X = rng.uniform(0.8, 2.2) * rng.standard_normal((6, 8))[truth] + rng.standard_normal((len(truth), 8)) * 1.5
    codes = np.full(len(X), -1)
    for c in range(6):
        codes[rng.permutation(np.flatnonzero(truth == c))[:shots]] = c
    return X, codes, truth


@pytest.mark.parametrize("shots", [1, 2, 5])
def test_the_interval_holds_the_true_accuracy(shots):
    inside, widths = [], []
    for seed in range(20):
        X, codes, truth = weak_classes(shots, seed)
        found = label_vectors(X, codes, 6)
        said, query = found.expected_accuracy, codes < 0
        assert said.estimate == pytest.approx(found.confidence[query].mean(), abs=1e-6)
        inside.append(said.low <= np.mean(found.codes[query] == truth[query]) <= said.high)
        widths.append(said.high - said.low)
    assert np.mean(inside) >= 0.9
    assert np.mean(widths) < {1: 0.75, 2: 0.55, 5: 0.35}[shots]


def test_rejected_items_do_not_count():
    X, codes, _ = weak_classes(5, 0)
    found = label_vectors(X, codes, 6)
    lowest = np.argsort(np.where(codes < 0, found.confidence, 2))[:50]
    fewer = found.expected_accuracy.among(np.delete(found.confidence, [*lowest, *np.flatnonzero(codes >= 0)]))
    assert fewer.estimate > found.expected_accuracy.estimate
    assert fewer.source == found.expected_accuracy.source
