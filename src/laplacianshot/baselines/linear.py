"""Linear heads: ridge and logistic regression on the support, attention over it, and entropy fine-tuning."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from laplacianshot.baselines.contract import BatchedBaseline, TaskBatch, inverse_norms, softmax
from laplacianshot.runtime.types import Floats


@dataclass(repr=False, eq=False, kw_only=True)
class RidgeRegression(BatchedBaseline):
    """Regression of the labels as indicators on the support, the head of R2-D2 (Bertinetto et al., 2019).

    With ``Y`` (n_s, C) the labels as indicators and no intercept::

        V = argmin |X_s V - Y|^2 + penalty |V|^2,    label_q = argmax_c x_q . v_c

    solved in the dual, ``V = X_s^T (X_s X_s^T + penalty I)^-1 Y``. R2-D2 learns the penalty with the features; here
    it is a constant.
    """

    penalty: float = 1.0

    def scores(self, batch: TaskBatch) -> Floats:
        """``x_q . v_c``, (B, N, C)."""
        n_support = batch.n_support
        system = _positive(batch.gram[:, :n_support, :n_support])
        np.einsum("bii->bi", system)[...] += self.penalty
        found: Floats = np.matmul(batch.gram[:, n_support:, :n_support], np.linalg.solve(system, batch.one_hot))
        return found


@dataclass(repr=False, eq=False, kw_only=True)
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
    """

    penalty: float = 1.0  # above 0; 1 is scikit-learn's default
    tol: float = 1e-5  # in units of probability
    max_iter: int = 1000

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


@dataclass(repr=False, eq=False, kw_only=True)
class EntropyTuning(BatchedBaseline):
    """Transductive fine-tuning (Dhillon et al., 2020) of the head alone.

    With ``p_i = softmax(temperature V x_i)`` and ``H`` the entropy::

        L(V) = (1/n_s) sum_s -log p_s,y_s + (1/N) sum_q H(p_q)

    from ``v_c = m_c / |m_c|``, the direction of the mean support row of class c, by ``n_steps`` of gradient descent.
    The step is ``1 / (temperature^2 max_i (mean_s |x_i . x_s| + mean_q |x_i . x_q|))``: the largest curvature of L is
    less than one over it (in the logits it is at most 1/2 for cross-entropy and 0.7 for the entropy of up to a thousand
    classes), so L falls with every step.

    The loss and the start are published; the paper tunes the whole network (Adam, 25 epochs), which features alone do
    not allow. The temperature, the plain steps and the missing intercept are ours.
    """

    temperature: float = 10.0
    n_steps: int = 25

    def scores(self, batch: TaskBatch) -> Floats:
        """``temperature v_c . x_q`` with the tuned head, (B, N, C)."""
        weights = np.matmul(self.head(batch), batch.gram[:, :, batch.n_support :])
        found: Floats = self.temperature * np.swapaxes(weights, 1, 2)
        return found

    def head(self, batch: TaskBatch) -> Floats:
        """Weights (B, C, n) of the rows in the tuned ``v_c``."""
        means = batch.class_mean_weights
        squares = np.einsum("bci,bic->bc", means, batch.products(means))
        weights: Floats = means * inverse_norms(squares, batch)[:, :, None]
        gram = self.temperature * batch.gram
        # Row i of the gradient in the logits, times x_i: what a step changes are the weights of the rows.
        rate = self.temperature * _step_size(batch, self.temperature)
        for _ in range(self.n_steps):
            weights = weights - rate * _logit_gradient(np.matmul(weights, gram), batch)
        return weights


def _logit_gradient(logits: Floats, batch: TaskBatch) -> Floats:
    """Gradient of L in the logits (B, C, n), which are overwritten.

    ``(p_s - y_s) / n_s`` for the support and ``-p_qc (log p_qc + H(p_q)) / N`` for the queries.
    """
    n_support = batch.n_support
    logits -= logits.max(axis=1, keepdims=True)
    gradient = np.exp(logits)
    sums = gradient.sum(axis=1, keepdims=True)
    gradient /= sums
    gradient[:, :, :n_support] -= np.swapaxes(batch.one_hot, 1, 2)
    gradient[:, :, :n_support] /= n_support
    if batch.n_query:
        of_query = gradient[:, :, n_support:]
        log_query = logits[:, :, n_support:] - np.log(sums[:, :, n_support:])
        entropy = -(of_query * log_query).sum(axis=1, keepdims=True)
        of_query *= (log_query + entropy) / -batch.n_query
    return gradient


def _step_size(batch: TaskBatch, temperature: float) -> Floats:
    """The step of :class:`EntropyTuning`, (B, 1, 1); 0 if all rows are zero."""
    sizes = np.abs(batch.gram)
    reach = sizes[:, :, : batch.n_support].mean(axis=2)
    if batch.n_query:
        reach = reach + sizes[:, :, batch.n_support :].mean(axis=2)
    largest = temperature**2 * reach.max(axis=1)
    steps: Floats = np.divide(1, largest, out=np.zeros_like(largest), where=largest > 0)
    return steps[:, None, None]


@dataclass(repr=False, eq=False, kw_only=True)
class MatchingAttention(BatchedBaseline):
    """The classifier of matching networks (Vinyals et al., 2016), without their learned embeddings.

    A query looks at every support row, whose label it takes in that share::

        p(c|q) = sum_{s in S_c} softmax_s(temperature cos(x_q, x_s))

    Classes with more support rows get more of it: nothing corrects for unequal shots, as published.
    """

    temperature: float = 1.0  # as published; large values give the nearest support row all the say

    def scores(self, batch: TaskBatch) -> Floats:
        """``p(c|q)``, (B, N, C)."""
        n_support = batch.n_support
        inverse = inverse_norms(batch.squared_norms, batch)
        cosines = batch.gram[:, n_support:, :n_support] * inverse[:, n_support:, None] * inverse[:, None, :n_support]
        shares: Floats = np.matmul(softmax(self.temperature * cosines), batch.one_hot)
        return shares
