"""Few-shot tasks: equal shares, a linear classifier in each round, and the choice between free and equal shares."""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy.special import softmax

from laplacianshot import LaplacianShot
from laplacianshot.inference.affinity import knn_affinity, normalize
from laplacianshot.inference.episode import Stages, episode_optimize
from laplacianshot.inference.joint import NO_CLUES, Clues, Ridge, equal_shares, joint_optimize
from laplacianshot.inference.recipes import DefaultConstants, is_episode, ridge_share

TASKS = [(seed, n_classes, shot) for seed in range(4) for n_classes, shot in ((2, 1), (5, 3), (12, 2))]


def task(seed, n_classes, shot, *, sizes=None, scale=1.5, dim=8):
    """Labeled rows, their classes, queries, theirs, and the graph of all rows: Gaussian classes in float64."""
    rng = np.random.default_rng(seed)
    centers = scale * rng.standard_normal((n_classes, dim))
    sizes = np.full(n_classes, 8) if sizes is None else np.asarray(sizes)
    labels, classes = np.repeat(np.arange(n_classes), shot), np.repeat(np.arange(n_classes), sizes)
    support = centers[labels] + rng.standard_normal((len(labels), dim))
    query = centers[classes] + rng.standard_normal((len(classes), dim))
    constants = DefaultConstants.for_task(len(labels), len(classes), n_classes)
    graph = normalize(knn_affinity(np.concatenate([support, query]), constants.n_neighbors))
    return (support, labels, query, graph, np.zeros(dim), n_classes), constants, classes


@pytest.mark.parametrize(("n", "n_classes"), [(30, 2), (31, 5), (4, 7), (200, 20)])
@pytest.mark.parametrize("scale", [0.1, 3.0, 40.0])
def test_equal_shares_are_those_of_sinkhorns_rounds(n, n_classes, scale):
    logits = scale * np.random.default_rng(n).standard_normal((n, n_classes))
    log_Y, Y, f = equal_shares(logits)
    np.testing.assert_allclose(Y.sum(axis=0), n / n_classes, rtol=1e-9)
    np.testing.assert_allclose(Y, softmax(logits + f, axis=1), atol=1e-12)
    np.testing.assert_allclose(np.exp(log_Y), Y, atol=1e-12)
    if scale < 1:
        found = np.exp(logits)
        for _ in range(500):
            found *= (n / n_classes) / found.sum(axis=0)
            found /= found.sum(axis=1, keepdims=True)
        np.testing.assert_allclose(Y, found, atol=1e-9)


def test_equal_shares_minimize_their_objective_among_others_with_equal_shares():
    rng = np.random.default_rng(0)
    logits = rng.standard_normal((12, 3))
    _, Y, _ = equal_shares(logits)

    def cost(Z):
        return float((Z * (np.log(Z) - logits)).sum())

    for _ in range(20):
        _, other, _ = equal_shares(rng.standard_normal((12, 3)))
        for part in (0.01, 0.5, 1.0):
            assert cost(Y) <= cost((1 - part) * Y + part * other) + 1e-12


def test_the_linear_classifier_is_ridge_regression_on_all_rows():
    rng = np.random.default_rng(1)
    support, query = rng.standard_normal((6, 4)) + 3, rng.standard_normal((9, 4)) + 3
    labels, Y = np.eye(3)[[0, 0, 1, 1, 2, 2]], rng.dirichlet(np.ones(3), 9)
    ridge = Ridge.of_rows(support, query, labels, mu=2.5)
    X = np.concatenate([support, query])
    X = X - X.mean(axis=0)
    penalty = np.square(X).sum() / len(X)
    A = np.concatenate([labels, Y])
    V = np.linalg.solve(X.T @ X + penalty * np.eye(4), X.T @ A)
    np.testing.assert_allclose(ridge.hat @ A, 2.5 * X[6:] @ V, atol=1e-12)
    joined = ridge.joined(Y, NO_CLUES)
    np.testing.assert_allclose(query @ joined.slopes.T + joined.bias, 2.5 * X[6:] @ V, atol=1e-12)
    # What was known before stays.
    more = ridge.joined(Y, Clues(slopes=np.ones((3, 4)), bias=np.arange(3.0)))
    np.testing.assert_allclose(more.slopes - joined.slopes, 1)
    np.testing.assert_allclose(more.bias - joined.bias, np.arange(3.0))


def dense_objective(given, constants, solution, clues):
    """F at a solution, term by term, less what only the labels have part in."""
    support, labels, query, graph, origin, n_classes = given
    Y, M, tau, n_s = solution.assignments, solution.prototypes, solution.tau, len(support)
    W, Y_s = graph.toarray(), np.eye(n_classes)[labels]
    distances = np.square(query[:, None] - M).sum(axis=2)
    prior = constants.beta * np.square(support - M[labels]).sum() + constants.kappa * np.square(M - origin).sum()
    value = (Y * np.log(Y)).sum() + (1 - clues.weight) * tau * ((Y * distances).sum() + prior)
    value -= constants.lam * constants.e * (Y * (W[n_s:, :n_s] @ Y_s)).sum()
    value -= constants.lam / 2 * np.trace(Y.T @ W[n_s:, n_s:] @ Y)
    X = np.concatenate([support, query])
    X = X - X.mean(axis=0)
    G = X @ X.T
    H = G @ np.linalg.inv(G + np.trace(G) / len(X) * np.eye(len(X)))
    value -= constants.mu * ((Y * (H[n_s:, :n_s] @ Y_s)).sum() + np.trace(Y.T @ H[n_s:, n_s:] @ Y) / 2)
    return value


