"""Sets that are small and yet treated as large."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.datasets import load_digits

from laplacianshot.engine import choices, plan
from laplacianshot.neighbors import search as neighbors


@pytest.fixture
def large(monkeypatch):
    """Every task of more than 500 rows is large."""
    for module in (choices, neighbors, plan):
        monkeypatch.setattr(module, "LARGE_ROWS", 500)


@pytest.fixture(scope="session")
def digits():
    """Pixels, truth, and y with five labels a digit."""
    pixels, truth = load_digits(return_X_y=True)
    y = np.full(len(truth), -1)
    for digit in range(10):
        y[np.flatnonzero(truth == digit)[:5]] = digit
    return pixels.astype(np.float32), truth, y


@pytest.fixture(scope="session")
def groups():
    """``groups(n, dim, n_groups)``: float32 rows about centres, in random order."""

    def make(n=4000, dim=16, n_groups=40, spread=0.4, seed=0):
        rng = np.random.default_rng(seed)
        centres = rng.standard_normal((n_groups, dim))
        rows = centres[rng.integers(0, n_groups, n)] + spread * rng.standard_normal((n, dim))
        return rows.astype(np.float32)

    return make
