"""What the labels say besides their prototypes: closed forms, what each question answers, and F with clues."""

import math

import numpy as np
import pytest
from scipy.special import softmax
from sklearn.linear_model import LogisticRegression

from laplacianshot import LaplacianShot
from laplacianshot.engine import small
from laplacianshot.inference import joint
from laplacianshot.inference.affinity import knn_affinity, normalize
from laplacianshot.inference.clues import (
    SAMPLE_ROWS,
    Answers,
    absent_classes,
    confident_scale,
    gather_clues,
    linear_classifier,
    nearest_prototype,
    nearness,
    sample_rows,
    separation,
    shares_of,
    unasked_shares,
)
from laplacianshot.inference.joint import Clues, joint_optimize
from laplacianshot.inference.recipes import RICH_QUERIES, DefaultConstants, is_rich
from laplacianshot.neighbors.knn import knn


def blobs(n_classes=12, per_class=30, shots=1, width=20, spread=0.6, seed=0, present=None):
    """Support, labels, queries and their classes."""
    rng = np.random.default_rng(seed)
    means = rng.standard_normal((n_classes, width))
    labels = np.repeat(np.arange(n_classes), shots)
    truth = np.repeat(np.arange(n_classes)[:present], per_class)
    support, query = (means[c] + spread * rng.standard_normal((len(c), width)) for c in (labels, truth))
    return support, labels, query, truth


# --- absent classes ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("shots", [1, 5])
@pytest.mark.parametrize("seed", range(5))
def test_hardly_any_class_is_found_absent_where_all_are_present(shots, seed):
    support, labels, query, _ = blobs(shots=shots, seed=seed)
    f, log_presence = absent_classes(support, labels, query, 12)
    assert f < 0.05
    # What is added to the logits.
    np.testing.assert_allclose(0.7 * f * log_presence, 0, atol=0.01)


def test_with_few_queries_per_class_all_present_classes_rank_evenly():
    # By the nearest query alone, labels would be nearer to queries than these to one another.
    found = [absent_classes(*blobs(per_class=3, shots=5, seed=seed)[:3], 12)[0] for seed in range(20)]
    assert np.mean(found) < 0.05
    half = [absent_classes(*blobs(per_class=3, shots=5, seed=seed, present=6)[:3], 12)[0] for seed in range(20)]
    assert np.mean(half) == pytest.approx(0.5, abs=0.2)


@pytest.mark.parametrize("present", [1, 3, 6])
def test_absent_classes_are_counted_and_named(present):
    support, labels, query, _ = blobs(shots=2, present=present, per_class=60)
    f, log_presence = absent_classes(support, labels, query, 12)
    assert f == pytest.approx(1 - present / 12, abs=0.25)
    assert log_presence[:present].min() > log_presence[present:].max()
    assert np.all(log_presence <= 0)


def test_the_share_of_absent_classes_by_hand():
    # Nine queries a unit apart; a label at distance 2 from them is farther than all, one at distance 0 nearer.
    query = np.arange(9.0)[:, None]
    support = np.array([[-2.0]] * 6 + [[0.0]] * 6)
    labels = np.repeat(np.arange(4), 3)
    f, log_presence = absent_classes(support, labels, query, 4)
    assert f == 0  # mean rank 1/2
    support[6:] = -3.0
    f, log_presence = absent_classes(support, labels, query, 4)
    z = (1 - 1 / 2) * math.sqrt(12 * 12)
    assert f == pytest.approx(1 - (2 / z) ** 2)
    odds = math.log((1 - f) / f) - 3 * math.log(8) / math.sqrt(3)
    np.testing.assert_allclose(log_presence, -math.log1p(math.exp(-odds)))
    # Of a few classes, one that is rare would seem to be absent.
    assert absent_classes(support, labels % 3, query, 3)[0] == 0


def test_few_labels_or_one_query_say_nothing_of_absent_classes():
    support, labels, query, _ = blobs(n_classes=7, present=1)
    assert absent_classes(support, labels, query, 7)[0] == 0
    support, labels, query, _ = blobs(present=1)
    assert absent_classes(support, labels, query[:1], 12)[0] == 0


