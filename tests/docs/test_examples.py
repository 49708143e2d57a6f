"""Every example runs as it is, in a process of its own and an empty folder."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

import laplacianshot

EXAMPLES = Path(__file__).resolve().parents[2] / "examples"
NEEDS = {"sentences": ["onnxruntime"], "picture_folder": ["onnxruntime", "PIL"]}


@pytest.fixture(scope="module")
def cache(tmp_path_factory):
    return tmp_path_factory.mktemp("cache")


@pytest.mark.parametrize("script", sorted(EXAMPLES.glob("*.py")), ids=lambda script: script.stem)
def test_a_script_runs(script, tmp_path, cache):
    for package in NEEDS.get(script.stem, []):
        pytest.importorskip(package, reason="needs the extra label")
    source = Path(laplacianshot.__file__).parents[1]
    done = subprocess.run(
        [sys.executable, script],
        cwd=tmp_path,
        env=os.environ | {"PYTHONPATH": str(source), "LAPLACIANSHOT_CACHE": str(cache), "PYTHONUTF8": "1"},
        capture_output=True,
        text=True,
        timeout=500,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.strip()


@pytest.mark.parametrize(
    "notebook",
    [
        pytest.param(path, marks=[pytest.mark.slow] if path.stem == "picture_folder" else [])
        for path in sorted(EXAMPLES.glob("*.ipynb"))
    ],
    ids=lambda path: path.stem,
)
def test_a_notebook_runs(notebook, tmp_path, cache, monkeypatch):
    nbclient = pytest.importorskip("nbclient")
    nbformat = pytest.importorskip("nbformat")
    pytest.importorskip("ipykernel")
    monkeypatch.setenv("PYTHONPATH", str(Path(laplacianshot.__file__).parents[1]))
    monkeypatch.setenv("LAPLACIANSHOT_CACHE", str(cache))
    book = nbformat.read(notebook, as_version=4)
    nbformat.validate(book)
    nbclient.NotebookClient(book, timeout=500, resources={"metadata": {"path": str(tmp_path)}}).execute()


def test_the_list_of_examples_leaves_none_out():
    listed = (EXAMPLES / "README.md").read_text(encoding="utf-8")
    for path in EXAMPLES.iterdir():
        assert path.name == "README.md" or path.name.startswith("__") or f"`{path.name}`" in listed, path.name
