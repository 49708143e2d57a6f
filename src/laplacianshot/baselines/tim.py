"""Transductive information maximization: TIM, which prefers balanced queries, and alpha-TIM, which does so less."""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from laplacianshot.baselines._kernels import alternate, descend
from laplacianshot.baselines.contract import BatchedBaseline, TaskBatch
from laplacianshot.runtime.types import Floats

_F = np.float32


@dataclass(repr=False, eq=False, kw_only=True)
class _InformationMaximizer(BatchedBaseline):
    """What both methods share: heads that give each row of a task its posterior, in float32."""

    temperature: float = 15.0  # tau
    slow: ClassVar[bool] = True

    @abstractmethod
    def _solve(self, batch: TaskBatch, gram: Floats, start: Floats) -> Floats:
        """Posteriors (B, C, n) from inner products (B, n, n) and first heads (B, C, n)."""

    def posteriors(self, batch: TaskBatch) -> Floats:
        """``p_ik`` of every row, (B, n, C), the support first."""
        gram, start = (np.ascontiguousarray(array, dtype=_F) for array in (batch.gram, batch.class_mean_weights))
        return np.swapaxes(self._solve(batch, gram, start), 1, 2)

    def scores(self, batch: TaskBatch) -> Floats:
        """Posteriors of the queries, (B, N, C)."""
        return self.posteriors(batch)[:, batch.n_support :]


@dataclass(repr=False, eq=False, kw_only=True)
class TIM(_InformationMaximizer):
    """TIM by its alternating direction method (Boudiaf et al., NeurIPS 2020).

    Heads ``w_k`` give every row a posterior, with ``p_k = (1/N) sum_q p_qk`` over the N queries and the support
    ``(x_s, y_s)`` of n_s rows::

        p_ik ~ exp(-tau/2 |x_i - w_k|^2)
        L(W) = -(lam/n_s) sum_s log p_sy_s  +  sum_k p_k log p_k  -  (alpha/N) sum_qk p_qk log p_qk

    fit the support, spread the queries evenly over the classes, be sure of each query. The marginal term has weight 1
    whatever the classes' true frequencies: hence the gain on balanced queries and the loss on others.

    The solver gives the queries labels q of their own and minimizes ::

        L(W, q) = -(lam/n_s) sum_s log p_sy_s + sum_k q_k log q_k - (alpha/N) sum_qk q_qk log p_qk
                  + (1/N) sum_q KL(q_q | p_q),          q_k = (1/N) sum_q q_qk

    which is L(W) at q = p, in turn:

    - q step: without the constraint that rows sum to one the minimizer is ``q_qk = sqrt(N)/e p_qk^(1 + alpha) /
      sqrt(sum_q p_qk^(1 + alpha))``; rows are then divided by their sums (the minimizer on the simplex itself has no
      closed form).
    - w step: ``-log p_ik = tau/2 |x_i - w_k|^2 + log sum_j exp(-tau/2 |x_i - w_j|^2)``, of which the second part is
      replaced by its tangent at the present heads. The gradient is then linear in ``w_k`` and zero at ::

        w_k <- [ (lam/n_s) sum_s (y_sk x_s + p_sk (w_k - x_s)) + ((1 + alpha)/N) sum_q (q_qk x_q + p_qk (w_k - x_q)) ]
               / [ (lam/n_s) sum_s y_sk + ((1 + alpha)/N) sum_q q_qk ]

      The second part is not concave, so L(W, q) need not fall; a fixed point of both steps makes its gradient zero.

    It starts from class means. The rounds have not converged when they end: their number is part of the method.
    The paper has L2-normalized features; ``space="cl2"`` is that of the other methods.
    """

    lam: float = 0.1  # weight of the support
    alpha: float = 0.1  # weight of the conditional entropy
    n_iter: int = 150

    def _solve(self, batch: TaskBatch, gram: Floats, start: Floats) -> Floats:
        return alternate(gram, batch.labels, start, self.n_iter, _F(self.lam), _F(self.alpha), _F(self.temperature))


@dataclass(repr=False, eq=False, kw_only=True)
class AlphaTIM(_InformationMaximizer):
    """alpha-TIM (Veilleux et al., NeurIPS 2021): TIM with entropies that punish imbalance less.

    Posteriors are those of :class:`TIM`. With Tsallis' entropy ``H(p) = (1 - sum_k p_k^alpha) / (alpha - 1)``::

        L(W) = -(1/n_s) sum_s log p_sy_s  -  H(p)  +  (1/N) sum_q H(p_q),        p = (1/N) sum_q p_q

    The gradient of ``H`` is bounded for alpha > 1 where Shannon's (alpha = 1) is not, so a rare class is not filled up
    at any price.

    The paper takes 1000 steps of Adam with rate 1e-4, which depends on the axes of the features. We descend along the
    gradient itself from class means: a step that lowers L is kept and the next one is 1.1 times as long, another is
    taken back and halved; the first is ``2 C / (tau^2 max_i |x_i|^2)``. L falls at every step kept. On features of
    CUB the default number of steps leaves L where Adam does, and more steps change no label. A solver that leaps, such
    as L-BFGS, finds values as low in other valleys, with worse labels at 1-shot: small steps from the class means are
    part of the method.

    The paper tunes alpha for each setting. Of 1.2, 1.5, 2, 3, 5 and 7 only 2 and 3 gained over nearest prototype with 1
    and 5 shots, balanced and Dirichlet(2) queries alike (CUB, EfficientNet-Lite0, validation classes), 2 more on
    average; larger values gain more at 5-shot with imbalanced queries and less elsewhere.
    """

    alpha: float = 2.0  # above 1
    n_iter: int = 60  # steps tried

    def _solve(self, batch: TaskBatch, gram: Floats, start: Floats) -> Floats:
        if not self.alpha > 1:
            raise ValueError(f"alpha must be above 1, got {self.alpha}.")
        longest = np.maximum(batch.squared_norms.max(axis=1), np.finfo(_F).tiny)
        first = (2 * batch.n_classes / self.temperature**2 / longest).astype(_F)
        return descend(gram, batch.labels, start, self.n_iter, _F(self.alpha), _F(self.temperature), first)
