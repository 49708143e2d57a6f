"""Folders on this machine and on a file system that is not."""

from __future__ import annotations

import numpy as np
import pytest

from laplacianshot.ray.folder import RunFolder

pytest.importorskip("fsspec", reason="needs the extra ray")


@pytest.fixture(params=["local", "memory"])
def folder(request, tmp_path):
    made = RunFolder.of(str(tmp_path / "run") if request.param == "local" else f"memory://{tmp_path.name}/run")
    return made.below("part")


def test_arrays_and_values_come_back(folder):
    folder.put_arrays("rows.npz", {"a": np.arange(5), "b": np.eye(2)})
    folder.put_json("facts.json", {"recall": 0.5})
    assert folder.has("rows.npz")
    np.testing.assert_array_equal(folder.arrays("rows.npz")["a"], np.arange(5))
    np.testing.assert_array_equal(folder.arrays("rows.npz")["b"], np.eye(2))
    assert folder.json("facts.json") == {"recall": 0.5}


def test_files_are_named_in_order_without_folders(folder):
    for name in ("labels-1", "labels-0"):
        folder.put_json(name, {})
    folder.below("_run").put_json("run.json", {})
    assert folder.names() == ["labels-0", "labels-1"]


def test_a_file_can_be_taken_away_more_than_once(folder):
    folder.put_json("facts.json", {})
    folder.remove("facts.json")
    folder.remove("facts.json")
    assert not folder.has("facts.json")


def test_what_is_not_written_to_its_end_is_not_there(tmp_path):
    folder = RunFolder.of(str(tmp_path))

    def fail(file):
        file.write(b"half")
        raise OSError("the disk is full")

    with pytest.raises(OSError, match="full"):
        folder.put("rows.npz", fail)
    assert not folder.has("rows.npz")
    assert list(tmp_path.iterdir()) == []
