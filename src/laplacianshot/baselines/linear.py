"""Linear heads fitted on the support alone: ridge and logistic regression."""

from __future__ import annotations

import numpy as np

from laplacianshot.baselines._rows import softmax
from laplacianshot.baselines.batch import TaskBatch
from laplacianshot.baselines.contract import BatchedBaseline, Center, Space
from laplacianshot.runtime.types import Floats


class RidgeRegression(BatchedBaseline):
    """Regression of the labels as indicators on the support, the head of R2-D2 (Bertinetto et al., 2019).

    With ``Y`` (n_s, C) the labels as indicators and no intercept::

        V = argmin |X_s V - Y|^2 + penalty |V|^2,    label_q = argmax_c x_q . v_c

    solved in the dual, ``V = X_s^T (X_s X_s^T + penalty I)^-1 Y``. R2-D2 learns the penalty with the features; here
    it is a constant.

    Parameters
    ----------
    space, center
        See :class:`~laplacianshot.baselines.contract.BatchedBaseline`.
    penalty : float
        Above 0.
    """

    def __init__(self, *, space: Space = "cl2", center: Center | Floats = "pooled", penalty: float = 1.0) -> None:
        self.space = space
        self.center = center
        self.penalty = penalty

    def scores(self, batch: TaskBatch) -> Floats:
        """``x_q . v_c``, (B, N, C)."""
        n_support = batch.n_support
        system = _positive(batch.gram[:, :n_support, :n_support])
        np.einsum("bii->bi", system)[...] += self.penalty
        found: Floats = np.matmul(batch.gram[:, n_support:, :n_support], np.linalg.solve(system, batch.one_hot))
        return found


class LogisticRegression(BatchedBaseline):
    """Multinomial logistic regression on the support, that of scikit-learn with ``C = 1 / penalty``.

    With an intercept b (C,) that is not penalized::

        (V, b) = argmin sum_s -log softmax(V^T x_s + b)_{y_s} + (penalty/2) |V|^2,    label_q = argmax_c (V^T x_q + b)_c

    (With two classes scikit-learn penalizes the difference of the heads instead, which is ``C = 2 / penalty``.)

    ``V = X_s^T A`` is in the span of the support. The curvature of the loss in the logits is at most 1/2 (Boehning,
    1992), so with ``P = softmax(F)`` at logits ``F = K A + 1 b^T`` a step is a ridge regression with intercept of
    ``Z = F + 2 (Y - P)``, whose matrix stays the same::

        (K + 2 penalty I) A + 1 b^T = Z,    1^T A = 0

    Steps are accelerated (Nesterov), starting over where momentum points uphill, until
    ``|y - p - penalty A| <= tol`` in every entry, which is zero at the minimum.

    Parameters
    ----------
    space, center
        See :class:`~laplacianshot.baselines.contract.BatchedBaseline`.
    penalty : float
        Above 0; 1 is scikit-learn's default.
    tol : float
        In units of probability.
    max_iter : int
        Most steps.
    """

    def __init__(
        self,
        *,
        space: Space = "cl2",
        center: Center | Floats = "pooled",
        penalty: float = 1.0,
        tol: float = 1e-5,
        max_iter: int = 1000,
    ) -> None:
        self.space = space
        self.center = center
        self.penalty = penalty
        self.tol = tol
        self.max_iter = max_iter

    def scores(self, batch: TaskBatch) -> Floats:
        """``(V^T x_q + b)_c``, (B, N, C)."""
        n_support = batch.n_support
        coefficients, intercept = self._fit(batch)
        across = np.matmul(batch.gram[:, n_support:, :n_support], np.swapaxes(coefficients, 1, 2))
        found: Floats = across + intercept[:, None, :]
        return found

    def _fit(self, batch: TaskBatch) -> tuple[Floats, Floats]:
        """``A^T`` (B, C, n_s) and b (B, C)."""
        kernel = _positive(batch.gram[:, : batch.n_support, : batch.n_support])
        target = np.swapaxes(batch.one_hot, 1, 2).copy()
        solver = _ridge_with_intercept(kernel, 2 * self.penalty)
        fitted, logits = np.zeros_like(target), np.zeros_like(target)
        # What is still being fitted: a task stops by itself, whatever tasks it is batched with.
        active = np.arange(len(batch))
        F, ahead, momentum = logits.copy(), logits.copy(), np.ones((len(batch), 1, 1), dtype=target.dtype)
        for _ in range(self.max_iter):
            Z = ahead + 2 * (target - softmax(ahead.copy(), axis=1))
            A = np.matmul(Z, solver)
            before, F = F, Z - 2 * self.penalty * A
            step, done = F - before, np.abs(F - ahead).max(axis=(1, 2)) <= 2 * self.tol
            fitted[active], logits[active] = A, F
            if done.all():
                break
            uphill = ((ahead - F) * step).sum(axis=(1, 2), keepdims=True) > 0
            momentum = np.where(uphill, 1, momentum)
            following = (1 + np.sqrt(1 + 4 * np.square(momentum))) / 2
            ahead = F + np.where(uphill, 0, (momentum - 1) / following) * step
            momentum = following.astype(target.dtype, copy=False)
            if done.any():
                going = ~done
                active, target, solver = active[going], target[going], solver[going]
                F, ahead, momentum = F[going], ahead[going], momentum[going]
        return fitted, (logits - np.matmul(fitted, kernel)).mean(axis=2)


def _positive(kernel: Floats) -> Floats:
    """The kernel (B, m, m) with its rounding added to the diagonal: no eigenvalue is below zero."""
    m = kernel.shape[1]
    rounding = m * np.finfo(kernel.dtype).eps * np.einsum("bii->bi", kernel).max(axis=1)
    positive: Floats = kernel + rounding[:, None, None] * np.eye(m, dtype=kernel.dtype)
    return positive


def _ridge_with_intercept(kernel: Floats, penalty: float) -> Floats:
    """``M`` (B, m, m) with ``A = M Z`` for ``(K + penalty I) A + 1 b^T = Z`` and ``1^T A = 0``.

    With ``R = (K + penalty I)^-1``: ``M = R - R 1 1^T R / (1^T R 1)``.
    """
    inverse = np.linalg.inv(kernel + penalty * np.eye(kernel.shape[1], dtype=kernel.dtype))
    sums = inverse.sum(axis=2)
    solver: Floats = inverse - sums[:, :, None] * sums[:, None, :] / sums.sum(axis=1)[:, None, None]
    return solver
