"""Given labels against their neighbors: closed forms, and digits with wrong labels."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse as sp

from laplacianshot import LaplacianShot
from laplacianshot.labeling.calibration import calibrate
from laplacianshot.labeling.disputes import doubt_of_labels, find_disputes
from tests.labeling.digits import digits_task


def probabilities_of(X, codes):
    return calibrate(LaplacianShot().fit(X, codes), codes).probabilities


def doubt_of(X, codes):
    model = LaplacianShot().fit(X, codes)
    return doubt_of_labels(calibrate(model, codes).probabilities, codes, model.solution_.answers)


def test_planted_wrong_labels_are_disputed_and_right_ones_are_not():
    planted = found = disputed = 0
    for seed in range(4):
        X, codes, digits = digits_task(10, seed)
        rng = np.random.default_rng(seed)
        wrong = rng.permutation(np.flatnonzero(codes >= 0))[:8]
        codes[wrong] = (codes[wrong] + rng.integers(1, 10, 8)) % 10
        disputes = find_disputes(probabilities_of(X, codes), codes)
        rows = np.flatnonzero(disputes >= 0)
        planted += len(wrong)
        found += np.sum(disputes[wrong] == digits[wrong])
        disputed += len(rows)
    assert found / planted > 0.7
    assert found / disputed > 0.7


def test_only_given_labels_with_another_of_their_class_can_be_disputed():
    probabilities = np.array([[0.1, 0.9], [0.1, 0.9], [0.1, 0.9], [0.9, 0.1], [0.45, 0.55]])
    codes = np.array([0, 0, -1, 1, 0])
    for given in (probabilities, sp.csr_array(probabilities)):
        np.testing.assert_array_equal(find_disputes(given, codes), [1, 1, -1, -1, 1])


@pytest.mark.parametrize("shots", [2, 5])
def test_labels_of_other_rows_are_doubted_and_right_ones_are_not(shots):
    for seed in range(3):
        X, codes, _ = digits_task(shots, seed)
        assert doubt_of(X, codes) == ""
        given = np.flatnonzero(codes >= 0)
        codes[given] = np.random.default_rng(seed).permutation(codes[given])
        assert doubt_of(X, codes).startswith(f"Of {10 * shots} given labels")


@pytest.mark.parametrize(
    ("n", "against", "doubted"), [(20, 6, False), (20, 7, True), (10, 4, False), (10, 5, True), (1000, 301, True)]
)
def test_doubt_takes_at_least_five_labels_and_more_than_three_in_ten(n, against, doubted):
    codes = np.arange(n) % 2
    probabilities = np.eye(2)[np.where(np.arange(n) < against, 1 - codes, codes)] * 0.02 + 0.49
    said = doubt_of_labels(probabilities, codes)
    assert bool(said) == doubted
    assert f"{against} differ from those" in said or not doubted


def test_the_only_labels_of_their_classes_are_not_doubted():
    assert doubt_of_labels(np.roll(np.eye(40), 1, axis=1), np.arange(40)) == ""