# --- the linear classifier --------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("n_classes", "width"), [(2, 4), (2, 40), (4, 5), (4, 60)])
def test_the_classifier_is_logistic_regression_also_with_more_columns_than_rows(n_classes, width):
    support, labels, query, _ = blobs(n_classes, 20, 5, width)
    slopes, bias = linear_classifier(support, labels, n_classes)
    assert slopes.shape == (n_classes, width)
    model = LogisticRegression(C=10, max_iter=5000, tol=1e-8).fit(support, labels)
    shares = softmax(query @ slopes.T + bias, axis=1)
    np.testing.assert_allclose(shares, model.predict_proba(query), atol=0.02)


def test_the_scale_gives_the_confidence_that_the_recipe_wants():
    logits = np.random.default_rng(0).standard_normal((200, 5))
    s = confident_scale(logits)
    assert softmax(s * logits, axis=1).max(axis=1).mean() == pytest.approx(0.2 + 0.6 * 0.8, abs=1e-4)
    assert confident_scale(np.zeros((9, 3))) == 1


def found(*hits, held=30):
    """Candidates that each find so many labels, the same ones first."""
    return np.arange(held) < np.array(hits)[:, None]


NO_LEADS = np.zeros(5)


def test_what_each_counts_for_follows_the_hits():
    assert shares_of(found(10, 10, 10, 10, 10), NO_LEADS) == pytest.approx([0.2] * 5)
    for best in range(5):
        shares = shares_of(found(*np.where(np.arange(5) == best, 40, 10), held=40), NO_LEADS)
        assert shares[best] > 0.99
    # The second finds four labels less; chance gives such a difference sqrt(4).
    one, two, *_ = shares_of(found(20, 16, 0, 0, 0), NO_LEADS)
    assert two / one == pytest.approx(math.exp(-1.5 * 4 / math.sqrt(4 + 4)))
    for hits in ((3, 900, 0, 5, 0), (0, 2000, 1999, 0, 7), (0, 0, 4000, 3999, 0), (0, 0, 0, 0, 4000)):
        assert sum(shares_of(found(*hits, held=4000), NO_LEADS)) == pytest.approx(1)


def test_the_same_lead_means_less_where_candidates_find_other_labels():
    alike = np.zeros((5, 60), bool)
    alike[0, :32] = alike[1, :30] = True
    apart = np.zeros((5, 60), bool)
    apart[0, :32] = apart[1, 30:] = True
    assert shares_of(alike, NO_LEADS)[1] < shares_of(apart, NO_LEADS)[1] < shares_of(apart, NO_LEADS)[0]


def test_a_lead_that_was_given_is_worth_as_much_as_hits_and_may_be_lost():
    lead = np.array([0, 0, 2.0, 0, 0])
    one, _, graph, *_ = shares_of(found(10, 0, 8, 0, 0), lead)
    assert graph == pytest.approx(one)
    assert shares_of(found(25, 9, 4, 7, 7), lead)[2] == 0
    # Labels of absent classes would take other rows along: the graph is no candidate then.
    assert shares_of(found(10, 9, 30, 7, 7), np.array([0, 0, -math.inf, 0, 0]))[2] == 0


def test_the_graph_counts_as_far_as_those_who_use_it_are_ahead_of_those_who_do_not():
    assert Answers().graph_trust == 1
    assert Answers(held_back=9, shares=(0.2, 0.2, 0.2, 0.2, 0.2)).graph_trust == pytest.approx(0.5)
    assert Answers(held_back=9, shares=(0.3, 0.5, 0.1, 0.1, 0.0)).graph_trust == pytest.approx(8 / 9)
    assert Answers(held_back=9, shares=(0.0, 0.0, 1.0, 0.0, 0.0)).graph_trust == 1
    constants = DefaultConstants.for_task(10, 4000, 4)
    less = constants.with_graph_trust(0.1)
    assert less.lam == pytest.approx(0.1 * constants.lam)
    assert less.start_lam == min(constants.start_lam, less.lam)


