from __future__ import annotations

import os
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from laplacianshot.cli.app import run
from tests.reproduce.shapes import SETTING, draw_shapes

COMMAND = ["reproduce", "shapes.toml", "--data", "pictures", "-o", "out"]


@pytest.fixture(scope="session")
def finished(tmp_path_factory) -> Path:
    """A folder in which the command has run from its beginning to its end, without a pause."""
    folder = tmp_path_factory.mktemp("finished")
    draw_shapes(folder / "pictures")
    (folder / "shapes.toml").write_text(SETTING, encoding="utf-8")
    before = Path.cwd()
    os.chdir(folder)
    try:
        assert run(COMMAND) == 0
    finally:
        os.chdir(before)
    return folder


@pytest.fixture
def fresh(finished, tmp_path, monkeypatch) -> Path:
    """The working folder: the same pictures and setting, and nothing done yet."""
    # Times of files are part of what tells pictures apart.
    shutil.copytree(finished / "pictures", tmp_path / "pictures")
    shutil.copy(finished / "shapes.toml", tmp_path)
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.fixture
def copied(finished, fresh) -> Path:
    """The working folder, with everything done."""
    shutil.copytree(finished / "out", fresh / "out")
    return fresh


@pytest.fixture
def ran(capsys) -> Callable[..., list[str]]:
    """Runs the command and gives the steps that were done, not passed over."""
    import json

    def call(*more: str) -> list[str]:
        capsys.readouterr()
        assert run([*COMMAND, "--json", *more]) == 0
        return json.loads(capsys.readouterr().out)["ran"]

    return call
