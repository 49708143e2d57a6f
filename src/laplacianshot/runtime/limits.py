"""Sizes at which the package changes how it works, and the accuracy it aims at: each in one place."""

from __future__ import annotations

# Up to this many rows the numpy definitions run and nothing is compiled: a first fit answers at once.
SMALL_ROWS = 4096
# A task of more rows is large: exact neighbors would take longer than all the rest. So is one of more assignments,
# which take 1 GB per array. Large tasks are solved by laplacianshot.engine.
LARGE_ROWS = 50_000
LARGE_ASSIGNMENTS = 2**28
# Share of the true neighbors that an approximate search must find.
TARGET_RECALL = 0.95
