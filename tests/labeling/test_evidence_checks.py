"""Small tasks with known answers: what is held out stays out."""

import numpy as np
import pytest

from laplacianshot.labeling import evidence
from laplacianshot.labeling.evidence import COLUMNS, FittedTask, draw_checks


def make_fitted(shots, n_classes=4, per_class=30, spread=0.05, dim=8, seed=0):
    """Rows of unit length around the axes; all of them different."""
    rng = np.random.default_rng(seed)
    shots = np.broadcast_to(shots, n_classes)
    labels = np.repeat(np.arange(n_classes), shots)
    truth = np.repeat(np.arange(n_classes), per_class)
    rows = np.eye(n_classes, dim)[np.concatenate([labels, truth])] - 1 / n_classes
    rows = (rows + spread * rng.standard_normal(rows.shape)).astype(np.float32)
    rows /= np.linalg.norm(rows, axis=1, keepdims=True)
    return FittedTask(rows[: len(labels)], labels, rows[len(labels) :], truth, np.zeros(dim, np.float32), n_classes)


def tasks_of(draw, fitted, seed=0):
    counts = np.bincount(fitted.labels, minlength=fitted.n_classes)
    found = np.bincount(fitted.predicted, minlength=fitted.n_classes)
    return list(draw(fitted, counts, found, np.random.default_rng(seed)))


def position(rows, row):
    (where,) = np.flatnonzero((rows == row).all(axis=1))
    return where


def test_a_held_out_row_is_asked_once_and_never_teaches_its_own_task():
    fitted = make_fitted(3)
    asked = []
    for support, labels, queries, answers in tasks_of(evidence._held_out_tasks, fitted):
        held = [position(fitted.support, row) for row in queries[: len(answers)]]
        taught = [position(fitted.support, row) for row in support]
        assert not set(held) & set(taught)
        assert len(held) + len(taught) == len(fitted.support)
        # Classes get new numbers, for support and answers alike.
        number = {fitted.labels[row]: answer for row, answer in zip(held, answers, strict=True)}
        assert [number[fitted.labels[row]] for row in taught] == labels.tolist()
        asked += held
    assert sorted(asked) == list(range(len(fitted.support)))


def test_simulated_tasks_take_as_many_labels_as_were_given():
    fitted = make_fitted([1, 1, 1, 2])
    for support, labels, queries, answers in tasks_of(evidence._simulated_tasks, fitted):
        taught = [position(fitted.query, row) for row in support]
        asked = [position(fitted.query, row) for row in queries]
        assert not set(taught) & set(asked)
        assert sorted(np.bincount(labels)) == [1, 1, 1, 2]
        assert len(answers) == len(queries)
        number = dict(zip(fitted.predicted[taught], labels, strict=True))
        assert [number[c] for c in fitted.predicted[asked]] == answers.tolist()


@pytest.mark.parametrize(("shots", "simulated"), [(1, True), (2, False), ([2, 2, 1, 1], False), ([2, 1, 1, 1], True)])
def test_answers_are_simulated_where_most_classes_have_one_label(shots, simulated):
    checks = draw_checks(make_fitted(shots), np.random.default_rng(0))
    assert checks.simulated is simulated
    assert checks.columns.shape == (len(checks), len(COLUMNS))
    assert len(checks) > 0


@pytest.mark.parametrize("shots", [1, 5])
def test_clear_classes_are_right_and_noise_is_not(shots):
    clear = draw_checks(make_fitted(shots), np.random.default_rng(0))
    noise = draw_checks(make_fitted(shots, spread=5.0), np.random.default_rng(0))
    assert clear.right.mean() > 0.98
    assert noise.right.mean() < 0.6


def test_small_tasks_stay_small():
    fitted = make_fitted(30, n_classes=150, per_class=40, dim=160)
    for draw in (evidence._held_out_tasks, evidence._simulated_tasks):
        for support, _, queries, _ in tasks_of(draw, fitted):
            assert len(support) + len(queries) <= 1.1 * evidence._MAX_ROWS


def test_the_same_seed_gives_the_same_checks():
    fitted = make_fitted(2)
    first, second = (draw_checks(fitted, np.random.default_rng(3)) for _ in range(2))
    np.testing.assert_array_equal(first.columns, second.columns)


def test_tasks_that_are_too_small_give_no_answers():
    lonely = make_fitted(1, n_classes=3, per_class=1)
    assert len(draw_checks(lonely, np.random.default_rng(0))) == 0
