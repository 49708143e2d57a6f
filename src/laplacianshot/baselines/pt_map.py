"""PT-MAP: class centers by optimal transport, on rows made more Gaussian."""

from __future__ import annotations

import numpy as np

from laplacianshot.baselines._transport_kernels import transport
from laplacianshot.baselines.contract import BatchedBaseline, Center, Space, TaskBatch, inverse_norms
from laplacianshot.runtime.types import Floats


class PTMAP(BatchedBaseline):
    """PT-MAP (Hu, Gripon and Pateux, ICANN 2021).

    Rows are power-transformed (``space="power"``); then the mean of the support is taken from the support, the mean of
    the queries from the queries, and each row is divided by its norm. From class means of the support, ``n_iter``
    times and once more for the labels::

        P = argmax_P  -sum_qc P_qc |x_q - m_c|^2 - (1/lam) sum_qc P_qc log P_qc
            over P >= 0 whose rows sum to 1 and whose columns sum to N/C
        m_c <- m_c + rate ( (sum_{s in c} x_s + sum_q P_qc x_q) / (n_c + sum_q P_qc) - m_c ),       label_q = argmax P_q

    Both the mean of the queries and the columns of P assume that all classes are equally frequent. A lone query is
    therefore shared out equally, and goes to the first class.

    The plan is ``P_qc = u_q exp(2 lam x_q . m_c) v_c`` with the u and v that give it these sums: norms are swallowed by
    them. It is unique. Sinkhorn's rounds would get there; we take Newton's where they are better (see ``transport``),
    in float64, until columns are right to 1e-6.

    Parameters
    ----------
    space : {"power", "cl2", "l2", "none"}
    center : {"pooled", "support"} or array of shape (D,)
        What ``cl2`` takes away; of no effect in other spaces.
    lam : float
        How little entropy counts.
    rate : float
        Share of the way that a center goes. 0.2 and 20 rounds are those of the authors' published program.
    n_iter : int
        Rounds.
    """

    def __init__(
        self,
        *,
        space: Space = "power",
        center: Center | Floats = "pooled",
        lam: float = 10.0,
        rate: float = 0.2,
        n_iter: int = 20,
    ) -> None:
        self.space = space
        self.center = center
        self.lam = lam
        self.rate = rate
        self.n_iter = n_iter

    def scores(self, batch: TaskBatch) -> Floats:
        """Plans, (B, N, C)."""
        n_support = batch.n_support
        if batch.n_query == 0:
            return np.empty((len(batch), 0, batch.n_classes))
        to_queries = np.ascontiguousarray(_centered_products(batch)[:, :, n_support:])
        centers = batch.class_mean_weights.copy()
        means = np.empty_like(centers)
        logits = np.empty((len(batch), batch.n_classes, batch.n_query), dtype=np.float64)
        plans, potentials = np.empty_like(logits), np.zeros(logits.shape[:2])
        for _ in range(self.n_iter):
            self._transport(centers, to_queries, logits, potentials, plans)
            means[:, :, :n_support] = np.swapaxes(batch.one_hot, 1, 2)
            means[:, :, n_support:] = plans
            means *= self.rate / means.sum(axis=2, keepdims=True)
            centers *= 1 - self.rate
            centers += means
        self._transport(centers, to_queries, logits, potentials, plans)
        return np.swapaxes(plans, 1, 2)

    def _transport(
        self, centers: Floats, to_queries: Floats, logits: Floats, potentials: Floats, plans: Floats
    ) -> None:
        np.matmul(centers, to_queries, out=logits)
        logits *= 2 * self.lam
        transport(logits, potentials, plans)


def _centered_products(batch: TaskBatch) -> Floats:
    """Inner products (B, n, n) once support and queries are centered on their own means and brought to norm 1.

    A row equal to the mean of its kind becomes zero.
    """
    products = batch.gram.copy()
    for kind in (slice(batch.n_support), slice(batch.n_support, None)):
        products[:, kind] -= products[:, kind].mean(axis=1, keepdims=True)
    for kind in (slice(batch.n_support), slice(batch.n_support, None)):
        products[:, :, kind] -= products[:, :, kind].mean(axis=2, keepdims=True)
    scale = inverse_norms(np.einsum("bii->bi", products), batch)
    products *= scale[:, :, None]
    products *= scale[:, None, :]
    return products
