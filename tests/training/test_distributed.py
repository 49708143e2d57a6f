from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
from pathlib import Path

import pytest
import torch
from torch import distributed

from laplacianshot.training import Checkpoint
from laplacianshot.training.checkpoint import MODEL
from tests.training.drawings import Plain, read_bundle, tiny, train

ROOT = Path(__file__).resolve().parents[2]

pytestmark = pytest.mark.skipif(not distributed.is_gloo_available(), reason="this torch has no Gloo")

# The last step of an epoch is smaller than the others, and each is done in parts.
SETTINGS = {"batch_size": 20, "accumulate": 2, "epochs": 20, "milestones": (), "validate_every": 20}

# A process of two. Batch normalization sees half a batch in each, so the network has none.
PROCESS = """
import sys
from pathlib import Path
import laplacianshot.training.trainer as trainer
from laplacianshot.training import TrainingInterrupted
from tests.training.drawings import Plain, read_bundle, tiny, train

trainer.build_network = lambda *args, **named: Plain()
settings = eval(sys.argv[3])

def tell(status):
    print(status.phase, status.step, flush=True)

try:
    result = train(tiny(**settings), read_bundle(Path(sys.argv[1])), Path(sys.argv[2]), progress=tell)
except TrainingInterrupted as stopped:
    sys.exit(100 + stopped.signal)
print("accuracy", result.history[-1].accuracy)
"""


def start(bundle: Path, output: Path, size: int = 2) -> list[subprocess.Popen]:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    processes = []
    for rank in range(size):
        names = {"RANK": rank, "LOCAL_RANK": rank, "WORLD_SIZE": size, "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": port}
        environment = {**os.environ, "OMP_NUM_THREADS": "1", **{name: str(value) for name, value in names.items()}}
        command = [sys.executable, "-c", PROCESS, str(bundle), str(output), repr(SETTINGS)]
        processes.append(
            subprocess.Popen(
                command, cwd=ROOT, env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
            )
        )
    return processes


def finish(processes: list[subprocess.Popen]) -> list[tuple[int, str]]:
    try:
        outputs = [process.communicate(timeout=300) for process in processes]
    finally:
        for process in processes:
            process.kill()
    codes = [process.returncode for process in processes]
    assert set(codes) <= {0, 100 + signal.SIGINT}, outputs
    return [(code, out) for code, (out, _) in zip(codes, outputs, strict=True)]


def train_alone(bundle: Path, output: Path) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("laplacianshot.training.trainer.build_network", lambda *args, **named: Plain())
        train(tiny(**SETTINGS), read_bundle(bundle), output)


def test_two_processes_train_the_network_of_one_also_when_stopped_on_the_way(bundle, tmp_path):
    train_alone(bundle, tmp_path / "alone")
    processes = start(bundle, tmp_path / "two")
    while "train" not in processes[0].stdout.readline():
        assert processes[0].poll() is None, processes[0].communicate()[1]
    # One of them is told; the other learns of it.
    processes[1].send_signal(signal.SIGINT)
    assert [code for code, _ in finish(processes)] == [100 + signal.SIGINT] * 2
    assert Checkpoint.read(tmp_path / "two" / "last.safetensors").state.epoch < SETTINGS["epochs"]

    (first, told), (second, silence) = finish(start(bundle, tmp_path / "two"))
    assert first == second == 0
    # The first of them reports and writes.
    assert "done" in told
    assert "train" not in silence
    one, two = (Checkpoint.read(tmp_path / name / "last.safetensors") for name in ("alone", "two"))
    for name, tensor in one.part(MODEL).items():
        torch.testing.assert_close(two.part(MODEL)[name], tensor, rtol=1e-4, atol=1e-5)
    for a, b in zip(one.state.history, two.state.history, strict=True):
        assert b.loss == pytest.approx(a.loss, rel=1e-4)
        assert b.accuracy == pytest.approx(a.accuracy, abs=0.03)
    assert two.state.history[-1].validation == pytest.approx(one.state.history[-1].validation, abs=0.02)
