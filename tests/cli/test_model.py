"""From a folder to a deployed classifier: suggest twice, label, save, predict, serve, ask over HTTP."""

from __future__ import annotations

import csv
import json
import signal
import subprocess
import sys
from pathlib import Path

import httpx
import numpy as np
import pytest

from laplacianshot import LabelModel
from laplacianshot.cli.app import run
from tests.labeling.drawings import CLASSES, draw, draw_folder, first_of_each, write_labels


@pytest.fixture(scope="module")
def saved(tmp_path_factory):
    folder = tmp_path_factory.mktemp("saved")
    truth = draw_folder(folder / "photos")
    write_labels(folder / "labels.csv", first_of_each(truth, 2))
    assert run(["label", str(folder / "photos"), "--labels", str(folder / "labels.csv"),
                "--save", str(folder / "m.lshot")]) == 0  # fmt: skip
    (folder / "new").mkdir()
    for kind in range(3):
        draw(kind, 60).save(folder / "new" / f"{kind}.png")
    (folder / "new" / "broken.jpg").write_bytes(b"no picture")
    return folder


def rows_of(path: Path) -> list[dict[str, str]]:
    with path.open(encoding="utf-8") as file:
        return list(csv.DictReader(file))


def test_a_folder_is_predicted_and_broken_pictures_are_listed(saved, capsys):
    assert run(["predict", str(saved / "m.lshot"), str(saved / "new"), "-o", str(saved / "out.csv")]) == 0
    assert "broken.jpg" in capsys.readouterr().out
    rows = rows_of(saved / "out.csv")
    assert [(row["id"], row["label"]) for row in rows] == [(f"{k}.png", CLASSES[k]) for k in range(3)]
    assert all(0 <= float(row["novelty"]) <= 1 and 0.5 < float(row["confidence"]) < 1 for row in rows)


@pytest.mark.parametrize("ending", ["jsonl", "parquet"])
def test_predictions_in_other_formats_hold_the_same(saved, ending, tmp_path):
    out = tmp_path / f"out.{ending}"
    assert run(["predict", str(saved / "m.lshot"), str(saved / "new"), "-o", str(out)]) == 0
    if ending == "jsonl":
        found = [json.loads(line)["label"] for line in out.read_text().splitlines()]
    else:
        import pyarrow.parquet as parquet

        found = parquet.read_table(out)["label"].to_pylist()
    assert found == list(CLASSES)


def test_files_are_predicted_by_their_paths(saved, capsys):
    files = [str(saved / "new" / "2.png"), str(saved / "new" / "0.png")]
    assert run(["predict", str(saved / "m.lshot"), *files, "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert [(item["id"], item["label"]) for item in found["items"]] == [(files[0], "kite"), (files[1], "ball")]


def test_all_rows_are_kept_on_request(saved, tmp_path):
    path = tmp_path / "all.lshot"
    assert run(["label", str(saved / "photos"), "--labels", str(saved / "labels.csv"), "--save", str(path),
                "--save-rows", "all"]) == 0  # fmt: skip
    assert not LabelModel.load(path).classifier.is_compact


def test_numbers_as_classes_and_vectors_as_items(tmp_path, capsys):
    X = np.repeat(np.eye(2, 8), 30, axis=0) + 0.1 * np.random.default_rng(0).standard_normal((60, 8))
    np.save(tmp_path / "X.npy", X)
    write_labels(tmp_path / "labels.csv", {"0": "7", "30": "8"})
    model = str(tmp_path / "m.lshot")
    assert run(["label", str(tmp_path / "X.npy"), "--labels", str(tmp_path / "labels.csv"), "--save", model]) == 0
    np.save(tmp_path / "new.npy", np.eye(2, 8))
    capsys.readouterr()
    assert run(["predict", model, str(tmp_path / "new.npy"), "--json"]) == 0
    assert [item["label"] for item in json.loads(capsys.readouterr().out)["items"]] == ["7", "8"]


@pytest.mark.parametrize(
    ("arguments", "named"),
    [
        (["predict", "none.lshot", "new"], "not found"),
        (["predict", "labels.csv", "new"], "not a model"),
        (["predict", "m.lshot", "none"], "not a file"),
        (["predict", "m.lshot", "labels.csv"], "none of the items can be read"),
        (["predict", "m.lshot", "new", "-o", "out.txt"], ".csv"),
        (["predict", "m.lshot", "new", "--encoder", "minilm-l6"], "is for texts"),
        (["label", "photos", "--labels", "labels.csv", "--save", "m.zip"], ".lshot"),
        (["label", "photos", "--suggest", "3", "--save", "other.lshot"], "no model"),
        (["serve", "labels.csv"], "not a model"),
        (["serve", "m.lshot", "--token-file", "none"], "none"),
        (["serve", "m.lshot", "--host", "no.such.host.invalid"], "--host"),
    ],
)
def test_bad_input_is_one_line(saved, monkeypatch, refused, arguments, named):
    monkeypatch.chdir(saved)
    refused(arguments, named)


def test_the_whole_path_from_a_folder_to_an_answer_over_http(tmp_path, environment):
    truth = draw_folder(tmp_path / "photos", per_class=10)

    def command(*arguments: str) -> None:
        done = subprocess.run(
            [sys.executable, "-m", "laplacianshot", *arguments],
            cwd=tmp_path,
            env=environment,
            capture_output=True,
            text=True,
        )
        assert done.returncode == 0, done.stderr

    # Suggest twice, and fill in what was suggested.
    labels: dict[str, str] = {}
    for turn, before in enumerate(([], ["--labels", "labels.csv"])):
        command("suggest", "photos", "-n", "4", *before, "-o", "next.csv")
        labels |= {row["id"]: truth[row["id"]] for row in rows_of(tmp_path / "next.csv")}
        if turn == 0:
            labels |= first_of_each(truth)
        write_labels(tmp_path / "labels.csv", labels)
    command("label", "photos", "--labels", "labels.csv", "-o", "all.csv", "--save", "model.lshot")
    assert {row["id"]: row["label"] for row in rows_of(tmp_path / "all.csv")} == truth
    (tmp_path / "new").mkdir()
    for kind in range(3):
        draw(kind, 91).save(tmp_path / "new" / f"{kind}.png")
    command("predict", "model.lshot", "new", "-o", "new.csv")
    predicted = rows_of(tmp_path / "new.csv")
    assert [row["label"] for row in predicted] == list(CLASSES)

    server = subprocess.Popen(
        [sys.executable, "-m", "laplacianshot", "serve", "model.lshot", "--port", "0", "--json"],
        cwd=tmp_path, env=environment | {"LAPLACIANSHOT_TOKEN": "secret"}, stdout=subprocess.PIPE, text=True,
    )  # fmt: skip
    try:
        assert server.stdout is not None
        address = json.loads(server.stdout.readline())["address"]
        headers = {"authorization": "Bearer secret"}
        assert httpx.get(f"{address}/health", timeout=60).json()["status"] == "ok"
        assert httpx.post(f"{address}/predict/picture", content=b"", timeout=60).status_code == 401
        for kind, row in enumerate(predicted):
            content = (tmp_path / "new" / f"{kind}.png").read_bytes()
            answer = httpx.post(f"{address}/predict/picture", content=content, headers=headers, timeout=60)
            found = answer.json()["predictions"][0]
            assert found["label"] == row["label"]
            assert found["confidence"] == pytest.approx(float(row["confidence"]), abs=1e-5)
    finally:
        server.send_signal(signal.SIGTERM)
        code = server.wait(60)
    assert code in (0, -signal.SIGTERM)