@pytest.mark.parametrize(("seed", "n_classes", "shot"), TASKS)
@pytest.mark.parametrize("mu", [0.0, 4.0])
@pytest.mark.parametrize("gamma", [0.0, math.inf])
def test_the_objective_is_f_and_never_rises(seed, n_classes, shot, mu, gamma):
    given, constants, _ = task(seed, n_classes, shot)
    constants = constants._replace(mu=mu, gamma=gamma, delta=math.inf if gamma else 1.0, max_rounds=40, start_rounds=0)
    clues = Clues(weight=0.4)
    solution = joint_optimize(*given, constants, clues=clues, tol=0.0)
    F = solution.objective
    assert len(F) > 1
    assert (np.diff(F) <= 1e-12 * np.maximum(1, np.abs(F[:-1]))).all()
    assert F[-1] == pytest.approx(dense_objective(given, constants, solution, clues), rel=1e-9)
    if gamma:
        np.testing.assert_allclose(solution.assignments.mean(axis=0), 1 / n_classes, rtol=1e-9)


@pytest.mark.parametrize(("seed", "n_classes", "shot"), TASKS)
def test_the_last_stage_never_raises_f_and_goes_on_from_a_trial(seed, n_classes, shot):
    given, constants, _ = task(seed, n_classes, shot)
    solution = episode_optimize(*given, constants, clues=NO_CLUES, tol=0.0)
    F = solution.objective
    assert (np.diff(F) <= 1e-12 * np.maximum(1, np.abs(F[:-1]))).all()
    assert len(F) <= constants.max_rounds
    assert solution.clues.weight == ridge_share(n_classes)
    assert (solution.clues.slopes is None) == (ridge_share(n_classes) == 0)


def test_a_linear_classifier_takes_part_where_there_are_more_than_five_classes():
    assert [ridge_share(c) for c in (2, 5, 10, 20, 50)] == [0.0, 0.0, 0.25, 0.375, 0.45]


def test_balanced_tasks_are_found_to_be_balanced_and_others_are_not():
    found = {"balanced": [], "unequal": []}
    for seed in range(12):
        for name, sizes in (("balanced", [12] * 5), ("unequal", [30, 15, 8, 4, 3])):
            given, constants, _ = task(seed, 5, 3, sizes=sizes)
            solution = episode_optimize(*given, constants, clues=NO_CLUES, tol=1e-6)
            found[name].append(math.isinf(solution.constants.gamma))
    assert np.mean(found["balanced"]) > 0.8
    assert np.mean(found["unequal"]) < 0.1


def test_balance_that_is_known_holds_to_the_last_query():
    (support, labels, query, *_), _, _ = task(0, 4, 2, sizes=[20, 10, 6, 4], scale=0.5)
    X = np.concatenate([support, query])
    y = np.concatenate([labels, np.full(len(query), -1)])
    clf = LaplacianShot(balanced=True, transform="none").fit(X, y)
    np.testing.assert_allclose(clf.label_distributions_[y < 0].mean(axis=0), 0.25, rtol=1e-6)


def test_new_rows_are_classified_as_the_queries_were():
    (support, labels, query, *_), _, _ = task(3, 12, 2, scale=2.0)
    X = np.concatenate([support, query])
    y = np.concatenate([labels, np.full(len(query), -1)])
    for balanced in (False, True):
        clf = LaplacianShot(balanced=balanced, transform="none").fit(X, y)
        assert np.mean(clf.predict(query) == clf.transduction_[y < 0]) > 0.97


def test_the_rounds_of_the_recipe_include_the_trials_and_those_of_a_user_do_not():
    constants = DefaultConstants.for_task(5, 75, 5)
    stages = Stages.of(constants, 75, 5)
    assert 2 * stages.free.max_rounds + stages.last_free.max_rounds == constants.max_rounds
    short = constants.with_choices(max_rounds=3)
    assert Stages.of(short, 75, 5).last_free.max_rounds == 3
    known = Stages.of(DefaultConstants.for_task(5, 75, 5, balanced=True), 75, 5)
    assert known.last_equal.max_rounds == constants.max_rounds


def test_few_shot_tasks_are_small_and_have_few_queries_per_class():
    assert is_episode(5, 75, 5)
    assert not is_episode(5, 100, 5)  # enough to learn from
    assert not is_episode(1000, 300, 100)  # too large
    assert not is_episode(5, 0, 5)
    assert not is_episode(5, 10, 1)
    assert not is_episode(5, 75, 5, table=True)
