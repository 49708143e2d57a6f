"""The whole job from Python: real files, real encoders."""

from __future__ import annotations

import numpy as np
import pytest

from laplacianshot import label_source
from laplacianshot.labeling.errors import LabelingError
from tests.labeling.drawings import CLASSES, draw, draw_folder, first_of_each, write_labels


@pytest.fixture(scope="module")
def photos(tmp_path_factory):
    folder = tmp_path_factory.mktemp("photos")
    return folder, draw_folder(folder)


@pytest.fixture(scope="module")
def cache(tmp_path_factory):
    return tmp_path_factory.mktemp("cache")


@pytest.fixture
def vectors(tmp_path):
    rng = np.random.default_rng(0)
    truth = np.repeat(np.arange(3), 20)
    np.save(tmp_path / "vectors.npy", (np.eye(3, 8)[truth] + 0.1 * rng.standard_normal((60, 8))).astype(np.float32))
    return tmp_path / "vectors.npy", [CLASSES[c] for c in truth]


def test_pictures_are_labeled_from_one_label_a_class(photos, cache):
    folder, truth = photos
    found = label_source(folder, first_of_each(truth), cache=cache)
    assert dict(zip(found.ids, found.labels, strict=True)) == truth
    assert found.counts() == {"given": 3, "predicted": len(truth) - 3, "rejected": 0}
    assert found.settings["encoder"] == "efficientnet-lite0"


def test_classes_that_differ_only_in_case_are_reported(vectors):
    path, _ = vectors
    assert not any("case" in note for note in label_source(path, {"0": "cat", "20": "dog"}).notes)
    notes = label_source(path, {"0": "Cat", "20": "cat", "40": "dog"}).notes
    assert any("differ only in case: 'Cat', 'cat';" in note for note in notes)


def test_a_second_run_encodes_nothing_and_an_added_picture_costs_one(photos, cache, tmp_path):
    folder, truth = photos
    label_source(folder, first_of_each(truth), cache=cache)
    again = label_source(folder, first_of_each(truth), cache=cache)
    assert again.settings["cached"] == len(truth)
    more = draw(0, 99)
    more.save(folder / "zz new.png")
    try:
        grown = label_source(folder, first_of_each(truth), cache=cache)
    finally:
        (folder / "zz new.png").unlink()
    assert grown.settings["cached"] == len(truth)
    assert len(grown) == len(truth) + 1
    assert grown.labels[grown.ids.index("zz new.png")] == CLASSES[0]


def test_a_broken_picture_is_reported_and_left_out(photos, cache):
    folder, truth = photos
    broken = folder / "broken one.jpg"
    broken.write_bytes(b"not a picture")
    try:
        found = label_source(folder, first_of_each(truth), cache=cache)
    finally:
        broken.unlink()
    assert [fault.id for fault in found.skipped] == ["broken one.jpg"]
    assert "broken one.jpg" not in found.ids
    assert dict(zip(found.ids, found.labels, strict=True)) == truth


def test_a_label_on_a_broken_picture_costs_that_label_and_says_so(photos, cache):
    folder, truth = photos
    (folder / "broken.jpg").write_bytes(b"")
    try:
        found = label_source(folder, {**first_of_each(truth), "broken.jpg": "ghost"}, cache=cache)
    finally:
        (folder / "broken.jpg").unlink()
    assert found.classes == CLASSES
    assert any("ghost" in note for note in found.notes)


def test_sentences_are_labeled_from_one_label_a_class(tmp_path, cache):
    spoken = [
        ("please cancel my train ticket", "travel"),
        ("the soup was far too salty", "food"),
        ("which platform does the express leave from", "travel"),
        ("this bread tastes wonderful", "food"),
        ("when is the next flight to Rome", "travel"),
        ("could I have the recipe of that cake", "food"),
        ("our hotel lost the booking of the airport bus", "travel"),
        ("the pasta needs more garlic and cheese", "food"),
    ]
    table = tmp_path / "spoken.csv"
    table.write_text("text\n" + "\n".join(text for text, _ in spoken) + "\n", encoding="utf-8")
    found = label_source(table, {"0": "travel", "1": "food"}, cache=cache)
    assert list(found.labels) == [label for _, label in spoken]
    assert found.settings["encoder"] == "minilm-l6"


def test_vectors_are_labeled_and_their_file_is_not_changed(vectors):
    path, truth = vectors
    before = path.read_bytes()
    found = label_source(path, {"0": truth[0], "20": truth[20], "40": truth[40]}, suggest=4, reject=0.1)
    right = [a == b for a, b, origin in zip(found.labels, truth, found.origins, strict=True) if origin != "rejected"]
    assert all(right)
    assert found.counts() == {"given": 3, "predicted": 51, "rejected": 6}
    assert len(found.suggested) == 4
    assert path.read_bytes() == before


def test_labels_from_a_file_are_those_of_a_mapping(vectors, tmp_path):
    path, truth = vectors
    given = {"0": truth[0], "20": truth[20], "40": truth[40]}
    one = label_source(path, given)
    other = label_source(path, write_labels(tmp_path / "labels.csv", given))
    assert one.labels == other.labels
    np.testing.assert_array_equal(one.confidence, other.confidence)


def test_without_labels_only_suggestions_are_made(vectors):
    path, truth = vectors
    found = label_source(path, suggest=3)
    assert {truth[i] for i in found.suggested} == set(CLASSES)
    assert set(found.labels) == {""}
    assert found.classes == ()


@pytest.mark.parametrize(
    ("labels", "options", "said"),
    [
        (None, {}, "no item has a label"),
        ({"0": "a"}, {}, "all labels are 'a'"),
        ({"0": "a", "777": "b"}, {}, "777"),
        ({"0": "a", "30": "b"}, {"encoder": "minilm-l6"}, "encoder"),
        ({"0": "a", "30": "b"}, {"reject": 2.0}, "reject"),
        ({"0": "a", "30": "b"}, {"suggest": -1}, "suggest"),
    ],
)
def test_what_cannot_be_labeled_is_an_error_that_names_it(vectors, labels, options, said):
    with pytest.raises(LabelingError, match=said):
        label_source(vectors[0], labels, **options)


@pytest.mark.parametrize("value", [np.nan, np.inf])
def test_a_vector_that_is_not_finite_is_named_by_its_row(tmp_path, value):
    X = np.ones((5, 3))
    X[3, 1] = value
    np.save(tmp_path / "x.npy", X)
    with pytest.raises(LabelingError, match=r"\[3, 1\]"):
        label_source(tmp_path / "x.npy", {"0": "a", "1": "b"})


def test_each_stage_is_reported_to_watch(vectors):
    path, truth = vectors
    heard = []
    label_source(path, {"0": truth[0], "20": truth[20]}, watch=lambda name: heard.append(name) or (lambda *_: None))
    assert heard == ["Reading", "Vectors", "Labels"]
