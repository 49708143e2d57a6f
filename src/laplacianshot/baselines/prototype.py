"""Prototypes: plain (SimpleShot), rectified (BD-CSPN), with pseudo-labels (CAN-T), by optimal transport (PT-MAP)."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from laplacianshot.baselines._kernels import transport
from laplacianshot.baselines.contract import BatchedBaseline, Space, TaskBatch, cosines, inverse_norms, softmax
from laplacianshot.inference.prototypes import REFERENCE_TEMPERATURE, class_means, squared_distances
from laplacianshot.runtime.types import Floats, Ints


@dataclass(repr=False, eq=False)
class NearestPrototype(BatchedBaseline):
    """Each row takes the class whose mean labeled row is nearest (SimpleShot; Wang et al., 2019).

    With ``z`` the transformed rows and ``S_c`` the labeled rows of class c::

        m_c = (1/|S_c|) sum_{s in S_c} z_s,    label_q = argmin_c |z_q - m_c|^2

    Fitting one task takes memory linear in its rows.
    """

    space: Space = "cl2"

    def scores(self, batch: TaskBatch) -> Floats:
        """``-|z_q - m_c|^2``, (B, N, C)."""
        return -batch.squared_distances(batch.class_mean_weights)[:, batch.n_support :]

    def _assign(self, X: Floats, codes: Ints, n_classes: int) -> Ints:
        labeled = codes >= 0
        rows = self._place(X, labeled)
        prototypes = class_means(rows[labeled], codes[labeled], n_classes)
        nearest: Ints = squared_distances(rows[~labeled], prototypes).argmin(axis=1)
        return nearest


@dataclass(repr=False, eq=False, kw_only=True)
class RectifiedPrototype(BatchedBaseline):
    """Nearest prototype after the rectification of BD-CSPN (Liu et al., 2020), as the code of LaplacianShot has it.

    The queries are moved, ``z_q <- z_q + mean(S) - mean(Q)``. With ``m_c`` the mean labeled row of class c, every row
    is grouped to ``argmax_c cos(z, m_c)``, labeled rows too, and has the weight
    ``w_c(z) = softmax_c(temperature cos(z, m_c))``::

        m~_c = (1/n_c) sum_{z grouped to c} w_c(z) z,    label_q = argmin_c |z_q - m~_c|^2

    over the ``n_c`` rows grouped to c; a class without any keeps ``m_c``. The paper of BD-CSPN takes only the queries
    it is surest of and decides by cosines; here all of them count and the distance is Euclidean, so that this is
    ``LaplacianShot.reference(lam=0)``.
    """

    temperature: float = REFERENCE_TEMPERATURE

    def scores(self, batch: TaskBatch) -> Floats:
        """``-|z_q - m~_c|^2``, (B, N, C)."""
        moved = shift_queries(batch)
        plain = moved.class_mean_weights
        similarity = cosines(moved, plain)
        grouped = similarity.argmax(axis=2)[:, :, None] == np.arange(batch.n_classes)
        counts = grouped.sum(axis=1)[:, :, None]
        weights = np.swapaxes(softmax(self.temperature * similarity) * grouped, 1, 2) / np.maximum(counts, 1)
        rectified = np.where(counts > 0, weights, plain).astype(plain.dtype, copy=False)
        return -moved.squared_distances(rectified)[:, batch.n_support :]


def shift_queries(batch: TaskBatch) -> TaskBatch:
    """The tasks after ``x_q <- x_q + eta`` with ``eta = mean(S) - mean(Q)``.

    With ``t_i`` 1 for a query and 0 for a support row, and ``h_i = x_i . eta + t_i |eta|^2 / 2``::

        x'_i . x'_j = x_i . x_j + t_i h_j + h_i t_j
    """
    n_support = batch.n_support
    if batch.n_query == 0:
        return batch
    eta = np.full(batch.gram.shape[1], -1 / batch.n_query, dtype=batch.gram.dtype)
    eta[:n_support] = 1 / n_support
    h = batch.gram @ eta
    h[:, n_support:] += (h @ eta)[:, None] / 2
    gram = batch.gram.copy()
    gram[:, n_support:] += h[:, None, :]
    gram[:, :, n_support:] += h[:, :, None]
    return replace(batch, gram=gram)


@dataclass(repr=False, eq=False, kw_only=True)
class PseudoLabels(BatchedBaseline):
    """Transductive inference of CAN (Hou et al., 2019) on fixed features: CAN-T without its cross attention.

    Round ``r = 1..rounds`` gives each query the class of largest cosine, ``c_q = argmax_c cos(x_q, m_c)``, and takes
    the ``r share N`` queries (rounded, at least 1) for which that cosine is largest, over all classes together. They
    join the support until the next round, which chooses anew::

        m_c = (sum_{s in S_c} x_s + sum_{q chosen, c_q = c} x_q) / (|S_c| + |{q chosen, c_q = c}|)

    from the plain class means; then ``label_q = argmax_c cos(x_q, m_c)``.
    """

    rounds: int = 2
    share: float = 35 / 75  # of the queries, added in each round: 35 of 75 in the authors' code

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


@dataclass(repr=False, eq=False, kw_only=True)
class PTMAP(BatchedBaseline):
    """PT-MAP (Hu, Gripon and Pateux, ICANN 2021).

    Rows are power-transformed (``space="roots"``); then the mean of the support is taken from the support, the mean of
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
    """

    space: Space = "roots"
    lam: float = 10.0  # how little entropy counts
    rate: float = 0.2  # share of the way that a center goes; this and 20 rounds are those of the authors' program
    n_iter: int = 20

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
        for r in range(self.n_iter + 1):
            if r > 0:
                means[:, :, :n_support] = np.swapaxes(batch.one_hot, 1, 2)
                means[:, :, n_support:] = plans
                means *= self.rate / means.sum(axis=2, keepdims=True)
                centers *= 1 - self.rate
                centers += means
            np.matmul(centers, to_queries, out=logits)
            logits *= 2 * self.lam
            transport(logits, potentials, plans)
        return np.swapaxes(plans, 1, 2)


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
