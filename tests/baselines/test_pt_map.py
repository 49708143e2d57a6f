from __future__ import annotations

import numpy as np
import pytest
from scipy.special import logsumexp

from laplacianshot.baselines._kernels import transport
from laplacianshot.baselines.contract import TaskBatch, place_rows
from laplacianshot.baselines.prototype import PTMAP, NearestPrototype, _centered_products


def make_task(labels, counts, *, dim=12, spread=0.6, seed=0):
    """Non-negative rows, the support first, and the queries' classes: ``counts`` of each, in random order."""
    rng = np.random.default_rng(seed)
    labels, truth = np.asarray(labels), rng.permutation(np.repeat(np.arange(len(counts)), counts))
    centers = 2 * rng.random((len(counts), dim))
    rows = centers[np.concatenate([labels, truth])]
    return np.maximum(rows + spread * rng.standard_normal(rows.shape), 0), labels, truth


def as_batch(*tasks):
    labels = np.stack([task[1] for task in tasks])
    rows = np.stack([place_rows(task[0].astype(np.float32), "roots", None) for task in tasks])
    return TaskBatch(rows @ np.swapaxes(rows, 1, 2), labels, int(labels.max()) + 1)


SHAPES = [
    pytest.param((0, 1, 2, 3, 4), (15, 15, 15, 15, 15), id="one shot"),
    pytest.param((2, 0, 1, 0, 2, 2), (8, 1, 5), id="unequal shots, unsorted, imbalanced"),
    pytest.param((1, 0), (9, 0), id="a class without queries"),
    pytest.param(tuple(range(12)) * 2, (4,) * 12, id="many classes"),
    pytest.param((0, 0), (4,), id="one class"),
]


# ---------------------------------------------------------------------- explicit features, float64, one row at a time


def slow_rows(X, n_support):
    """Power transform, unit norm, each kind less its own mean, unit norm again."""
    rows = [np.sqrt(x + 1e-6) for x in X.astype(float)]
    rows = np.array([x / np.linalg.norm(x) for x in rows])
    rows[:n_support] -= rows[:n_support].mean(axis=0)
    rows[n_support:] -= rows[n_support:].mean(axis=0)
    return np.array([x / np.linalg.norm(x) if np.linalg.norm(x) > 1e-6 else 0 * x for x in rows])


def slow_plan(costs, lam):
    """Sinkhorn's algorithm as it stands, in logarithms: the plan (N, C)."""
    log_plan = -lam * costs
    target = np.log(len(costs) / costs.shape[1])
    for _ in range(5000):
        log_plan = log_plan - logsumexp(log_plan, axis=1, keepdims=True)
        excess = logsumexp(log_plan, axis=0) - target
        if np.abs(excess).max() < 1e-9:
            break
        log_plan = log_plan - excess
    return np.exp(log_plan)


def slow_pt_map(X, labels, n_iter, lam=10.0, rate=0.2):
    n_support = len(labels)
    rows = slow_rows(X, n_support)
    support, queries = rows[:n_support], rows[n_support:]
    centers = np.array([support[labels == c].mean(axis=0) for c in range(labels.max() + 1)])
    for _ in range(n_iter):
        plan = slow_plan(np.array([[np.sum((x - m) ** 2) for m in centers] for x in queries]), lam)
        for c in range(len(centers)):
            total = support[labels == c].sum(axis=0) + sum(plan[q, c] * x for q, x in enumerate(queries))
            mean = total / (np.sum(labels == c) + plan[:, c].sum())
            centers[c] += rate * (mean - centers[c])
    return slow_plan(np.array([[np.sum((x - m) ** 2) for m in centers] for x in queries]), lam)


@pytest.mark.parametrize("n_iter", [0, 1, 20])
@pytest.mark.parametrize(("labels", "counts"), SHAPES)
def test_plans_are_those_of_plain_sinkhorn_on_explicit_features(labels, counts, n_iter):
    X, labels, _ = make_task(labels, counts, seed=n_iter)
    found = PTMAP(n_iter=n_iter).scores(as_batch((X, labels)))[0]
    np.testing.assert_allclose(found, slow_pt_map(X, labels, n_iter), atol=2e-3)


