from __future__ import annotations

import numpy as np
import pytest
from scipy.optimize import approx_fprime, minimize

from laplacianshot.baselines.contract import TaskBatch, place_rows
from laplacianshot.baselines.prototype import NearestPrototype
from laplacianshot.baselines.tim import TIM, AlphaTIM

METHODS = [TIM(), AlphaTIM(), AlphaTIM(alpha=4.0)]
TAU = 15.0
# Near the floor of a valley the last bit decides whether a step of alpha-TIM is kept, so posteriors differ a little.
CLOSE = 0.01


def make_task(labels, counts, *, dim=6, spread=0.6, seed=0):
    """Unit rows, the support first, and the queries' classes: ``counts`` of each, in random order."""
    rng = np.random.default_rng(seed)
    labels, truth = np.asarray(labels), rng.permutation(np.repeat(np.arange(len(counts)), counts))
    centers = rng.standard_normal((len(counts), dim))
    rows = centers[np.concatenate([labels, truth])]
    rows = rows + spread * rng.standard_normal(rows.shape)
    return rows / np.linalg.norm(rows, axis=1, keepdims=True), labels, truth


def as_batch(*tasks):
    rows = np.stack([task[0] for task in tasks])
    labels = np.stack([task[1] for task in tasks])
    return TaskBatch((rows @ np.swapaxes(rows, 1, 2)).astype(np.float32), labels, int(labels.max()) + 1)


SHAPES = [
    pytest.param((0, 1, 2, 3, 4), (15, 15, 15, 15, 15), id="one shot"),
    pytest.param((2, 0, 1, 0, 2, 2), (8, 1, 5), id="unequal shots, unsorted, imbalanced"),
    pytest.param((1, 0), (3, 0), id="a class without queries"),
    pytest.param(tuple(range(12)) * 2, (4,) * 12, id="many classes"),
    pytest.param((0, 0), (4,), id="one class"),
]


# ---------------------------------------------------------------------- explicit features, float64, one row at a time


def slow_posteriors(heads, rows):
    found = []
    for x in rows:
        logits = np.array([-TAU / 2 * np.sum((x - w) ** 2) for w in heads])
        found.append(np.exp(logits - logits.max()) / np.exp(logits - logits.max()).sum())
    return np.array(found)


def class_means(rows, labels):
    return np.array([rows[: len(labels)][labels == c].mean(axis=0) for c in range(labels.max() + 1)])


def slow_tim(rows, labels, n_iter, lam=0.1, alpha=0.1):
    """Heads after ``n_iter`` rounds of the formulas in TIM's docstring, and the last q."""
    n_support, n_query = len(labels), len(rows) - len(labels)
    heads, q = class_means(rows, labels), None
    for _ in range(n_iter):
        p = slow_posteriors(heads, rows)
        sharp = p[n_support:] ** (1 + alpha)
        q = sharp / np.sqrt(sharp.sum(axis=0))
        q /= q.sum(axis=1, keepdims=True)
        moved = []
        for k, w in enumerate(heads):
            above, below = np.zeros_like(w), 0.0
            for s in range(n_support):
                above += lam / n_support * ((labels[s] == k) * rows[s] + p[s, k] * (w - rows[s]))
                below += lam / n_support * (labels[s] == k)
            for i in range(n_query):
                x, posterior = rows[n_support + i], p[n_support + i, k]
                above += (1 + alpha) / n_query * (q[i, k] * x + posterior * (w - x))
                below += (1 + alpha) / n_query * q[i, k]
            moved.append(above / below)
        heads = np.array(moved)
    return heads, q


def alpha_loss(p, labels, alpha):
    """The loss of alpha-TIM from the posteriors of all rows, in words: cross entropy, minus H(mean), plus mean H."""
    n_support = len(labels)

    def entropy(distribution):
        return (1 - np.sum(distribution**alpha)) / (alpha - 1)

    support = np.mean([-np.log(p[s, labels[s]]) for s in range(n_support)])
    queries = p[n_support:]
    return support - entropy(queries.mean(axis=0)) + np.mean([entropy(row) for row in queries])


