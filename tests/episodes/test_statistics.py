from __future__ import annotations

import dataclasses
import math

import numpy as np
import pytest
from scipy import stats

from laplacianshot.episodes.results import mean_interval, paired_difference


def test_the_interval_of_zero_and_one_has_its_closed_form():
    # Sample standard deviation 1/sqrt(2), over sqrt(2).
    found = mean_interval([0.0, 1.0])
    assert found.mean == 0.5
    assert found.ci95 == pytest.approx(1.96 / 2)
    assert (found.low, found.high) == pytest.approx((0.5 - 0.98, 0.5 + 0.98))


def test_the_interval_is_196_standard_errors():
    values = np.random.default_rng(0).random(40)
    found = mean_interval(values)
    assert found.mean == pytest.approx(values.mean())
    assert found.ci95 == pytest.approx(1.96 * stats.sem(values))
    assert found.n == 40


def test_the_interval_holds_the_true_mean_about_95_times_in_100():
    rng = np.random.default_rng(1)
    intervals = [mean_interval(rng.normal(3, 2, 200)) for _ in range(1000)]
    assert 0.93 < np.mean([found.low <= 3 <= found.high for found in intervals]) < 0.97


def test_equal_values_have_no_spread():
    assert mean_interval([0.25] * 5).ci95 == 0


def test_one_value_tells_nothing_about_its_spread():
    assert mean_interval([0.7]).ci95 == math.inf
    assert not paired_difference([0.7], [0.1]).clear


def test_a_paired_difference_ignores_what_both_share():
    hard_and_easy = np.linspace(0, 1, 50)
    found = paired_difference(hard_and_easy + 0.1, hard_and_easy)
    assert found.mean == pytest.approx(0.1)
    assert found.ci95 == pytest.approx(0, abs=1e-12)
    assert found.clear
    assert mean_interval(hard_and_easy).ci95 > 0.08


def test_a_paired_difference_is_the_interval_of_the_differences():
    rng = np.random.default_rng(2)
    a, b = rng.random(30), rng.random(30)
    difference, plain = paired_difference(a, b), mean_interval(a - b)
    assert (difference.mean, difference.ci95, difference.n) == (plain.mean, plain.ci95, plain.n)
    assert paired_difference(b, a).mean == pytest.approx(-difference.mean)


def test_values_of_different_tasks_are_refused():
    with pytest.raises(ValueError, match="same tasks, got 2 and 3"):
        paired_difference([1, 2], [1, 2, 3])


@pytest.mark.parametrize("values", [[], [[1.0, 2.0]], 3.0])
def test_anything_but_a_row_of_values_is_refused(values):
    with pytest.raises(ValueError, match="non-empty"):
        mean_interval(values)


def test_results_are_frozen_and_say_what_they_are():
    found = mean_interval([0.8, 0.9, 1.0])
    assert repr(found) == "MeanInterval(0.9 ± 0.11, n=3)"
    with pytest.raises(dataclasses.FrozenInstanceError):
        found.mean = 1.0
