"""Rows that come after a large fit: classified by the prototypes and the fitted rows found near them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.sparse as sp
from scipy.special import softmax

from laplacianshot.engine.passes import squared_distances
from laplacianshot.neighbors.cells import CellIndex
from laplacianshot.neighbors.rows import Rows
from laplacianshot.neighbors.streamed import nearest_rows
from laplacianshot.runtime.threads import row_blocks
from laplacianshot.runtime.types import Floats, Ints

_BLOCK_ROWS = 8192


@dataclass(frozen=True, repr=False)
class LargeRule:
    """:class:`~laplacianshot.inference.induction.InductiveRule` of a set whose rows are never in memory together.

    ``y = softmax(-tau |x - m_c|^2 + lam sum_{p in kNN(x)} v_p + bias)`` with ``v_p = e_p y_p / sqrt(k d_p)``, the votes
    formed from the fitted assignments when they are wanted. The neighbors of a new row are sought as in the fit: in
    the cells nearest to it.

    Attributes
    ----------
    prototypes : array of shape (C, D)
    points : Rows of shape (n, D)
        Fitted rows, the support first.
    distributions : array or csr_array of shape (n, C)
        Assignments of the fitted rows, as X had them.
    vote_weights : array of shape (n,)
        ``e_p / sqrt(k d_p)``, as X had them.
    n_neighbors : int
    lam, tau : float
    bias : array of shape (C,)
    offset : array of shape (D,)
        Where the coordinates of the index begin.
    index : CellIndex, optional
    all_rows : Rows of shape (n, D)
        As X had them; searched exactly where there is no index.
    """

    prototypes: Floats
    points: Rows
    distributions: Any
    vote_weights: Floats
    n_neighbors: int
    lam: float
    tau: float
    bias: Floats
    offset: Floats
    all_rows: Rows
    index: CellIndex | None = None

    def __call__(self, X: Floats) -> Floats:
        """Assignments (m, C) of transformed rows (m, D)."""
        out = np.empty((len(X), len(self.prototypes)), dtype=X.dtype)
        for start, stop in row_blocks(len(X), _BLOCK_ROWS):
            rows = X[start:stop]
            logits = squared_distances(rows, self.prototypes).astype(np.float64)
            logits *= -self.tau
            logits += self.bias
            if self.lam > 0 and self.n_neighbors > 0:
                near = self._near(rows.astype(np.float32))
                weights = np.where(near < 0, 0.0, self.lam * self.vote_weights[near])
                links = sp.csr_array(
                    (weights.ravel(), near.clip(0).ravel(), np.arange(0, near.size + 1, near.shape[1])),
                    shape=(len(rows), len(self.vote_weights)),
                )
                votes = links @ self.distributions
                logits += votes.toarray() if sp.issparse(votes) else votes
            out[start:stop] = softmax(logits, axis=1)
        return out

    def _near(self, rows: Floats) -> Ints:
        """Positions in X of the fitted rows nearest to each row, (m, k); -1 where fewer were seen."""
        if self.index is None:
            return nearest_rows(self.all_rows, rows, min(self.n_neighbors, len(self.all_rows))).indices
        found = self.index.neighbors_of(rows - self.offset, self.n_neighbors).indices
        near: Ints = np.where(found < 0, -1, self.index.order[found])
        return near