def slow_alpha_tim(rows, labels, n_iter, alpha):
    """Posteriors after ``n_iter`` steps along a numerical gradient, under the step rule of the docstring."""
    start = class_means(rows, labels)

    def loss(flat):
        return alpha_loss(slow_posteriors(flat.reshape(start.shape), rows), labels, alpha)

    heads = start.ravel()
    step = 2 * len(start) / TAU**2 / max(np.sum(x**2) for x in rows)
    for _ in range(n_iter):
        moved = heads - step * approx_fprime(heads, loss, 1e-7)
        if loss(moved) < loss(heads):
            heads, step = moved, 1.1 * step
        else:
            step /= 2
    return slow_posteriors(heads.reshape(start.shape), rows)


# -------------------------------------------------------------------------------------------------------------- TIM


@pytest.mark.parametrize(
    ("labels", "counts", "n_iter"),
    [
        *[pytest.param(*shape.values, n_iter, id=f"{shape.id} {n_iter}") for shape in SHAPES for n_iter in (0, 1, 150)],
        # Later the rounds of so small a task swing ever wider between two states, from rounding alone.
        pytest.param((0, 1), (1, 0), 50, id="one query"),
    ],
)
def test_tim_equals_the_formulas_on_explicit_features(labels, counts, n_iter):
    task = make_task(labels, counts, seed=n_iter)
    heads, _ = slow_tim(*task[:2], n_iter)
    found = TIM(n_iter=n_iter).posteriors(as_batch(task))[0]
    np.testing.assert_allclose(found, slow_posteriors(heads, task[0]), atol=2e-3)


def test_other_weights_and_temperatures_reach_the_formulas_too():
    rows, labels, _ = make_task((0, 1, 2, 1), (4, 6, 3))
    heads, _ = slow_tim(rows, labels, 10, lam=1.5, alpha=0.7)
    found = TIM(lam=1.5, alpha=0.7, n_iter=10).posteriors(as_batch((rows, labels)))[0]
    np.testing.assert_allclose(found, slow_posteriors(heads, rows), atol=1e-3)
    # At twice the temperature, rows and heads a factor sqrt(1/2) smaller give the same posteriors.
    scaled = TIM(lam=1.5, alpha=0.7, n_iter=10, temperature=2 * TAU).posteriors(as_batch((rows / np.sqrt(2), labels)))
    np.testing.assert_allclose(scaled[0], found, atol=1e-3)


def test_a_round_of_tim_is_where_a_numerical_optimizer_gets():
    """No closed form here: q from its objective over positive numbers, then w from its surrogate."""
    lam, alpha = 0.3, 0.2
    rows, labels, _ = make_task((0, 1, 2, 0), (3, 1, 2), dim=4)
    n_support, n_query, shape = 4, 6, (3, 4)
    start = class_means(rows, labels)
    p = slow_posteriors(start, rows)

    def objective_of_q(log_q):
        q = np.exp(log_q.reshape(n_query, 3))
        marginal = q.mean(axis=0)
        each = q * (np.log(q) - (1 + alpha) * np.log(p[n_support:]))
        return np.sum(marginal * np.log(marginal)) + each.sum() / n_query

    found = minimize(objective_of_q, np.log(p[n_support:]).ravel(), tol=1e-12)
    q = np.exp(found.x.reshape(n_query, 3))
    q /= q.sum(axis=1, keepdims=True)
    target = np.concatenate([np.eye(3)[labels] * lam / n_support, q * (1 + alpha) / n_query])
    share = target.sum(axis=1)

    def log_sum(flat):
        w = flat.reshape(shape)
        logits = np.array([[-TAU / 2 * np.sum((x - head) ** 2) for head in w] for x in rows])
        return np.sum(share * np.log(np.exp(logits).sum(axis=1)))

    slope = approx_fprime(start.ravel(), log_sum, 1e-7)

    def surrogate_of_w(flat):
        w = flat.reshape(shape)
        quadratic = sum(target[i, k] * TAU / 2 * np.sum((x - w[k]) ** 2) for i, x in enumerate(rows) for k in range(3))
        return quadratic + slope @ flat

    heads = minimize(surrogate_of_w, start.ravel(), tol=1e-12).x.reshape(shape)
    ours = TIM(lam=lam, alpha=alpha, n_iter=1).posteriors(as_batch((rows, labels)))[0]
    np.testing.assert_allclose(ours, slow_posteriors(heads, rows), atol=1e-4)


