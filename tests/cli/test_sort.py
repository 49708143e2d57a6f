"""``laplacianshot sort`` as a user runs it."""

from __future__ import annotations

import json

import pytest

from laplacianshot.cli.app import run
from tests.labeling.drawings import CLASSES, draw_folder, write_labels


@pytest.fixture
def place(tmp_path, monkeypatch):
    """A folder with pictures and a label for each, from where the command is called."""
    monkeypatch.chdir(tmp_path)
    truth = draw_folder(tmp_path / "photos", per_class=2)
    write_labels(tmp_path / "all.csv", truth)
    return tmp_path, truth


@pytest.mark.parametrize("how", ["copy", "link"])
def test_pictures_are_sorted_by_a_table_of_labels_and_removed_again(place, capsys, how):
    folder, truth = place
    before = sorted(folder.rglob("*"))
    assert run(["sort", "photos", "--labels", "all.csv", "-o", "sorted", "--apply", how]) == 0
    assert "laplacianshot sort --undo sorted" in capsys.readouterr().out
    assert {path.name for path in (folder / "sorted").iterdir() if path.is_dir()} == set(CLASSES)
    for name, label in truth.items():
        contents = [path.read_bytes() for path in (folder / "sorted" / label).iterdir()]
        assert (folder / "photos" / name).read_bytes() in contents
    assert run(["sort", "--undo", "sorted"]) == 0
    assert sorted(folder.rglob("*")) == before


def test_predictions_in_an_output_of_label_are_sorted_too(place, capsys):
    folder, truth = place
    rows = [
        f"{name},{label},0.9,{'given' if i == 0 else 'predicted'},\n" for i, (name, label) in enumerate(truth.items())
    ]
    (folder / "out.csv").write_text("id,label,confidence,origin,suggestion\n" + "".join(rows), encoding="utf-8")
    assert run(["sort", "photos", "--labels", "out.csv", "-o", "sorted", "--json"]) == 0
    folders = {"ball": 2, "box": 2, "kite": 2}
    assert json.loads(capsys.readouterr().out) == {"sorted": len(truth), "present": 0, "folders": folders, "left": []}
    assert run(["sort", "photos", "--labels", "out.csv", "-o", "sorted", "--json"]) == 0
    assert json.loads(capsys.readouterr().out) == {"sorted": 0, "present": len(truth), "folders": {}, "left": []}
    assert run(["sort", "--undo", "sorted", "--json"]) == 0
    assert json.loads(capsys.readouterr().out) == {"undone": len(truth), "left": []}


@pytest.mark.parametrize(
    ("arguments", "named"),
    [
        ([], "give SOURCE, --labels FILE and -o DIR, or --undo DIR"),
        (["photos", "--labels", "all.csv"], "-o DIR"),
        (["photos", "--undo", "sorted"], "leave out SOURCE"),
        (["all.csv", "--labels", "all.csv", "-o", "sorted"], "is not a folder of pictures"),
        (["photos", "--labels", "nothing.csv", "-o", "sorted"], "nothing.csv"),
        (["photos", "--labels", "all.csv", "-o", "photos/sorted"], "choose a folder elsewhere"),
        (["photos", "--labels", "all.csv", "-o", "sorted", "--apply", "move"], "'move' is not one of 'copy', 'link'"),
        (["--undo", "nothing"], "log of sorted pictures not found"),
    ],
)
def test_bad_input_is_one_line(place, refused, arguments, named):
    refused(["sort", *arguments], named)


def test_a_table_without_any_label_is_one_line(place, refused):
    folder, truth = place
    write_labels(folder / "none.csv", dict.fromkeys(truth, ""))
    refused(["sort", "photos", "--labels", "none.csv", "-o", "sorted"], "no item has a label")
