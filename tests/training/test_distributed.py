from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
import torch
from torch import distributed

from laplacianshot.training import Checkpoint
from laplacianshot.training.checkpoint import MODEL
from tests.training.drawings import Plain, read_bundle, tiny, train
from tests.training.together import SETTINGS

ROOT = Path(__file__).resolve().parents[2]

pytestmark = [
    pytest.mark.skipif(not distributed.is_gloo_available(), reason="this torch has no Gloo"),
    pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork"),
]


def train_alone(bundle: Path, output: Path) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("laplacianshot.training.trainer.build_network", lambda *args, **named: Plain())
        train(tiny(**SETTINGS), read_bundle(bundle), output)


def test_two_processes_train_the_network_of_one_also_when_stopped_on_the_way(bundle, tmp_path):
    command = [sys.executable, "-m", "tests.training.together", str(bundle), str(tmp_path)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=300, check=False)
    assert done.returncode == 0, done.stderr
    train_alone(bundle, tmp_path / "alone")

    assert Checkpoint.read(tmp_path / "stopped" / "last.safetensors").state.epoch < SETTINGS["epochs"]
    # The first of them reports and writes.
    assert "done" in (tmp_path / "finished-0").read_text()
    assert "train" not in (tmp_path / "finished-1").read_text()
    one, two = (Checkpoint.read(tmp_path / name / "last.safetensors") for name in ("alone", "two"))
    for name, tensor in one.part(MODEL).items():
        torch.testing.assert_close(two.part(MODEL)[name], tensor, rtol=1e-4, atol=1e-5)
    for a, b in zip(one.state.history, two.state.history, strict=True):
        assert b.loss == pytest.approx(a.loss, rel=1e-4)
        assert b.accuracy == pytest.approx(a.accuracy, abs=0.03)
    assert two.state.history[-1].validation == pytest.approx(one.state.history[-1].validation, abs=0.02)
