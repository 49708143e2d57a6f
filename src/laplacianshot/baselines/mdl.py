"""Mixtures that pay for every class they use: PADDLE (Gaussians) and EM-Dirichlet (Dirichlet laws on the simplex)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from scipy.special import digamma, gammaln, polygamma, xlogy

from laplacianshot.baselines.contract import BatchedBaseline, TaskBatch, cosines, softmax
from laplacianshot.runtime.types import Floats

# Below any share that counts: an empty class stays finite.
_MIN_SHARE = 1e-30


@dataclass(repr=False, eq=False, kw_only=True)
class Paddle(BatchedBaseline):
    """PADDLE (Martin et al., NeurIPS 2022): k-means that pays for the number of classes among the queries.

    Assignments U (n, C) of all n rows, those of the support being their labels, prototypes w_k and the classes' shares
    ``p_k = (1/N) sum_q u_qk`` of the N queries minimize ::

        L(U, W) = tau/2 sum_ik u_ik |x_i - w_k|^2 + sum_qk u_qk log u_qk - lam sum_k p_k log p_k

    data fit, a barrier that keeps rows on the simplex, and the description length of the partition: the entropy of the
    shares, which is small where few classes are used. It is concave, so its tangent bounds it from above, and both
    steps have closed forms::

        w_k <- sum_i u_ik x_i / sum_i u_ik,        u_q ~ exp(-tau/2 |x_q - w_k|^2 + (lam/N) log p_k)

    L never rises. It starts from class means and equal shares.

    ``lam = N`` is published: the rounds are then those of EM for Gaussians with learned shares. tau is ours, chosen
    among six values from 5 to 30 on validation classes of CUB and CIFAR-FS, and a compromise: a smaller one is better
    where few of many classes are present and empties classes where all are.
    """

    temperature: float = 20.0  # tau
    complexity: float = 1.0  # lam / N
    n_iter: int = 20

    def scores(self, batch: TaskBatch) -> Floats:
        """``u_qk``, (B, N, C)."""
        return self.assignments(batch)[:, batch.n_support :]

    def assignments(self, batch: TaskBatch) -> Floats:
        """U of every row, (B, n, C), the support first."""
        n_support, rate = batch.n_support, self.temperature / 2
        weights = batch.class_mean_weights
        assigned = np.empty((len(batch), batch.gram.shape[1], batch.n_classes), dtype=batch.gram.dtype)
        assigned[:, :n_support] = batch.one_hot
        if batch.n_query == 0:
            return assigned
        log_shares = np.zeros((len(batch), 1, batch.n_classes), dtype=assigned.dtype)
        for r in range(self.n_iter + 1):
            if r > 0:
                shares = assigned[:, n_support:].mean(axis=1, keepdims=True)
                log_shares = np.log(np.maximum(shares, _MIN_SHARE))
                weights = np.swapaxes(assigned / assigned.sum(axis=1, keepdims=True), 1, 2)
            distances = batch.squared_distances(weights)[:, n_support:]
            assigned[:, n_support:] = softmax(self.complexity * log_shares - rate * distances)
        return assigned

    def objective(self, batch: TaskBatch, assigned: Floats) -> Floats:
        """L of assignments (B, n, C) with the best prototypes for them, (B,)."""
        queries = assigned[:, batch.n_support :]
        distances = batch.squared_distances(np.swapaxes(assigned / assigned.sum(axis=1, keepdims=True), 1, 2))
        shares = queries.mean(axis=1)
        found: Floats = (
            self.temperature / 2 * (assigned * distances).sum(axis=(1, 2))
            + xlogy(queries, queries).sum(axis=(1, 2))
            - self.complexity * batch.n_query * xlogy(shares, shares).sum(axis=1)
        )
        return found


@dataclass(repr=False, eq=False, kw_only=True)
class EMDirichlet(BatchedBaseline):
    """EM-Dirichlet (Martin et al., CVPR 2024): a Dirichlet law per class on rows of the simplex.

    The paper describes a picture by what CLIP says of it, ``softmax_k(T cos(x_i, t_k))`` over the names t_k of the
    classes. Here class means m_k of the support take the place of names::

        z_i = softmax_k(temperature cos(x_i, m_k))

    Assignments U (n, C), the support's fixed at its labels, and laws ``Dir(a_k)``, a_k (C,), minimize ::

        L(U, A) = -sum_ik u_ik log Dir(z_i | a_k) - prior sum_k mean_i log Dir(z_i | a_k)
                  + sum_qk u_qk log u_qk - lam sum_k p_k log p_k,        p_k = (1/N) sum_q u_qk

    in turn. With ``s_k`` the weighted mean of ``log z_i`` over the rows of class k, a_k minimizes the convex
    ``sum_j log Gamma(a_kj) - log Gamma(sum_j a_kj) - sum_j (a_kj - 1) s_kj``, by Newton's steps (the Hessian is a
    diagonal plus a constant) that are halved where it would rise; then ``u_q ~ exp(log Dir(z_q | a_k) + (lam/N) log
    p_k)``. L never rises.

    The term of the shares is that of :class:`Paddle`, and so is its weight. With names, the authors' settings have
    T 30. For class means that is too sharp, and we took 3 of five values from 2 to 30: on validation classes of CUB 2
    to 10 were alike, on those of CIFAR-FS 10 was up to 6 points better where all classes are present, but from 5 on
    made-up clusters far apart were often merged. ``prior`` is ours: the likeliest law of a single row has infinite
    precision; the prior adds some of all rows to it. Class means are made
    of the support, so its own rows lie nearer to them than queries do. With one label per class that misleads the laws.
    """

    temperature: float = 3.0
    complexity: float = 1.0  # lam / N
    prior: float = 1.0  # rows that all rows together are worth in each class
    n_iter: int = 20
    slow: ClassVar[bool] = True

    def scores(self, batch: TaskBatch) -> Floats:
        """``u_qk``, (B, N, C)."""
        return self.solve(batch)[0][:, batch.n_support :]

    def simplex_rows(self, batch: TaskBatch) -> Floats:
        """``log z_i``, (B, n, C)."""
        logits: Floats = self.temperature * cosines(batch, batch.class_mean_weights).astype(np.float64)
        logits -= logits.max(axis=2, keepdims=True)
        logits -= np.log(np.exp(logits).sum(axis=2, keepdims=True))
        return logits

    def solve(self, batch: TaskBatch) -> tuple[Floats, Floats]:
        """Assignments (B, n, C) and the laws' parameters (B, C, C), both in float64."""
        n_support = batch.n_support
        logs = self.simplex_rows(batch)
        assigned = np.zeros(logs.shape)
        assigned[:, :n_support] = batch.one_hot
        laws: Floats = np.ones((len(batch), batch.n_classes, batch.n_classes))
        if batch.n_query == 0:
            return assigned, laws
        assigned[:, n_support:] = np.exp(logs[:, n_support:])
        everything = self.prior * logs.mean(axis=1, keepdims=True)
        for _ in range(self.n_iter):
            masses = assigned.sum(axis=1)[:, :, None]
            means = (np.matmul(np.swapaxes(assigned, 1, 2), logs) + everything) / (masses + self.prior)
            laws = dirichlet_steps(laws, means, _NEWTON_STEPS)
            shares = assigned[:, n_support:].mean(axis=1, keepdims=True)
            logits = self.complexity * np.log(np.maximum(shares, _MIN_SHARE))
            logits = logits + log_dirichlet(logs[:, n_support:], laws)
            assigned[:, n_support:] = softmax(logits)
        return assigned, laws

    def objective(self, batch: TaskBatch, assigned: Floats, laws: Floats) -> Floats:
        """L of assignments (B, n, C) and laws (B, C, C), (B,)."""
        likelihood = log_dirichlet(self.simplex_rows(batch), laws)
        queries = assigned[:, batch.n_support :]
        shares = queries.mean(axis=1)
        found: Floats = (
            -(assigned * likelihood).sum(axis=(1, 2))
            - self.prior * likelihood.mean(axis=1).sum(axis=1)
            + xlogy(queries, queries).sum(axis=(1, 2))
            - self.complexity * batch.n_query * xlogy(shares, shares).sum(axis=1)
        )
        return found


