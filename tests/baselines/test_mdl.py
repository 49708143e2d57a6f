"""PADDLE and EM-Dirichlet: their formulas row by row, objectives that never rise, and classes that are left empty."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from scipy import stats
from scipy.special import digamma

from laplacianshot.baselines import EMDirichlet, Paddle, TaskBatch
from laplacianshot.baselines.mdl import dirichlet_steps, log_dirichlet


def far_apart(n_classes, counts, *, shots=1, seed=0, spread=0.15):
    """Rows about orthogonal unit vectors: ``shots`` labels of each class, then ``counts[c]`` queries of class c."""
    rng = np.random.default_rng(seed)
    labels, truth = np.repeat(np.arange(n_classes), shots), np.repeat(np.arange(n_classes), counts)
    rows = np.eye(n_classes, 3 * n_classes)[np.concatenate([labels, truth])]
    rows = rows + spread / np.sqrt(3 * n_classes) * rng.standard_normal(rows.shape)
    return TaskBatch((rows @ rows.T)[None], labels[None], n_classes), truth


# ----------------------------------------------------------------------------------------------------------- PADDLE


def slow_paddle(rows, labels, n_classes, n_iter, tau, complexity):
    n_support = len(labels)
    u = np.zeros((len(rows), n_classes))
    u[range(n_support), labels] = 1
    prototypes = np.array([rows[:n_support][labels == c].mean(axis=0) for c in range(n_classes)])
    log_shares = np.zeros(n_classes)
    for r in range(n_iter + 1):
        if r > 0:
            log_shares = np.log(u[n_support:].mean(axis=0))
            prototypes = np.array([(u[:, c, None] * rows).sum(axis=0) / u[:, c].sum() for c in range(n_classes)])
        for q in range(n_support, len(rows)):
            logits = [-tau / 2 * np.sum((rows[q] - w) ** 2) for w in prototypes] + complexity * log_shares
            u[q] = np.exp(logits - logits.max()) / np.exp(logits - logits.max()).sum()
    return u


@pytest.mark.parametrize(("n_iter", "tau", "complexity"), [(0, 20.0, 1.0), (1, 3.0, 1.0), (8, 2.0, 0.5), (3, 1.0, 2.0)])
def test_paddle_equals_the_formulas_on_explicit_features(tasks, n_iter, tau, complexity):
    method = Paddle(temperature=tau, complexity=complexity, n_iter=n_iter)
    found = method.assignments(tasks.batch)
    for b in range(len(tasks.rows)):
        expected = slow_paddle(tasks.rows[b], tasks.labels[b], tasks.n_classes, n_iter, tau, complexity)
        np.testing.assert_allclose(found[b], expected, atol=1e-8)


@pytest.mark.parametrize("complexity", [0.0, 1.0, 4.0])
def test_the_objective_of_paddle_never_rises(tasks, complexity):
    values = []
    for n_iter in range(12):
        method = Paddle(temperature=0.3, complexity=complexity, n_iter=n_iter)
        values.append(method.objective(tasks.batch, method.assignments(tasks.batch)))
    steps = np.diff(values, axis=0)
    assert np.all(steps <= 1e-9 * np.abs(values[0]))
    assert np.any(steps < 0)


def test_the_objective_of_paddle_is_its_formula():
    batch, truth = far_apart(3, (4, 2, 1))
    method = Paddle(temperature=7.0, complexity=2.0)
    certain = np.eye(3)[np.concatenate([batch.labels[0], truth])][None]
    # Integer assignments have no entropy of their own: what is left is k-means and the shares.
    shares = np.array([4, 2, 1]) / 7
    rows = np.linalg.cholesky(batch.gram[0] + 1e-12 * np.eye(10))
    means = [rows[certain[0, :, c] > 0].mean(axis=0) for c in range(3)]
    within = sum(np.sum((row - means[certain[0, i].argmax()]) ** 2) for i, row in enumerate(rows))
    expected = 3.5 * within - 2 * 7 * np.sum(shares * np.log(shares))
    np.testing.assert_allclose(method.objective(batch, certain), [expected], rtol=1e-6)


@pytest.mark.parametrize("method", [Paddle(), EMDirichlet()], ids=repr)
@pytest.mark.parametrize("here", [0, 3, 9])
def test_queries_of_one_class_among_many_all_go_to_it(method, here):
    counts = np.zeros(10, dtype=int)
    counts[here] = 40
    batch, truth = far_apart(10, counts)
    found = method.scores(batch)[0]
    np.testing.assert_array_equal(found.argmax(axis=1), truth)
    assert found.mean(axis=0)[here] > 0.99


@pytest.mark.parametrize(
    ("method", "counts"),
    [(Paddle(), (30, 1, 10, 0, 4)), (EMDirichlet(), (30, 6, 10, 0, 4))],
    ids=["paddle", "dirichlet"],
)
def test_classes_of_different_sizes_that_lie_far_apart_are_found(method, counts):
    batch, truth = far_apart(5, counts, shots=2)
    np.testing.assert_array_equal(method.scores(batch)[0].argmax(axis=1), truth)


@pytest.mark.parametrize("kind", [Paddle, EMDirichlet])
def test_more_weight_on_the_shares_leaves_fewer_classes(kind, make_tasks):
    batch = make_tasks((1,) * 6, 60, spread=0.9).batch
    used = []
    for complexity in (0.0, 1.0, 5.0):
        shares = kind(complexity=complexity, temperature=2.0).scores(batch).mean(axis=1)
        used.append(np.exp(-np.sum(shares * np.log(np.maximum(shares, 1e-30)), axis=1)).mean())
    assert used[0] > used[1] > used[2]


# ----------------------------------------------------------------------------------------------------- EM-Dirichlet


def test_the_density_is_that_of_scipy():
    rng = np.random.default_rng(0)
    laws, rows = rng.gamma(2.0, size=(2, 3, 4)), rng.dirichlet(np.ones(4), size=(2, 5))
    found = log_dirichlet(np.log(rows), laws)
    for b, i, k in np.ndindex(2, 5, 3):
        np.testing.assert_allclose(found[b, i, k], stats.dirichlet(laws[b, k]).logpdf(rows[b, i]))


@pytest.mark.parametrize("law", [[0.3, 2.0, 5.0], [50.0, 40.0, 60.0], [0.2, 0.2], [9.0, 1.0, 1.0, 1.0, 3.0]])
def test_steps_come_to_rest_at_the_likeliest_law_never_going_up(law):
    means = np.log(np.random.default_rng(1).dirichlet(law, size=4000)).mean(axis=0)
    found, costs = np.ones(len(law)), []
    for _ in range(30):
        costs.append(-log_dirichlet(means[None, None], found[None, None])[0, 0, 0])
        found = dirichlet_steps(found, means, 1)
    assert np.all(np.diff(costs) <= 1e-12)
    # Where the gradient is zero: psi(a_j) - psi(sum a) is the mean of log z_j.
    np.testing.assert_allclose(digamma(found) - digamma(found.sum()), means, atol=1e-9)
    np.testing.assert_allclose(found, law, rtol=0.2)


def test_rows_of_the_simplex_are_the_softmax_of_cosines_to_class_means(tasks):
    found = np.exp(EMDirichlet(temperature=4.0).simplex_rows(tasks.batch))
    for b, rows in enumerate(tasks.rows):
        means = [tasks.support[b][tasks.labels[b] == c].mean(axis=0) for c in range(tasks.n_classes)]
        for i, row in enumerate(rows):
            logits = [4 * row @ m / np.linalg.norm(row) / np.linalg.norm(m) for m in means]
            np.testing.assert_allclose(found[b, i], np.exp(logits) / np.exp(logits).sum(), rtol=1e-6)


@pytest.mark.parametrize("complexity", [0.0, 1.0, 3.0])
@pytest.mark.parametrize("prior", [0.5, 1.0])
def test_the_objective_of_em_dirichlet_never_rises(tasks, complexity, prior):
    values = []
    for n_iter in range(1, 12):
        method = EMDirichlet(temperature=3.0, complexity=complexity, prior=prior, n_iter=n_iter)
        values.append(method.objective(tasks.batch, *method.solve(tasks.batch)))
    steps = np.diff(values, axis=0)
    assert np.all(steps <= 1e-8 * (1 + np.abs(values[0])))
    assert np.any(steps < 0)


def test_assignments_are_what_the_laws_and_shares_say():
    batch, _ = far_apart(4, (5, 8, 2, 9), spread=2.0)
    before, after = (EMDirichlet(n_iter=n).solve(batch) for n in (4, 5))
    logs, shares = EMDirichlet().simplex_rows(batch)[0], before[0][0, 4:].mean(axis=0)
    for q in range(4, len(logs)):
        density = [stats.dirichlet(law).logpdf(np.exp(logs[q]) / np.exp(logs[q]).sum()) for law in after[1][0]]
        expected = np.exp(density - np.max(density)) * shares
        np.testing.assert_allclose(after[0][0, q], expected / expected.sum(), atol=1e-6)


@pytest.mark.parametrize("method", [Paddle(), EMDirichlet()], ids=repr)
def test_the_batch_is_not_written_to(method, tasks):
    batch = replace(tasks).batch
    gram = batch.gram.copy()
    method.scores(batch)
    np.testing.assert_array_equal(batch.gram, gram)
