from itertools import pairwise

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given, settings
from hypothesis import strategies as st

from laplacianshot import bound_optimize
from laplacianshot.inference.affinity import knn_affinity, psd_shift, symmetrize
from laplacianshot.inference.bound import bound_optimize as formulas


def softmax(logits):
    exps = np.exp(logits - logits.max(axis=1, keepdims=True))
    return exps / exps.sum(axis=1, keepdims=True)


def xlogx(Y):
    return np.where(Y > 0, Y * np.log(np.maximum(Y, 1e-300)), 0)


def R(Y, a, W, lam):
    return (xlogx(Y) + a * Y).sum() - lam / 2 * (Y * (W @ Y)).sum()


def E(Y, a, W, lam):
    return (xlogx(Y) + a * Y).sum() - lam * (Y * (W @ Y)).sum()


def proximal_weight(lam, delta):
    return max(0, (lam * delta / 2 - 1) / 2)


def updates(a, W, lam, n, delta=0.0):
    """Y_0 .. Y_n by the definition."""
    Y, r = [softmax(-a)], proximal_weight(lam, delta)
    for _ in range(n):
        Y.append(softmax((-a + lam * (W @ Y[-1]) + r * np.log(Y[-1])) / (1 + r)))
    return Y


def made_psd(W):
    """Symmetric and positive semi-definite, by a self-loop."""
    W = symmetrize(W)
    return sp.csr_array(W + psd_shift(W) * sp.eye_array(W.shape[0]))


def problem(seed, n=30, c=4, k=3, scale=3.0):
    rng = np.random.default_rng(seed)
    a = scale * rng.random((n, c))
    return a, knn_affinity(rng.standard_normal((n, 5)), k, symmetry="directed")


@pytest.mark.parametrize("rule", ["paper", "reference"])
def test_lambda_zero_is_the_nearest_prototype(rule):
    a, W = problem(0)
    result = bound_optimize(a, W, 0.0, rule=rule)
    np.testing.assert_allclose(result.assignments, softmax(-a), rtol=1e-12)
    np.testing.assert_array_equal(result.labels, a.argmin(axis=1))
    assert result.converged


def test_without_edges_the_graph_has_no_say():
    a, _ = problem(1)
    result = bound_optimize(a, sp.csr_array((30, 30)), 5.0)
    np.testing.assert_allclose(result.assignments, softmax(-a), rtol=1e-12)


def test_one_row_with_a_loop_solves_its_scalar_equation():
    # Two classes, one row, w = 1: y = sigmoid(a_2 - a_1 + lam (2y - 1)), solved here by bisection.
    gap, lam = 0.3, 0.8
    low, high = 0.5, 1.0
    for _ in range(200):
        y = (low + high) / 2
        low, high = (y, high) if 1 / (1 + np.exp(-(gap + lam * (2 * y - 1)))) > y else (low, y)
    result = bound_optimize(np.array([[0.0, gap]]), sp.eye_array(1), lam, tol=1e-14, max_iter=5000)
    np.testing.assert_allclose(result.assignments[0, 0], low, rtol=1e-6)


@pytest.mark.parametrize(
    ("rule", "lam", "proximal"), [("paper", 0.9, False), ("paper", 4.0, True), ("reference", 0.9, False)]
)
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_objective_and_assignments_are_those_of_the_definition_after_each_update(rule, lam, proximal, dtype):
    a, W = problem(2)
    W = W if rule == "reference" else symmetrize(W) if proximal else made_psd(W)
    delta = psd_shift(W) if proximal else 0.0
    assert (proximal_weight(lam, delta) > 0) == proximal
    result = bound_optimize(a.astype(dtype), W, lam, rule=rule, delta=delta)
    Y = updates(a, W, lam, result.n_iter, delta)
    tolerance = 1e-12 if dtype == np.float64 else 1e-5
    assert result.assignments.dtype == dtype
    np.testing.assert_allclose(result.assignments, Y[-1], atol=tolerance)
    objective = [(R if rule == "paper" else E)(y, a, W, lam) for y in Y[1:]]
    np.testing.assert_allclose(result.objective, objective, rtol=tolerance)
    B = [
        (xlogx(new) + a * new - lam * (W @ old) * new).sum()
        + lam / 2 * ((old * (W @ old)).sum() + delta * np.square(new - old).sum())
        for old, new in pairwise(Y)
    ]
    np.testing.assert_allclose(result.bound, B, rtol=tolerance)


@settings(max_examples=150, deadline=None)
@given(
    seed=st.integers(0, 2**32 - 1),
    n=st.integers(1, 40),
    c=st.integers(1, 8),
    rank=st.integers(1, 40),
    lam=st.floats(0, 50),
    scale=st.floats(0, 30),
)
def test_on_a_symmetric_psd_graph_r_never_rises_and_lies_under_its_bound(seed, n, c, rank, lam, scale):
    rng = np.random.default_rng(seed)
    factor = rng.random((n, rank)) * (rng.random((n, rank)) < 0.3)
    W = sp.csr_array(factor @ factor.T)
    a = scale * rng.random((n, c))
    result = bound_optimize(a, W, lam, max_iter=60)
    slack = 1e-12 * (1 + np.abs(result.objective).max() + lam * W.sum())
    R0 = R(softmax(-a), a, W, lam)
    R_before = np.concatenate([[R0], result.objective[:-1]])
    assert np.all(result.objective <= result.bound + slack)
    assert np.all(result.bound <= R_before + slack)


