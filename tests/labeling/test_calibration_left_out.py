"""What is said of a given row without its label, against its definition written a second time, row by row."""

import numpy as np
import pytest
from sklearn.datasets import load_digits

from laplacianshot import LaplacianShot
from laplacianshot.labeling import calibration
from laplacianshot.labeling.calibration import left_out_logits


def make_task(seed=0, n=60, n_classes=3, shots=3, dim=5):
    rng = np.random.default_rng(seed)
    truth = rng.integers(0, n_classes, n)
    truth[:n_classes] = np.arange(n_classes)
    X = 2 * np.eye(n_classes, dim)[truth] + 0.5 * rng.standard_normal((n, dim))
    codes = np.full(n, -1)
    for c in range(n_classes):
        codes[np.flatnonzero(truth == c)[:shots]] = c
    return X, codes, truth


def by_hand(model, codes, row):
    """Logits of one given row: every sum a loop."""
    given, queries = np.flatnonzero(codes >= 0), np.flatnonzero(codes < 0)
    n_classes = len(model.classes_)
    constants = model.solution_.constants
    points = np.empty_like(model.solution_.rule.points)
    points[np.concatenate([given, queries])] = model.solution_.rule.points
    W, Y, tau, own = model.affinity_.toarray(), model.label_distributions_, model.solution_.tau, codes[row]
    beta, pull = constants.beta, constants.lam * constants.e
    logits = model.solution_.bias.astype(float)
    for c in range(n_classes):
        mean, mass = model.prototypes_[c], beta * np.sum(codes == c) + constants.kappa + Y[queries, c].sum()
        if c == own:
            mean = (mass * mean - beta * points[row]) / (mass - beta)
        logits[c] -= tau * np.sum((points[row] - mean) ** 2)
    for p in np.flatnonzero(W[row]):
        if codes[p] >= 0:
            logits[codes[p]] += pull * W[row, p]
            continue
        vote = np.log(np.maximum(Y[p], 1e-300))
        vote[own] -= pull * W[row, p]
        vote = np.exp(vote - vote.max())
        logits += constants.lam * W[row, p] * vote / vote.sum()
    return logits


@pytest.mark.parametrize("shots", [1, 4])
def test_the_logits_are_those_of_the_definition(shots):
    X, codes, _ = make_task(shots=shots)
    model = LaplacianShot().fit(X, codes)
    found = left_out_logits(model, codes)
    for position, row in enumerate(np.flatnonzero(codes >= 0)):
        np.testing.assert_allclose(found[position], by_hand(model, codes, row), rtol=1e-9, atol=1e-9)


def test_blocks_of_rows_change_nothing(monkeypatch):
    X, codes, _ = make_task(n=90, shots=9)
    model = LaplacianShot().fit(X, codes)
    whole = left_out_logits(model, codes)
    monkeypatch.setattr(calibration, "_BLOCK_ENTRIES", 20)
    np.testing.assert_allclose(left_out_logits(model, codes), whole, rtol=1e-12)


def test_it_is_near_to_what_a_fit_without_the_label_says():
    X, digits = (rows[:600] for rows in load_digits(return_X_y=True))
    rng = np.random.default_rng(0)
    codes = np.full(len(X), -1)
    for c in range(10):
        codes[rng.permutation(np.flatnonzero(digits == c))[:5]] = c
    model = LaplacianShot().fit(X, codes)
    cheap = left_out_logits(model, codes).argmax(axis=1)[::2]
    refitted = []
    for row in np.flatnonzero(codes >= 0)[::2]:
        without = codes.copy()
        without[row] = -1
        refitted.append(LaplacianShot().fit(X, without).label_distributions_[row].argmax())
    assert np.mean(cheap == np.array(refitted)) >= 0.9


def test_no_edges_and_no_queries_are_fine():
    X, codes, truth = make_task()
    everything = LaplacianShot().fit(X, truth)
    assert np.isfinite(left_out_logits(everything, truth)).all()
    alone = LaplacianShot(graph=0 * LaplacianShot().fit(X, codes).affinity_).fit(X, codes)
    assert np.isfinite(left_out_logits(alone, codes)).all()
