"""The default recipe, as plain formulas and in the engine, against its definition with dense matrices."""

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from laplacianshot.engine import small as small_rounds
from laplacianshot.inference import joint
from laplacianshot.inference.affinity import knn_affinity, normalize
from laplacianshot.inference.recipes import DefaultConstants
from laplacianshot.inference.temperature import choose_tau, mean_squared_distance
from laplacianshot.inference.transforms import transform_features


@pytest.fixture(params=[joint, small_rounds], ids=["formulas", "engine"])
def joint_optimize(request):
    return request.param.joint_optimize


def make_task(seed, n_classes=4, shots=(2, 1, 3, 2), n_query=40, dim=6, spread=0.6):
    rng = np.random.default_rng(seed)
    centers = rng.standard_normal((n_classes, dim))
    labels = rng.permutation(np.repeat(np.arange(n_classes), shots))
    truth = rng.integers(0, n_classes, n_query)
    rows = np.concatenate([centers[labels], centers[truth]])
    rows = rows + spread * rng.standard_normal(rows.shape)
    nodes = transform_features(rows, "cl2", rows.mean(axis=0))
    return nodes[: len(labels)], labels, nodes[len(labels) :]


def graph_of(support, query, constants):
    return normalize(knn_affinity(np.concatenate([support, query]), constants.n_neighbors))


def kl(p):
    return float((p * np.log(p * len(p))).sum())


def F(Y, M, support, labels, query, W, origin, tau, c):
    """Section 6 of the specification, term by term."""
    n_s, N = len(support), len(query)
    W = W.toarray()
    Ys = np.eye(len(M))[labels]
    unary = ((query[:, None] - M[None]) ** 2).sum(axis=2)
    value = np.where(Y > 0, Y * np.log(np.maximum(Y, 1e-300)), 0).sum()
    value += tau * (Y * unary).sum()
    value += tau * c.beta * ((support - M[labels]) ** 2).sum()
    value += tau * c.kappa * ((M - origin) ** 2).sum()
    value -= c.lam * (c.e * (Y * (W[n_s:, :n_s] @ Ys)).sum() + 0.5 * (Y * (W[n_s:, n_s:] @ Y)).sum())
    divergence = kl(Y.mean(axis=0))
    if np.isinf(c.delta):
        return value + c.gamma * N * divergence
    return value + c.gamma * N * c.delta * (1 - np.exp(-divergence / c.delta))


def dense_default(support, labels, query, W, origin, tau, c, rounds):
    """``rounds`` rounds at full weight after the starting rounds; yields (Y, M) after each."""
    n_s, C = len(support), len(np.unique(labels))
    W = W.toarray()
    Ys = np.eye(C)[labels]
    counts = np.bincount(labels, minlength=C)

    def m_step(Y):
        total = c.beta * Ys.T @ support + Y.T @ query + c.kappa * origin
        return total / (c.beta * counts + Y.sum(axis=0) + c.kappa)[:, None]

    def softmax(z):
        e = np.exp(z - z.max(axis=1, keepdims=True))
        return e / e.sum(axis=1, keepdims=True)

    M = m_step(np.zeros((len(query), C)))
    Y = softmax(-tau * ((query[:, None] - M[None]) ** 2).sum(axis=2))
    for i in range(c.start_rounds + rounds):
        lam = c.start_lam if i < c.start_rounds else c.lam
        M = m_step(Y)
        p = Y.mean(axis=0)
        g = c.gamma * np.exp(-kl(p) / c.delta)
        r = max(0, (lam / 2 - 1 - g) / 2)
        field = c.e * W[n_s:, :n_s] @ Ys + W[n_s:, n_s:] @ Y
        a = ((query[:, None] - M[None]) ** 2).sum(axis=2)
        Y = softmax((-tau * a + lam * field + (g + r) * np.log(Y) - g * np.log(p)) / (1 + g + r))
        if i >= c.start_rounds:
            yield Y, M


