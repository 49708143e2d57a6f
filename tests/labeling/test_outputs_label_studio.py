from __future__ import annotations

import json
from xml.etree import ElementTree

import numpy as np
import pytest

from laplacianshot import __version__
from laplacianshot.labeling.errors import LabelingError
from laplacianshot.labeling.labels import read_labels
from laplacianshot.labeling.outputs import export_label_studio
from laplacianshot.labeling.sources import open_source
from tests.labeling.files import ODD_NAMES, pictures, result_of, written


@pytest.fixture
def photos(tmp_path):
    return open_source(pictures(tmp_path / "my photos", "a.png", "b.png", "c 1.png", "sub/d.png"), labels_file=True)


def tasks_of(path):
    return json.loads(path.read_bytes())


def test_tasks_hold_predictions_and_given_labels_are_annotations(tmp_path, photos):
    result = result_of(photos.ids, ["x", "y", "y", ""], suggestions=np.array([0, 0, 2, 1]))
    export_label_studio(result, photos, tmp_path / "tasks.json")
    a, b, c, d = tasks_of(tmp_path / "tasks.json")
    assert a["data"] == {
        "laplacianshot_id": "a.png",
        "image": "/data/local-files/?d=my%20photos/a.png",
        "confidence": 1.0,
    }
    assert a["annotations"][0]["result"][0]["value"] == {"choices": ["x"]}
    assert ("predictions" in a, "annotations" in c) == (False, False)
    assert b["annotations"][0]["result"][0]["value"] == {"choices": ["y"]}
    assert c["predictions"] == [
        {
            "model_version": f"laplacianshot {__version__}",
            "score": 0.5,
            "result": [
                {"id": "item2", "from_name": "label", "to_name": "item", "type": "choices", "value": {"choices": ["y"]}}
            ],
        }
    ]
    assert (c["data"]["image"], c["data"]["suggestion"]) == ("/data/local-files/?d=my%20photos/c%201.png", 2)
    assert d == {
        "data": {
            "laplacianshot_id": "sub/d.png",
            "image": "/data/local-files/?d=my%20photos/sub/d.png",
            "suggestion": 1,
        }
    }


def test_the_interface_names_the_tags_and_choices_of_the_tasks(tmp_path, photos):
    labels = ['<a> & "b"', "tab\tand\nline", "süß", "x"]
    interface = export_label_studio(result_of(photos.ids, labels), photos, tmp_path / "tasks.json")
    assert interface == tmp_path / "tasks.xml"
    view = ElementTree.fromstring(interface.read_bytes())
    assert [tag.tag for tag in view] == ["Image", "Choices"]
    picture, control = view
    assert picture.attrib == {"name": "item", "value": "$image"}
    assert (control.get("name"), control.get("toName"), control.get("choice")) == ("label", "item", "single")
    assert sorted(choice.get("value") for choice in control) == sorted(labels)
    for task in tasks_of(tmp_path / "tasks.json"):
        result = task["annotations"][0]["result"][0]
        assert (result["from_name"], result["to_name"]) == (control.get("name"), picture.get("name"))


def test_texts_are_shown_as_texts(tmp_path):
    source = open_source(written(tmp_path / "t.csv", 'key,text\nk1,one\nk2,\nk3,"<b>two</b>"\n'), id_column="key")
    interface = export_label_studio(result_of(source.ids, ["x", "y"]), source, tmp_path / "tasks.json")
    assert '<Text name="item" value="$text"/>' in interface.read_text()
    data = [task["data"] for task in tasks_of(tmp_path / "tasks.json")]
    assert [(one["laplacianshot_id"], one["text"]) for one in data] == [("k1", "one"), ("k3", "<b>two</b>")]


@pytest.mark.parametrize("with_ids", [True, False])
def test_what_was_annotated_comes_back_as_labels(tmp_path, with_ids):
    source = open_source(pictures(tmp_path / "photos", *ODD_NAMES))
    labels = [f"class {i % 3}" for i in range(len(source))]
    export_label_studio(result_of(source.ids, labels), source, tmp_path / "tasks.json")
    tasks = tasks_of(tmp_path / "tasks.json")
    for task in tasks:
        # What Label Studio does when a person submits a prediction.
        task.setdefault("annotations", task.get("predictions"))
        if not with_ids:
            del task["data"]["laplacianshot_id"]
    if not with_ids:
        # In an address a backslash separates folders.
        back = source.ids.index("back\\slash.png")
        del tasks[back]
        labels[back] = None
    written(tmp_path / "export.json", json.dumps(tasks))
    assert read_labels(tmp_path / "export.json", source) == tuple(labels)


def test_the_same_result_gives_the_same_bytes(tmp_path, photos):
    for name in ("one.json", "two.json"):
        export_label_studio(result_of(photos.ids, list("xyxy")), photos, tmp_path / name)
    assert (tmp_path / "one.json").read_bytes() == (tmp_path / "two.json").read_bytes()


@pytest.mark.parametrize(("name", "message"), [("t.csv", r"must end in \.json"), ("gone/t.json", "there is no folder")])
def test_a_name_that_cannot_be_written_is_an_error(tmp_path, photos, name, message):
    with pytest.raises(LabelingError, match=message):
        export_label_studio(result_of(photos.ids, list("xyxy")), photos, tmp_path / name)


def test_a_class_with_control_characters_is_an_error(tmp_path, photos):
    with pytest.raises(LabelingError, match=r"classes 'x\\x01'"):
        export_label_studio(result_of(photos.ids, ["x\x01", "y", "y", "y"]), photos, tmp_path / "t.json")
