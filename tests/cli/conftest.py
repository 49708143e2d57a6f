from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from sklearn.datasets import load_digits

import laplacianshot
from laplacianshot.cli.app import run


@pytest.fixture
def refused(capsys) -> Callable[[Sequence[str], str], None]:
    """Checks that bad input is one line on stderr that names the fault, code 2, and nothing on stdout."""

    def check(arguments: Sequence[str], named: str) -> None:
        assert run(arguments) == 2
        out, err = capsys.readouterr()
        assert out == ""
        assert err.startswith("error: ")
        assert err.count("\n") == 1
        assert named in err

    return check


@pytest.fixture
def environment() -> dict[str, str]:
    """For processes of their own that run this very source."""
    return os.environ | {"PYTHONPATH": str(Path(laplacianshot.__file__).parents[1]), "PYTHONUTF8": "1"}


# Runs ``laplacianshot label`` until an event: a stage and how much of it is done, or the renaming of the output. There
# it dies (act "die"), or says so on stderr and waits for a signal.
AT_EVENT = """
import os, signal, sys, time
import laplacianshot.cli.terminal as command

stage, least, act = sys.argv[1], int(sys.argv[2]), sys.argv[3]

def reached():
    if act == "die":
        os.kill(os.getpid(), signal.SIGKILL)
    print("waiting", file=sys.stderr, flush=True)
    while True:
        time.sleep(0.01)

def watcher(bar):
    def watch(name):
        def progress(done, total):
            if name == stage and done >= least:
                reached()
        progress(0, 0)
        return progress
    return watch

if stage == "rename":
    sys.addaudithook(lambda e, args: reached() if e == "os.rename" and str(args[1]).endswith(".csv") else None)
command.watcher = watcher
from laplacianshot.cli import main
main(sys.argv[4:])
"""


@pytest.fixture
def until(environment) -> Callable[..., subprocess.Popen[str]]:
    """Starts ``laplacianshot label`` in a process of its own that runs until an event; see ``AT_EVENT``."""

    def start(event: tuple[str, int], act: str, arguments: Sequence[str], **settings: str) -> subprocess.Popen[str]:
        command = [sys.executable, "-c", AT_EVENT, event[0], str(event[1]), act, *arguments]
        pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
        return subprocess.Popen(command, env=environment | settings, **pipes)

    return start


@pytest.fixture
def interrupted(environment, tmp_path) -> Callable[[str, Sequence[str], str], tuple[str, str]]:
    """Runs a program in a process of its own, sends Ctrl-C after a line on stderr, and gives what it then printed.

    It must leave with code 130, without a traceback, and leave no file behind.
    """

    def run_until(program: str, arguments: Sequence[str], line: str) -> tuple[str, str]:
        pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
        command = [sys.executable, "-c", program, *arguments]
        with subprocess.Popen(command, cwd=tmp_path, env=environment, **pipes) as process:
            try:
                while (printed := process.stderr.readline()) != f"{line}\n":
                    assert printed, "the program ended before that line"
                process.send_signal(signal.SIGINT)
                out, err = process.communicate(timeout=300)
            finally:
                process.kill()
        assert process.returncode == 130
        assert "Traceback" not in err
        assert list(tmp_path.iterdir()) == []
        return out, err

    return run_until


@pytest.fixture(scope="session")
def make_features(tmp_path_factory) -> Callable[..., Path]:
    """A feature file of clusters: ``make(base=8, val=6, novel=7, dim=16)`` has this many classes in each split."""

    def make(name: str = "birds.npz", *, rows: int = 24, dim: int = 16, **splits: int) -> Path:
        rng = np.random.default_rng(0)
        names = np.repeat(list(splits), list(splits.values()))
        n_classes = len(names)
        centers = rng.standard_normal((n_classes, dim))
        labels = np.repeat(np.arange(n_classes), rows)
        features = centers[labels] + 1.2 * rng.standard_normal((len(labels), dim))
        arrays: dict[str, Any] = {"features": features.astype(np.float16), "labels": labels, "split": names[labels]}
        path = tmp_path_factory.mktemp("features") / name
        np.savez(path, class_names=np.array([f"bird {c}" for c in range(n_classes)]), **arrays)
        return path

    return make


@pytest.fixture(scope="session")
def birds(make_features) -> Path:
    """Clusters with the splits base, val and novel."""
    return make_features("birds & co.npz", base=8, val=6, novel=7)


@pytest.fixture(scope="session")
def digits(tmp_path_factory) -> Path:
    """scikit-learn's digits, without splits."""
    features, labels = load_digits(return_X_y=True)
    path = tmp_path_factory.mktemp("features") / "digits.npz"
    np.savez(path, features=features, labels=labels)
    return path
