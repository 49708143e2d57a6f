"""Transductive tuning of a linear head: cross-entropy on the support, entropy on the queries."""

from __future__ import annotations

import numpy as np

from laplacianshot.baselines._rows import inverse_norms
from laplacianshot.baselines.batch import TaskBatch
from laplacianshot.baselines.contract import BatchedBaseline, Center, Space
from laplacianshot.runtime.types import Floats


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

    Parameters
    ----------
    space, center
        See :class:`~laplacianshot.baselines.contract.BatchedBaseline`.
    temperature : float
    n_steps : int
    """

    def __init__(
        self,
        *,
        space: Space = "cl2",
        center: Center | Floats = "pooled",
        temperature: float = 10.0,
        n_steps: int = 25,
    ) -> None:
        self.space = space
        self.center = center
        self.temperature = temperature
        self.n_steps = n_steps

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
        rate = self.temperature * step_size(batch, self.temperature)
        for _ in range(self.n_steps):
            weights = weights - rate * logit_gradient(np.matmul(weights, gram), batch)
        return weights


def logit_gradient(logits: Floats, batch: TaskBatch) -> Floats:
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


def step_size(batch: TaskBatch, temperature: float) -> Floats:
    """The step of :class:`EntropyTuning`, (B, 1, 1); 0 if all rows are zero."""
    sizes = np.abs(batch.gram)
    reach = sizes[:, :, : batch.n_support].mean(axis=2)
    if batch.n_query:
        reach = reach + sizes[:, :, batch.n_support :].mean(axis=2)
    largest = temperature**2 * reach.max(axis=1)
    steps: Floats = np.divide(1, largest, out=np.zeros_like(largest), where=largest > 0)
    return steps[:, None, None]
