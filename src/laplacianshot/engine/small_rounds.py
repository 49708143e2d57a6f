"""The default recipe on rows and assignments in memory, fast: threads over blocks of queries, one kernel per visit.

:func:`joint_optimize` is that of :mod:`laplacianshot.inference.joint`, for tasks too large for plain numpy.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np
import scipy.sparse as sp

from laplacianshot.engine._update_kernels import joint_rows, joint_visits, pairwise_rows, sum_rows
from laplacianshot.inference.joint import JointResult, Prior, Sums, descend, log_share, proximal_weight
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
# Rows of a block that has partial sums of its own: at least four blocks of a small task, at most MAX_BLOCKS of any.
_MIN_ROWS, _BLOCK_ROWS = 256, 2048
_MAX_BLOCKS = 32


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
    """Minimize F; arguments and result as in :func:`laplacianshot.inference.joint.joint_optimize`."""
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
    s = (affinity[n_support:, :n_support] @ one_hot).toarray()
    s *= dtype.type(constants.e)
    W = sp.csr_array(affinity[n_support:, n_support:])
    with Workers((W.nnz + 10 * n) * n_classes) as workers:
        rounds = JointRounds(workers, query, W, s, tau, _log_softmax(unary, tau))
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
        s: Floats,
        tau: float,
        log_assignments: Floats,
    ) -> None:
        n, n_classes = log_assignments.shape
        self._workers = workers
        self._query = query
        self._graph = (s, W.indptr, W.indices, W.data)
        self._tau = tau
        self._logs = log_assignments
        self.current: Floats = np.exp(log_assignments)
        self._updated = np.empty_like(self.current)
        self._blocks = even_blocks(n, min(_BLOCK_ROWS, max(_MIN_ROWS, n // 4)), _MAX_BLOCKS)
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

    def step(self, prototypes: Floats, lam: float, g: float, *, last: bool = False) -> Sums:
        """The Y step from the current assignments at these prototypes; :meth:`accept` makes its result current.

        The ``last`` step only sums over the current assignments.
        """
        self._sums[:] = 0
        if last:
            self._workers.run(self._add_pairs, self._blocks)
            return Sums(float(self._sums[:, 0].sum()), math.nan)
        dtype = self._query.dtype
        kept = g + proximal_weight(lam, g)
        scalars: tuple[Any, Any, Any, Any] = (
            dtype.type(2 * self._tau),
            dtype.type(lam),
            dtype.type(kept),
            dtype.type(1 / (1 + kept)),
        )
        exact_cost = np.empty(len(prototypes))
        squared_lengths(prototypes, exact_cost)
        exact_cost *= self._tau
        prototype_cost = exact_cost.astype(dtype)
        share_cost = (g * log_share(self.share)).astype(dtype)
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
