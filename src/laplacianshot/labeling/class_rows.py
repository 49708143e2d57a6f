"""Rows of class probabilities, dense or sparse, in dense blocks."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.sparse as sp

from laplacianshot.neighbors.rows import Rows
from laplacianshot.runtime.threads import row_blocks
from laplacianshot.runtime.types import Floats, Ints

# Limits of the rows and of the entries of a block.
_BLOCK_ROWS = 8192
_BLOCK_ENTRIES = 2**22


def class_blocks(n: int, n_classes: int) -> list[tuple[int, int]]:
    """Cut ``[0, n)`` into blocks with a limited number of entries (m, C)."""
    return row_blocks(n, max(1, min(_BLOCK_ROWS, _BLOCK_ENTRIES // max(1, n_classes))))


@dataclass(frozen=True, repr=False)
class ClassRows:
    """Some rows of a matrix; slices are dense.

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
        """Return consecutive rows, (b, C)."""
        return dense(self.matrix[self.rows[some]])

    def blocks(self) -> list[tuple[int, int]]:
        """Return the ranges of small blocks."""
        return class_blocks(len(self.rows), self.matrix.shape[1])

    def mean(self) -> Floats:
        """Return the mean of the rows (C,), in float64."""
        sums = np.zeros(self.matrix.shape[1])
        for start, stop in self.blocks():
            sums += self[start:stop].sum(axis=0, dtype=np.float64)
        mean: Floats = sums / max(1, len(self))
        return mean


def dense(rows: Any) -> Floats:
    """Return rows (m, C), or one of them (C,), as a dense array."""
    values: Floats = rows.toarray() if sp.issparse(rows) else rows
    return values


def entries_at(matrix: Any, rows: Ints, columns: Ints) -> Floats:
    """Return one entry per row of some rows of a matrix, dense or sparse: (m,)."""
    values: Floats = dense(matrix[rows, columns]).ravel()
    return values


def later_rows(points: Any, first: int) -> Any:
    """Return the rows from ``first`` on, without forming those of :class:`~laplacianshot.neighbors.rows.Rows`."""
    return points.ordered(np.arange(first, len(points))) if isinstance(points, Rows) else points[first:]
