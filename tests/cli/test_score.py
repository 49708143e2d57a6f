from __future__ import annotations

import json

import pytest
from PIL import Image

from laplacianshot.cli.app import run


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    labels = [("a", "heron"), ("b", "coot"), ("c", "coot"), ("d", "heron <i>")]
    rows = [f"{name},{label},0.{9 - i},predicted,\n" for i, (name, label) in enumerate(labels)]
    (tmp_path / "out.csv").write_text("id,label,confidence,origin,suggestion\n" + "".join(rows))
    (tmp_path / "truth.csv").write_text("id,label\na,heron\nb,coot\nc,heron\nd,heron <i>\n")
    return tmp_path


def test_a_score_is_printed_and_written_as_page_and_picture(folder, capsys):
    assert run(["score", "out.csv", "truth.csv", "--report", "page", "--picture", "confusion.png"]) == 0
    printed = capsys.readouterr().out
    assert "3 of 4 predicted labels right: 75.0%, 95% interval 30.1% to 95.4%." in printed
    assert "Mean confidence: 75.0%, 0.0 points above the accuracy; calibration error (ECE) 0.350." in printed
    assert "heron  coot            1" in printed
    with Image.open(folder / "confusion.png") as picture:
        assert min(picture.size) > 300
    page = (folder / "page" / "index.html").read_text()
    assert "75.0%" in page
    assert "heron <i>" not in page
    assert {"confusion.svg", "confidence.svg", "score.json", "index.html"} <= {
        p.name for p in (folder / "page").iterdir()
    }


def test_machines_get_one_document(folder, capsys):
    assert run(["score", "out.csv", "truth.csv", "--json"]) == 0
    document = json.loads(capsys.readouterr().out)
    assert (document["n"], document["right"], document["accuracy"]) == (4, 3, 0.75)
    assert document["confusion"] == [[1, 0, 0], [1, 1, 0], [0, 0, 1]]
    assert [one["name"] for one in document["classes"]] == ["coot", "heron", "heron <i>"]


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["out.csv"], "TRUTH is missing"),
        (["gone.csv", "truth.csv"], "output: there is no file 'gone.csv'"),
        (["out.csv", "truth.csv", "--picture", "c.jpg"], "--picture c.jpg: the name must end in .png, .svg, .pdf"),
        (["out.csv", "--truth-column", "topic"], "truth column 'topic' is not a column"),
    ],
)
def test_bad_input_is_one_line_and_exit_code_2(folder, capsys, arguments, said):
    assert run(["score", *arguments]) == 2
    error = capsys.readouterr().err
    assert said in error
    assert error.count("\n") == 1
