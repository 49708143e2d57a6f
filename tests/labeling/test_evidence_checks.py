"""Small tasks with known answers: what is held out stays out."""

import numpy as np
import pytest

from laplacianshot.inference.clues import Answers
from laplacianshot.inference.joint import NO_CLUES
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
    origin = np.zeros(dim, np.float32)
    return FittedTask(
        rows[: len(labels)], labels, rows[len(labels) :], truth, origin, n_classes, Answers(), local=False
    )


def sample_of(fitted):
    rng = np.random.default_rng(0)
    return evidence._Sample.of(fitted, np.arange(fitted.n_classes), NO_CLUES, rng)


def test_simulated_tasks_take_as_many_labels_as_were_given():
    sample = sample_of(make_fitted([1, 1, 1, 2]))
    for check in sample.simulated_tasks(np.random.default_rng(0)):
        taught = np.flatnonzero(check.classes >= 0)
        assert not set(taught) & set(check.asked)
        np.testing.assert_array_equal(check.classes[taught], sample.predicted[taught])
        assert np.bincount(check.classes[taught]).tolist() == [1, 1, 1, 2]
        np.testing.assert_array_equal(check.answers, sample.predicted[check.asked])


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


def test_the_same_seed_gives_the_same_checks():
    fitted = make_fitted(2)
    first, second = (draw_checks(fitted, np.random.default_rng(3)) for _ in range(2))
    np.testing.assert_array_equal(first.columns, second.columns)


def test_tasks_that_are_too_small_give_no_answers():
    lonely = make_fitted(1, n_classes=3, per_class=1)
    assert len(draw_checks(lonely, np.random.default_rng(0))) == 0
