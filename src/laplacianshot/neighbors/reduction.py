"""Fewer dimensions for the neighbor search: principal components, found from a sample of the rows."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from laplacianshot.neighbors.rows import Rows
from laplacianshot.runtime.threads import Workers, row_blocks
from laplacianshot.runtime.types import Floats

_SAMPLE = 20_000
_BLOCK_ROWS = 4096


@dataclass(frozen=True, repr=False)
class Reduction:
    """``(x - center) components`` for rows (m, D): their first d principal components.

    Attributes
    ----------
    center : array of shape (D,)
    components : array of shape (D, d)
    """

    center: Floats
    components: Floats

    @classmethod
    def of(cls, rows: Rows, dimensions: int, seed: int = 0) -> Reduction:
        """From the covariance of 20,000 rows, or of all if there are fewer."""
        n, width = rows.shape
        if not 1 <= dimensions <= width:
            raise ValueError(f"reduce is {dimensions}; give a number of dimensions from 1 to {width}.")
        rng = np.random.default_rng([seed, 2])
        sample = rows.take(np.sort(rng.choice(n, min(n, _SAMPLE), replace=False)))
        center = sample.mean(axis=0, dtype=np.float64).astype(np.float32)
        sample -= center
        _, vectors = np.linalg.eigh((sample.T @ sample).astype(np.float64))
        components = np.ascontiguousarray(vectors[:, ::-1][:, :dimensions].astype(np.float32))
        return cls(center, components)

    def __call__(self, rows: Floats) -> Floats:
        """Reduced rows (m, d)."""
        reduced: Floats = (rows - self.center) @ self.components
        return reduced

    def apply(self, rows: Rows) -> Rows:
        """All rows (n, d), in memory."""
        out = np.empty((len(rows), self.components.shape[1]), dtype=np.float32)

        def fill(_: int, start: int, stop: int) -> None:
            out[start:stop] = self(rows[start:stop])

        with Workers(rows.size) as workers:
            workers.run(fill, row_blocks(len(rows), _BLOCK_ROWS))
        return Rows.transformed(out)
