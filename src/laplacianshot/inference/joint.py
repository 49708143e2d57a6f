"""The default recipe: prototypes, assignments and graph solved jointly, with constants that need no tuning.

For queries Q (N rows), support S with labels clamped to ``Y_s``, prototypes M, origin o, normalized affinity W over all
rows, uniform u and class shares ``p = mean_q y_q``, minimize::

    F(Y, M) = sum y log y
            + tau [ sum_qc y_qc |x_q - m_c|^2 + beta sum_s |x_s - m_ys|^2 + kappa sum_c |m_c - o|^2 ]
            - lam [ e sum_q y_q.(W_qs Y_s) + 1/2 tr(Y^T W_qq Y) ]
            + gamma N delta (1 - exp(-KL(p|u) / delta))

Each round minimizes F over M, then an upper bound of F over Y that is tight at the current Y: F never rises.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np
import scipy.sparse as sp

from laplacianshot.engine._update_kernels import joint_rows, joint_visits, pairwise_rows, sum_rows
from laplacianshot.inference.descent import Prior, Sums, descend, log_share
from laplacianshot.inference.prototypes import squared_distances
from laplacianshot.inference.recipes import TOLERANCE, DefaultConstants
from laplacianshot.inference.temperature import choose_tau, mean_squared_distance
from laplacianshot.inference.transforms import base_mean
from laplacianshot.neighbors.accel import _narrow_kernels
from laplacianshot.runtime.row_kernels import squared_lengths, squares_about
from laplacianshot.runtime.threads import Workers, even_blocks, row_blocks
from laplacianshot.runtime.types import Floats, Ints

# Queries visited together, and the bytes of them where few classes make it pay to keep them in a nearer cache.
_VISIT_ROWS = 3072
_VISIT_BYTES = 2**19
# Rows of a block that has partial sums of its own, of which four are made of few queries and at most so many of any.
_LEAST_ROWS, _BLOCK_ROWS = 256, 2048
_MOST_BLOCKS = 32


@dataclass(frozen=True, repr=False)
class JointResult:
    """What the default recipe found.

    Attributes
    ----------
    assignments : array of shape (N, C)
        Rows on the simplex.
    prototypes : array of shape (C, D)
    objective : array of shape (n_iter,)
        F after each round at the full weight of the graph.
    n_iter : int
        Those rounds; the starting rounds come before them.
    converged : bool
    tau : float
        Temperature of the unary terms.
    class_bias : array of shape (C,)
        ``-g log p`` at the solution, where ``y_q = softmax(-tau a_q + lam (e W_qs Y_s + W_qq Y)_q + class_bias)``: a
        new row is classified in the same way.
    constants : DefaultConstants
    """

    assignments: Floats
    prototypes: Floats
    objective: Floats
    n_iter: int
    converged: bool
    tau: float
    class_bias: Floats
    constants: DefaultConstants

    def __repr__(self) -> str:
        n, c = self.assignments.shape
        state = "converged" if self.converged else "stopped"
        last = f", objective={self.objective[-1]:.6g}" if self.n_iter else ""
        return f"JointResult({n} rows x {c} classes, {state} after {self.n_iter} rounds{last})"


def joint_optimize(
    support: Floats,
    labels: Ints,
    query: Floats,
    affinity: sp.csr_array,
    origin: Floats,
    n_classes: int,
    constants: DefaultConstants,
    *,
    tol: float = TOLERANCE,
) -> JointResult:
    """Minimize F over assignments and prototypes.

    Parameters
    ----------
    support : array of shape (n_s, D)
        Transformed labeled rows.
    labels : int array of shape (n_s,)
        Their classes in ``0..C-1``, each at least once.
    query : array of shape (N, D)
        Transformed unlabeled rows, of the support's dtype.
    affinity : csr_array of shape (n_s + N, n_s + N)
        Symmetric, normalized, support rows first.
    origin : array of shape (D,)
        What every prototype is drawn to.
    n_classes : int
    constants : DefaultConstants
    tol : float
        Stop when F changes by less than this, relatively.

    Returns
    -------
    JointResult
    """
    dtype = query.dtype
    n_support, n = support.shape[0], query.shape[0]
    center = base_mean(query).astype(dtype) if n > 1 else None
    spread = mean_squared_distance(query, center)
    far = center if center is not None and float(center @ center) > max(1.0, 2 * spread) else None
    if far is not None:
        near = joint_optimize(support - far, labels, query - far, affinity, origin - far, n_classes, constants, tol=tol)
        return replace(near, prototypes=near.prototypes + far)

    prior = Prior.of_support(support, labels, origin, n_classes, constants)
    prototypes = prior.means.astype(dtype)
    unary = squared_distances(query, prototypes, wide=False)
    # With one query there is no pair of queries: take all rows.
    spread = spread or mean_squared_distance(np.concatenate([support, query]))
    tau = choose_tau(unary, spread, constants.pair_spread)
    if n == 0:
        # Only the prototypes are free, and one M step is exact.
        bias = np.zeros(n_classes, dtype)
        return JointResult(unary, prototypes, np.array([tau * prior.least_cost]), 1, True, tau, bias, constants)

    one_hot = sp.csr_array((np.ones(n_support, dtype), (np.arange(n_support), labels)), shape=(n_support, n_classes))
    support_pull = (affinity[n_support:, :n_support] @ one_hot).toarray()
    support_pull *= dtype.type(constants.support_edge)
    W = sp.csr_array(affinity[n_support:, n_support:])
    with Workers((W.nnz + 10 * n) * n_classes) as workers:
        rounds = JointRounds(workers, query, W, support_pull, tau, _log_softmax(unary, tau))
        descent = descend(rounds, prior, constants, n, tau, dtype, tol=tol)
    return JointResult(
        rounds.current,
        descent.prototypes,
        descent.objective,
        len(descent.objective),
        descent.converged,
        tau,
        descent.class_bias,
        constants,
    )


class JointRounds:
    """The assignments and the arrays that stay fixed from round to round.

    Each visit to a block of queries forms its products with the prototypes, takes the Y step and sums its queries by
    class, while their features are in cache. ``share`` (C,) is the mean and ``class_features`` (C, D) is ``Y^T Q`` of
    ``current``.
    """

    def __init__(
        self,
        workers: Workers,
        query: Floats,
        W: sp.csr_array,
        support_pull: Floats,
        tau: float,
        log_assignments: Floats,
    ) -> None:
        n, n_classes = log_assignments.shape
        self._workers = workers
        self._query = query
        self._graph = (support_pull, W.indptr, W.indices, W.data)
        self._tau = tau
        self._logs = log_assignments
        self.current: Floats = np.exp(log_assignments)
        self._updated = np.empty_like(self.current)
        self._blocks = even_blocks(n, min(_BLOCK_ROWS, max(_LEAST_ROWS, n // 4)), _MOST_BLOCKS)
        self._sums = np.zeros((len(self._blocks), 2))
        self._shares = np.zeros((len(self._blocks), n_classes))
        self._query_cost = self._cost_of_queries()
        self._narrow = _narrow_kernels.applies(query, n_classes)
        self._features = np.zeros((len(self._blocks), n_classes, query.shape[1]), query.dtype)
        if not self._narrow:
            self._products = np.empty((len(self._blocks), min(n, _VISIT_ROWS), n_classes), query.dtype)
            self._more_features = np.empty_like(self._features)
        self._run(self._sum_block, self.current)
        self._gather()

    def step(self, prototypes: Floats, lam: float, pull: float, *, last: bool = False) -> Sums:
        """The Y step from the current assignments at these prototypes; :meth:`accept` makes its result current.

        Of the ``last`` step there is only the sum over the current assignments.
        """
        self._sums[:] = 0
        if last:
            self._workers.run(self._add_pairs, self._blocks)
            return Sums(float(self._sums[:, 0].sum()), math.nan)
        dtype = self._query.dtype
        inertia = max(0.0, (lam / 2 - 1 - pull) / 2)
        keep = pull + inertia
        scalars: tuple[Any, Any, Any, Any] = (
            dtype.type(2 * self._tau),
            dtype.type(lam),
            dtype.type(keep),
            dtype.type(1 / (1 + keep)),
        )
        exact_cost = np.empty(len(prototypes))
        squared_lengths(prototypes, exact_cost)
        exact_cost *= self._tau
        prototype_cost = exact_cost.astype(dtype)
        share_cost = (pull * log_share(self.share)).astype(dtype)
        state = (prototype_cost, share_cost, self._logs, self.current, self._updated)
        columns = np.ascontiguousarray(prototypes if self._narrow else prototypes.T)
        rows = max(16, _VISIT_BYTES // (columns.itemsize * self._query.shape[1]))

        def update(number: int, first: int, last: int) -> None:
            products = self._products[number, : last - first]
            np.matmul(self._query[first:last], columns, out=products)
            joint_rows(products, *self._graph, *scalars, *state, self._sums[number], first, last)

        def update_block(number: int, start: int, stop: int) -> None:
            if self._narrow:
                sums = (self._sums[number], self._features[number], self._shares[number])
                joint_visits(self._query, columns, *self._graph, *scalars, *state, *sums, rows, start, stop)
            else:
                self._visit(number, start, stop, self._updated, partial(update, number))

        self._run(update_block, self._updated)
        pairwise, smooth = self._sums.sum(axis=0)
        # What costs lost when they took their type is lost again for each query.
        smooth += self._shares.sum(axis=0) @ (exact_cost - prototype_cost)
        return Sums(float(pairwise), float(smooth) + self._query_cost)

    def _add_pairs(self, number: int, start: int, stop: int) -> None:
        _, indptr, indices, weights = self._graph
        pairwise_rows(self.current, indptr, indices, weights, self._sums[number], start, stop)

    def accept(self) -> None:
        """Make the assignments of the last step the current ones."""
        self.current, self._updated = self._updated, self.current
        self._gather()

    def _cost_of_queries(self) -> float:
        """``tau sum_q |x_q|^2``, the part of F that no update changes."""
        parts = np.empty(len(self._blocks))
        nowhere = np.zeros_like(self._query[0])

        def add(number: int, start: int, stop: int) -> None:
            parts[number] = squares_about(self._query[start:stop], nowhere)

        self._workers.run(add, self._blocks)
        return self._tau * float(parts.sum())

    def _gather(self) -> None:
        self.share: Floats = self._shares.sum(axis=0) / len(self.current)
        self.class_features: Floats = self._features.sum(axis=0)

    def _run(self, work: Callable[[int, int, int], None], assignments: Floats) -> None:
        """Do the work of all blocks, which makes these assignments and adds up their sums."""

        def finish(number: int, start: int, stop: int) -> None:
            work(number, start, stop)
            self._finish(number, start, stop, assignments)

        self._workers.run(finish, self._blocks)

    def _finish(self, number: int, start: int, stop: int, assignments: Floats) -> None:
        """What is left to do for a block when its sums are known."""

    def _sum_block(self, number: int, start: int, stop: int) -> None:
        """Sum the queries by the class that they are assigned to."""
        if self._narrow:
            sum_rows(self._query, self.current, self._features[number], self._shares[number], start, stop)
        else:
            self._visit(number, start, stop, self.current, lambda first, last: None)

    def _visit(
        self, number: int, start: int, stop: int, assignments: Floats, update: Callable[[int, int], None]
    ) -> None:
        """Update the queries of a block, and sum them by the class that they are assigned to, by matrix products."""
        features, more, share = self._features[number], self._more_features[number], self._shares[number]
        features[:] = 0
        share[:] = 0
        ones = np.ones(_VISIT_ROWS, dtype=self._query.dtype)
        for first, last in _visits(start, stop):
            update(first, last)
            np.matmul(assignments[first:last].T, self._query[first:last], out=more)
            features += more
            share += ones[: last - first] @ assignments[first:last]


def _visits(start: int, stop: int) -> list[tuple[int, int]]:
    """``[start, stop)`` in equal parts of at most _VISIT_ROWS rows."""
    count = -(-(stop - start) // _VISIT_ROWS)
    return [(start + a, start + b) for a, b in row_blocks(stop - start, -(-(stop - start) // count))]


def _log_softmax(unary: Floats, tau: float) -> Floats:
    """``log softmax(-tau a)``, (N, C)."""
    logits = unary * -unary.dtype.type(tau)
    logits -= logits.max(axis=1, keepdims=True)
    logits -= np.log(np.exp(logits).sum(axis=1, keepdims=True))
    return logits
