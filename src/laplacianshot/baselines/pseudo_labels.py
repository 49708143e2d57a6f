"""Pseudo-labels in growing number, as in the transductive inference of CAN."""

from __future__ import annotations

import numpy as np

from laplacianshot.baselines._rows import cosines
from laplacianshot.baselines.batch import TaskBatch
from laplacianshot.baselines.contract import BatchedBaseline, Center, Space
from laplacianshot.runtime.types import Floats

# 35 of the 75 queries of a task, as in the authors' code.
PUBLISHED_SHARE = 35 / 75


class PseudoLabels(BatchedBaseline):
    """Transductive inference of CAN (Hou et al., 2019) on fixed features: CAN-T without its cross attention.

    Round ``r = 1..rounds`` gives each query the class of largest cosine, ``c_q = argmax_c cos(x_q, m_c)``, and takes
    the ``r share N`` queries (rounded, at least 1) for which that cosine is largest, over all classes together. They
    join the support until the next round, which chooses anew::

        m_c = (sum_{s in S_c} x_s + sum_{q chosen, c_q = c} x_q) / (|S_c| + |{q chosen, c_q = c}|)

    from the plain class means; then ``label_q = argmax_c cos(x_q, m_c)``.

    Parameters
    ----------
    space, center
        See :class:`~laplacianshot.baselines.contract.BatchedBaseline`.
    rounds : int
    share : float
        Of the queries, added in each round.
    """

    def __init__(
        self,
        *,
        space: Space = "cl2",
        center: Center | Floats = "pooled",
        rounds: int = 2,
        share: float = PUBLISHED_SHARE,
    ) -> None:
        self.space = space
        self.center = center
        self.rounds = rounds
        self.share = share

    def scores(self, batch: TaskBatch) -> Floats:
        """``cos(x_q, m_c)``, (B, N, C)."""
        n_support, n_query = batch.n_support, batch.n_query
        found = cosines(batch, batch.class_mean_weights)[:, n_support:]
        for r in range(1, self.rounds + 1):
            n_chosen = min(n_query, max(1, round(r * self.share * n_query)))
            surest = np.argsort(-found.max(axis=2), axis=1, kind="stable")[:, :n_chosen]
            members = np.zeros((len(batch), batch.n_classes, n_support + n_query), dtype=batch.gram.dtype)
            members[:, :, :n_support] = np.swapaxes(batch.one_hot, 1, 2)
            labels = np.take_along_axis(found.argmax(axis=2), surest, axis=1)
            members[np.arange(len(batch))[:, None], labels, n_support + surest] = 1
            found = cosines(batch, members / members.sum(axis=2, keepdims=True))[:, n_support:]
        return found