def test_with_no_label_to_hold_back_the_lead_and_how_far_labels_lie_apart_decide():
    lost = math.exp(-1.5)
    assert unasked_shares() == pytest.approx((0.8, 0.2, 0, 0, 0))
    assert unasked_shares(3.0) == pytest.approx((0.8 * lost, 0.2 * lost, 1 - lost, 0, 0))
    assert unasked_shares(-math.inf) == unasked_shares(0.0)
    linear = [unasked_shares(0.0, apart)[1] for apart in (-1.0, 0.0, 0.75, 1.5, 9.0)]
    assert linear == pytest.approx([0.5, 0.5, 0.35, 0.2, 0.2])


def test_neighbors_are_near_on_a_plane_and_far_in_many_dimensions():
    rng = np.random.default_rng(0)
    for width, expected in ((2, 1.0), (5, 1.0), (512, 0.0)):
        rows = rng.standard_normal((600, width))
        assert nearness(knn(rows, 10, method="exact").distances, rows) == expected
    equal = np.ones((20, 3))
    assert nearness(np.zeros((20, 10)), equal) == 0


def test_labels_of_separate_classes_lie_apart_and_those_of_one_cloud_do_not():
    support, labels, query, _ = blobs(30, 30)
    assert separation(support, labels, query) > 5
    rng = np.random.default_rng(0)
    drawn = [separation(rng.random((40, 3)), np.arange(40), rng.random((900, 3))) for _ in range(30)]
    # Two labels that are near one another are so both, hence a little more than one standard deviation.
    assert abs(np.mean(drawn)) < 0.5
    assert 0.7 < np.std(drawn) < 1.6


def test_the_rule_of_the_nearest_prototype_is_linear():
    support, labels, query, _ = blobs(5, 20, shots=3)
    slopes, intercepts = nearest_prototype(support, labels, 5)
    means = np.stack([support[labels == c].mean(axis=0) for c in range(5)])
    nearest = np.square(query[:, None] - means).sum(axis=2).argmin(axis=1)
    np.testing.assert_array_equal((query @ slopes.T + intercepts).argmax(axis=1), nearest)


# --- all three --------------------------------------------------------------------------------------------------------


def gathered(support, labels, query, n_classes):
    constants = DefaultConstants.for_task(len(support), len(query), n_classes)
    return gather_clues(
        support, labels, query[sample_rows(len(query))], support.mean(axis=0), len(query), n_classes, constants
    )


def test_small_tasks_are_asked_for_absent_classes_only():
    support, labels, query, _ = blobs(per_class=RICH_QUERIES - 1, shots=3)
    _, clues, answers = gathered(support, labels, query, 12)
    assert clues == Clues()
    assert not answers.spread


def test_where_classes_are_no_blobs_around_a_mean_the_classifier_counts_more():
    # Classes along two parallel lines: means say little of the direction that separates them.
    rng = np.random.default_rng(0)
    truth = rng.integers(0, 2, 600)
    X = np.column_stack([20 * rng.standard_normal(600), 2 * truth + 0.1 * rng.standard_normal(600)])
    given = np.concatenate([np.flatnonzero(truth == c)[:8] for c in (0, 1)])
    query = np.delete(X, given, axis=0)
    _, _, answers = gathered(X[given], truth[given], query, 2)
    assert answers.hits[1] > answers.hits[0]
    assert answers.shares[1] > answers.shares[0]
    assert answers.held_back == 16


def test_only_one_label_a_class_leaves_nothing_to_hold_back():
    support, labels, query, _ = blobs(per_class=40, shots=1)
    _, _, answers = gathered(support, labels, query, 12)
    assert (answers.spread, answers.held_back, answers.hits) == (True, 0, (0, 0, 0, 0, 0))
    assert answers.shares[1] == pytest.approx(0.25 * answers.shares[0])
    assert answers.accuracy is None


def test_the_sample_is_bounded_and_of_all_classes_in_a_regular_order():
    rows = sample_rows(10 * SAMPLE_ROWS)
    assert len(rows) == len(set(rows)) == SAMPLE_ROWS
    assert len(set(rows % 100)) == 100
    np.testing.assert_array_equal(rows, sample_rows(10 * SAMPLE_ROWS))
    np.testing.assert_array_equal(sample_rows(50), np.arange(50))


