"""Kernels on the inner products of tasks: gathering, centering, neighbors, prototypes; and what all recipes fill.

``gram`` (n, n) holds ``x_i.x_j`` of one task, the support first. Everything that a recipe needs of the features is in
it: a center or a prototype is a combination of rows, and distances to it are combinations of inner products.
"""

from __future__ import annotations

from typing import Any, NamedTuple, Self

import numpy as np

from laplacianshot.runtime.compilation import inlined_kernel, kernel, part_kernel
from laplacianshot.runtime.types import Floats, Ints

# Inner products of unit rows are known to a few units in the last place of float32: distances closer than this, against
# the squared norms, are compared exactly.
_CLOSE: Any = np.float32(2e-6)
# A row this near to the center, against what cancels, has no direction.
_NO_DIRECTION: Any = np.float32(1e-6)

# Beyond every packed distance.
_FARTHEST = np.int64(0x7FFFFFFFFFFFFFFF)

# Assignments smaller than e^-40 count as none: their products would be denormal numbers, which are slow.
MIN_LOG: Any = np.float32(-40)
ZERO: Any = np.float32(0)
HALF: Any = np.float32(0.5)
ONE: Any = np.float32(1)
TWO: Any = np.float32(2)


class Ties(NamedTuple):
    """What settles ties between neighbors."""

    rows: Ints  # (B, n): rows of ``features`` of each task
    features: Floats  # (n_rows, D) in float32
    exact: bool  # whether inner products are of these features; otherwise they only show which rows are equal


class BatchSolution(NamedTuple):
    """A recipe's solution of B tasks, for each of L weights of the graph."""

    found: Ints  # (B, L, N): class of each query
    iterations: Ints  # (B, L)
    converged: Ints  # (B, L): 0 or 1
    assignments: Floats  # (B, N, C) at the first weight, or of no task
    objective: Floats  # (B, L, max updates), NaN after the last update, or of no task

    @classmethod
    def empty(cls, n_tasks: int, n_lams: int, n_query: int, n_classes: int, max_updates: int, keep: bool) -> Self:
        """Arrays for kernels to fill; ``keep``: assignments and objective too."""
        kept = n_tasks if keep else 0
        return cls(
            np.zeros((n_tasks, n_lams, n_query), dtype=np.int64),
            np.zeros((n_tasks, n_lams), dtype=np.int64),
            np.zeros((n_tasks, n_lams), dtype=np.int64),
            np.empty((kept, n_query, n_classes), dtype=np.float32),
            np.full((kept, n_lams, max_updates), np.nan),
        )


@kernel
def gather_grams(whole: Floats, rows: Ints, grams: Floats) -> None:
    """``grams_bij <- whole[rows_bi, rows_bj]`` from the inner products of a whole set."""
    for b in range(rows.shape[0]):
        for i in range(rows.shape[1]):
            source = whole[rows[b, i]]
            target = grams[b, i]
            for j in range(rows.shape[1]):
                target[j] = source[rows[b, j]]


@inlined_kernel
def _combine(gram: Floats, weights: Floats, products: Floats) -> Any:
    """``products_i <- x_i.o`` with ``o = sum_j weights_j x_j``; returns ``|o|^2``."""
    n = gram.shape[0]
    products[:] = ZERO
    for j in range(n):
        weight = weights[j]
        if weight != 0:
            row = gram[j]
            for i in range(n):
                products[i] += weight * row[i]
    square = ZERO
    for j in range(n):
        square += weights[j] * products[j]
    return square


@kernel
def center_gram(gram: Floats, weights: Floats, products: Floats, out: Floats) -> None:
    """Inner products of ``(x_i - o) / |x_i - o|`` with ``o = sum_j weights_j x_j``; rows at the center become zero.

    products (n,) is scratch.
    """
    n = gram.shape[0]
    square = _combine(gram, weights, products)
    for i in range(n):
        row = gram[i]
        target = out[i]
        shift = square - products[i]
        for j in range(n):
            target[j] = row[j] - products[j] + shift
    for i in range(n):
        left = out[i, i]
        canceled = gram[i, i] + square
        products[i] = ONE / np.sqrt(left) if left > _NO_DIRECTION * canceled else ZERO
    for i in range(n):
        target = out[i]
        scale = products[i]
        for j in range(n):
            target[j] *= scale * products[j]


@part_kernel
def _exact_distance(features: Floats, one: int, two: int) -> float:
    """``|x - y|^2`` of two rows of the set, in float64."""
    total = 0.0
    for d in range(features.shape[1]):
        gap = np.float64(features[one, d]) - np.float64(features[two, d])
        total += gap * gap
    return total


