from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from laplacianshot.training import Checkpoint, EpochRecord
from laplacianshot.training.epochs import log_text
from tests.training.drawings import same_runs

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture(
    scope="module",
    params=[pytest.param((1, 5), id="few"), pytest.param((5, 1), id="many", marks=pytest.mark.slow)],
)
def folder(request, tmp_path_factory, bundle):
    """Outputs of a run of one piece, and of runs killed at many moments."""
    if not hasattr(os, "fork"):
        pytest.skip("needs fork")
    made = tmp_path_factory.mktemp("killed")
    kills, stride = request.param
    command = [sys.executable, "-m", "tests.training.killing", str(bundle), str(made), "0", str(kills), str(stride)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=300, check=False)
    assert done.returncode == 0, done.stderr
    return made


@pytest.mark.parametrize("kills", ["random", "writing"])
def test_a_killed_run_ends_like_one_of_one_piece_to_the_last_bit(folder, kills):
    """At random moments; and at every call that moves the first checkpoints to the disk."""
    assert same_runs(folder / "whole", folder / kills)


@pytest.mark.parametrize("kills", ["random", "writing"])
def test_the_folder_of_a_killed_run_is_that_of_one_of_one_piece(folder, kills):
    assert {path.name for path in (folder / kills).iterdir()} == {path.name for path in (folder / "whole").iterdir()}
    for name in ("last", "best"):
        checkpoint = Checkpoint.read(folder / kills / f"{name}.safetensors")
        assert checkpoint.header() == json.loads((folder / kills / f"{name}.json").read_text())
    assert (folder / kills / "log.csv").read_text() == log_text(checkpoint_history(folder / kills))


def checkpoint_history(folder: Path) -> tuple[EpochRecord, ...]:
    return Checkpoint.read(folder / "last.safetensors").state.history
