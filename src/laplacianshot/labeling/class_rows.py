"""Rows of assignments or probabilities over classes, in an array or sparse, a dense block at a time."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.sparse as sp

from laplacianshot.neighbors.rows import Rows
from laplacianshot.runtime.threads import row_blocks
from laplacianshot.runtime.types import Floats, Ints

# Rows of a block at most, and its entries.
_BLOCK_ROWS = 8192
_BLOCK_ENTRIES = 2**22


def class_blocks(n: int, n_classes: int) -> list[tuple[int, int]]:
    """``[0, n)`` cut into blocks whose entries (m, C) are few."""
    return row_blocks(n, max(1, min(_BLOCK_ROWS, _BLOCK_ENTRIES // max(1, n_classes))))


@dataclass(frozen=True, repr=False)
class ClassRows:
    """Some rows of a matrix, of which slices are dense.

    Attributes
    ----------
    matrix : array or csr_array of shape (n, C)
    rows : int array of shape (m,)
        Which rows, in which order.
    """

    matrix: Any
    rows: Ints

    def __len__(self) -> int:
        return len(self.rows)

    def __getitem__(self, some: slice) -> Floats:
        """Consecutive ones, (b, C)."""
        return dense(self.matrix[self.rows[some]])

    def blocks(self) -> list[tuple[int, int]]:
        """Slices that are small."""
        return class_blocks(len(self.rows), self.matrix.shape[1])

    def mean(self) -> Floats:
        """Mean of the rows (C,), in float64."""
        sums = np.zeros(self.matrix.shape[1])
        for start, stop in self.blocks():
            sums += self[start:stop].sum(axis=0, dtype=np.float64)
        mean: Floats = sums / max(1, len(self))
        return mean


def dense(rows: Any) -> Floats:
    """Rows (m, C), or one of them (C,), as an array."""
    values: Floats = rows.toarray() if sp.issparse(rows) else rows
    return values


def entries_at(matrix: Any, rows: Ints, columns: Ints) -> Floats:
    """One entry of each of some rows of a matrix, dense or sparse: (m,)."""
    values: Floats = dense(matrix[rows, columns]).ravel()
    return values


def later_rows(points: Any, first: int) -> Any:
    """Rows from ``first`` on of an array or of :class:`~laplacianshot.neighbors.rows.Rows`, without forming them."""
    return points.ordered(np.arange(first, len(points))) if isinstance(points, Rows) else points[first:]
