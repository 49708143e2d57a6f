"""Sets that are small and yet treated as large."""

from __future__ import annotations

import pytest

from laplacianshot.neighbors import knn as neighbors
from laplacianshot.runtime import limits


@pytest.fixture
def large(monkeypatch):
    """Every task of more than 500 rows is large."""
    for module in (limits, neighbors):
        monkeypatch.setattr(module, "LARGE_ROWS", 500)
