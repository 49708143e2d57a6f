"""iLPC: labels spread over a graph, are balanced, and the cleanest of them join the support, round by round."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from laplacianshot.baselines.contract import BatchedBaseline, Space, TaskBatch, inverse_norms, softmax
from laplacianshot.runtime.types import Floats, Ints

# Below any share that counts: logarithms and sums of rows that no label reaches stay finite.
_TINY = 1e-12
# Rounds of Sinkhorn's: the sums of classes are then right to far less than a query.
_SINKHORN_ROUNDS = 100


@dataclass(repr=False, eq=False, kw_only=True)
class ILPC(BatchedBaseline):
    """Iterative label propagation and cleaning (Lazarou, Stathaki and Avrithis, ICCV 2021).

    Each round, with Y (n, C) the labels known so far as indicators and zero elsewhere:

    1. Spread: over the graph of the k nearest neighbors of every row, made symmetric, ::

        w_ij = max(cos(x_i, x_j), 0)^power if j is among the k nearest of i, else 0;    w_ii = 0
        Z = (I - alpha D^-1/2 W D^-1/2)^-1 Y

    2. Balance: the rows ``z_q^tau`` of the queries without a label yet are multiplied by factors of rows and of classes
       (Sinkhorn) until row q sums to ``1 - H(z_q) / log C``, H its entropy as shares, and all classes have equal sums.
       In the result P (n, C) ``argmax_c p_qc`` is a pseudo-label.
    3. Clean: a linear classifier ``softmax(temperature x_i . v_c)`` of rows of length 1, started at class means, takes
       ``n_steps`` gradient steps on all rows and their labels, known or pseudo. In each class the ``n_best`` queries
       with the smallest loss, averaged over the steps, keep their label for good.

    It ends when every query has a label. A class with fewer than ``n_best`` pseudo-labels gives those that it has.

    Equal sums assume that all classes are equally frequent: expect a loss where they are not. k, alpha, tau
    and ``n_best`` are those of the authors' settings. These have a single round of Sinkhorn's and 1000 steps of a small
    rate for the classifier; balancing to the end, 20 plain steps, their length and the temperature are ours.
    """

    space: Space = "roots"
    n_neighbors: int = 15  # k, the row itself not counted
    power: float = 3.0  # of the cosines
    alpha: float = 0.8  # share of the neighbors' say, in (0, 1)
    balance_power: float = 3.0  # tau
    n_best: int = 3  # queries of each class that are labeled in a round
    temperature: float = 10.0
    n_steps: int = 20
    slow: ClassVar[bool] = True

    def scores(self, batch: TaskBatch) -> Floats:
        """Row q of P, divided by its sum, in the round in which q was labeled, (B, N, C)."""
        n_tasks, n = batch.gram.shape[:2]
        inverse = inverse_norms(batch.squared_norms, batch)
        cosines = (batch.gram * inverse[:, :, None] * inverse[:, None, :]).astype(np.float64)
        spread = propagator(cosines, self.n_neighbors, self.power, self.alpha)
        given, found = np.zeros((n_tasks, n, batch.n_classes)), np.zeros((n_tasks, n, batch.n_classes))
        given[:, : batch.n_support] = batch.one_hot
        known = np.zeros((n_tasks, n), dtype=bool)
        known[:, : batch.n_support] = True
        while not known.all():
            plan = balance(np.matmul(spread, given), known, self.balance_power)
            labels = np.where(known, given.argmax(axis=2), plan.argmax(axis=2))
            losses = self._losses(cosines, labels, batch.n_classes)
            cleanest = smallest_of_classes(losses, np.where(known, -1, labels), self.n_best)
            found[cleanest] = plan[cleanest]
            given[cleanest, labels[cleanest]] = 1
            known |= cleanest
        queries = found[:, batch.n_support :]
        queries /= queries.sum(axis=2, keepdims=True)
        return queries

    def _losses(self, cosines: Floats, labels: Ints, n_classes: int) -> Floats:
        """Mean loss of every row (B, n) on the way of the classifier."""
        target = (labels[:, :, None] == np.arange(n_classes)).astype(np.float64)
        weights = target / np.maximum(target.sum(axis=1, keepdims=True), 1)
        # The curvature in the logits is at most 1/2, and no row is longer than 1: the loss falls at each step.
        rate = 2 / self.temperature / labels.shape[1]
        total = np.zeros(labels.shape)
        for _ in range(self.n_steps):
            shares = softmax(self.temperature * np.matmul(cosines, weights))
            total -= np.log(np.maximum((shares * target).sum(axis=2), _TINY))
            weights = weights + rate * (target - shares)
        return total / max(self.n_steps, 1)


def propagator(cosines: Floats, n_neighbors: int, power: float, alpha: float) -> Floats:
    """``(I - alpha D^-1/2 W D^-1/2)^-1`` of :class:`ILPC`, (B, n, n), from cosines (B, n, n)."""
    n = cosines.shape[1]
    similar = np.maximum(cosines, 0)
    np.einsum("bii->bi", similar)[...] = 0
    # The row itself, now last, is one of n.
    k = min(n_neighbors, n - 1)
    last = np.partition(similar, n - k, axis=2)[:, :, n - k, None] if k > 0 else np.inf
    weights = np.where(similar >= last, similar**power, 0)
    weights = (weights + np.swapaxes(weights, 1, 2)) / 2
    degrees = weights.sum(axis=2)
    scale = np.divide(1, np.sqrt(degrees), out=np.zeros_like(degrees), where=degrees > _TINY)
    system = -alpha * weights * scale[:, :, None] * scale[:, None, :]
    np.einsum("bii->bi", system)[...] += 1
    inverse: Floats = np.linalg.inv(system)
    return inverse


def balance(spread: Floats, known: NDArray[np.bool_], power: float) -> Floats:
    """P of :class:`ILPC` (B, n, C) from labels that were spread, (B, n, C); rows that are known (B, n) are zero."""
    n_classes = spread.shape[2]
    shares = np.maximum(spread, _TINY)
    shares /= shares.sum(axis=2, keepdims=True)
    entropy = -(shares * np.log(shares)).sum(axis=2)
    certainty = np.maximum(1 - entropy / np.log(max(n_classes, 2)), _TINY)
    rows = np.where(known, 0, certainty)[:, :, None]
    classes = rows.sum(axis=1, keepdims=True) / n_classes
    plan = np.where(known[:, :, None], 0, np.maximum(shares**power, _TINY**2))
    for _ in range(_SINKHORN_ROUNDS):
        sums = plan.sum(axis=1, keepdims=True)
        plan *= np.divide(classes, sums, out=np.zeros_like(sums), where=sums > 0)
        sums = plan.sum(axis=2, keepdims=True)
        plan *= np.divide(rows, sums, out=np.zeros_like(sums), where=sums > 0)
    return plan


def smallest_of_classes(losses: Floats, labels: Ints, count: int) -> NDArray[np.bool_]:
    """Mask (B, n) of the ``count`` smallest losses (B, n) of each class; rows with label -1 belong to none."""
    order = np.lexsort((losses, labels), axis=1)
    sorted_labels = np.take_along_axis(labels, order, axis=1)
    places = np.broadcast_to(np.arange(labels.shape[1]), labels.shape)
    begins = np.ones(labels.shape, dtype=bool)
    begins[:, 1:] = sorted_labels[:, 1:] != sorted_labels[:, :-1]
    rank = places - np.maximum.accumulate(np.where(begins, places, 0), axis=1)
    mask = np.zeros(labels.shape, dtype=bool)
    np.put_along_axis(mask, order, (rank < count) & (sorted_labels >= 0), axis=1)
    return mask
