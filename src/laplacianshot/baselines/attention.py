"""Attention over the support, as in matching networks."""

from __future__ import annotations

import numpy as np

from laplacianshot.baselines._rows import inverse_norms, softmax
from laplacianshot.baselines.batch import TaskBatch
from laplacianshot.baselines.contract import BatchedBaseline, Center, Space
from laplacianshot.runtime.types import Floats


class MatchingAttention(BatchedBaseline):
    """The classifier of matching networks (Vinyals et al., 2016), without their learned embeddings.

    A query looks at every support row, whose label it takes in that share::

        p(c|q) = sum_{s in S_c} softmax_s(temperature cos(x_q, x_s))

    Classes with more support rows get more of it: nothing corrects for unequal shots, as published.

    Parameters
    ----------
    space, center
        See :class:`~laplacianshot.baselines.contract.BatchedBaseline`.
    temperature : float
        1 as published. Large values give the nearest support row all the say.
    """

    def __init__(self, *, space: Space = "cl2", center: Center | Floats = "pooled", temperature: float = 1.0) -> None:
        self.space = space
        self.center = center
        self.temperature = temperature

    def scores(self, batch: TaskBatch) -> Floats:
        """``p(c|q)``, (B, N, C)."""
        n_support = batch.n_support
        inverse = inverse_norms(batch.squared_norms, batch)
        cosines = batch.gram[:, n_support:, :n_support] * inverse[:, n_support:, None] * inverse[:, None, :n_support]
        shares: Floats = np.matmul(softmax(self.temperature * cosines), batch.one_hot)
        return shares