def test_where_the_rounds_come_to_rest_the_gradient_in_the_heads_is_zero():
    lam, alpha = 0.1, 0.1
    rows, labels, _ = make_task((0, 1, 1), (4, 3), dim=3, spread=0.9)
    heads, q = slow_tim(rows, labels, 3000)

    def split_loss(flat):
        log_p = np.log(slow_posteriors(flat.reshape(heads.shape), rows))
        return -lam * np.mean(log_p[range(3), labels]) - (1 + alpha) * np.mean(np.sum(q * log_p[3:], axis=1))

    at_rest = np.abs(approx_fprime(heads.ravel(), split_loss, 1e-7)).max()
    at_start = np.abs(approx_fprime(class_means(rows, labels).ravel(), split_loss, 1e-7)).max()
    assert at_rest < 1e-3 * at_start


@pytest.mark.parametrize("seed", [1, 2])
def test_tim_fills_an_absent_class_that_alpha_tim_leaves_empty(seed):
    task = make_task((0, 0, 1, 1), (40, 0), spread=0.5, seed=seed)
    batch = as_batch(task)
    assert np.mean(TIM().scores(batch)[0].argmax(axis=1) != task[2]) > 0.3
    assert np.all(AlphaTIM().scores(batch)[0].argmax(axis=1) == task[2])


# -------------------------------------------------------------------------------------------------------- alpha-TIM


@pytest.mark.parametrize("alpha", [1.5, 2.0, 5.0])
@pytest.mark.parametrize(("labels", "counts"), [SHAPES[1].values, SHAPES[2].values, SHAPES[4].values])
def test_alpha_tim_equals_descent_along_a_numerical_gradient(labels, counts, alpha):
    rows, labels, _ = make_task(labels, counts, dim=3, seed=int(alpha))
    for n_iter in (0, 1, 20):
        found = AlphaTIM(alpha=alpha, n_iter=n_iter).posteriors(as_batch((rows, labels)))[0]
        np.testing.assert_allclose(found, slow_alpha_tim(rows, labels, n_iter, alpha), atol=1e-3)


@pytest.mark.parametrize("alpha", [1.5, 2.0, 5.0])
def test_the_loss_of_alpha_tim_never_rises_and_ends_where_a_quasi_newton_method_does(alpha):
    for seed in range(3):
        rows, labels, _ = make_task((0, 1, 2, 0, 1, 2), (5, 8, 3), spread=0.4, seed=seed)
        batch, start = as_batch((rows, labels)), class_means(rows, labels)
        losses = [
            alpha_loss(AlphaTIM(alpha=alpha, n_iter=n).posteriors(batch)[0].astype(float), labels, alpha)
            for n in (0, 1, 2, 4, 8, 16, 32, 60, 1000)
        ]
        # Labeled rows of posterior 1 - 1e-8 are 1 in float32: hence the rounding.
        assert np.all(np.diff(losses) <= 1e-6)

        def loss(flat, rows=rows, labels=labels, shape=start.shape):
            return alpha_loss(slow_posteriors(flat.reshape(shape), rows), labels, alpha)

        best = minimize(loss, start.ravel(), method="L-BFGS-B").fun
        way = (losses[0] - np.array(losses)) / (losses[0] - best)
        assert way[-2] > 0.75  # after the default number of steps
        assert way[-1] > 0.95


