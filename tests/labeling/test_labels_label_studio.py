from __future__ import annotations

import json

import pytest

from laplacianshot.labeling.errors import LabelingError
from laplacianshot.labeling.labels import read_labels
from laplacianshot.labeling.sources import open_source
from tests.labeling.files import pictures, written


def annotation(*choices, kind="choices", **more):
    result = {"id": "x", "from_name": "label", "to_name": "image", "type": kind, "value": {kind: list(choices)}}
    return {"id": 1, "completed_by": 1, "result": [result], "was_cancelled": False, "ground_truth": False, **more}


def task(number, image, *annotations, **data):
    fields = {"image": image} | data if image is not None else data
    return {"id": number, "data": fields, "annotations": list(annotations), "predictions": [], "file_upload": None}


def read(tmp_path, source, *tasks, name="export.json"):
    found = read_labels(written(tmp_path / name, json.dumps(tasks)), source)
    return {i: label for i, label in zip(source.ids, found, strict=True) if label is not None}


@pytest.fixture
def photos(tmp_path):
    names = ("a.png", "b c.png", "sub/a.png", "sub/deep/a.png", "sub/d.png", "é.png", "100%20.png")
    return open_source(pictures(tmp_path / "photos", *names), labels_file=True)


@pytest.mark.parametrize(
    ("address", "name"),
    [
        ("/data/local-files/?d=photos/sub/d.png", "sub/d.png"),
        ("/data/local-files/?d=home/me/photos/sub/a.png", "sub/a.png"),
        ("/data/local-files/?d=photos%2Fsub%2Fdeep%2Fa.png", "sub/deep/a.png"),
        ("/data/local-files/?d=photos/b%20c.png", "b c.png"),
        ("/data/local-files/?d=photos/%C3%A9.png", "é.png"),
        ("/data/local-files/?d=photos/e\u0301.png", "é.png"),
        ("/data/local-files/?d=photos/100%2520.png", "100%20.png"),
        ("/data/local-files/?d=deep/a.png", "sub/deep/a.png"),
        ("/data/upload/3/1a2b3c4d-d.png", "sub/d.png"),
        ("/data/upload/3/1a2b3c4d-b_c.png", "b c.png"),
        ("upload/3/1a2b3c4d-d.png", "sub/d.png"),
        ("s3://bucket/photos/sub/d.png", "sub/d.png"),
        ("https://host:8080/files/photos/sub/deep/a.png?token=x%20y", "sub/deep/a.png"),
        ("sub\\deep\\a.png", "sub/deep/a.png"),
        ("d.png", "sub/d.png"),
    ],
)
def test_pictures_are_known_by_their_address(tmp_path, photos, address, name):
    assert read(tmp_path, photos, task(1, address, annotation("cat"))) == {name: "cat"}


def test_the_absolute_path_decides_between_folders_of_one_name(tmp_path):
    source = open_source(pictures(tmp_path / "x" / "cats", "a.png", "cats/a.png"), labels_file=True)
    assert read(tmp_path, source, task(1, "/data/local-files/?d=x/cats/a.png", annotation("1"))) == {"a.png": "1"}
    found = read(tmp_path, source, task(1, "/data/local-files/?d=x/cats/cats/a.png", annotation("2")))
    assert found == {"cats/a.png": "2"}


def test_a_folder_called_upload_is_a_folder_like_any_other(tmp_path):
    source = open_source(pictures(tmp_path / "photos", "upload/3/a.png", "upload/4/a.png"), labels_file=True)
    found = read(tmp_path, source, task(1, "/data/local-files/?d=photos/upload/4/a.png", annotation("cat")))
    assert found == {"upload/4/a.png": "cat"}


@pytest.mark.parametrize("address", ["/data/upload/3/1a2b3c4d-a.png", "a.png"])
def test_an_address_that_may_be_several_pictures_is_an_error_that_names_them(tmp_path, photos, address):
    message = r"may be any of 'a\.png', 'sub/a\.png', 'sub/deep/a\.png'; give the file a name of its own"
    with pytest.raises(LabelingError, match=message):
        read(tmp_path, photos, task(1, address, annotation("cat")))


@pytest.mark.parametrize("address", ["/data/local-files/?d=photos/other/d.png", "gone.png", "", "https://host"])
def test_an_unknown_address_is_an_error_that_names_the_task(tmp_path, photos, address):
    with pytest.raises(LabelingError, match=r"1 of 1 labels name items that are not in .*photos: '.*' \(task 17\)"):
        read(tmp_path, photos, task(17, address, annotation("cat")))


def test_our_own_field_names_the_item(tmp_path, photos):
    found = read(tmp_path, photos, task(1, "anything.png", annotation("cat"), laplacianshot_id="sub/a.png"))
    assert found == {"sub/a.png": "cat"}


