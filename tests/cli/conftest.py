from __future__ import annotations

import os
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


@pytest.fixture(scope="session")
def make_features(tmp_path_factory) -> Callable[..., Path]:
    """A feature file of clusters: ``make(base=8, val=6, novel=7, dim=16)`` has so many classes in each split."""

    def make(name: str = "birds.npz", *, rows: int = 24, dim: int = 16, **splits: int) -> Path:
        rng = np.random.default_rng(0)
        names = np.repeat(list(splits), list(splits.values()))
        n_classes = len(names)
        centres = rng.standard_normal((n_classes, dim))
        labels = np.repeat(np.arange(n_classes), rows)
        features = centres[labels] + 1.2 * rng.standard_normal((len(labels), dim))
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