def test_another_entropy_weight_and_rate_reach_the_formulas_too():
    X, labels, _ = make_task((0, 1, 2, 1), (4, 6, 3))
    found = PTMAP(lam=3.0, rate=0.7, n_iter=5).scores(as_batch((X, labels)))[0]
    np.testing.assert_allclose(found, slow_pt_map(X, labels, 5, lam=3.0, rate=0.7), atol=1e-3)


@pytest.mark.parametrize(("labels", "counts"), SHAPES)
def test_centering_through_inner_products_is_centering_of_features(labels, counts):
    X, labels, _ = make_task(labels, counts)
    rows = slow_rows(X, len(labels))
    np.testing.assert_allclose(_centered_products(as_batch((X, labels)))[0], rows @ rows.T, atol=1e-5)


# ---------------------------------------------------------------------------------------------------- the transport


def solve(logits, potentials=None):
    logits = np.ascontiguousarray(logits, dtype=np.float64)
    plans = np.empty_like(logits)
    transport(logits, np.zeros(logits.shape[:2]) if potentials is None else potentials, plans)
    return plans


@pytest.mark.parametrize("scale", [0.1, 1.0, 10.0, 40.0])
@pytest.mark.parametrize(("n_classes", "n_query"), [(2, 2), (5, 75), (7, 3), (20, 60), (4, 1), (1, 5)])
def test_a_plan_has_the_right_sums_and_is_the_kernel_up_to_factors_of_rows_and_columns(n_classes, n_query, scale):
    logits = scale * np.random.default_rng(n_query).standard_normal((3, n_classes, n_query))
    plans = solve(logits)
    np.testing.assert_allclose(plans.sum(axis=1), 1, rtol=1e-9)
    np.testing.assert_allclose(plans.sum(axis=2), n_query / n_classes, rtol=2e-6)
    # log P - logits = u_q + v_c: nothing is left of it without the means of its rows and columns.
    factors = np.log(plans) - logits
    factors = factors - factors.mean(axis=1, keepdims=True)
    factors = factors - factors.mean(axis=2, keepdims=True)
    np.testing.assert_allclose(factors, 0, atol=1e-6 * scale + 1e-9)


def test_the_plan_of_two_queries_and_two_classes_in_closed_form():
    logits = np.array([[[1.0, -0.5], [0.3, 0.9]]])
    # P = [[a, 1 - a], [1 - a, a]], and cross ratios are those of exp(logits).
    odds = np.exp((logits[0, 0, 0] + logits[0, 1, 1] - logits[0, 0, 1] - logits[0, 1, 0]) / 2)
    share = odds / (1 + odds)
    np.testing.assert_allclose(solve(logits)[0], [[share, 1 - share], [1 - share, share]], rtol=1e-6)


def test_the_plan_does_not_depend_on_where_the_search_starts():
    rng = np.random.default_rng(0)
    logits = 10 * rng.standard_normal((4, 5, 30))
    np.testing.assert_allclose(solve(logits, 20 * rng.standard_normal((4, 5))), solve(logits), atol=1e-5)


def test_factors_of_rows_and_columns_do_not_change_a_plan():
    rng = np.random.default_rng(1)
    logits = 5 * rng.standard_normal((2, 4, 20))
    shifted = logits + 30 * rng.standard_normal((2, 1, 20)) + 8 * rng.standard_normal((2, 4, 1))
    np.testing.assert_allclose(solve(shifted), solve(logits), atol=1e-5)


@pytest.mark.parametrize("scale", [120.0, 1e6])
def test_a_plan_too_sharp_for_any_float_still_has_the_right_sums(scale):
    plans = solve(scale * np.random.default_rng(2).standard_normal((2, 5, 30)))
    assert np.all(plans >= 0)
    np.testing.assert_allclose(plans.sum(axis=1), 1, rtol=1e-9)
    np.testing.assert_allclose(plans.sum(axis=2), 6, rtol=2e-6)


# ------------------------------------------------------------------------------------------------------- the method