def test_alpha_tim_gets_as_low_as_the_thousand_adam_steps_of_its_paper(shared):
    """On real features: a step of Adam depends on their axes and number, so made-up rows would not do."""
    with np.load(shared("data/cub/cub_efficientnet_lite0.npz"), allow_pickle=False) as stored:
        features, classes, split = stored["features"].astype(np.float32), stored["labels"], stored["split"]
    rng = np.random.default_rng(0)
    chosen = rng.choice(np.unique(classes[split == "val"]), 5, replace=False)
    members = [rng.choice(np.flatnonzero(classes == c), 16, replace=False) for c in chosen]
    order = np.concatenate([[m[0] for m in members], *[m[1:] for m in members]])
    rows = place_rows(features[order], "cl2", features[split == "base"].mean(axis=0)).astype(float)
    labels = np.arange(5)
    heads, first, second = class_means(rows, labels), 0.0, 0.0
    for t in range(1, 1001):
        gradient = _alpha_gradient(heads, rows, labels, 2.0)
        first, second = 0.9 * first + 0.1 * gradient, 0.999 * second + 0.001 * gradient**2
        heads -= 1e-4 * first / (1 - 0.9**t) / (np.sqrt(second / (1 - 0.999**t)) + 1e-8)
    adam, start = slow_posteriors(heads, rows), slow_posteriors(class_means(rows, labels), rows)
    ours = AlphaTIM().posteriors(as_batch((rows, labels)))[0].astype(float)
    gain = alpha_loss(start, labels, 2.0) - alpha_loss(adam, labels, 2.0)
    assert alpha_loss(ours, labels, 2.0) < alpha_loss(adam, labels, 2.0) + 0.02 * gain
    assert np.mean(ours[5:].argmax(axis=1) == adam[5:].argmax(axis=1)) > 0.9


def _alpha_gradient(heads, rows, labels, alpha):
    """Of the loss in the heads, (C, D)."""
    p, n_support = slow_posteriors(heads, rows), len(labels)
    queries = p[n_support:]
    slope = alpha / (alpha - 1) / len(queries) * (queries.mean(axis=0) ** (alpha - 1) - queries ** (alpha - 1))
    in_logits = np.concatenate([(p[:n_support] - np.eye(len(heads))[labels]) / n_support, queries * slope])
    in_logits[n_support:] -= queries * np.sum(queries * slope, axis=1, keepdims=True)
    return TAU * (in_logits.T @ rows - in_logits.sum(axis=0)[:, None] * heads)


def test_the_gradient_used_for_adam_is_that_of_the_loss():
    rows, labels, _ = make_task((0, 1, 2), (4, 2, 3), dim=4)
    heads = class_means(rows, labels) + 0.1

    def loss(flat):
        return alpha_loss(slow_posteriors(flat.reshape(heads.shape), rows), labels, 3.0)

    numerical = approx_fprime(heads.ravel(), loss, 1e-7).reshape(heads.shape)
    np.testing.assert_allclose(_alpha_gradient(heads, rows, labels, 3.0), numerical, atol=1e-5)


@pytest.mark.parametrize("alpha", [1.0, 0.5, -2.0, np.nan])
def test_an_alpha_that_is_not_above_one_is_refused(alpha):
    with pytest.raises(ValueError, match="alpha must be above 1"):
        AlphaTIM(alpha=alpha).scores(as_batch(make_task((0, 1), (2, 2))))


# ------------------------------------------------------------------------------------------------------------- both


@pytest.mark.parametrize("method", METHODS, ids=repr)
def test_posteriors_of_every_row_sum_to_one(method):
    batch = as_batch(make_task((0, 2, 1, 1), (5, 4, 9)), make_task((1, 2, 0, 0), (5, 4, 9), seed=1))
    found = method.posteriors(batch)
    assert found.shape == (2, 22, 3)
    np.testing.assert_allclose(found.sum(axis=2), 1, atol=1e-5)
    np.testing.assert_array_equal(method.scores(batch), found[:, 4:])


