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
                while process.stderr.readline() != f"{line}\n":
                    assert process.poll() is None
                process.send_signal(signal.SIGINT)
                out, err = process.communicate(timeout=60)
            finally:
                process.kill()
        assert process.returncode == 130
        assert "Traceback" not in err
        assert list(tmp_path.iterdir()) == []
        return out, err

    return run_until


@pytest.fixture(scope="session")
def make_features(tmp_path_factory) -> Callable[..., Path]:
    """A feature file of clusters: ``make(base=8, val=6, novel=7, dim=16)`` has so many classes in each split."""

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