@pytest.mark.parametrize("balanced", [False, True])
@pytest.mark.parametrize(("n_query", "dim", "starts"), [(4, 3, 0), (40, 6, 0), (150, 6, 6)])
def test_every_round_is_that_of_the_definition(joint_optimize, n_query, dim, starts, balanced):
    support, labels, query = make_task(1, n_query=n_query, dim=dim)
    constants = DefaultConstants.for_task(len(support), n_query, 4, balanced=balanced)
    assert constants.start_rounds == starts
    W = graph_of(support, query, constants)
    origin = np.full(dim, 0.01)
    result = joint_optimize(support, labels, query, W, origin, 4, constants)
    states = list(dense_default(support, labels, query, W, origin, result.tau, constants, result.n_iter))
    expected = [F(Y, M, support, labels, query, W, origin, result.tau, constants) for Y, M in states]
    np.testing.assert_allclose(result.objective, expected, rtol=1e-11)
    np.testing.assert_allclose(result.assignments, states[-1][0], atol=1e-11)
    np.testing.assert_allclose(result.prototypes, states[-1][1], atol=1e-12)


def test_float32_follows_float64(joint_optimize):
    support, labels, query = make_task(2)
    constants = DefaultConstants.for_task(len(support), len(query), 4)
    W = graph_of(support, query, constants)
    wide = joint_optimize(support, labels, query, W, np.zeros(6), 4, constants)
    half = [x.astype(np.float32) for x in (support, query)]
    narrow = joint_optimize(half[0], labels, half[1], W.astype(np.float32), np.zeros(6, np.float32), 4, constants)
    assert narrow.assignments.dtype == np.float32
    np.testing.assert_allclose(narrow.assignments, wide.assignments, atol=1e-4)


@settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    seed=st.integers(0, 2**32 - 1),
    n_classes=st.integers(2, 6),
    n_query=st.integers(1, 120),
    spread=st.floats(0.01, 3),
    balanced=st.booleans(),
    lam=st.one_of(st.none(), st.floats(0, 40)),
    data=st.data(),
)
def test_f_never_rises(joint_optimize, seed, n_classes, n_query, spread, balanced, lam, data):
    shots = data.draw(st.lists(st.integers(1, 6), min_size=n_classes, max_size=n_classes))
    support, labels, query = make_task(seed, n_classes, shots, n_query, spread=spread)
    constants = DefaultConstants.for_task(len(support), n_query, n_classes, balanced=balanced).with_choices(lam=lam)
    W = graph_of(support, query, constants)
    result = joint_optimize(support, labels, query, W, np.zeros(6), n_classes, constants, tol=0.0)
    assert np.all(np.diff(result.objective) <= 1e-12 * np.abs(result.objective).max())
    np.testing.assert_allclose(result.assignments.sum(axis=1), 1, rtol=1e-12)


@pytest.mark.parametrize("seed", [11, 65])
def test_a_class_that_every_row_is_certain_not_to_be_in_keeps_its_share(joint_optimize, seed):
    support, labels, query = make_task(seed, n_query=3, spread=0.2)
    constants = DefaultConstants.for_task(len(support), len(query), 4, balanced=True)
    W = graph_of(support, query, constants)
    result = joint_optimize(support, labels, query, W, np.zeros(6), 4, constants, tol=0.0)
    states = dense_default(support, labels, query, W, np.zeros(6), result.tau, constants, len(result.objective))
    expected = [F(Y, M, support, labels, query, W, np.zeros(6), result.tau, constants) for Y, M in states]
    np.testing.assert_allclose(result.objective, expected, rtol=1e-9)