# Newton's steps in each round: the next round starts where they end. A step that does not pay is halved.
_NEWTON_STEPS = 3
_HALVINGS = 12
# Parameters of a law: beyond these only rounding would decide.
_MIN_PARAMETER, _MAX_PARAMETER = 1e-4, 1e4


def log_dirichlet(logs: Floats, laws: Floats) -> Floats:
    """``log Dir(z_i | a_k)`` (B, m, C) from ``log z`` (B, m, J) and parameters (B, C, J)."""
    normalizer = gammaln(laws.sum(axis=2)) - gammaln(laws).sum(axis=2)
    found: Floats = np.matmul(logs, np.swapaxes(laws - 1, 1, 2)) + normalizer[:, None, :]
    return found


def dirichlet_steps(laws: Floats, means: Floats, n_steps: int) -> Floats:
    """Newton's steps from ``laws`` (..., J) towards the likeliest Dirichlet laws, given means of ``log z`` (..., J)."""
    cost = _law_cost(laws, means)
    for _ in range(n_steps):
        total = laws.sum(axis=-1, keepdims=True)
        gradient = digamma(laws) - digamma(total) - means
        curvature, common = polygamma(1, laws), polygamma(1, total)
        inverse = 1 / curvature
        # Sherman and Morrison: (diag(c) - t 1 1^T)^-1 g = (g + b) / c. With one class only, every law is the same.
        room = 1 / common - inverse.sum(axis=-1, keepdims=True)
        shift = np.zeros_like(room)
        np.divide((gradient * inverse).sum(axis=-1, keepdims=True), room, out=shift, where=room > 0)
        step = (gradient + shift) * inverse
        for _ in range(_HALVINGS):
            moved = np.clip(laws - step, _MIN_PARAMETER, _MAX_PARAMETER)
            moved_cost = _law_cost(moved, means)
            pays = moved_cost <= cost
            laws = np.where(pays[..., None], moved, laws)
            cost = np.where(pays, moved_cost, cost)
            if pays.all():
                break
            step = np.where(pays[..., None], 0, step / 2)
    return laws


def _law_cost(laws: Floats, means: Floats) -> Floats:
    """``sum_j log Gamma(a_j) - log Gamma(sum_j a_j) - sum_j (a_j - 1) s_j`` (...) of laws and means (..., J)."""
    cost: Floats = gammaln(laws).sum(axis=-1) - gammaln(laws.sum(axis=-1)) - ((laws - 1) * means).sum(axis=-1)
    return cost
