"""Confidence by its properties, and on digits, which its constants were not fitted on."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from laplacianshot import LaplacianShot
from laplacianshot.labeling.calibration import calibrate, log_odds, mean_shift, shift_of, shift_probabilities, spread_of
from laplacianshot.labeling.evidence import COLUMNS, WEIGHTS, Checks
from tests.labeling.digits import digits_task


def make_task(n_classes=3, shots=2, n=60, dim=6, spread=0.5, seed=0):
    rng = np.random.default_rng(seed)
    truth = rng.integers(0, n_classes, n)
    truth[: n_classes * shots] = np.tile(np.arange(n_classes), shots)
    X = 2 * np.eye(n_classes, dim)[truth] + spread * rng.standard_normal((n, dim))
    return X, np.where(np.arange(n) < n_classes * shots, truth, -1), truth


@settings(max_examples=20, deadline=None)
@given(
    n_classes=st.integers(2, 6),
    shots=st.integers(1, 4),
    extra=st.integers(0, 40),
    spread=st.sampled_from([0.0, 0.5, 3.0]),
    seed=st.integers(0, 99),
)
def test_probabilities_are_probabilities_and_the_labels_stay(n_classes, shots, extra, spread, seed):
    X, codes, _ = make_task(n_classes, shots, n_classes * shots + extra, n_classes + 1, spread, seed)
    model = LaplacianShot().fit(X, codes)
    found = calibrate(model, codes)
    assert found.probabilities.dtype == np.float32
    assert np.all(found.probabilities >= 0)
    np.testing.assert_allclose(found.probabilities.sum(axis=1), 1, atol=1e-5)
    query = codes < 0
    np.testing.assert_array_equal(found.probabilities[query].argmax(axis=1), model.transduction_[query])


def test_duplicated_and_zero_rows_are_fine():
    X, codes, _ = make_task(n=40)
    X[20:] = X[19]
    X[30:] = 0
    assert np.isfinite(calibrate(LaplacianShot().fit(X, codes), codes).probabilities).all()


def test_the_same_fit_gives_the_same_probabilities():
    X, codes, _ = make_task()
    model = LaplacianShot().fit(X, codes)
    np.testing.assert_array_equal(calibrate(model, codes).probabilities, calibrate(model, codes).probabilities)


def test_labels_may_be_anywhere_among_the_rows():
    X, codes, _ = make_task(n=200)
    order = np.random.default_rng(1).permutation(len(X))
    straight, mixed = (calibrate(LaplacianShot().fit(X[o], codes[o]), codes[o]) for o in (np.arange(len(X)), order))
    # Other small tasks are drawn, so the shift differs a little; what is said of a row must be of that row.
    z = [np.log(p.max(axis=1) / (1 - p.max(axis=1))) for p in (straight.probabilities[order], mixed.probabilities)]
    query = codes[order] < 0
    np.testing.assert_allclose(z[0][query] - straight.shift, z[1][query] - mixed.shift, atol=0.05)


def test_more_evidence_never_makes_a_label_less_sure():
    low, high = np.array([WEIGHTS[name][1:] for name in COLUMNS]).T
    middle = (low + high) / 2
    a = np.linspace(max(low[0], 0), high[0], 50)
    for f in np.linspace(low[1], high[1], 9):
        rows = np.tile(middle, (50, 1))
        rows[:, :5] = np.stack([a, np.full(50, f), a * a, np.full(50, f * f), a * f], axis=1)
        assert np.all(np.diff(log_odds(rows)) > -1e-9)


def test_other_recipes_are_refused():
    X, codes, _ = make_task()
    with pytest.raises(ValueError, match="only the default recipe"):
        calibrate(LaplacianShot.paper().fit(X, codes), codes)


def test_the_shift_of_many_answers_is_the_odds_of_being_right():
    right = np.repeat([1.0, 0.0], [900, 100])
    assert mean_shift(np.zeros(1000), right, 1e3) == pytest.approx(np.log(9), abs=0.01)
    # z says as much already.
    assert mean_shift(np.full(1000, np.log(9)), right) == pytest.approx(0, abs=0.01)


def test_the_shift_has_its_own_spread_before_there_are_answers():
    none = np.zeros(0)
    found = shift_probabilities(none, none, 0.7)
    shifts = np.linspace(-8, 8, len(found))
    assert found @ shifts == pytest.approx(0, abs=1e-12)
    assert found @ shifts**2 == pytest.approx(0.49, rel=1e-6)


def test_answers_that_count_a_third_are_three_times_fewer():
    rng = np.random.default_rng(0)
    z, right = rng.standard_normal(20), (rng.random(20) < 0.8).astype(float)
    thrice = shift_probabilities(np.tile(z, 3), np.tile(right, 3), 1.5, 3.0)
    np.testing.assert_allclose(thrice, shift_probabilities(z, right, 1.5), atol=1e-12)


def test_more_answers_narrow_the_spread_and_right_ones_leave_it_open_above():
    def spread(n, n_wrong):
        right = (np.arange(n) >= n_wrong).astype(float)
        return spread_of(np.full(n, 1.5), Checks(np.zeros((n, len(COLUMNS))), right, simulated=False))

    few, many = spread(10, 2), spread(100, 20)
    assert many[0] < few[0]
    assert many[1] < few[1]
    assert spread(30, 0)[1] > 10
    assert spread(30, 1)[1] < 2


def test_without_answers_nothing_shifts():
    none = np.zeros((0, len(COLUMNS)))
    assert shift_of(Checks(none, np.zeros(0), simulated=False)) == 0
    assert shift_of(Checks(none, np.zeros(0), simulated=True)) == 0


def test_confidence_on_digits_is_near_their_accuracy():
    gaps, raw = [], []
    for seed in range(5):
        X, codes, digits = digits_task(5, seed)
        model = LaplacianShot().fit(X, codes)
        query = codes < 0
        accuracy = np.mean(model.transduction_[query] == digits[query])
        gaps.append(calibrate(model, codes).probabilities[query].max(axis=1).mean() - accuracy)
        raw.append(model.label_distributions_[query].max(axis=1).mean() - accuracy)
    assert np.mean(np.abs(gaps)) < 0.03
    assert abs(np.mean(gaps)) < np.mean(raw)
