"""Nearest prototypes: plain (SimpleShot), rectified (BD-CSPN), and with pseudo-labels (CAN-T)."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from laplacianshot.baselines.contract import BatchedBaseline, Center, Space, TaskBatch, cosines, softmax
from laplacianshot.inference.prototypes import REFERENCE_TEMPERATURE, class_means, squared_distances
from laplacianshot.runtime.types import Floats, Ints


class NearestPrototype(BatchedBaseline):
    """Each row takes the class whose mean labeled row is nearest (SimpleShot; Wang et al., 2019).

    With ``z`` the transformed rows and ``S_c`` the labeled rows of class c::

        m_c = (1/|S_c|) sum_{s in S_c} z_s,    label_q = argmin_c |z_q - m_c|^2

    Fitting one task takes memory linear in its rows.

    Parameters
    ----------
    space : {"cl2", "l2", "none", "power"}
        Center and L2-normalize the rows, only L2-normalize them, leave them, or take their power transform.
    center : {"pooled", "support"} or array of shape (D,)
        What ``cl2`` takes away: the mean of all rows, as :class:`~laplacianshot.LaplacianShot` does by default, the
        mean of the labeled rows, or a base mean.
    """

    def __init__(self, space: Space = "cl2", *, center: Center | Floats = "pooled") -> None:
        self.space = space
        self.center = center

    def scores(self, batch: TaskBatch) -> Floats:
        """``-|z_q - m_c|^2``, (B, N, C)."""
        return -batch.squared_distances(batch.class_mean_weights)[:, batch.n_support :]

    def _assign(self, X: Floats, codes: Ints, n_classes: int) -> Ints:
        labeled = codes >= 0
        rows = self._place(X, labeled)
        prototypes = class_means(rows[labeled], codes[labeled], n_classes)
        nearest: Ints = squared_distances(rows, prototypes).argmin(axis=1)
        return nearest


class RectifiedPrototype(BatchedBaseline):
    """Nearest prototype after the rectification of BD-CSPN (Liu et al., 2020), as the code of LaplacianShot has it.

    The queries are moved, ``z_q <- z_q + mean(S) - mean(Q)``. With ``m_c`` the mean labeled row of class c, every row
    is grouped to ``argmax_c cos(z, m_c)``, labeled rows too, and has the weight
    ``w_c(z) = softmax_c(temperature cos(z, m_c))``::

        m~_c = (1/n_c) sum_{z grouped to c} w_c(z) z,    label_q = argmin_c |z_q - m~_c|^2

    over the ``n_c`` rows grouped to c; a class without any keeps ``m_c``. The paper of BD-CSPN takes only the queries
    it is surest of and decides by cosines; here all of them count and the distance is Euclidean, so that this is
    ``LaplacianShot.reference(lam=0)``.

    Parameters
    ----------
    space, center
        See :class:`~laplacianshot.baselines.contract.BatchedBaseline`.
    temperature : float
    """

    def __init__(
        self,
        *,
        space: Space = "cl2",
        center: Center | Floats = "pooled",
        temperature: float = REFERENCE_TEMPERATURE,
    ) -> None:
        self.space = space
        self.center = center
        self.temperature = temperature

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
