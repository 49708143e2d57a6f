"""Names of classes, scores and shares at the edge: read, encoded and used by ``label_source``."""

import csv
from types import SimpleNamespace

import numpy as np
import pytest

from laplacianshot import label_source
from laplacianshot.inference.clues import Answers
from laplacianshot.labeling.calibration import unchecked_shift
from laplacianshot.labeling.classes import read_classes, read_prior, read_shares
from laplacianshot.labeling.errors import LabelingError
from laplacianshot.labeling.sources import open_source

WORDS = ("ant", "bee", "cat")


@pytest.fixture
def vectors(tmp_path):
    """Rows about three directions, with the file of them, the true classes and the directions as names."""
    rng = np.random.default_rng(0)
    centers = rng.standard_normal((3, 48))
    truth = rng.permutation(np.repeat(np.arange(3), 40))
    path = tmp_path / "v.npy"
    np.save(path, centers[truth] + 0.6 * rng.standard_normal((120, 48)))
    return path, truth, centers + 0.3 * rng.standard_normal((3, 48))


def right(result, truth):
    return np.mean(np.array(result.labels) == np.array(WORDS)[truth])


def write(path, header, rows):
    with path.open("w", encoding="utf-8", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(header)
        writer.writerows(rows)
    return path


def test_names_are_read_from_a_text_with_commas():
    assert read_classes("card lost, refund,  change address").names == ("card lost", "refund", "change address")


def test_a_file_holds_a_class_in_each_line_and_several_descriptions(tmp_path):
    path = tmp_path / "names.txt"
    path.write_text("# intents\nrefund: money back\n\ncard lost\nrefund: give me back what I paid\n", encoding="utf-8")
    found = read_classes(path)
    assert found.names == ("refund", "card lost")
    assert found.texts == (("money back", "give me back what I paid"), ())
    assert read_classes(str(path)) == found


def test_a_mapping_holds_descriptions_or_vectors():
    assert read_classes({"a": "first", "b": ["one", "two"]}).texts == (("first",), ("one", "two"))
    np.testing.assert_array_equal(read_classes({"a": [1.0, 0], "b": [0.0, 1]}).vectors, np.eye(2))


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ("a, a", "'a' is there twice"),
        ("a,,b", "has no name"),
        ([], "there is no class"),
        ("", "has no name"),
        ("nowhere.txt", "there is no file"),
        ({"a": [1.0, 2.0], "b": "text"}, "vectors of all classes"),
        ({"a": [1.0, 2.0], "b": [1.0]}, "one length"),
    ],
)
def test_bad_classes_are_refused(given, message):
    with pytest.raises(LabelingError, match=message):
        read_classes(given)


def test_vectors_are_labeled_from_vectors_of_names(vectors):
    path, truth, names = vectors
    result = label_source(path, classes=dict(zip(WORDS, names, strict=True)))
    assert right(result, truth) > 0.95
    assert set(result.origins) == {"predicted"}
    assert 0.5 < result.confidence.mean() < 1
    assert any("Names of 3 classes: counted in full" in note for note in result.notes)


def test_labels_from_names_alone_are_less_certain_where_neighbors_disagree():
    answers = [Answers(hints=SimpleNamespace(n_labels=0, agreement=share)) for share in (0.9, 0.5, 0.1)]
    assert [round(unchecked_shift(one), 3) for one in answers] == [-0.5, -0.5, -2.697]
    assert unchecked_shift(Answers(hints=SimpleNamespace(n_labels=3, agreement=0.1))) == 0
    assert unchecked_shift(Answers()) == unchecked_shift(None) == 0


def test_names_may_lie_in_a_file_of_arrays(vectors, tmp_path):
    path, truth, names = vectors
    np.savez(tmp_path / "names.npz", names=names[[2, 0, 1]], class_names=["cat", "ant", "bee"])
    assert right(label_source(path, classes=tmp_path / "names.npz"), truth) > 0.95


