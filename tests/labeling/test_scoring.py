from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from scipy.stats import binomtest
from sklearn.metrics import confusion_matrix, f1_score, precision_score, recall_score

from laplacianshot.labeling.errors import LabelingError
from laplacianshot.labeling.outputs import write_rows
from laplacianshot.labeling.scoring import score
from tests.labeling.files import result_of, written


@pytest.fixture
def out():
    """Four given labels, a rejected item, and 95 predictions of three classes."""
    rng = np.random.default_rng(0)
    truth = rng.choice(["coot", "heron", "swan"], 100)
    label = np.where(rng.random(100) < 0.7, truth, rng.choice(["coot", "heron", "swan"], 100))
    frame = pd.DataFrame({"id": range(100), "label": label, "confidence": rng.random(100), "origin": "predicted"})
    frame.loc[:3, "origin"] = "given"
    frame.loc[:3, "label"] = truth[:4]
    frame.loc[4, ["label", "origin"]] = ["", "rejected"]
    return frame.assign(truth=truth)


def test_figures_are_those_of_scikit_learn(out):
    found = score(out, truth_column="truth")
    rows = out.iloc[5:]
    names = list(found.classes)
    np.testing.assert_array_equal(found.confusion, confusion_matrix(rows["truth"], rows["label"], labels=names))
    per_class = {"labels": names, "average": None}
    for figure, of in (("recall", recall_score), ("precision", precision_score), ("f1", f1_score)):
        expected = of(rows["truth"], rows["label"], **per_class)
        np.testing.assert_allclose([getattr(one, figure) for one in found.per_class], expected)
    assert found.accuracy == (rows["truth"] == rows["label"]).mean()
    interval = binomtest(found.right, found.n).proportion_ci(method="wilson")
    assert found.interval == (interval.low, interval.high)
    assert (found.n, found.n_given, found.given_wrong, found.n_rejected) == (95, 4, 0, 1)


def test_the_calibration_error_is_that_of_its_definition(out):
    found = score(out, truth_column="truth")
    rows = out.iloc[5:]
    bins = np.minimum((10 * rows["confidence"]).astype(int), 9)
    right = (rows["truth"] == rows["label"]).astype(float)
    gaps = [
        (bins == number).mean() * abs(right[bins == number].mean() - rows["confidence"][bins == number].mean())
        for number in range(10)
        if (bins == number).any()
    ]
    assert found.calibration_error == pytest.approx(sum(gaps))
    assert found.expected == pytest.approx(rows["confidence"].mean())
    assert sum(one.n for one in found.bins) == 95


def test_mistakes_come_with_the_most_frequent_first(out):
    pairs = score(out, truth_column="truth").mistakes()
    assert (
        sum(count for *_, count in pairs) == score(out, truth_column="truth").n - score(out, truth_column="truth").right
    )
    assert [count for *_, count in pairs] == sorted((count for *_, count in pairs), reverse=True)
    assert all(true != label for true, label, _ in pairs)


def test_a_file_of_truth_may_be_a_sample_in_another_order_and_spelling(tmp_path):
    write_rows(result_of(["a/1.png", "a/2.png", "b/3.png", "4.png"], ["x", "y", "x", "y"]), tmp_path / "out.csv")
    truth = written(tmp_path / "truth.csv", "label,id\ny, 4.png\nx,.\\b\\3.png\n")
    assert repr(score(tmp_path / "out.csv", truth)) == "Score(2 of 2 right: 100.0%, 34.2% to 100.0%)"


def test_a_result_is_scored_without_a_file():
    result = result_of(["0", "1", "2", "3"], ["x", "y", "x", "y"])
    assert score(result, {2: "x", 3: "x"}).right == 1


def test_a_label_that_a_person_changed_is_not_a_prediction(tmp_path):
    write_rows(result_of(["0", "1", "2", "3"], ["x", "y", "x", "y"]), tmp_path / "out.csv")
    out = pd.read_csv(tmp_path / "out.csv")
    out.loc[3, "label"] = "x"
    found = score(out, {0: "x", 2: "x", 3: "x"})
    assert (found.n, found.n_given) == (1, 2)


def test_given_labels_that_differ_from_the_truth_are_counted(out):
    out.loc[0, "label"] = "gull"
    assert score(out, truth_column="truth").given_wrong == 1


def test_tables_of_other_programs_need_ids_and_labels_alone():
    found = score(pd.DataFrame({"id": ["a", "b"], "label": [1, 2]}), pd.DataFrame({"id": ["b", "a"], "label": [2, 1]}))
    assert (found.right, found.bins, found.expected, found.calibration_error) == (2, (), None, None)


def test_what_a_reader_must_know_is_a_note(out):
    truth = pd.DataFrame({"id": [*range(10, 100), 555], "label": [*out["truth"][10:], "swan"]})
    truth.loc[0, "label"] = "gull"
    truth.loc[1, "label"] = "Swan"
    notes = score(out, truth).notes
    assert notes[0] == "1 ids of DataFrame are not in DataFrame and are not scored: '555'."
    assert notes[1].startswith("Classes that are never predicted, so that their 2 items count as wrong: 'Swan', 'gull'")
    assert notes[2] == "Classes that differ only in case count as different: 'Swan', 'swan'."


@pytest.mark.parametrize(
    ("out", "truth", "said"),
    [
        (
            "id,label\na,x\n",
            "id,label\n7,x\n",
            r"truth\.csv: none of its 1 ids is in .*out\.csv, such as '7'; the ids of",
        ),
        ("id,label\na,x\n", "id,label\na,1\n", r"none of its classes, '1', is one of those in .*out\.csv, 'x'"),
        ("id,label\na,x\n", "id,label\na,\n", "no item has a true label; there is nothing to compare"),
        ("id,label\na,\n", "id,label\na,x\n", "none of the 1 items with a true label has a predicted one"),
        (
            "id,label\na,x\na,y\n",
            "id,label\na,x\n",
            r"out\.csv: ids are there more than once, 'a' \(line 2 and line 3\)",
        ),
        ("id,label\na,x\n", "id,label\na,x\na,y\n", r"truth\.csv: items have two labels, 'a' \(line 2 and line 3\)"),
        ("id,topic\na,x\n", "id,label\na,x\n", r"out\.csv has no column 'label', its columns are 'id', 'topic'"),
        ("id,label\na,x\n", "name,label\na,x\n", r"truth\.csv has no column 'id'"),
        ("id,label,confidence\na,x,90\n", "id,label\na,x\n", r"line 2: a confidence must be between 0 and 1, got 90"),
        ("id,label,confidence\na,x,high\n", "id,label\na,x\n", "column 'confidence' must hold numbers"),
    ],
)
def test_what_cannot_be_compared_is_an_error_of_one_line(tmp_path, out, truth, said):
    with pytest.raises(LabelingError, match=said) as caught:
        score(written(tmp_path / "out.csv", out), written(tmp_path / "truth.csv", truth))
    assert "\n" not in str(caught.value)


def test_a_missing_file_and_a_missing_column_are_errors(tmp_path):
    out = written(tmp_path / "out.csv", "id,label\na,x\n")
    with pytest.raises(LabelingError, match=r"truth: there is no file '.*gone\.csv'"):
        score(out, tmp_path / "gone.csv")
    with pytest.raises(LabelingError, match="truth column 'topic' is not a column"):
        score(out, truth_column="topic")
    with pytest.raises(LabelingError, match="give a file of true labels"):
        score(out)