@pytest.mark.parametrize("shift", [0.0, 300.0])
def test_clues_do_not_depend_on_where_the_rows_lie(shift):
    support, labels, query, _ = blobs(4, 60, 4)
    here = gathered(support, labels, query, 4)
    there = gathered(support + shift, labels, query + shift, 4)
    assert here[2] == there[2]
    costs = []
    for found, offset in ((here, 0.0), (there, shift)):
        directions, offsets = found[1].costs(support[:4] + offset, 2.0)
        costs.append(offsets - (query + offset) @ directions.T)
    gaps = [c - c[:, :1] for c in costs]
    np.testing.assert_allclose(gaps[1], gaps[0], atol=1e-6 * max(1, shift**2))


# --- F with clues --------------------------------------------------------------------------------------------------


def task_of(seed, dtype=np.float64, n_classes=4):
    rng = np.random.default_rng(seed)
    support, labels, query, _ = blobs(n_classes, int(rng.integers(4, 30)), int(rng.integers(1, 4)), 6, 1.5, seed)
    query = query[rng.random(len(query)) < 0.8]
    nodes = np.concatenate([support, query]).astype(dtype)
    W = normalize(knn_affinity(nodes, 3)).astype(dtype)
    clues = Clues(
        weight=float(rng.random() * 0.75),
        slopes=rng.standard_normal((n_classes, 6)),
        bias=rng.standard_normal(n_classes),
        start=rng.standard_normal((n_classes, 6)),
        along=float(rng.random() * 0.5),
    )
    reached = rng.dirichlet(np.full(n_classes, 0.3), len(query)).astype(dtype) if seed % 2 else None
    constants = DefaultConstants.for_task(len(support), len(query), n_classes)
    constants = constants._replace(eta=float(6 * rng.random()), small=float(rng.random()), lam=float(rng.random() * 8))
    constants = constants.with_choices()
    n = len(support)
    return (nodes[:n], labels, nodes[n:], W, nodes[:n].mean(axis=0), n_classes, constants), clues, reached


@pytest.mark.parametrize("seed", range(40))
def test_f_never_rises_with_clues_and_with_shares_that_are_pushed_apart(seed):
    task, clues, reached = task_of(seed)
    objective = joint_optimize(*task, clues=clues, reached=reached, tol=0).objective
    assert np.max(np.diff(objective)) <= 1e-12 * np.abs(objective).max()


@pytest.mark.parametrize("seed", range(10))
def test_the_reported_f_is_the_formula(seed):
    task, clues, reached = task_of(seed)
    support, labels, query, W, origin, n_classes, constants = task
    found = joint_optimize(*task, clues=clues, reached=reached)
    Y, M, tau = found.assignments, found.prototypes, (1 - clues.weight) * found.tau
    Y_s, n = np.eye(n_classes)[labels], len(support)
    p = Y.mean(axis=0)
    kl = float(np.sum(p * np.log(p * n_classes)))
    grid = np.linspace(0, kl, 20001)
    pull = constants.gamma * np.exp(-grid / constants.delta)
    s = constants.small
    price = np.sum((p + s) * np.log(p + s) - p * np.log(p) - s * np.log(s))
    distances = np.square(query[:, None] - M[None]).sum(axis=2)
    own = np.square(support - M[labels]).sum()
    F = np.sum(Y * np.log(Y))
    F += tau * (np.sum(Y * distances) + constants.beta * own + constants.kappa * np.square(M - origin).sum())
    F -= np.sum(Y * (query @ clues.slopes.T + clues.bias))
    if reached is not None:
        F -= clues.along * np.sum(Y * np.log(np.maximum(reached, 1e-6)))
    F -= constants.lam * (constants.e * np.sum(Y * (W[n:, :n] @ Y_s)) + np.sum(Y * (W[n:, n:] @ Y)) / 2)
    F += len(query) * (np.trapezoid(pull, grid) + constants.eta * price)
    assert found.objective[-1] == pytest.approx(F, rel=1e-5)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("seed", range(6))
def test_the_engine_solves_the_same(seed, dtype):
    task, clues, reached = task_of(seed, dtype)
    plain, fast = (solve(*task, clues=clues, reached=reached) for solve in (joint_optimize, small.joint_optimize))
    rtol = 1e-9 if dtype == np.float64 else 1e-3
    n = min(len(plain.objective), len(fast.objective))
    np.testing.assert_allclose(fast.objective[:n], plain.objective[:n], rtol=rtol)
    if dtype == np.float64:
        np.testing.assert_allclose(fast.assignments, plain.assignments, atol=1e-6)


