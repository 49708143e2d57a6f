"""``laplacianshot studio``: what it refuses; what it does is tested in tests/studio."""

from __future__ import annotations

import socket
from pathlib import Path

import numpy as np
import pytest

from laplacianshot.cli.app import run


@pytest.fixture(autouse=True)
def cache(tmp_path, monkeypatch) -> Path:
    """The user's cache in a folder of the test."""
    monkeypatch.setenv("LAPLACIANSHOT_CACHE", str(tmp_path / "cache"))
    return tmp_path / "cache"


@pytest.fixture
def vectors(tmp_path) -> Path:
    path = tmp_path / "vectors.npy"
    np.save(path, np.eye(4))
    return path


def test_something_to_label_must_be_named(refused, vectors):
    refused(["studio"], "SOURCE is missing")
    refused(["studio", str(vectors), "--demo"], "give either --demo or SOURCE")


def test_a_source_that_cannot_be_read_is_reported_in_one_line(refused, tmp_path):
    refused(["studio", str(tmp_path / "nothing")], "file or folder not found")
    (tmp_path / "empty").mkdir()
    refused(["studio", str(tmp_path / "empty")], "no pictures")
    (tmp_path / "a.docx").write_text("x")
    refused(["studio", str(tmp_path / "a.docx")], "not read")
    np.save(tmp_path / "nan.npy", np.full((3, 2), np.nan))
    refused(["studio", str(tmp_path / "nan.npy")], "finite")


def test_labels_that_do_not_fit_are_reported_in_one_line(refused, vectors, tmp_path):
    labels = tmp_path / "labels.csv"
    base = ["studio", str(vectors), "--no-browser", "--port", "0", "--labels", str(labels)]
    refused(base, "file of labels not found")
    labels.write_text("id,label\n9,a\n")
    refused(base, "'9'")
    labels.write_text("id,label\n0,a\n0,b\n")
    refused(base, "two labels")
    labels.write_bytes(b"\xff\xfeid")
    refused(base, str(labels))


def test_an_address_that_cannot_be_listened_on_is_reported_in_one_line(refused, vectors):
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = str(taken.getsockname()[1])
        refused(["studio", str(vectors), "--no-browser", "--port", port], "in use")
    refused(["studio", str(vectors), "--no-browser", "--host", "no such host"], "--host")
    refused(["studio", str(vectors), "--no-browser", "--port", "70000"], "--port")


def test_a_project_of_another_source_or_that_cannot_be_made_is_reported_in_one_line(refused, vectors, tmp_path):
    file = tmp_path / "file"
    file.write_text("x")
    refused(["studio", str(vectors), "--no-browser", "--port", "0", "--project", str(file)], "--project")
    from laplacianshot.studio.change_log import ChangeLog

    (tmp_path / "project").mkdir()
    ChangeLog(tmp_path / "project", "/elsewhere").close()
    project = str(tmp_path / "project")
    refused(["studio", str(vectors), "--no-browser", "--port", "0", "--project", project], "/elsewhere")


def test_an_encoder_for_vectors_or_one_that_is_not_known_is_reported_in_one_line(refused, vectors, tmp_path):
    refused(["studio", str(vectors), "--no-browser", "--port", "0", "--encoder", "minilm-l6"], "remove the encoder")
    table = tmp_path / "texts.csv"
    table.write_text("text\nhello\nworld\n")
    refused(["studio", str(table), "--no-browser", "--port", "0", "--encoder", "nothing"], "nothing")


def test_help_shows_how_it_is_called(capsys):
    assert run(["studio", "--help"]) == 0
    out = capsys.readouterr().out
    assert "--demo" in out
    assert "--no-browser" in out