def test_at_convergence_one_more_round_changes_nothing_beyond_tolerance(joint_optimize):
    support, labels, query = make_task(3)
    constants = DefaultConstants.for_task(len(support), len(query), 4)._replace(max_rounds=500)
    W = graph_of(support, query, constants)
    result = joint_optimize(support, labels, query, W, np.zeros(6), 4, constants, tol=1e-6)
    assert result.converged
    longer = joint_optimize(
        support, labels, query, W, np.zeros(6), 4, constants._replace(max_rounds=result.n_iter + 1), tol=0.0
    )
    assert abs(longer.objective[-1] - result.objective[-1]) <= 1e-6 * abs(result.objective[-1])


def test_the_solution_satisfies_its_own_stationary_equation(joint_optimize):
    support, labels, query = make_task(4)
    constants = DefaultConstants.for_task(len(support), len(query), 4)._replace(max_rounds=5000)
    W = graph_of(support, query, constants)
    result = joint_optimize(support, labels, query, W, np.zeros(6), 4, constants, tol=1e-15)
    n_s = len(support)
    unary = ((query[:, None] - result.prototypes[None]) ** 2).sum(axis=2)
    field = constants.e * (W[n_s:, :n_s] @ np.eye(4)[labels]) + W[n_s:, n_s:] @ result.assignments
    logits = -result.tau * unary + constants.lam * field + result.bias
    expected = np.exp(logits - logits.max(axis=1, keepdims=True))
    expected /= expected.sum(axis=1, keepdims=True)
    np.testing.assert_allclose(result.assignments, expected, atol=1e-4)


def test_threads_do_not_change_a_bit(joint_optimize, monkeypatch):
    support, labels, query = make_task(5, n_query=2500)
    constants = DefaultConstants.for_task(len(support), 2500, 4)
    W = graph_of(support, query, constants)
    results = []
    for threads in ("1", "2", "7"):
        monkeypatch.setenv("OMP_NUM_THREADS", threads)
        results.append(joint_optimize(support, labels, query, W, np.zeros(6), 4, constants))
    for other in results[1:]:
        np.testing.assert_array_equal(other.assignments, results[0].assignments)
        np.testing.assert_array_equal(other.objective, results[0].objective)


def test_without_queries_the_prototypes_are_shrunken_class_means(joint_optimize):
    support, labels, query = make_task(6)
    constants = DefaultConstants.for_task(len(support), 0, 4)
    W = graph_of(support, query[:0], constants)
    origin = np.ones(6)
    result = joint_optimize(support, labels, query[:0], W, origin, 4, constants)
    beta, kappa = constants.beta, constants.kappa
    for c in range(4):
        mine = support[labels == c]
        expected = (beta * mine.sum(axis=0) + kappa * origin) / (beta * len(mine) + kappa)
        np.testing.assert_allclose(result.prototypes[c], expected, rtol=1e-12)
    assert result.assignments.shape == (0, 4)


def test_constants_of_an_episode():
    c = DefaultConstants.for_task(5, 75, 5)
    assert (c.n_neighbors, c.lam, c.start_rounds, c.max_rounds) == (4, 2.0, 0, 20)
    assert (c.e, c.beta, c.kappa) == (1.0, 3.0, 1.5)
    assert (c.gamma, c.delta, c.pair_spread) == (2.0, 0.02, 15.0)


def test_constants_of_a_large_task():
    c = DefaultConstants.for_task(50, 6000, 10)  # x = 600, rho = sqrt(40)
    rho = 40**0.5
    np.testing.assert_allclose(c.lam, 2 * rho)
    np.testing.assert_allclose(c.e, np.log(10) / np.log(5) * rho**0.5)
    np.testing.assert_allclose(c.beta, 600 * 5**0.5 / 10)
    np.testing.assert_allclose(c.pair_spread, 15 / rho)
    assert (c.n_neighbors, c.start_lam, c.start_rounds, c.max_rounds) == (25, 2.0, 6, 40)


def test_few_queries_weaken_the_graph():
    assert DefaultConstants.for_task(5, 5, 5).lam == pytest.approx(2 / 3)
    assert DefaultConstants.for_task(5, 0, 5).lam == 0


