"""Sizes at which the package changes how it works, in one place."""

from __future__ import annotations

# Up to this many rows the numpy definitions run and nothing is compiled: a first fit answers at once.
SMALL_ROWS = 4096
