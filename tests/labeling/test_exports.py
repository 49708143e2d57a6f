from __future__ import annotations

import json
from xml.etree import ElementTree

import numpy as np
import pytest
from PIL import Image

from laplacianshot.cli.app import run
from laplacianshot.labeling.errors import LabelingError
from laplacianshot.labeling.exports import export_cvat, export_fiftyone
from laplacianshot.labeling.sources import open_source
from tests.labeling.drawings import draw_folder, first_of_each, write_labels
from tests.labeling.files import pictures, result_of

EXPORTS = {"cvat": (export_cvat, "x.xml"), "fiftyone": (export_fiftyone, "labels.json")}


@pytest.fixture
def photos(tmp_path):
    names = ("a.png", 'b "quoted" & <odd>.png', "c.png", "sub/a.png")
    return open_source(pictures(tmp_path / "photos", *names), labels_file=True)


def labeled(source, labels):
    return result_of(source.ids, labels, source=source, rows=np.arange(len(source)))


def test_cvat_gets_images_by_path_with_tags(tmp_path, photos):
    beside = export_cvat(labeled(photos, ["x <&>", "y", "y", ""]), photos, tmp_path / "out.cvat.xml")
    root = ElementTree.fromstring((tmp_path / "out.cvat.xml").read_bytes())
    # The parts of the format "CVAT for images 1.1", in its order.
    assert (root.tag, [child.tag for child in root]) == ("annotations", ["version", "meta", *["image"] * 4])
    assert root.findtext("version") == "1.1"
    assert root.findtext("meta/task/size") == "4"
    assert [name.text for name in root.findall("meta/task/labels/label/name")] == ["x <&>", "y"]
    images = root.findall("image")
    assert [image.attrib for image in images] == [
        {"id": str(i), "name": name, "width": "6", "height": "5"} for i, name in enumerate(photos.ids)
    ]
    tags = [[(tag.get("label"), tag.get("source")) for tag in image] for image in images]
    assert tags == [[("x <&>", "manual")], [("y", "manual")], [("y", "auto")], []]
    attribute = images[2].find("tag/attribute")
    assert (attribute.get("name"), attribute.text) == ("confidence", "0.500000")
    labels = json.loads(beside.read_bytes())
    assert [(one["name"], one["type"], one["attributes"][0]["name"]) for one in labels] == [
        ("x <&>", "tag", "confidence"),
        ("y", "tag", "confidence"),
    ]


def test_cvat_gets_the_size_of_a_picture_as_it_is_seen(tmp_path):
    (tmp_path / "p").mkdir()
    exif = Image.Exif()
    exif[0x0112] = 6
    for name, more in (("a.jpg", {}), ("b.jpg", {"exif": exif})):
        Image.new("RGB", (8, 4)).save(tmp_path / "p" / name, **more)
    source = open_source(tmp_path / "p", labels_file=True)
    export_cvat(labeled(source, ["x", "y"]), source, tmp_path / "x.xml")
    images = ElementTree.fromstring((tmp_path / "x.xml").read_bytes()).findall("image")
    assert [(image.get("width"), image.get("height")) for image in images] == [("8", "4"), ("4", "8")]


def test_fiftyone_gets_labels_by_absolute_path(tmp_path, photos):
    (tmp_path / "out").mkdir()
    export_fiftyone(labeled(photos, ["x", "y", "y", ""]), photos, tmp_path / "out" / "labels.json")
    document = json.loads((tmp_path / "out" / "labels.json").read_bytes())
    assert document["classes"] == ["x", "y"]
    assert list(document["labels"]) == [str((tmp_path / "photos" / name).resolve()) for name in photos.ids]
    assert list(document["labels"].values()) == [
        {"label": "x", "confidence": 1.0, "attributes": {"origin": "given"}},
        {"label": "y", "confidence": 1.0, "attributes": {"origin": "given"}},
        {"label": "y", "confidence": 0.5, "attributes": {"origin": "predicted"}},
        None,
    ]
    # FiftyOne's importer refuses a folder without it.
    assert list((tmp_path / "out" / "data").iterdir()) == []


@pytest.mark.parametrize("tool", EXPORTS)
def test_other_items_than_files_of_pictures_are_refused(tmp_path, tool):
    export, name = EXPORTS[tool]
    texts = open_source(["one", "two"])
    with pytest.raises(LabelingError, match="is for pictures, and these are texts"):
        export(labeled(texts, ["x", "y"]), texts, tmp_path / name)


def test_a_name_that_xml_cannot_hold_is_refused(tmp_path, photos):
    with pytest.raises(LabelingError, match="CVAT takes no control characters"):
        export_cvat(labeled(photos, ["x\x01", "y", "y", ""]), photos, tmp_path / "x.xml")


@pytest.mark.parametrize(
    ("tool", "files", "hint"),
    [
        ("cvat", ["all.cvat.labels.json", "all.cvat.xml"], "upload all.cvat.xml as CVAT 1.1"),
        ("fiftyone", ["all.fiftyone"], "fiftyone.types.FiftyOneImageClassificationDataset"),
    ],
)
def test_the_shell_writes_them_next_to_the_labels_and_says_what_to_do(tmp_path, monkeypatch, capsys, tool, files, hint):
    monkeypatch.chdir(tmp_path)
    write_labels(tmp_path / "labels.csv", first_of_each(draw_folder(tmp_path / "photos", 2)))
    assert run(["label", "photos", "--labels", "labels.csv", "-o", "all.csv", "--export", tool, "--no-cache"]) == 0
    assert hint in capsys.readouterr().out
    assert sorted(path.name for path in tmp_path.iterdir() if tool in path.name) == files
