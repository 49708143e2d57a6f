"""Names of classes, scores of another model and known class shares: closed forms first, then properties."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.special import log_softmax, softmax

from laplacianshot import LaplacianShot
from laplacianshot.engine import small as small_rounds
from laplacianshot.estimator import fit_large
from laplacianshot.inference import joint
from laplacianshot.inference.affinity import knn_affinity, normalize
from laplacianshot.inference.joint import Balance, Clues, Prior, balance_cost, m_step
from laplacianshot.inference.priors import Knowledge, believed, learned_shares, read_hints, trust_beside, trust_of
from laplacianshot.inference.recipes import DefaultConstants
from laplacianshot.inference.temperature import divergence
from laplacianshot.inference.transforms import transform_features
from laplacianshot.runtime.limits import SMALL_ROWS

NONE = np.zeros(0, np.int64)


@pytest.fixture(params=[joint, small_rounds], ids=["formulas", "engine"])
def joint_optimize(request):
    return request.param.joint_optimize


def named_rows(seed=0, n_classes=4, rows=40, dim=48, spread=0.9, present=None):
    """Rows around directions, the directions seen through noise and a gap as names, and the classes of the rows."""
    rng = np.random.default_rng(seed)
    centers = rng.standard_normal((n_classes, dim))
    classes = np.arange(n_classes) if present is None else present
    truth = rng.permutation(np.repeat(classes, rows))
    X = 2 + centers[truth] + spread * rng.standard_normal((len(truth), dim))
    names = centers + 0.5 * rng.standard_normal(centers.shape) - 1
    return X.astype(np.float32), truth, names


def unlabeled(X):
    return np.full(len(X), -1)


def make_task(seed, eta=0.0, delta=None, n_classes=4, n_query=50, dim=5):
    """All terms of F at once: slopes, bias, anchors, shares and what is known of rows; class 3 has no label."""
    rng = np.random.default_rng(seed)
    centers = rng.standard_normal((n_classes, dim))
    labels = np.array([0, 0, 1, 2])
    rows = np.concatenate([centers[labels], centers[rng.integers(0, n_classes, n_query)]])
    rows += 0.5 * rng.standard_normal(rows.shape)
    nodes = transform_features(rows, "cl2", rows.mean(axis=0))
    constants = DefaultConstants.for_task(len(labels), n_query, n_classes)._replace(eta=eta, small=0.3)
    constants = constants if delta is None else constants._replace(delta=delta)
    clues = Clues(
        weight=0.3,
        slopes=rng.standard_normal((n_classes, dim)),
        bias=rng.standard_normal(n_classes),
        anchors=rng.standard_normal((n_classes, dim)),
        pull=rng.uniform(1, 9, n_classes),
        shares=rng.dirichlet(np.full(n_classes, 2.0)) * 0.9 + 0.1 / n_classes,
    )
    known = np.log(rng.dirichlet(np.ones(n_classes), n_query))
    W = normalize(knn_affinity(nodes, constants.n_neighbors))
    origin = 0.1 * rng.standard_normal(dim)
    return (nodes[:4], labels, nodes[4:], W, origin, n_classes, constants), clues, known


def F(Y, M, tau, task, clues, known):
    """The objective of inference/joint.py, term by term."""
    support, labels, query, W, origin, n_classes, c = task
    W = W.toarray()
    n_s, N = len(support), len(query)
    value = np.sum(Y * np.log(np.maximum(Y, 1e-300)))
    quadratic = np.sum(Y * ((query[:, None] - M[None]) ** 2).sum(axis=2))
    quadratic += c.beta * np.sum((support - M[labels]) ** 2) + c.kappa * np.sum((M - origin) ** 2)
    quadratic += clues.pull @ np.sum((M - clues.anchors) ** 2, axis=1)
    value += (1 - clues.weight) * tau * quadratic
    value -= np.sum(Y * (query @ clues.slopes.T + clues.bias + known))
    value -= c.lam * c.e * np.sum(Y * (W[n_s:, :n_s] @ np.eye(n_classes)[labels]))
    value -= c.lam / 2 * np.sum(Y * (W[n_s:, n_s:] @ Y))
    return value + N * balance_cost(Y.mean(axis=0), c, clues.shares)


@pytest.mark.parametrize("eta", [0.0, 2.0])
def test_the_objective_is_the_sum_of_its_terms(joint_optimize, eta):
    task, clues, known = make_task(0, eta)
    solution = joint_optimize(*task, clues=clues, known=known)
    value = F(solution.assignments, solution.prototypes, solution.tau, task, clues, known)
    assert solution.objective[-1] == pytest.approx(value, rel=1e-9)


@settings(max_examples=60, deadline=None)
@given(st.integers(0, 10**6), st.sampled_from([0.0, 0.5, 2.0, 8.0]), st.sampled_from([0.02, 0.1, np.inf]))
def test_the_objective_never_rises_with_all_terms(seed, eta, delta):
    task, clues, known = make_task(seed, 0.0 if np.isinf(delta) else eta, delta)
    for optimize in (joint.joint_optimize, small_rounds.joint_optimize):
        values = optimize(*task, clues=clues, known=known, tol=0).objective
        assert np.all(np.diff(values) <= 1e-12 * np.abs(values[:-1]))


@pytest.mark.parametrize("seed", range(4))
def test_the_engine_takes_the_same_steps_as_the_formulas(seed):
    task, clues, known = make_task(seed, eta=1.5)
    plain = joint.joint_optimize(*task, clues=clues, known=known)
    fast = small_rounds.joint_optimize(*task, clues=clues, known=known)
    np.testing.assert_allclose(fast.assignments, plain.assignments, atol=1e-9)
    np.testing.assert_allclose(fast.prototypes, plain.prototypes, atol=1e-9)
    np.testing.assert_allclose(fast.objective, plain.objective, rtol=1e-9)


def test_what_is_known_of_rows_decides_if_it_weighs_enough(joint_optimize):
    task, _, known = make_task(1)
    found = joint_optimize(*task, clues=Clues(anchors=np.zeros((4, 5)), pull=np.ones(4)), known=1e4 * known)
    np.testing.assert_array_equal(found.assignments.argmax(axis=1), known.argmax(axis=1))


def test_a_prototype_whose_anchor_weighs_enough_stays_there(joint_optimize):
    task, clues, _ = make_task(2)
    held = Clues(anchors=clues.anchors, pull=np.full(4, 1e9))
    np.testing.assert_allclose(joint_optimize(*task, clues=held).prototypes, clues.anchors, atol=1e-6)


def test_the_m_step_minimizes_the_prior_cost_with_anchors():
    (support, labels, query, _, origin, n_classes, c), clues, _ = make_task(3)
    prior = Prior.of_support(support, labels, origin, n_classes, c, clues)
    Y = np.random.default_rng(0).dirichlet(np.ones(n_classes), len(query))
    M = m_step(prior, Y.T @ query, Y.sum(axis=0))
    gradient = Y.sum(axis=0)[:, None] * M - Y.T @ query + c.kappa * (M - origin)
    gradient += clues.pull[:, None] * (M - clues.anchors)
    np.add.at(gradient, labels, c.beta * (M[labels] - support))
    np.testing.assert_allclose(gradient, 0, atol=1e-10)
    direct = c.beta * np.sum((support - M[labels]) ** 2) + c.kappa * np.sum((M - origin) ** 2)
    direct += clues.pull @ np.sum((M - clues.anchors) ** 2, axis=1)
    assert prior.cost(M) == pytest.approx(direct)


def test_known_shares_are_where_the_balance_is_least():
    constants = DefaultConstants.for_task(4, 40, 4)._replace(delta=0.1)
    u = np.array([0.1, 0.2, 0.3, 0.4])
    assert divergence(u, u) == 0
    assert balance_cost(u, constants, u) == 0
    assert Balance.at(u, constants, u).g == constants.gamma
    np.testing.assert_allclose(Balance.at(u, constants, u).slopes, 0, atol=1e-15)
    assert balance_cost(np.full(4, 0.25), constants, u) > 0
    assert divergence(u, np.full(4, 0.25)) == pytest.approx(divergence(u))


def test_shares_of_certain_rows_are_their_frequencies():
    logs = np.log(np.eye(3)[[0, 0, 0, 1]] + 1e-12)
    np.testing.assert_allclose(learned_shares(logs), [0.75, 0.25, 0], atol=1e-9)


def test_shares_of_rows_that_say_nothing_stay_equal():
    np.testing.assert_allclose(learned_shares(np.full((9, 4), np.log(0.25))), 0.25)


def test_a_class_that_only_ever_comes_second_has_no_share():
    logs = log_softmax(np.tile([2.0, 1.0, 0.0], (50, 1)), axis=1)
    assert learned_shares(logs)[0] > 0.99


def test_logits_are_taken_at_their_word_while_there_is_no_label():
    assert trust_of(np.zeros((0, 3)), NONE, np.random.default_rng(0).standard_normal((9, 3))) == 1.0


def test_trust_is_high_for_labels_that_are_found_and_zero_for_labels_that_are_not():
    logits = np.repeat(3 * np.eye(4), 5, axis=0)
    right = np.repeat(np.arange(4), 5)
    assert trust_of(logits, right, logits) > 0.95
    assert trust_of(logits, (right + 1) % 4, logits) < 0.05


def test_trust_of_chance_falls_as_labels_come():
    rng = np.random.default_rng(0)
    logits, labels = 2 * rng.standard_normal((400, 5)), rng.integers(0, 5, 400)
    few, many = (trust_of(logits[:n], labels[:n], logits) for n in (5, 400))
    assert many < 0.05
    assert many <= few <= 1


def test_only_the_name_that_nobody_answers_to_is_doubted():
    logits = 3 * np.eye(3)[[0, 0, 0, 1, 1, 1, 0, 0, 0]]
    labels = np.repeat([0, 1, 2], 3)
    np.testing.assert_array_equal(believed(logits, labels, np.ones(3)) > 0.5, [True, True, False])
    np.testing.assert_array_equal(believed(np.zeros((0, 3)), NONE, np.ones(3)), 1)


def test_names_are_linear_in_rows_of_length_one():
    X, _, names = named_rows()
    unit = names / np.linalg.norm(names, axis=1, keepdims=True)
    rows = np.arange(len(X))
    hints = read_hints(Knowledge(names=unit), X, rows, X[:0], NONE, NONE, 4)
    sample = transform_features(X, "l2")
    constants = DefaultConstants.for_task(0, len(X), 4)
    _, clues, hints = hints.clues(sample, len(X), "l2", None, constants)
    linear = sample @ clues.slopes.T + clues.bias - 0.5 * hints.log_shares
    cosines = sample.astype(np.float64) @ unit.T
    np.testing.assert_allclose(
        log_softmax(linear, axis=1), log_softmax(hints.omega * hints.scale * cosines, axis=1), atol=1e-4
    )


def test_the_scale_of_names_makes_them_as_confident_as_the_recipe_wants():
    X, _, names = named_rows()
    unit = names / np.linalg.norm(names, axis=1, keepdims=True)
    hints = read_hints(Knowledge(names=unit), X, np.arange(len(X)), X[:0], NONE, NONE, 4)
    rows = X / np.linalg.norm(X, axis=1, keepdims=True)
    confidence = softmax(hints.scale * rows @ unit.T, axis=1).max(axis=1).mean()
    assert confidence == pytest.approx(0.25 + 0.6 * 0.75, abs=1e-3)


@pytest.mark.parametrize("rows", [40, 1 + SMALL_ROWS // 4], ids=["formulas", "engine"])
def test_rows_are_labeled_from_names_alone(rows):
    X, truth, names = named_rows(rows=rows)
    nearest = (X @ names.T / np.linalg.norm(names, axis=1)).argmax(axis=1)
    clf = LaplacianShot().fit(X, unlabeled(X), names=names)
    assert np.mean(clf.transduction_ == truth) >= max(0.95, np.mean(nearest == truth))
    assert np.mean(clf.predict(X) == truth) > 0.95
    assert clf.classes_.tolist() == [0, 1, 2, 3]
    assert clf.transform_ == "cl2"
    assert "Names of 4 classes: counted in full" in clf.report_


@pytest.mark.parametrize("present", [[2], [0, 3]])
def test_rows_of_few_classes_are_not_spread_over_all_names(present):
    X, truth, names = named_rows(n_classes=8, present=present, rows=60)
    clf = LaplacianShot().fit(X, unlabeled(X), names=names)
    assert np.mean(clf.transduction_ == truth) > 0.95
    assert "of the classes are present" in clf.report_


def test_labels_take_over_from_names_of_other_classes():
    X, truth, names = named_rows(rows=60)
    y = unlabeled(X)
    some = np.concatenate([np.flatnonzero(truth == c)[:5] for c in range(4)])
    y[some] = truth[some]
    alone = LaplacianShot().fit(X, y)
    misled = LaplacianShot().fit(X, y, names=names[[1, 2, 3, 0]])
    # Left out, the task is solved as if there were none.
    np.testing.assert_array_equal(misled.label_distributions_, alone.label_distributions_)
    assert misled.solution_.answers.hints is None
    assert "Names: left out" in misled.report_


def test_names_are_trusted_for_what_they_add_to_labels():
    rng = np.random.default_rng(0)
    labels = np.repeat(np.arange(5), 4)
    centers = rng.standard_normal((5, 30))
    clear, hidden = centers[labels] + 0.1 * rng.standard_normal((20, 30)), rng.standard_normal((20, 30))
    said = 2.0 * np.eye(5)[labels] + 0.3 * rng.standard_normal((20, 5))
    # Rows that tell nothing leave it to the names; rows that tell everything do not need them.
    assert trust_beside(1.0, said, labels, hidden, 5) > 0.9
    assert trust_beside(1.0, said, labels, clear, 5) < trust_beside(1.0, said, labels, hidden, 5)
    assert trust_beside(1.0, said[:, [1, 2, 3, 4, 0]], labels, clear, 5) < 0.05
    # One label per class cannot be held back.
    assert trust_beside(0.7, said[::4], labels[::4], hidden[::4], 5) == 0.7


def test_a_prior_that_neighbors_contradict_is_kept():
    rng = np.random.default_rng(0)
    truth = rng.integers(0, 10, 600)
    X = rng.standard_normal((600, 20))  # tell nothing
    prior = np.eye(10)[np.where(rng.random(600) < 0.2, rng.integers(0, 10, 600), truth)]
    prior[rng.random(600) < 0.5] = np.nan
    known = np.isfinite(prior[:, 0])
    clf = LaplacianShot().fit(X, np.full(600, -1), prior=prior)
    assert np.mean(clf.transduction_[known] == prior[known].argmax(axis=1)) > 0.98
    assert clf.solution_.answers.hints.faint > 0.5
    assert np.all(np.diff(clf.objective_) <= 1e-9 * np.abs(clf.objective_[:-1]))


def test_classes_may_have_a_name_or_labels():
    X, truth, names = named_rows(rows=60)
    words = np.array(["ant", "bee", "cat", "dog"])
    y = np.full(len(X), "", dtype=object)
    y[np.flatnonzero(truth == 3)[:3]] = "dog"
    clf = LaplacianShot().fit(X, y, names=names[[2, 0, 1]], classes=["cat", "ant", "bee"])
    assert clf.classes_.tolist() == words.tolist()
    assert np.mean(clf.transduction_ == words[truth]) > 0.9


def test_the_order_of_names_does_not_matter():
    X, _, names = named_rows(spread=2.0)
    clf = LaplacianShot().fit(X, unlabeled(X), names=names)
    other = LaplacianShot().fit(X, unlabeled(X), names=3 * names[::-1], classes=[3, 2, 1, 0])
    np.testing.assert_allclose(other.label_distributions_, clf.label_distributions_, atol=1e-4)


def test_a_prior_without_any_probability_changes_nothing(clusters):
    X, _, y = clusters(4, 25, 3, spread=0.6)
    alone = LaplacianShot().fit(X, y)
    clf = LaplacianShot().fit(X, y, prior=np.full((len(X), 4), np.nan))
    np.testing.assert_allclose(clf.label_distributions_, alone.label_distributions_, atol=1e-6)


def test_the_graph_mends_a_prior_that_is_often_wrong(clusters):
    X, truth, _ = clusters(4, 60, 1, spread=0.5)
    rng = np.random.default_rng(0)
    said = np.where(rng.random(len(X)) < 0.3, rng.integers(0, 4, len(X)), truth)
    clf = LaplacianShot().fit(X, unlabeled(X), prior=np.eye(4)[said])
    assert np.mean(clf.transduction_ == truth) > 0.95 > np.mean(said == truth)


def test_a_prior_may_be_missing_in_most_rows(clusters):
    X, truth, _ = clusters(4, 60, 1, spread=0.5)
    P = np.full((len(X), 4), np.nan)
    P[::4] = 0.9 * np.eye(4)[truth[::4]] + 0.025
    assert np.mean(LaplacianShot().fit(X, unlabeled(X), prior=P).transduction_ == truth) > 0.95


def test_large_sets_are_labeled_from_names_and_a_prior_as_small_ones_are():
    X, truth, names = named_rows(rows=700)
    P = np.full((len(X), 4), np.nan)
    P[::3] = 0.9 * np.eye(4)[truth[::3]] + 0.025
    small, large = (
        LaplacianShot(graph=graph).fit(X, unlabeled(X), names=names, prior=P) for graph in ("exact", "cells")
    )
    assert np.mean(small.transduction_ == large.transduction_) > 0.99
    assert np.mean(large.predict(X[:200]) == truth[:200]) > 0.95


def test_only_a_fit_with_the_same_names_goes_on_from_a_checkpoint(tmp_path):
    X, truth, names = named_rows(rows=300)
    first, again, other = (
        fit_large(LaplacianShot(graph="cells"), X, unlabeled(X), names=given, checkpoint=tmp_path)
        for given in (names, names, names[::-1])
    )
    np.testing.assert_array_equal(again.transduction_, first.transduction_)
    assert np.mean(other.transduction_ == 3 - truth) > 0.95


def test_equal_shares_are_the_same_as_balanced(clusters):
    X, _, y = clusters(4, 25, 2, spread=0.8)
    balanced = LaplacianShot(balanced=True).fit(X, y)
    equal = LaplacianShot(class_shares="equal").fit(X, y)
    np.testing.assert_array_equal(equal.label_distributions_, balanced.label_distributions_)


def test_vectors_without_negative_entries_are_centered_as_they_are_if_classes_have_names():
    X, truth, names = named_rows()
    clf = LaplacianShot().fit(np.maximum(X, 0), unlabeled(X), names=names)
    assert clf.transform_ == "cl2"
    assert np.mean(clf.transduction_ == truth) > 0.9


@pytest.mark.parametrize("n", [150, SMALL_ROWS + 150])
def test_a_prior_is_taken_in_power_with_a_class_that_has_no_label(n):
    rng = np.random.default_rng(0)
    truth = rng.integers(0, 3, n)
    X = np.maximum(rng.standard_normal((3, 60))[truth] + 0.7 * rng.standard_normal((n, 60)), 0).astype(np.float32)
    prior = np.where(rng.random((n, 1)) < 0.3, np.eye(3)[rng.integers(0, 3, n)], np.eye(3)[truth]) * 0.7 + 0.1
    clf = LaplacianShot().fit(X, np.where((np.arange(n) < 20) & (truth < 2), truth, -1), prior=prior, classes=range(3))
    assert clf.transform_ == "power"
    assert np.linalg.norm(clf.center_) < 1
    assert np.mean(clf.transduction_ == truth) > 0.95


@pytest.mark.parametrize("known", ["prior", "shares"])
def test_a_few_shot_task_with_a_prior_or_shares_is_solved_by_one_descent(known, monkeypatch):
    X, truth, _ = named_rows(rows=15)
    y = np.where(np.arange(len(X)) < 20, truth, -1)
    estimator = LaplacianShot(class_shares=np.full(4, 0.25) if known == "shares" else None)
    more = {"prior": 0.1 + 0.6 * np.eye(4)[truth]} if known == "prior" else {}
    monkeypatch.setattr("laplacianshot.inference.solve.episode_optimize", None)
    with pytest.raises(TypeError):
        LaplacianShot().fit(X, y)
    assert estimator.fit(X, y, **more).transduction_.shape == truth.shape


def test_the_price_of_a_class_grows_with_the_share_of_absent_ones_and_never_falls():
    constants = DefaultConstants.for_task(8, 80, 8)
    assert constants.with_absent(0.0, 8) == constants
    half = constants.with_absent(0.5, 8)
    assert half.eta == pytest.approx(6 * 0.25 / 0.7)
    assert half.small == pytest.approx(1 / 8)
    assert half.with_absent(0.3, 8) == half
    assert half.with_absent(0.8, 8).eta > half.eta


def test_known_shares_help_where_classes_are_unequal():
    rng = np.random.default_rng(3)
    sizes = np.array([300, 30, 30, 30])
    truth = np.repeat(np.arange(4), sizes)
    X = rng.standard_normal((4, 60))[truth] + 2.2 * rng.standard_normal((len(truth), 60))
    y = unlabeled(X)
    first = np.cumsum(sizes) - sizes
    for c in range(4):
        y[first[c] : first[c] + 3] = c
    unknown = LaplacianShot().fit(X, y)
    known = LaplacianShot(class_shares=sizes).fit(X, y)
    assert np.mean(known.transduction_ == truth) >= np.mean(unknown.transduction_ == truth)
    assert "shares are drawn to those that you gave" in known.report_


@pytest.mark.parametrize(
    ("more", "message"),
    [
        ({"names": np.zeros((4, 5))}, "names has shape"),
        ({"names": np.full((4, 48), np.nan)}, "names has NaN or infinite"),
        ({"names": np.zeros((4, 48))}, "names has a row of zeros"),
        ({"names": [["a"] * 48] * 4}, "names must hold numbers"),
        ({"names": np.ones((4, 48)), "classes": [0, 1]}, "classes has shape"),
        ({"names": np.ones((4, 48)), "classes": [0, 1, 1, 2]}, "classes has a label twice"),
        ({"names": np.ones((5, 48))}, "say with classes="),
        ({"names": np.ones((4, 48)), "classes": list("abcd")}, "use one type"),
        ({"classes": [0, 1, 2, 3]}, "give one of them"),
        ({"prior": np.ones((3, 4)) / 4}, "prior has shape"),
        ({"prior": np.ones((160, 4))}, "sum to one; row 0 sums to 4"),
        ({"prior": np.tile([-0.5, 0.5, 0.5, 0.5], (160, 1))}, "prior has negative"),
        ({"prior": np.tile([np.nan, 0.5, 0.5, 0.0], (160, 1))}, "NaN in a part of row 0"),
        ({"prior": np.ones((160, 2)) / 2, "classes": [0, 1]}, "prior has no column for the class 2"),
    ],
)
def test_bad_knowledge_is_refused_in_one_line(more, message):
    X, truth, _ = named_rows()
    y = np.where(np.arange(len(X)) < 60, truth, -1)
    with pytest.raises((ValueError, TypeError), match=message) as raised:
        LaplacianShot().fit(X, y, **more)
    assert "\n" not in str(raised.value)


@pytest.mark.parametrize(
    ("shares", "message"),
    [
        (np.ones(3), r"class_shares has shape \(3,\)"),
        ([1, 1, 1, 0], "class_shares must be above 0"),
        ([1, 1, 1, np.nan], "class_shares must be above 0"),
        ("half", "'class_shares' parameter"),
        (0.5, "'class_shares' parameter"),
    ],
)
def test_bad_class_shares_are_refused_in_one_line(shares, message):
    X, truth, _ = named_rows()
    with pytest.raises(ValueError, match=message):
        LaplacianShot(class_shares=shares).fit(X, np.where(np.arange(len(X)) < 60, truth, -1))


def test_what_cannot_be_combined_is_refused():
    X, truth, names = named_rows()
    y = np.where(np.arange(len(X)) < 60, truth, -1)
    with pytest.raises(ValueError, match="no labeled row"):
        LaplacianShot().fit(X, unlabeled(X))
    with pytest.raises(ValueError, match="recipe='default'"):
        LaplacianShot.paper().fit(X, y, names=names)
    with pytest.raises(ValueError, match="compared by direction"):
        LaplacianShot(transform="standard").fit(X, y, names=names)
    with pytest.raises(ValueError, match="compared by direction"):
        LaplacianShot(transform="power").fit(X, y, names=names)
    with pytest.raises(ValueError, match="leave one of them out"):
        LaplacianShot(balanced=True, class_shares=np.ones(4)).fit(X, y)


@pytest.mark.parametrize("n", [1, 2, 3])
def test_a_few_rows_are_labeled_from_names(n):
    X, _, names = named_rows()
    clf = LaplacianShot().fit(X[:n], unlabeled(X[:n]), names=names)
    assert clf.label_distributions_.shape == (n, 4)
    assert np.all(np.isfinite(clf.label_distributions_))


def test_names_of_a_set_with_all_labels_do_no_harm():
    X, truth, names = named_rows()
    clf = LaplacianShot().fit(X, truth, names=names)
    np.testing.assert_array_equal(clf.transduction_, truth)