@pytest.mark.parametrize("method", METHODS, ids=repr)
def test_permuted_queries_have_permuted_scores(method):
    rows, labels, _ = make_task((0, 1, 2, 2), (6, 2, 7))
    order = np.random.default_rng(1).permutation(15)
    permuted = np.concatenate([rows[:4], rows[4:][order]])
    plain = method.scores(as_batch((rows, labels)))[0]
    np.testing.assert_allclose(method.scores(as_batch((permuted, labels)))[0], plain[order], atol=CLOSE)


@pytest.mark.parametrize("method", METHODS, ids=repr)
def test_renamed_classes_have_permuted_columns(method):
    rows, labels, _ = make_task((0, 1, 2, 2), (6, 2, 7))
    names = np.array([2, 0, 1])
    plain = method.scores(as_batch((rows, labels)))[0]
    np.testing.assert_allclose(method.scores(as_batch((rows, names[labels])))[0][:, names], plain, atol=CLOSE)


@pytest.mark.parametrize("method", METHODS, ids=repr)
def test_a_task_is_scored_the_same_alone_and_among_others(method):
    tasks = [make_task((0, 1, 2, 2), (6, 2, 7), seed=seed) for seed in (0, 1, 2, 0)]
    together = method.scores(as_batch(*tasks))
    np.testing.assert_array_equal(together[0], together[3])
    for task, scores in zip(tasks, together, strict=True):
        np.testing.assert_array_equal(method.scores(as_batch(task))[0], scores)


@pytest.mark.parametrize("method", METHODS, ids=repr)
def test_a_rotation_of_the_features_changes_nothing(method):
    rows, labels, _ = make_task((0, 1, 2, 2), (6, 2, 7))
    rotation, _ = np.linalg.qr(np.random.default_rng(2).standard_normal((6, 6)))
    plain = method.scores(as_batch((rows, labels)))
    np.testing.assert_allclose(method.scores(as_batch((rows @ rotation, labels))), plain, atol=CLOSE)


@pytest.mark.parametrize("method", METHODS, ids=repr)
def test_the_batch_is_not_written_to(method):
    batch = as_batch(make_task((0, 1, 2, 2), (6, 2, 7)))
    gram, weights = batch.gram.copy(), batch.class_mean_weights.copy()
    batch.gram.flags.writeable = False
    method.scores(batch)
    np.testing.assert_array_equal(batch.gram, gram)
    np.testing.assert_array_equal(batch.class_mean_weights, weights)


@pytest.mark.parametrize("method", METHODS, ids=repr)
def test_equal_rows_and_rows_of_length_zero_give_finite_scores(method):
    for rows in (np.zeros((6, 3)), np.ones((6, 3))):
        assert np.all(np.isfinite(method.scores(as_batch((rows, np.array([0, 1]))))))


@pytest.mark.parametrize("method", METHODS, ids=repr)
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_separated_clusters_are_labeled_right_as_an_estimator(method, dtype, clusters):
    X, truth, y = clusters(4, 20, 2, spread=0.3, dtype=dtype)
    names = np.array(["d", "a", "c", "b", ""], dtype=object)
    np.testing.assert_array_equal(method.fit(X, names[y]).transduction_, names[truth])


def test_tim_gains_over_nearest_prototype_where_classes_are_balanced(clusters):
    gains = []
    for seed in range(6):
        X, truth, y = clusters(3, 30, 1, seed=seed)
        right = [np.mean(method.fit(X, y).transduction_ == truth) for method in (TIM(), NearestPrototype())]
        gains.append(right[0] - right[1])
    assert np.mean(gains) > 0.03


@pytest.mark.parametrize("alpha", [2.0, 5.0, 7.0])
def test_alpha_tim_runs_on_rows_of_length_one_with_any_alpha(alpha, clusters):
    X, truth, y = clusters(4, 20, 5, spread=0.3)
    by_hand = X / np.linalg.norm(X, axis=1, keepdims=True)
    found = AlphaTIM(space="l2", alpha=alpha).fit(X, y).transduction_
    np.testing.assert_array_equal(found, AlphaTIM(space="none", alpha=alpha).fit(by_hand, y).transduction_)
    assert np.mean(found == truth) > 0.95
