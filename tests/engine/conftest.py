"""Sets that are small and yet treated as large."""

from __future__ import annotations

import pytest

from laplacianshot import estimator
from laplacianshot.engine import plan
from laplacianshot.neighbors import knn as neighbors


@pytest.fixture
def large(monkeypatch):
    """Every task of more than 500 rows is large."""
    for module in (estimator, neighbors, plan):
        monkeypatch.setattr(module, "LARGE_ROWS", 500)
