from __future__ import annotations

from pathlib import Path

import pytest

from laplacianshot.datasets.pictures import Pictures
from tests.training.drawings import read_bundle, write_bundle


@pytest.fixture(scope="session")
def bundle(tmp_path_factory) -> Path:
    return write_bundle(tmp_path_factory.mktemp("drawings") / "drawings.npz")


@pytest.fixture
def pictures(bundle) -> Pictures:
    return read_bundle(bundle)
