"""Rows that come after the fit: classified by the fitted prototypes and the fitted rows near them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, fields
from functools import cached_property
from typing import Any

import numpy as np
import scipy.sparse as sp
from scipy.special import softmax

from laplacianshot.inference.prototypes import squared_distances
from laplacianshot.neighbors.knn import point_index
from laplacianshot.neighbors.small import SmallIndex
from laplacianshot.runtime.types import Floats, Ints

# Rows classified at a time, so that any number of them fit in memory.
_BATCH_ROWS = 4096


@dataclass(frozen=True, repr=False)
class InductiveRule:
    """The assignment of one more row, all others staying as they are.

    ``y = softmax(-tau |x + shift - m_c|^2 + lam sum_{p in kNN(x)} v_p y_p + bias)``: the update of the bound optimizer
    for a row that joins the graph. A row equal to a fitted one has that one as its nearest neighbor.

    Attributes
    ----------
    prototypes : array of shape (C, D)
    points : array or Rows of shape (n, D)
        Fitted rows that may be neighbors, the support first.
    assignments : array or csr_array of shape (n, C)
        ``y_p`` of each of them, in the order of ``points`` or in that of ``search``.
    weights : array of shape (n,)
        ``v_p``, the weight of an edge to each of them, in the same order.
    n_neighbors : int
    lam, tau : float
    bias : array of shape (C,)
    shift : array of shape (D,), optional
    search : callable, optional
        ``search(rows, k)`` returns the neighbors of rows (m, D), (m, k), -1 for none (default: exact, in memory).
    """

    prototypes: Floats
    points: Any
    assignments: Any
    weights: Floats
    n_neighbors: int
    lam: float
    tau: float
    bias: Floats
    shift: Floats | None = None
    search: Callable[[Floats, int], Ints] | None = None

    def __getstate__(self) -> dict[str, Any]:
        """The fields alone: the index is made again when it is needed."""
        return {field.name: getattr(self, field.name) for field in fields(self)}

    @cached_property
    def _index(self) -> SmallIndex:
        return point_index(self.points)

    def __call__(self, X: Floats) -> Floats:
        """Assignments (m, C) of transformed rows (m, D)."""
        out = np.empty((X.shape[0], self.prototypes.shape[0]), dtype=X.dtype)
        for start in range(0, len(X), _BATCH_ROWS):
            rows = X[start : start + _BATCH_ROWS]
            if self.shift is not None:
                rows = rows + self.shift
            logits = squared_distances(rows, self.prototypes).astype(np.float64)
            logits *= -self.tau
            logits += self.bias
            if self.lam > 0 and self.n_neighbors > 0:
                logits += self.lam * self.votes(rows)
            out[start : start + _BATCH_ROWS] = softmax(logits, axis=1)
        return out

    def votes(self, rows: Floats) -> Floats:
        """``sum_{p in kNN(x)} v_p y_p`` of each row, (m, C)."""
        k = self.n_neighbors
        near = self._index.neighbors_of(rows, k).indices if self.search is None else self.search(rows, k)
        values = np.where(near < 0, 0.0, self.weights[near]).astype(self.assignments.dtype)
        ends = np.arange(0, near.size + 1, near.shape[1]) if near.size else np.zeros(len(near) + 1, np.int64)
        links = sp.csr_array((values.ravel(), near.clip(0).ravel(), ends), shape=(len(near), len(self.weights)))
        votes: Any = links @ self.assignments
        summed: Floats = votes.toarray() if sp.issparse(votes) else votes
        return summed


def vote_weights(degrees: Floats, n_neighbors: int) -> Floats:
    """``1 / sqrt(k d_p)``, 0 where a degree is: what an edge to each row (n,) weighs when W is normalized.

    A new row has k edges of weight 1, so degree k.
    """
    reach = np.sqrt(n_neighbors * degrees)
    weights: Floats = np.divide(1.0, reach, out=np.zeros(len(reach)), where=reach > 0)
    return weights
