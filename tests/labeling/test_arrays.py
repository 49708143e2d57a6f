"""label(X, y): arrays and DataFrames in, calibrated labels out."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

from laplacianshot import LaplacianShot, label
from laplacianshot.labeling.errors import LabelingError
from tests.labeling.test_model import groups


@pytest.fixture(scope="module")
def task():
    X, truth = groups()
    return X, np.where(np.arange(len(X)) < 12, truth, -1), truth


def test_labels_are_those_of_the_estimator(task):
    X, y, _ = task
    result = label(X, y)
    np.testing.assert_array_equal(result.labels, LaplacianShot().fit(X, y).transduction_)
    assert result.ids[:3] == (0, 1, 2)
    assert result.classes == (0, 1, 2, 3)
    assert result.origins.count("given") == 12


def test_confidence_is_calibrated_where_assignments_are_not():
    X, truth = groups(900, 6, noise=1.4)
    y = np.where(np.arange(len(X)) < 30, truth, -1)
    result, unlabeled = label(X, y), y < 0
    accuracy = np.mean(np.array(result.labels)[unlabeled] == truth[unlabeled])
    assert abs(result.confidence[unlabeled].mean() - accuracy) < 0.1


def test_a_frame_keeps_its_index_and_names_its_label_column(task):
    X, y, truth = task
    frame = pd.DataFrame(X, index=[f"item {i}" for i in range(len(X))]).add_prefix("x")
    frame["kind"] = np.where(y >= 0, np.array(["a", "b", "c", "d"])[truth], None)
    result = label(frame, "kind", suggest=3)
    out = result.to_frame()
    assert out.index.tolist() == frame.index.tolist()
    assert list(out) == ["label", "confidence", "origin", "suggestion", "dispute", "novelty"]
    assert (out["label"] == np.array(["a", "b", "c", "d"])[truth]).mean() > 0.95
    assert sorted(out["suggestion"].dropna()) == [1, 2, 3]
    assert label(frame.drop(columns="kind"), frame["kind"]).labels == result.labels


def test_numbers_stay_numbers_and_minus_one_is_no_label(task):
    X, y, _ = task
    result = label(X, y, reject=0.1)
    assert set(result.labels) <= {-1, 0, 1, 2, 3}
    assert result.labels.count(-1) == result.origins.count("rejected") == 23
    assert result.to_frame()["label"].dtype == np.int64


def test_names_prior_and_shares_reach_the_estimator(task):
    X, y, truth = task
    centers = np.stack([X[truth == c].mean(axis=0) for c in range(4)])
    by_names = label(X, names=centers, classes=["d", "c", "b", "a"])
    assert np.mean(np.array(by_names.labels) == np.array(["d", "c", "b", "a"])[truth]) > 0.9
    assert by_names.origins.count("given") == 0
    P = np.full((len(X), 4), 0.1)
    P[np.arange(len(X)), truth] = 0.7
    order = [2, 0, 3, 1]
    by_prior = label(X, prior=P[:, order], classes=order)
    assert np.mean(np.array(by_prior.labels) == truth) > 0.9
    both = label(X, names=centers[order], prior=P[:, order], classes=order)
    assert np.mean(np.array(both.labels) == truth) > 0.9
    shares = label(X, y, class_shares=[0.25] * 4)
    assert np.mean(np.array(shares.labels) == truth) > 0.95


def test_without_labels_only_suggestions_are_made(task):
    result = label(task[0], suggest=5)
    assert len(result.suggested) == 5
    assert result.model is None
    assert result.to_frame()["confidence"].isna().all()


@pytest.mark.parametrize(
    ("arguments", "named"),
    [
        ({}, "suggest=10"),
        ({"y": np.full(240, -1)}, "no labeled row"),
        ({"y": np.where(np.arange(240) < 3, 1, -1)}, "one class only"),
        ({"y": np.zeros(3)}, "240"),
        ({"y": "kind"}, "not a DataFrame"),
        ({"y": np.arange(240) % 4, "classes": [0, 1]}, "give one of them"),
        ({"y": np.arange(240) % 4, "reject": 2}, "reject"),
        ({"names": np.zeros((2, 3))}, "names"),
    ],
)
def test_what_cannot_be_labeled_is_named_in_one_line(task, arguments, named):
    with pytest.raises(LabelingError, match=named) as caught:
        label(task[0], **arguments)
    assert "\n" not in str(caught.value)


def test_frames_with_texts_gaps_or_equal_ids_are_named():
    frame = pd.DataFrame({"a": [1.0, 2, 3, 4], "b": [1.0, 2, 3, 4]})
    with pytest.raises(LabelingError, match="'c'"):
        label(frame.assign(c="text"), [0, 1, -1, -1])
    with pytest.raises(LabelingError, match="finite"):
        label(frame.assign(a=[1, None, 2, 3]), [0, 1, -1, -1])
    with pytest.raises(LabelingError, match="reset_index"):
        label(frame.set_index(pd.Index([1, 1, 2, 3])), [0, 1, -1, -1])
    with pytest.raises(LabelingError, match="no such column"):
        label(frame, "kind")
