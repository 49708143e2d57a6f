"""The compiled formulas against those of the definition."""

import math

import numpy as np
import pytest
from scipy.integrate import quad

from laplacianshot.engine import step_kernels as steps
from laplacianshot.inference.joint import Balance, balance_cost, hold_weight
from laplacianshot.inference.recipes import DefaultConstants
from laplacianshot.inference.temperature import choose_tau, divergence


def shares(seed=0, n_classes=6):
    p = np.random.default_rng(seed).random(n_classes)
    p[1] = 0
    return p / p.sum()


def test_the_divergence_is_that_of_the_definition():
    p = shares()
    np.testing.assert_allclose(steps.divergence(p), divergence(p), rtol=1e-13)
    assert steps.divergence(np.full(5, 0.2)) == pytest.approx(0, abs=1e-15)


@pytest.mark.parametrize("delta", [0.02, 0.5, math.inf])
def test_the_pull_to_equal_shares_and_its_cost(delta):
    p, gamma = shares(), 2.0
    kl = divergence(p)
    np.testing.assert_allclose(steps.balance(p, gamma, delta), gamma * math.exp(-kl / delta), rtol=1e-12)
    cost = quad(lambda k: gamma * math.exp(-k / delta), 0, kl)[0]
    np.testing.assert_allclose(steps.balance_cost(p, gamma, delta, 0.0, 1.0), cost, rtol=1e-9)


def test_the_price_of_classes_in_use_is_the_sum_of_its_slopes():
    p, eta, small = shares(), 1.5, 0.07
    price = sum(quad(lambda t: steps.share_slope(t, 0.0, eta, small), 0, share)[0] for share in p)
    np.testing.assert_allclose(steps.balance_cost(p, 0.0, 0.02, eta, small), price, rtol=1e-7)


@pytest.mark.parametrize("eta", [0.0, 0.7])
def test_the_balance_is_that_of_the_definition(eta):
    constants = DefaultConstants.for_task(20, 300, 5)._replace(eta=eta, small=0.1)
    gamma, delta, small = constants.gamma, constants.delta, constants.small
    for p in (shares(), np.array([0.96, 0.01, 0.01, 0.01, 0.01]), np.full(5, 0.2)):
        balance = Balance.at(p, constants)
        np.testing.assert_allclose(steps.balance(p, gamma, delta), balance.g, rtol=1e-12)
        slopes = [steps.share_slope(share, balance.g, eta, small) for share in p]
        np.testing.assert_allclose(slopes, balance.slopes, rtol=1e-12, atol=1e-12)
        cost = steps.balance_cost(p, gamma, delta, eta, small)
        np.testing.assert_allclose(cost, balance_cost(p, constants), rtol=1e-12)


@pytest.mark.parametrize(("lam", "g"), [(2.0, 0.5), (10.0, 1.0), (10.0, 0.0), (1.0, 0.0)])
def test_a_strong_graph_is_held_on_to(lam, g):
    assert steps.hold_weight(lam, g) == hold_weight(lam, g)


def test_what_is_held_on_to_by_hand():
    assert steps.hold_weight(2.0, 0.5) == 0.5
    assert steps.hold_weight(10.0, 1.0) == pytest.approx(2.5)
    assert steps.hold_weight(10.0, 0.0) == pytest.approx(2.0)


def test_a_share_that_has_vanished_costs_a_finite_amount():
    assert np.isfinite(steps.share_slope(0.0, 2.0, 3.0, 0.1))
    assert steps.share_slope(0.25, 2.0, 0.0, 0.1) == pytest.approx(2 * math.log(0.25))
    assert steps.share_slope(0.25, 0.0, 3.0, 0.25) == pytest.approx(3 * math.log(2))


@pytest.mark.parametrize(("dtype", "rtol"), [(np.float32, 2e-6), (np.float64, 1e-13)])
def test_a_row_becomes_its_softmax_with_its_part_of_f(dtype, rtol):
    rng = np.random.default_rng(1)
    logits, cost, y = (rng.standard_normal(9).astype(dtype) for _ in range(3))
    expected = np.exp(logits.astype(np.float64))
    expected /= expected.sum()
    inner, top = steps.y_row(logits, cost, y)
    np.testing.assert_allclose(y, expected, rtol=rtol)
    np.testing.assert_allclose(logits, np.log(expected), rtol=10 * rtol)
    np.testing.assert_allclose(inner, expected @ (np.log(expected) + cost), rtol=10 * rtol)
    np.testing.assert_allclose(top, expected.max(), rtol=rtol)


@pytest.mark.parametrize(("dtype", "deepest"), [(np.float32, -70), (np.float64, -708)])
def test_no_entry_is_so_small_that_its_products_are_denormal_and_its_logarithm_is_its_own(dtype, deepest):
    logits, cost, y = np.array([0, -50, -100, -1e4], dtype), np.zeros(4, dtype), np.empty(4, dtype)
    inner, top = steps.y_row(logits, cost, y)
    assert top == 1
    cut = np.maximum([0.0, -50, -100, -1e4], deepest)
    np.testing.assert_allclose(y, np.exp(cut), rtol=1e-5)
    np.testing.assert_array_equal(logits, cut.astype(dtype))
    assert abs(inner) < 1e-18


@pytest.mark.parametrize("rows", [1, 7, 50])
def test_confidence_is_the_largest_entry_of_the_softmax(rows):
    a = np.random.default_rng(2).random((50, 4))
    gaps = np.empty_like(a)
    steps.fill_gaps(a, gaps)
    y = np.exp(-3 * a)
    y /= y.sum(axis=1, keepdims=True)
    found = steps.confidence_sum(gaps, 3.0, np.empty((rows, 4)))
    np.testing.assert_allclose(found, y.max(axis=1).sum(), rtol=1e-13)


@pytest.mark.parametrize("scale", [0.01, 1.0, 1e4])
def test_the_temperature_is_that_of_the_definition(scale):
    a = scale * np.random.default_rng(3).random((60, 5))
    found = steps.choose_tau(a, 2.0, 15.0, 0.6, np.empty((2, *a.shape)))
    np.testing.assert_allclose(found, choose_tau(a, 2.0, 15.0), rtol=1e-6)


def test_the_temperature_of_ties_is_that_of_the_spread():
    scratch = np.empty((2, 5, 2))
    assert steps.choose_tau(np.ones((5, 2)), 3.0, 15.0, 0.6, scratch) == 5.0
    assert steps.choose_tau(np.ones((5, 2)), 0.0, 15.0, 0.6, scratch) == 1.0