@settings(max_examples=50, deadline=None)
@given(seed=st.integers(0, 10**6), lam=st.floats(0, 10), k=st.integers(1, 6))
def test_a_shifted_neighbor_graph_descends_too(seed, lam, k):
    a, W = problem(seed, k=k)
    result = bound_optimize(a, made_psd(W), lam)
    assert np.all(np.diff(result.objective) <= 1e-10 * np.abs(result.objective).max())


def graph_without_self_loops(rng, kind, n):
    """A symmetric graph whose smallest eigenvalue is below zero; of a bipartite one it is minus the largest."""
    edges = rng.random((n, n)) * (rng.random((n, n)) < 0.4)
    if kind == "bipartite":
        half = rng.random(n) < 0.5
        edges *= half[:, None] & ~half[None, :]
    elif kind == "complete bipartite":
        edges = np.zeros((n, n))
        edges[: n // 2, n // 2 :] = 1.0
    elif kind == "star":
        edges = np.zeros((n, n))
        edges[0] = 1.0
    np.fill_diagonal(edges, 0)
    return symmetrize(sp.csr_array(edges))


@settings(max_examples=300, deadline=None)
@given(
    seed=st.integers(0, 2**32 - 1),
    kind=st.sampled_from(["any", "bipartite", "complete bipartite", "star"]),
    n=st.integers(1, 40),
    c=st.integers(1, 8),
    lam=st.floats(0, 50),
    scale=st.sampled_from([0.0, 1e-3, 0.1, 3.0, 30.0]),
)
def test_with_delta_r_never_rises_on_any_symmetric_graph_and_lies_under_its_bound(seed, kind, n, c, lam, scale):
    rng = np.random.default_rng(seed)
    W = graph_without_self_loops(rng, kind, n)
    a = scale * rng.random((n, c))
    result = bound_optimize(a, W, lam, delta=psd_shift(W), tol=0.0, max_iter=60)
    slack = 1e-12 * (1 + np.abs(result.objective).max() + lam * W.sum())
    R_before = np.concatenate([[R(softmax(-a), a, W, lam)], result.objective[:-1]])
    assert np.all(result.objective <= result.bound + slack)
    assert np.all(result.bound <= R_before + slack)
    np.testing.assert_allclose(result.objective[-1], R(result.assignments, a, W, lam), rtol=1e-12, atol=slack)


def test_on_one_edge_any_smaller_delta_lets_r_rise():
    # Two nodes, eigenvalues 1 and -1, equal costs: a difference from 1/2 with the sign of the node is multiplied by
    # (r - lam/2) / (1 + r), which is -1 for delta = 1.
    edge, lam, small = sp.csr_array(np.array([[0.0, 1.0], [1.0, 0.0]])), 6.0, 1e-4
    a = small * np.array([[0.0, 1.0], [1.0, 0.0]])

    def rises(delta):
        objective = bound_optimize(a, edge, lam, delta=delta, tol=0.0, max_iter=30).objective
        return np.diff(objective).max() > 1e-12

    assert not rises(1.0)
    assert not rises(1.5)
    assert rises(0.98)
    assert rises(0.0)


def test_delta_moves_no_fixed_point():
    a, W = problem(10)
    W = symmetrize(W)
    result = bound_optimize(a, W, 2.5, delta=psd_shift(W), tol=1e-15, max_iter=5000)
    assert proximal_weight(2.5, psd_shift(W)) > 0
    np.testing.assert_allclose(softmax(-a + 2.5 * (W @ result.assignments)), result.assignments, atol=1e-6)


def test_up_to_a_product_of_two_delta_changes_the_bound_alone():
    a, W = problem(11)
    W = symmetrize(W)
    plain, held = (bound_optimize(a, W, 1.0, delta=delta, tol=0.0, max_iter=10) for delta in (0.0, 2.0))
    np.testing.assert_array_equal(held.assignments, plain.assignments)
    np.testing.assert_array_equal(held.objective, plain.objective)
    assert np.all(held.bound > plain.bound)


@pytest.mark.parametrize("delta", [-0.1, np.nan, np.inf])
def test_a_delta_that_makes_no_sense_is_refused(delta):
    a, W = problem(0)
    with pytest.raises(ValueError, match="delta must be a finite number >= 0"):
        bound_optimize(a, W, 1.0, delta=delta)


@pytest.mark.parametrize(("rule", "delta"), [("paper", 0.0), ("paper", 2.5), ("reference", 0.0)])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_many_rows_are_updated_as_the_formulas_say(rule, delta, dtype):
    a, W = problem(12, n=5000, c=7, k=3)
    W = symmetrize(W) if rule == "paper" else W
    options = {"rule": rule, "delta": delta, "tol": 0.0, "max_iter": 12}
    found, wanted = bound_optimize(a.astype(dtype), W, 2.0, **options), formulas(a, W, 2.0, **options)
    tolerance = 1e-10 if dtype == np.float64 else 1e-4
    assert found.assignments.dtype == dtype
    np.testing.assert_allclose(found.assignments, wanted.assignments, atol=tolerance)
    np.testing.assert_allclose(found.objective, wanted.objective, rtol=tolerance)
    np.testing.assert_allclose(found.bound, wanted.bound, rtol=tolerance)


def test_at_convergence_one_more_update_changes_nothing_beyond_tolerance():
    a, W = problem(3)
    W = made_psd(W)
    result = bound_optimize(a, W, 0.7)
    assert result.converged
    again = softmax(-a + 0.7 * (W @ result.assignments))
    assert abs(R(again, a, W, 0.7) - result.objective[-1]) <= 1e-6 * abs(result.objective[-1])


def test_reference_takes_at_least_three_updates_and_at_most_twenty():
    a, W = problem(4)
    assert bound_optimize(a, W, 0.0, rule="reference").n_iter == 3
    hard = bound_optimize(
        0.01 * a, knn_affinity(np.random.default_rng(1).standard_normal((30, 5)), 9), 1.5, rule="reference"
    )
    assert hard.n_iter <= 20


def test_max_iter_stops_unconverged():
    a, W = problem(5)
    result = bound_optimize(a, made_psd(W), 2.0, max_iter=2)
    assert result.n_iter == len(result.objective) == len(result.bound) == 2
    assert not result.converged


def test_permuting_rows_permutes_assignments():
    a, W = problem(6)
    order = np.random.default_rng(0).permutation(30)
    plain = bound_optimize(a, W, 0.5)
    permuted = bound_optimize(a[order], W[order][:, order], 0.5)
    np.testing.assert_allclose(permuted.assignments, plain.assignments[order], atol=1e-12)


def test_permuting_classes_permutes_columns():
    a, W = problem(7)
    order = np.array([2, 0, 3, 1])
    plain = bound_optimize(a, W, 0.5).assignments
    np.testing.assert_allclose(bound_optimize(a[:, order], W, 0.5).assignments, plain[:, order], atol=1e-12)


def test_threads_do_not_change_a_bit(monkeypatch):
    a, W = problem(8, n=3000, c=40, k=5)
    results = []
    for threads in ("1", "2", "7"):
        monkeypatch.setenv("OMP_NUM_THREADS", threads)
        results.append(bound_optimize(a, W, 0.5))
    for other in results[1:]:
        np.testing.assert_array_equal(other.assignments, results[0].assignments)
        np.testing.assert_array_equal(other.objective, results[0].objective)


def test_no_rows_give_no_assignments():
    result = bound_optimize(np.empty((0, 3)), sp.csr_array((0, 0)), 1.0)
    assert result.assignments.shape == (0, 3)
    assert result.converged


def test_a_huge_lambda_gives_numbers_and_not_nan():
    a, W = problem(9)
    for dtype in (np.float32, np.float64):
        result = bound_optimize(a.astype(dtype), W, 1e6)
        assert np.all(np.isfinite(result.assignments))
        assert np.all(np.isfinite(result.objective))


@pytest.mark.parametrize("lam", [-0.1, np.nan, np.inf, 1e7])
def test_a_lambda_out_of_range_is_refused(lam):
    a, W = problem(0)
    with pytest.raises(ValueError, match="lam must be a number from 0 to 1e"):
        bound_optimize(a, W, lam)


@pytest.mark.parametrize(
    ("unary", "match"),
    [
        (np.zeros(4), "shape"),
        (np.zeros((4, 0)), "at least one class"),
        (np.full((4, 2), np.nan), "NaN or infinite"),
        (np.full((4, 2), np.inf), "NaN or infinite"),
    ],
)
def test_unary_terms_that_make_no_sense_are_refused(unary, match):
    with pytest.raises(ValueError, match=match):
        bound_optimize(unary, sp.eye_array(4), 1.0)


def test_a_graph_of_another_size_is_refused():
    with pytest.raises(ValueError, match=r"affinity has shape \(3, 3\), expected \(4, 4\)"):
        bound_optimize(np.zeros((4, 2)), sp.eye_array(3), 1.0)


def test_an_unknown_rule_and_zero_updates_are_refused():
    with pytest.raises(ValueError, match="rule must be"):
        bound_optimize(np.zeros((2, 2)), sp.eye_array(2), 1.0, rule="other")
    with pytest.raises(ValueError, match="max_iter"):
        bound_optimize(np.zeros((2, 2)), sp.eye_array(2), 1.0, max_iter=0)


def test_the_result_says_what_it_is():
    a, W = problem(0)
    assert repr(bound_optimize(a, W, 0.1)).startswith("BoundResult(30 rows x 4 classes, converged after")
