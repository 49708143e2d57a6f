"""BAVARDAGE: a variational mixture of Gaussians in a discriminant projection that is found anew in each round."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from scipy.special import digamma

from laplacianshot.baselines.contract import BatchedBaseline, TaskBatch, softmax
from laplacianshot.runtime.types import Floats

# A direction between classes counts if its variance is above this share of the largest.
_NEGLIGIBLE = 1e-9
# Scatter within classes is never below this share of all scatter: rows may be equal.
_MIN_SCATTER = 1e-9


@dataclass(repr=False, eq=False, kw_only=True)
class Bavardage(BatchedBaseline):
    """BAVARDAGE (Hu, Pateux and Gripon, AISTATS 2023): variational Bayes with adaptive dimension reduction.

    Responsibilities R (n, C), those of the support being its labels, start at one step of soft k-means,
    ``r_q ~ exp(-start_temperature |x_q - m_k|^2)`` about class means. Each round, with ``n_k = sum_i r_ik``:

    1. Project: with S_w and S_b (D, D) the scatter of the rows within and between classes as R has them, P (D, C - 1)
       makes ``P^T S_w P = I`` and ``P^T S_b P`` diagonal (linear discriminant analysis); ``u_i = P^T (x_i - mean)``.
    2. Update the mixture of Gaussians N(mu_k, I), with priors Dir(alpha) on the shares and N(0, I/beta) on the means::

        alpha_k = alpha + n_k,    beta_k = beta + n_k,    m_k = sum_i r_ik u_i / beta_k

    3. Update ``r_q ~ exp(psi(alpha_k) - (C - 1) / (2 beta_k) - |u_q - m_k|^2 / 2)``, psi the digamma function: the
       expectation of the log-likelihood over shares and means.

    A task has fewer rows than features, so S_w is singular, and directions in which it vanishes would separate any
    labels whatever. It is replaced by ``(1 - shrinkage) S_w + shrinkage (tr S_w / n) I`` in the span of the rows.

    The model is that of the paper and ``start_temperature`` that of its authors' settings. The other constants are
    ours, chosen among about twenty combinations on validation classes of CUB and CIFAR-FS. The precision, a constant in
    the paper, is 1 here: that of rows whose scatter within classes is I.
    """

    start_temperature: float = 10.0
    alpha: float = 2.0  # rows that the prior adds to each class
    beta: float = 10.0  # rows at the center that the prior adds to each mean
    shrinkage: float = 0.95  # in (0, 1]
    n_iter: int = 20
    slow: ClassVar[bool] = True

    def scores(self, batch: TaskBatch) -> Floats:
        """``r_qk``, (B, N, C)."""
        n_support = batch.n_support
        distances = batch.squared_distances(batch.class_mean_weights).astype(np.float64)
        shares = softmax(-self.start_temperature * distances)
        if batch.n_query == 0:
            return shares[:, n_support:]
        shares[:, :n_support] = batch.one_hot
        rows = coordinates(batch)
        for _ in range(self.n_iter):
            projected = discriminant_rows(rows, shares, self.shrinkage)
            shares[:, n_support:] = self._expectation(projected, shares)[:, n_support:]
        return shares[:, n_support:]

    def _expectation(self, rows: Floats, shares: Floats) -> Floats:
        """Responsibilities (B, n, C) of projected rows (B, n, d), given the last ones (B, n, C)."""
        masses = shares.sum(axis=1)
        strengths = self.beta + masses
        means = np.matmul(np.swapaxes(shares, 1, 2), rows) / strengths[:, :, None]
        products = np.matmul(rows, np.swapaxes(means, 1, 2))
        logits = digamma(self.alpha + masses) - rows.shape[2] / (2 * strengths) - np.square(means).sum(axis=2) / 2
        return softmax(products + logits[:, None, :])


def coordinates(batch: TaskBatch) -> Floats:
    """Rows (B, n, n) in float64 with the inner products of the batch, their mean at zero."""
    gram = batch.gram.astype(np.float64)
    gram -= gram.mean(axis=1, keepdims=True)
    gram -= gram.mean(axis=2, keepdims=True)
    values, vectors = np.linalg.eigh(gram)
    # What rounding leaves of a direction that the rows do not have would be of the size of its root.
    rounding = values.shape[1] * np.finfo(batch.gram.dtype).eps * values[:, -1:]
    rows: Floats = vectors * np.sqrt(np.where(values > rounding, values, 0))[:, None, :]
    return rows


def discriminant_rows(rows: Floats, shares: Floats, shrinkage: float) -> Floats:
    """The rows u of :class:`Bavardage`, (B, n, C - 1), from centered rows (B, n, D) and responsibilities (B, n, C).

    With A (C, D) the class means times ``sqrt(n_k / n)``, ``S_b = A^T A``, and the eigenvectors of
    ``A S_w^-1 A^T = V L V^T`` give ``P = S_w^-1 A^T V L^-1/2``. A direction without variance is left out (zero).
    """
    n, dim = rows.shape[1:]
    masses = shares.sum(axis=1)[:, :, None]
    means = np.matmul(np.swapaxes(shares, 1, 2), rows) / np.sqrt(n * masses)
    total = np.matmul(np.swapaxes(rows, 1, 2), rows) / n
    within = (1 - shrinkage) * (total - np.matmul(np.swapaxes(means, 1, 2), means))
    scatter = np.einsum("bii->b", total)
    inside = np.maximum(scatter - np.square(means).sum(axis=(1, 2)), _MIN_SCATTER * scatter)
    # Rows that are all equal have no scatter, and any metric will do.
    np.einsum("bii->bi", within)[...] += np.where(scatter > 0, shrinkage * inside / dim, 1)[:, None]
    solved = np.linalg.solve(within, np.swapaxes(means, 1, 2))
    values, vectors = np.linalg.eigh(np.matmul(means, solved))
    counts = values > np.maximum(_NEGLIGIBLE * values[:, -1:], 0)
    scale = np.divide(1, np.sqrt(np.maximum(values, 0)), out=np.zeros_like(values), where=counts)
    projected: Floats = np.matmul(rows, np.matmul(solved, vectors) * scale[:, None, :])
    # Class means average to zero: the first direction has no variance.
    return projected[:, :, 1:]
