"""Rows that come after the fit: classified by the fitted prototypes and the fitted rows near them."""

from __future__ import annotations

from dataclasses import dataclass, fields
from functools import cached_property
from typing import Any

import numpy as np
from scipy.special import softmax

from laplacianshot.inference.prototypes import squared_distances
from laplacianshot.neighbors.knn import PointIndex, point_index
from laplacianshot.runtime.types import Floats

# Rows classified at a time, so that any number of them fit in memory.
_BATCH_ROWS = 4096


@dataclass(frozen=True, repr=False)
class InductiveRule:
    """The assignment of one more row, all others staying as they are.

    ``y = softmax(-tau |x + shift - m_c|^2 + lam sum_{p in kNN(x)} v_p + bias)``: the update of the bound optimizer for
    a row that joins the graph. A row equal to a fitted one has that one as its nearest neighbor.

    Attributes
    ----------
    prototypes : array of shape (C, D)
    points : array of shape (n, D)
        Fitted rows that may be neighbors.
    votes : array of shape (n, C)
        ``v_p``, the weighted assignment of each of them.
    n_neighbors : int
    lam, tau : float
    bias : array of shape (C,)
    shift : array of shape (D,)
    """

    prototypes: Floats
    points: Floats
    votes: Floats
    n_neighbors: int
    lam: float
    tau: float
    bias: Floats
    shift: Floats

    def __getstate__(self) -> dict[str, Any]:
        """The fields alone: the index is made again when it is needed."""
        return {field.name: getattr(self, field.name) for field in fields(self)}

    @cached_property
    def _index(self) -> PointIndex:
        return point_index(self.points)

    def __call__(self, X: Floats) -> Floats:
        """Assignments (m, C) of transformed rows (m, D)."""
        out = np.empty((X.shape[0], self.prototypes.shape[0]), dtype=X.dtype)
        for start in range(0, len(X), _BATCH_ROWS):
            rows = X[start : start + _BATCH_ROWS] + self.shift
            logits = squared_distances(rows, self.prototypes).astype(np.float64)
            logits *= -self.tau
            logits += self.bias
            if self.lam > 0 and self.n_neighbors > 0:
                neighbors = self._index.neighbors_of(rows, self.n_neighbors)
                for slot in range(neighbors.indices.shape[1]):
                    logits += self.lam * self.votes[neighbors.indices[:, slot]]
            out[start : start + _BATCH_ROWS] = softmax(logits, axis=1)
        return out
