"""What holds for every method that scores batches."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from laplacianshot.baselines import BatchedBaseline, TaskBatch
from laplacianshot.episodes.methods import METHODS, make_method

BATCHED = tuple(name for name in METHODS if isinstance(make_method(name), BatchedBaseline))


@pytest.fixture(params=BATCHED)
def method(request):
    return make_method(request.param)


def close(found, expected):
    # Some methods work in single precision whatever they are given; their many rounds let rounding grow.
    single = found.dtype == np.float32
    np.testing.assert_allclose(found, expected, rtol=1e-5, atol=0.03 if single else 1e-6)


def test_permuting_the_queries_permutes_their_scores(method, tasks):
    n_support = tasks.labels.shape[1]
    order = np.random.default_rng(1).permutation(tasks.query.shape[1])
    rows = np.concatenate([tasks.support, tasks.query[:, order]], axis=1)
    assert rows.shape[1] - n_support == len(order)
    close(method.scores(replace(tasks, rows=rows).batch), method.scores(tasks.batch)[:, order])


def test_permuting_the_support_changes_nothing(method, tasks):
    order = np.random.default_rng(2).permutation(tasks.labels.shape[1])
    rows = np.concatenate([tasks.support[:, order], tasks.query], axis=1)
    close(method.scores(replace(tasks, rows=rows, labels=tasks.labels[:, order]).batch), method.scores(tasks.batch))


def test_renaming_the_classes_permutes_the_columns(method, tasks):
    names = np.random.default_rng(3).permutation(tasks.n_classes)
    renamed = replace(tasks, labels=names[tasks.labels])
    close(method.scores(renamed.batch)[:, :, names], method.scores(tasks.batch))


def test_rotating_the_rows_changes_nothing(method, tasks):
    dim = tasks.rows.shape[2]
    rotation, _ = np.linalg.qr(np.random.default_rng(4).standard_normal((dim, dim)))
    close(method.scores(replace(tasks, rows=tasks.rows @ rotation).batch), method.scores(tasks.batch))


def test_a_task_is_scored_alike_whatever_tasks_it_is_batched_with(method, tasks):
    together = method.scores(tasks.batch)
    for chosen in ([0], [2, 0, 2]):
        some = replace(tasks, rows=tasks.rows[chosen], labels=tasks.labels[chosen])
        close(method.scores(some.batch), together[chosen])


def test_single_precision_finds_the_same_labels(method, make_tasks):
    tasks = make_tasks((2, 1, 3), 12, spread=0.2)
    found = method.scores(replace(tasks, rows=tasks.rows.astype(np.float32)).batch)
    assert found.shape == (4, 12, 3)
    np.testing.assert_array_equal(found.argmax(axis=2), method.scores(tasks.batch).argmax(axis=2))


def test_a_fit_finds_the_labels_of_largest_score(method, tasks):
    method.set_params(space="none")
    if "gamma" in method.get_params():
        # A bandwidth for rows of length one means nothing on rows as they are.
        method.set_params(gamma=None)
    found = method.scores(tasks.batch).argmax(axis=2)
    order = np.random.default_rng(5).permutation(tasks.rows.shape[1])
    for task in range(len(tasks.rows)):
        fitted = method.fit(tasks.rows[task][order], tasks.targets[task][order])
        labels = np.empty_like(fitted.transduction_)
        labels[order] = fitted.transduction_
        np.testing.assert_array_equal(labels[tasks.labels.shape[1] :], found[task])


@pytest.mark.parametrize("space", ["none", "l2", "cl2"])
def test_a_fit_does_not_see_a_rotation(method, space, tasks):
    method.set_params(space=space)
    dim = tasks.rows.shape[2]
    rotation, _ = np.linalg.qr(np.random.default_rng(6).standard_normal((dim, dim)))
    for rows, y in zip(tasks.rows, tasks.targets, strict=True):
        plain = method.fit(rows, y).transduction_.copy()
        np.testing.assert_array_equal(method.fit(rows @ rotation, y).transduction_, plain)


def degenerate(rows, labels):
    rows = np.asarray(rows, dtype=np.float32)[None]
    labels = np.asarray(labels)[None]
    return TaskBatch(rows @ np.swapaxes(rows, 1, 2), labels, labels.max() + 1)


LINE = np.arange(8.0)[:, None] * np.ones(3)


@pytest.mark.parametrize(
    "batch",
    [
        degenerate(np.zeros((8, 3)), [0, 1, 2]),
        degenerate(np.ones((8, 3)), [0, 1, 2]),
        degenerate(np.where(LINE < 4, 0, LINE), [0, 1, 0]),
        degenerate(np.repeat(LINE[:2], 4, axis=0), [0, 1, 1, 0]),
        degenerate(np.tile([[1.0, 0.0], [-1.0, 0.0]], (4, 1)), [0, 0, 1, 1]),
        degenerate(LINE, [0, 0, 0]),
        degenerate(LINE, [0, 1, 0, 1, 0, 1, 0]),
        degenerate(LINE, [0, 1, 0, 1, 0, 1, 0, 1]),
        degenerate(1e-12 * LINE, [0, 1, 2]),
        degenerate(1e6 * LINE, [0, 1, 2]),
    ],
    ids=[
        "zero rows",
        "equal rows",
        "some zero rows",
        "duplicates of different classes",
        "class means of zero",
        "one class",
        "one query",
        "no query",
        "tiny rows",
        "huge rows",
    ],
)
def test_scores_are_finite_for(method, batch):
    found = method.scores(batch)
    assert found.shape == (1, batch.n_query, batch.n_classes)
    assert np.isfinite(found).all()