def test_every_class_gets_the_same_share_even_of_queries_that_are_all_of_one_class():
    X, labels, truth = make_task((0, 1, 2), (30, 0, 0), spread=0.3)
    scores = PTMAP().scores(as_batch((X, labels)))[0]
    np.testing.assert_allclose(scores.sum(axis=0), 10, rtol=1e-4)
    assert np.mean(scores.argmax(axis=1) == truth) < 0.5


def test_a_lone_query_is_shared_out_equally():
    X, labels, _ = make_task((0, 1, 2), (0, 1, 0))
    np.testing.assert_allclose(PTMAP().scores(as_batch((X, labels)))[0], np.full((1, 3), 1 / 3), rtol=1e-5)


def test_permuted_queries_have_permuted_scores():
    X, labels, _ = make_task((0, 1, 2, 2), (6, 2, 7))
    order = np.random.default_rng(1).permutation(15)
    permuted = np.concatenate([X[:4], X[4:][order]])
    plain = PTMAP().scores(as_batch((X, labels)))[0]
    np.testing.assert_allclose(PTMAP().scores(as_batch((permuted, labels)))[0], plain[order], atol=1e-4)


def test_renamed_classes_have_permuted_columns():
    X, labels, _ = make_task((0, 1, 2, 2), (6, 2, 7))
    names = np.array([2, 0, 1])
    plain = PTMAP().scores(as_batch((X, labels)))[0]
    np.testing.assert_allclose(PTMAP().scores(as_batch((X, names[labels])))[0][:, names], plain, atol=1e-4)


def test_a_task_is_scored_the_same_alone_and_among_others():
    tasks = [make_task((0, 1, 2, 2), (6, 2, 7), seed=seed) for seed in (0, 1, 2, 0)]
    together = PTMAP().scores(as_batch(*tasks))
    np.testing.assert_array_equal(together[0], together[3])
    for task, scores in zip(tasks, together, strict=True):
        np.testing.assert_allclose(PTMAP().scores(as_batch(task))[0], scores, atol=1e-5)


def test_a_rotation_of_the_transformed_features_changes_nothing():
    X, labels, _ = make_task((0, 1, 2, 2), (6, 2, 7))
    rows = place_rows(X, "roots", None)
    rotation, _ = np.linalg.qr(np.random.default_rng(2).standard_normal((12, 12)))
    plain, turned = (
        PTMAP().scores(TaskBatch((z @ z.T)[None].astype(np.float32), labels[None], 3)) for z in (rows, rows @ rotation)
    )
    np.testing.assert_allclose(turned, plain, atol=1e-4)


def test_the_batch_is_not_written_to():
    batch = as_batch(make_task((0, 1, 2, 2), (6, 2, 7)))
    gram, weights = batch.gram.copy(), batch.class_mean_weights.copy()
    batch.gram.flags.writeable = False
    PTMAP().scores(batch)
    np.testing.assert_array_equal(batch.gram, gram)
    np.testing.assert_array_equal(batch.class_mean_weights, weights)


@pytest.mark.parametrize("value", [0.0, 1.0])
def test_equal_rows_are_shared_out_equally(value):
    scores = PTMAP().scores(as_batch((np.full((6, 3), value), np.array([0, 1]))))
    np.testing.assert_allclose(scores, 0.5, rtol=1e-6)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_separated_clusters_are_labeled_right_as_an_estimator(dtype):
    X, labels, truth = make_task((0, 1, 2, 3) * 2, (15, 15, 15, 15), spread=0.2)
    names = np.array(["d", "a", "c", "b"], dtype=object)
    y = np.concatenate([names[labels], np.full(60, "", dtype=object)])
    order = np.random.default_rng(0).permutation(len(X))
    fitted = PTMAP().fit(X[order].astype(dtype), y[order])
    np.testing.assert_array_equal(fitted.transduction_, names[np.concatenate([labels, truth])][order])


def test_pt_map_gains_over_nearest_prototype_where_classes_are_balanced():
    gains = []
    for seed in range(6):
        X, labels, truth = make_task((0, 1, 2), (20, 20, 20), spread=1.0, seed=seed)
        y = np.concatenate([labels, np.full(60, -1)])
        right = [np.mean(method.fit(X, y).transduction_[3:] == truth) for method in (PTMAP(), NearestPrototype())]
        gains.append(right[0] - right[1])
    assert np.mean(gains) > 0.03