@kernel
def gram_neighbors(gram: Floats, first: int, task: int, ties: Ties, keys: Floats, ids: Ints) -> None:
    """The k nearest other nodes of each node from ``first`` on, among those nodes; numbers count from ``first``.

    Distances closer than rounding are compared exactly on the features of the task's rows, then by number. Features
    that are not ``exact`` (the rows before a center of the task's own) only tell which rows are equal and so equally
    far; without features (0 columns) distances count as they are. keys (n,) is scratch; ids (n - first, k) receives
    the result.
    """
    k = ids.shape[1]
    rows, features, exact = ties.rows[task], ties.features, ties.exact
    n = gram.shape[0]
    m = n - first
    halves = np.empty(m, dtype=np.float32)
    packed = np.empty(m, dtype=np.int64)
    for j in range(m):
        halves[j] = HALF * gram[first + j, first + j]
    bits = keys[:m].view(np.int32)
    for i in range(m):
        row = gram[first + i, first:]
        own = halves[i]
        for j in range(m):
            keys[j] = max(own + halves[j] - row[j], ZERO)
        # Floats from zero up are ordered as their bits are. With the number below them, the smallest of these integers
        # is the nearest node, the first of several; finding it is a loop without branches.
        for j in range(m):
            packed[j] = (np.int64(bits[j]) << 32) | np.int64(j)
        packed[i] = _FARTHEST
        found = ids[i]
        limit = ZERO
        for slot in range(k):
            nearest = _FARTHEST
            for j in range(m):
                nearest = min(nearest, packed[j])
            choice = nearest & np.int64(0xFFFFFFFF)
            found[slot] = choice
            limit = keys[choice]
            packed[choice] = _FARTHEST
        if features.shape[1] > 0 and k < m - 1:
            nearest = _FARTHEST
            for j in range(m):
                nearest = min(nearest, packed[j])
            tolerance = _CLOSE * (limit + own)
            if keys[nearest & np.int64(0xFFFFFFFF)] - limit <= tolerance:
                keys[i] = np.inf
                _settle(keys[:m], limit, tolerance, i, k, rows[first:], features, exact, found)


@inlined_kernel
def _settle(
    keys: Floats,
    limit: float,
    tolerance: float,
    node: int,
    k: int,
    rows: Ints,
    features: Floats,
    exact: bool,
    found: Ints,
) -> None:
    """Choose again among the nodes whose keys are within rounding of the k-th smallest, ``limit``."""
    taken = 0
    for j in range(keys.shape[0]):
        if keys[j] < limit - tolerance:
            found[taken] = j
            taken += 1
        elif keys[j] <= limit + tolerance and not exact:
            for p in range(j):
                if abs(keys[p] - limit) <= tolerance and _exact_distance(features, rows[p], rows[j]) == 0:
                    keys[j] = keys[p]
                    break
    floor = -1.0
    last = -1
    while taken < k:
        # The next by exact distance, then by number, after (floor, last).
        nearest = np.inf
        chosen = -1
        for j in range(keys.shape[0]):
            if abs(keys[j] - limit) <= tolerance:
                distance = _exact_distance(features, rows[node], rows[j]) if exact else np.float64(keys[j])
                after = distance > floor or (distance == floor and j > last)
                if after and distance < nearest:
                    nearest = distance
                    chosen = j
        found[taken] = chosen
        taken += 1
        floor = nearest
        last = chosen


@part_kernel
def class_products(gram: Floats, owners: Ints, weights: Floats, products: Floats, norms: Floats) -> None:
    """``products_ci <- x_i.m_c`` and ``norms_c <- |m_c|^2`` of ``m_c = sum_{j: owners_j = c} weights_j x_j``.

    owners and weights (n,), owner -1 for rows in no prototype; products (C, n), norms (C,).
    """
    n = gram.shape[0]
    products[:] = ZERO
    norms[:] = ZERO
    for j in range(n):
        if owners[j] >= 0:
            row = gram[j]
            target = products[owners[j]]
            weight = weights[j]
            for i in range(n):
                target[i] += weight * row[i]
    for j in range(n):
        if owners[j] >= 0:
            norms[owners[j]] += weights[j] * products[owners[j], j]


@part_kernel
def plain_weights(labels: Ints, counts: Ints, owners: Ints, weights: Floats) -> None:
    """Owners and weights (n,) of the plain prototypes: ``1/n_c`` for the support of class c. counts (C,) is scratch."""
    counts[:] = 0
    owners[:] = -1
    for s in range(labels.shape[0]):
        counts[labels[s]] += 1
    for s in range(labels.shape[0]):
        owners[s] = labels[s]
        weights[s] = ONE / np.float32(counts[labels[s]])


@inlined_kernel
def shift_queries(gram: Floats, n_support: int, weights: Floats, products: Floats, out: Floats) -> None:
    """Inner products after ``q <- q + mean(S) - mean(Q)`` for every query. weights and products (n,) are scratch."""
    n = gram.shape[0]
    for i in range(n):
        weights[i] = np.float32(1.0 / n_support) if i < n_support else np.float32(-1.0 / (n - n_support))
    square = _combine(gram, weights, products)
    for i in range(n):
        row = gram[i]
        target = out[i]
        if i < n_support:
            for j in range(n_support):
                target[j] = row[j]
            for j in range(n_support, n):
                target[j] = row[j] + products[i]
        else:
            for j in range(n_support):
                target[j] = row[j] + products[j]
            shift = products[i] + square
            for j in range(n_support, n):
                target[j] = row[j] + products[j] + shift


@part_kernel
def mean_query_spread(gram: Floats, first: int) -> float:
    """Mean of ``|x_i - x_j|^2`` over pairs of different nodes from ``first`` on; 0 for fewer than two."""
    n = gram.shape[0] - first
    if n < 2:
        return 0.0
    trace: Any = 0.0
    total: Any = 0.0
    for i in range(first, gram.shape[0]):
        trace += gram[i, i]
        inner = ZERO
        for j in range(first, gram.shape[0]):
            inner += gram[i, j]
        total += inner
    return float(max(0.0, 2 * (trace - total / n) / (n - 1)))


@part_kernel
def fill_unary(gram: Floats, n_support: int, products: Floats, norms: Floats, unary: Floats) -> None:
    """``a_qc = |x_q - m_c|^2`` (N, C) from products (C, n) and norms (C,)."""
    for q in range(unary.shape[0]):
        own: Any = gram[n_support + q, n_support + q]
        for c in range(unary.shape[1]):
            unary[q, c] = max(own - TWO * products[c, n_support + q] + norms[c], ZERO)