def test_tasks_without_an_annotation_and_predictions_are_not_labels(tmp_path, photos):
    tasks = [
        task(1, "gone.png"),
        task(2, "sub/d.png") | {"predictions": [annotation("dog")]},
        task(3, "sub/d.png", annotation("cat", was_cancelled=True)),
        task(4, "sub/d.png", annotation("cat", kind="rectanglelabels")),
        task(5, "sub/d.png", {"result": []}),
        task(6, "b c.png", annotation("dog")),
    ]
    assert read(tmp_path, photos, *tasks) == {"b c.png": "dog"}


def test_annotators_may_agree_but_not_disagree(tmp_path, photos):
    agreed = task(1, "sub/d.png", annotation("cat"), annotation("cat"))
    assert read(tmp_path, photos, agreed) == {"sub/d.png": "cat"}
    with pytest.raises(LabelingError, match="task 1 has several labels, 'cat', 'dog'; settle on one"):
        read(tmp_path, photos, task(1, "sub/d.png", annotation("cat"), annotation("dog")))


def test_ground_truth_settles_what_annotators_disagree_about(tmp_path, photos):
    settled = task(1, "sub/d.png", annotation("cat"), annotation("dog", ground_truth=True))
    assert read(tmp_path, photos, settled) == {"sub/d.png": "dog"}


def test_several_choices_are_an_error(tmp_path, photos):
    with pytest.raises(LabelingError, match="task 9 has several labels, 'big', 'cat'"):
        read(tmp_path, photos, task(9, "sub/d.png", annotation("cat", "big")))


def test_two_tasks_of_one_picture_must_agree(tmp_path, photos):
    tasks = [task(i, "sub/d.png", annotation(label)) for i, label in ((5, "cat"), (6, "dog"))]
    with pytest.raises(LabelingError, match=r"'sub/d\.png' is 'cat' \(task 5\) and 'dog' \(task 6\)"):
        read(tmp_path, photos, *tasks)


# The short format


def short(number, choice, **data):
    beside = {"annotator": 1, "annotation_id": 7, "created_at": "2026", "updated_at": "2026", "lead_time": 1.5}
    return {"id": number, "choice": choice, **data, **beside}


def test_the_short_format_is_read_from_json_and_csv(tmp_path, photos):
    tasks = [short(1, "cat", image="/data/upload/1/1a2b3c4d-d.png"), short(2, "dog", image="upload/1/1a2b3c4d-b_c.png")]
    expected = {"sub/d.png": "cat", "b c.png": "dog"}
    assert read(tmp_path, photos, *tasks) == expected
    lines = [",".join(tasks[0]), *(",".join(map(str, one.values())) for one in tasks)]
    found = read_labels(written(tmp_path / "export.csv", "\n".join(lines)), photos)
    assert {i: label for i, label in zip(photos.ids, found, strict=True) if label} == expected


def test_several_choices_of_the_short_format_are_an_error(tmp_path, photos):
    for choice in ({"choices": ["cat", "big"]}, '{"choices": ["cat", "big"]}'):
        with pytest.raises(LabelingError, match="task 1 has several labels"):
            read(tmp_path, photos, short(1, choice, image="d.png"))


def test_a_choice_of_another_name_is_asked_about(tmp_path, photos):
    one = short(1, "cat", image="d.png")
    one["species"] = one.pop("choice")
    with pytest.raises(LabelingError, match="which of 'image', 'species' was chosen in Label Studio is not clear"):
        read(tmp_path, photos, one)


def test_the_number_of_a_task_is_not_taken_for_a_row_number(tmp_path):
    source = open_source(written(tmp_path / "t.csv", "id,text\n1,a\n2,b\n3,c\n"))
    assert read(tmp_path, source, short(1, "x", text="c")) == {"3": "x"}


# Texts


def test_texts_are_known_by_their_words_and_all_rows_with_them_are_labeled(tmp_path):
    source = open_source(written(tmp_path / "t.csv", 'text,who\nhello there,x\nbye,y\n"hello\r\nthere",z\n'))
    tasks = [task(1, None, annotation("greeting"), text="hello there"), task(2, None, annotation("end"), text=" bye ")]
    assert read(tmp_path, source, *tasks) == {"0": "greeting", "1": "end", "2": "greeting"}


def test_texts_are_known_by_the_id_column_first(tmp_path):
    source = open_source(written(tmp_path / "t.csv", "key,text\nk1,same\nk2,same\n"), id_column="key")
    assert read(tmp_path, source, task(1, None, annotation("x"), key="k2", text="same")) == {"k2": "x"}


def test_an_unknown_text_is_an_error_that_quotes_it(tmp_path):
    source = open_source(written(tmp_path / "t.csv", "text\nhello\n"))
    with pytest.raises(LabelingError, match=r"'good bye' \(task 1\)"):
        read(tmp_path, source, task(1, None, annotation("x"), text="good bye"))
