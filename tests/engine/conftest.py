"""Sets that are small and yet treated as large."""

from __future__ import annotations

import pytest

from laplacianshot.engine import choices, plan
from laplacianshot.neighbors import search as neighbors


@pytest.fixture
def large(monkeypatch):
    """Every task of more than 500 rows is large."""
    for module in (choices, neighbors, plan):
        monkeypatch.setattr(module, "LARGE_ROWS", 500)
