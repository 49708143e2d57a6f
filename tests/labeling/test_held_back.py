"""Checks of the confidence: a task is solved again without some labels, as it was solved with them."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from laplacianshot import LaplacianShot
from laplacianshot.inference.clues import Answers
from laplacianshot.inference.joint import NO_CLUES
from laplacianshot.labeling import evidence
from laplacianshot.labeling.calibration import calibrate, gather
from laplacianshot.labeling.evidence import FittedTask


def blobs(n_classes, shots, per_class=20, spread=0.4, seed=0):
    """Rows, codes of the labeled ones, and all classes."""
    rng = np.random.default_rng(seed)
    truth = np.repeat(np.arange(n_classes), per_class)
    X = 2 * np.eye(n_classes, n_classes + 3)[truth] + spread * rng.standard_normal((len(truth), n_classes + 3))
    return X, np.where(np.arange(len(truth)) % per_class < shots, truth, -1), truth


def sample_of(labels, n_classes, n_query=6):
    rng = np.random.default_rng(0)
    support, query = rng.standard_normal((len(labels), 3)), rng.standard_normal((n_query, 3))
    predicted = np.arange(n_query) % n_classes
    fitted = FittedTask(support, labels, query, predicted, np.zeros(3), n_classes, Answers(), local=False)
    return evidence._Sample.of(fitted, np.arange(n_classes), NO_CLUES, rng)


@settings(max_examples=50, deadline=None)
@given(st.lists(st.integers(0, 3), min_size=1, max_size=60))
def test_each_label_is_held_back_once_and_each_class_keeps_one(labels):
    sample = sample_of(np.array(labels), 4)
    kept = sample.given[sample.given >= 0]
    counts = np.bincount(kept, minlength=4)
    checks = list(sample.held_out_tasks())
    held = np.concatenate([np.zeros(0, np.int64), *(check.asked for check in checks)])
    assert sorted(held.tolist()) == np.flatnonzero((sample.given >= 0) & (counts[sample.given] > 1)).tolist()
    for check in checks:
        assert set(check.classes[check.classes >= 0]) == set(kept)
        np.testing.assert_array_equal(check.answers, sample.given[check.asked])
        assert (check.classes[check.asked] == -1).all()


def test_held_back_labels_are_looked_for_along_the_graph_where_the_fit_took_it():
    rng = np.random.default_rng(0)
    truth = np.repeat(np.arange(3), 200)
    angle = rng.uniform(0, 2 * np.pi, len(truth))
    X = (1 + truth)[:, None] * np.column_stack([np.cos(angle), np.sin(angle)])
    X += 0.08 * rng.standard_normal(X.shape)
    codes = np.full(len(X), -1)
    for c in range(3):
        codes[rng.permutation(np.flatnonzero(truth == c))[:10]] = c
    model = LaplacianShot().fit(X, codes)
    assert model.solution_.answers.shares[2] > 0.5
    assert np.mean(model.transduction_ == truth) > 0.97
    assert gather(model, codes).checks.right.sum() >= 28
    # Prototypes of rings about one center, the recipe without labels that spread, tell nothing apart.
    model.solution_ = replace(model.solution_, answers=Answers())
    assert gather(model, codes).checks.right.sum() < 20


@pytest.mark.parametrize("shots", [1, 2])
def test_one_label_per_class_is_replaced_by_predictions(shots):
    X, codes, _ = blobs(4, shots)
    checks = gather(LaplacianShot().fit(X, codes), codes).checks
    assert checks.simulated == (shots == 1)
    assert len(checks) == (76 * 4 if shots == 1 else 8)


def test_many_classes_and_rows_are_sampled(monkeypatch):
    X, codes, _ = blobs(8, 3, per_class=30)
    model = LaplacianShot().fit(X, codes)
    for name, value in (("_MAX_CLASSES", 3), ("_MAX_ROWS", 20), ("_MAX_GIVEN", 2)):
        monkeypatch.setattr(evidence, name, value)
    sizes = []
    whole = evidence.joint_optimize

    def seen(support, labels, query, *rest, **more):
        sizes.append((len(support), len(query), labels.max() + 1))
        return whole(support, labels, query, *rest, **more)

    monkeypatch.setattr(evidence, "joint_optimize", seen)
    assert len(gather(model, codes).checks) == 6
    assert sizes == [(3, 23, 3), (3, 23, 3)]


def test_what_names_say_is_part_of_the_checks():
    X, codes, _ = blobs(4, 2, spread=1.5, seed=1)
    names = 2 * np.eye(4, 7)
    X += 5
    with_names = LaplacianShot(transform="none").fit(X, codes, names=names + 5)
    found = calibrate(with_names, codes)
    assert np.isfinite(found.probabilities).all()
    assert "8 given labels" in found.source


def test_labels_from_names_alone_are_said_to_be_unchecked():
    X, _, _ = blobs(4, 2)
    nothing = np.full(len(X), -1)
    found = calibrate(LaplacianShot(transform="none").fit(X + 5, nothing, names=2 * np.eye(4, 7) + 5), nothing)
    assert found.source.startswith("No label has checked it")
    assert found.spread[0] > 1
