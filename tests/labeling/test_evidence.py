"""Evidence against its definition."""

import numpy as np
import pytest

from laplacianshot.labeling import evidence
from laplacianshot.labeling.evidence import COLUMNS, Margins, TaskEvidence, odds


def softmax(logits):
    e = np.exp(logits - logits.max(axis=1, keepdims=True))
    return e / e.sum(axis=1, keepdims=True)


def s(v):
    return np.sign(v) * np.log1p(np.abs(v))


def test_odds_are_those_of_the_softmax():
    rng = np.random.default_rng(0)
    logits = 3 * rng.standard_normal((50, 4))
    columns = rng.integers(0, 4, 50)
    p = softmax(logits)[np.arange(50), columns]
    np.testing.assert_allclose(odds(logits, columns), np.log(p / (1 - p)), rtol=1e-10)


def test_odds_of_certainty_are_bounded():
    logits = np.array([[0.0, -1e4], [-1e4, 0.0], [-1e30, -1e30]])
    np.testing.assert_array_equal(odds(logits, np.array([0, 0, 0])), [40.0, -40.0, 0.0])


def test_columns_are_those_of_their_names():
    rng = np.random.default_rng(1)
    rows, first = rng.standard_normal((30, 3)), rng.standard_normal((4, 3))
    Y = softmax(2 * rng.standard_normal((30, 4)))
    margins = Margins.of_queries(rows, Y, first, tau=0.7)
    c = Y.argmax(axis=1)
    shares = Y.mean(axis=0)
    found = dict(zip(COLUMNS, TaskEvidence.of(margins, shares, n_support=8).columns(margins).T, strict=True))

    assigned = np.log(Y.max(axis=1) / (1 - Y.max(axis=1)))
    unary = ((rows[:, None] - first[None]) ** 2).sum(axis=2)
    p = softmax(-0.7 * unary)[np.arange(30), c]
    nearest = np.log(p / (1 - p))
    agreement = np.mean(unary.argmin(axis=1) == c)
    expected = {
        "s(assigned)": s(assigned),
        "s(first)": s(nearest),
        "s(assigned)^2": s(assigned) ** 2,
        "s(first)^2": s(nearest) ** 2,
        "s(assigned) s(first)": s(assigned) * s(nearest),
        "share": np.log(4 * shares[c]),
        "labels": np.log(2),
        "classes": np.log(4),
        "rows": np.log(30 / 4),
        "agreement": np.log(agreement / (1 - agreement)),
        "mean assigned": assigned.mean(),
        "balance": np.exp(-np.sum(shares * np.log(4 * shares)) / 0.02),
    }
    assert set(expected) == set(COLUMNS)
    for name, value in expected.items():
        np.testing.assert_allclose(found[name], np.broadcast_to(value, 30), rtol=1e-8, atol=1e-10, err_msg=name)


def test_blocks_of_rows_change_nothing(monkeypatch):
    rng = np.random.default_rng(2)
    rows, first, Y = rng.standard_normal((50, 3)), rng.standard_normal((4, 3)), softmax(rng.standard_normal((50, 4)))
    whole = Margins.of_queries(rows, Y, first, tau=1.0)
    monkeypatch.setattr(evidence, "_BLOCK_ROWS", 7)
    parts = Margins.of_queries(rows, Y, first, tau=1.0)
    np.testing.assert_array_equal(parts.predicted, whole.predicted)
    np.testing.assert_allclose(parts.first, whole.first, rtol=1e-9)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_vanished_assignments_and_shares_give_finite_columns(dtype):
    Y = np.zeros((5, 3), dtype)
    Y[:, 1] = 1
    margins = Margins.of_queries(np.zeros((5, 2), dtype), Y, np.zeros((3, 2), dtype), tau=1.0)
    columns = TaskEvidence.of(margins, Y.mean(axis=0), 3).columns(margins)
    assert np.isfinite(columns).all()