def test_prototypes_that_stand_for_the_clues_have_their_costs():
    task, clues, _ = task_of(0)
    query, M = task[2], np.random.default_rng(0).standard_normal((4, 6))
    directions, offsets = clues.costs(M, 1.7)
    moved, bias = clues.as_prototypes(M, 1.7)
    tau = (1 - clues.weight) * 1.7
    cost = tau * np.square(query).sum(axis=1)[:, None] + offsets - query @ directions.T
    np.testing.assert_allclose(tau * np.square(query[:, None] - moved[None]).sum(axis=2) - bias, cost, atol=1e-9)


def test_without_clues_the_costs_are_the_distances():
    M = np.random.default_rng(0).standard_normal((3, 5))
    directions, offsets = joint.NO_CLUES.costs(M, 2.0)
    np.testing.assert_allclose(directions, 4 * M)
    np.testing.assert_allclose(offsets, 2 * np.square(M).sum(axis=1))


# --- as a user meets it -----------------------------------------------------------------------------------------------


def test_the_report_says_what_was_chosen_and_why():
    support, labels, query, truth = blobs(4, 60, 5, width=60)
    X, y = np.concatenate([support, query]), np.concatenate([labels, np.full(len(query), -1)])
    model = LaplacianShot().fit(X, y)
    assert model.transform_ == "cl2"
    assert "20 labels were held back" in model.report_
    assert "Estimated accuracy" in model.report_
    assert np.mean(model.transduction_[20:] == truth) > 0.95
    # The rule for new rows follows the same choice.
    assert np.mean(model.predict(X[20:]) == model.transduction_[20:]) > 0.97


def test_absent_classes_no_longer_spoil_the_rest():
    support, labels, query, truth = blobs(20, 40, 1, width=60, spread=1.0, present=2)
    X, y = np.concatenate([support, query]), np.concatenate([labels, np.full(len(query), -1)])
    model = LaplacianShot(base_mean="support", transform="cl2").fit(X, y)
    assert model.solution_.constants.eta > 0
    assert "seem to be absent" in model.report_
    assert np.diff(model.objective_).max(initial=-1.0) <= 1e-5 * abs(model.objective_[-1])
    assert np.mean(model.transduction_[20:] == truth) > 0.9


def test_rings_are_told_apart_along_the_graph():
    rng = np.random.default_rng(0)
    angle, truth = rng.uniform(0, 2 * np.pi, 600), np.arange(600) % 2
    X = (1 + truth)[:, None] * np.column_stack([np.cos(angle), np.sin(angle)]) + 0.05 * rng.standard_normal((600, 2))
    y = np.where(np.arange(600) < 20, truth, -1)
    model = LaplacianShot().fit(X, y)
    assert model.solution_.answers.shares[2] > 0.5
    assert model.solution_.clues.along > 0.1
    assert np.mean(model.transduction_ == truth) > 0.99


def test_where_classes_lie_far_apart_one_label_is_enough_for_the_graph_to_count():
    rng = np.random.default_rng(0)
    angle, truth = rng.uniform(0, np.pi, 400), np.arange(400) % 2
    bow = np.column_stack([np.cos(angle), np.sin(angle)])
    X = np.where(truth[:, None] == 0, bow, [1.0, 0.4] - bow) + 0.05 * rng.standard_normal((400, 2))
    y = np.full(400, -1)
    y[[np.flatnonzero(truth == c)[0] for c in (0, 1)]] = [0, 1]
    model = LaplacianShot().fit(X, y)
    assert model.solution_.answers.shares[2] > 0.8
    assert "dense groups" in model.report_
    assert np.mean(model.transduction_ == truth) > 0.9


def test_enough_queries_depend_on_the_kind_of_task():
    assert [is_rich(n, 5) for n in (75, 99, 100)] == [False, False, True]
    assert [is_rich(n, 100) for n in (499, 500, 1500)] == [False, True, True]
    assert [is_rich(n, 5, table=True) for n in (24, 25)] == [False, True]