def test_balanced_never_fades():
    c = DefaultConstants.for_task(5, 75, 5, balanced=True)
    assert (c.gamma, c.delta) == (3.0, np.inf)


def test_mean_squared_distance_is_over_pairs_of_different_rows():
    X = np.random.default_rng(0).standard_normal((20, 3)) + 5
    pairs = ((X[:, None] - X[None]) ** 2).sum(axis=2)
    np.testing.assert_allclose(mean_squared_distance(X), pairs.sum() / (20 * 19), rtol=1e-12)
    assert mean_squared_distance(X[:1]) == 0


def test_tau_reaches_the_least_confidence():
    rng = np.random.default_rng(0)
    query = rng.standard_normal((50, 4))
    unary = 0.01 * rng.random((50, 3))
    tau = choose_tau(unary, mean_squared_distance(query), 15.0)
    probabilities = np.exp(-tau * unary)
    probabilities /= probabilities.sum(axis=1, keepdims=True)
    np.testing.assert_allclose(probabilities.max(axis=1).mean(), 1 / 3 + 0.6 * 2 / 3, rtol=1e-8)


def test_tau_is_the_pair_spread_where_that_is_sure_enough():
    rng = np.random.default_rng(0)
    query = rng.standard_normal((50, 4))
    unary = 1e4 * rng.random((50, 3))
    np.testing.assert_allclose(
        choose_tau(unary, mean_squared_distance(query), 15.0), 15 / mean_squared_distance(query), rtol=1e-12
    )


def test_tau_of_rows_that_are_all_equal_is_defined():
    assert choose_tau(np.zeros((5, 2)), 0.0, 15.0) == 1.0


def test_tau_of_queries_as_near_to_one_prototype_as_to_another_is_that_of_the_spread():
    assert choose_tau(np.ones((5, 2)), 3.0, 15.0) == 5.0


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_rows_far_from_zero_are_solved_as_sharply_as_rows_around_it(joint_optimize, dtype):
    support, labels, query = (x.astype(dtype) if x.dtype.kind == "f" else x for x in make_task(7))
    constants = DefaultConstants.for_task(len(support), len(query), 4)
    W = graph_of(support, query, constants)
    offset = np.full(6, 256, dtype=dtype)  # a power of two: adding it rounds the rows, not the offset
    moved = [(x + offset) - offset for x in (support, query)]
    near = joint_optimize(moved[0], labels, moved[1], W, np.zeros(6, dtype), 4, constants)
    far = joint_optimize(support + offset, labels, query + offset, W, offset, 4, constants)
    # float32 rows at 256 are known to 2e-5, which 20 rounds carry on. Products about zero would be wrong by far more.
    np.testing.assert_allclose(far.assignments, near.assignments, atol=5e-3 if dtype == np.float32 else 1e-9)
    np.testing.assert_allclose(far.prototypes - offset, near.prototypes, atol=1e-3 if dtype == np.float32 else 1e-9)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_the_m_step_and_the_cost_of_prototypes(dtype):
    support, labels, query = make_task(8)
    constants = DefaultConstants.for_task(len(support), len(query), 4)
    beta, kappa, origin = constants.beta, constants.kappa, np.full(6, 0.1)
    prior = joint.Prior.of_support(support, labels, origin, 4, constants)
    Y = np.random.default_rng(0).dirichlet(np.ones(4), len(query))
    M = joint.m_step(prior, (Y.T @ query).astype(dtype), Y.sum(axis=0))
    for c in range(4):
        mine = support[labels == c]
        total = beta * mine.sum(axis=0) + Y[:, c] @ query + kappa * origin
        np.testing.assert_allclose(M[c], total / (beta * len(mine) + Y[:, c].sum() + kappa), rtol=1e-6)
    expected = beta * np.square(support - M[labels]).sum() + kappa * np.square(M - origin).sum()
    np.testing.assert_allclose(prior.cost(M.astype(dtype)), expected, rtol=1e-12 if dtype == np.float64 else 1e-6)