def test_labels_of_one_class_are_enough_if_the_others_have_a_name(vectors):
    path, truth, names = vectors
    labels = {str(i): "cat" for i in np.flatnonzero(truth == 2)[:2]}
    result = label_source(path, labels, classes={"ant": names[0], "bee": names[1]})
    assert result.classes == WORDS
    assert right(result, truth) > 0.9
    assert any("does not name: 'cat'" in note for note in result.notes)


def test_what_fits_no_name_is_rejected_first(vectors):
    path, truth, names = vectors
    result = label_source(path, classes={"ant": names[0], "bee": names[1]}, reject=0.3)
    assert np.mean(truth[np.array(result.origins) == "rejected"] == 2) > 0.9


def test_names_make_suggestions_from_the_start(vectors):
    path, _, names = vectors
    result = label_source(path, classes=dict(zip(WORDS, names, strict=True)), suggest=4)
    assert len(result.suggested) == 4


def test_scores_of_another_model_are_mended(vectors, tmp_path):
    path, truth, _ = vectors
    rng = np.random.default_rng(1)
    said = np.where(rng.random(120) < 0.3, rng.integers(0, 3, 120), truth)
    rows = [[i, *np.eye(3)[said[i]]] for i in range(0, 120, 2)]
    table = write(tmp_path / "scores.csv", ["id", "cat", "ant", "bee"], [[i, c, a, b] for i, a, b, c in rows])
    result = label_source(path, prior=table)
    assert result.classes == WORDS
    assert right(result, truth) > 0.95 > np.mean(said == truth)


def test_scores_are_read_by_id_and_need_not_sum_to_one(vectors, tmp_path):
    path, _, _ = vectors
    rows = [[5, 2, 2], [7, "", 1], [9, 0, 0]]
    names, P = read_prior(write(tmp_path / "s.csv", ["id", "a", "b"], rows), open_source(path))
    assert names == ("a", "b")
    np.testing.assert_array_equal(P[5], [0.5, 0.5])
    assert np.isnan(np.delete(P, 5, axis=0)).all()


@pytest.mark.parametrize(
    ("header", "row", "message"),
    [
        (["name", "a", "b"], [1, 1, 0], "no column 'id'"),
        (["id", "a"], [1, 1], "scores of 1 classes"),
        (["id", "a", "b"], [1, "much", 0], "'a' must hold numbers"),
        (["id", "a", "b"], [1, -1, 2], "negative scores"),
        (["id", "a", "b"], [999, 1, 0], "has the id '999'"),
    ],
)
def test_bad_scores_are_refused(vectors, tmp_path, header, row, message):
    with pytest.raises(LabelingError, match=message):
        label_source(vectors[0], prior=write(tmp_path / "s.csv", header, [row]))


def test_shares_are_read_from_a_table_in_the_order_of_the_classes(tmp_path):
    table = write(tmp_path / "shares.csv", ["class", "share"], [["bee", 2], ["ant", 1]])
    np.testing.assert_array_equal(read_shares(table, ("ant", "bee")), [1, 2])
    assert read_shares("equal", ("ant", "bee")) == "equal"
    with pytest.raises(LabelingError, match="no share of 'cat'"):
        read_shares(table, WORDS)
    with pytest.raises(LabelingError, match="no file 'most'"):
        read_shares("most", WORDS)


def test_shares_reach_the_fit(vectors):
    path, truth, names = vectors
    result = label_source(
        path, classes=dict(zip(WORDS, names, strict=True)), class_shares={"ant": 1, "bee": 1, "cat": 1}
    )
    assert right(result, truth) > 0.95
    with pytest.raises(LabelingError, match="class_shares must be above 0"):
        label_source(path, classes=dict(zip(WORDS, names, strict=True)), class_shares=[1, 0, 1])


def test_vectors_need_vectors_of_names(vectors):
    with pytest.raises(LabelingError, match="the classes need vectors too"):
        label_source(vectors[0], classes="ant, bee")
    with pytest.raises(LabelingError, match="only class"):
        label_source(vectors[0], classes={"ant": np.ones(48)})
    with pytest.raises(LabelingError, match="names has shape"):
        label_source(vectors[0], classes={"ant": np.ones(5), "bee": np.zeros(5)})
