"""Kernels of *paper* and *reference* over many tasks: unary, neighbours, and updates for a grid of lambda."""

from __future__ import annotations

from typing import Any

import numpy as np

from laplacianshot.episodes.batch._gram_kernels import (
    class_products,
    fill_unary,
    gram_neighbors,
    plain_weights,
    rectify,
    shift_queries,
)
from laplacianshot.inference._compile import kernel
from laplacianshot.inference._kernel_parts import exp_nonpositive
from laplacianshot.inference._types import Floats, Ints

_ZERO: Any = np.float32(0)
_ONE: Any = np.float32(1)


@kernel
def bound_terms(
    grams: Floats,
    labels: Ints,
    rows: Ints,
    features: Floats,
    rectified: bool,
    temperature: float,
    reassign_support: bool,
    unary: Floats,
    neighbors: Ints,
) -> None:
    """Unary terms (B, N, C) and the k nearest other queries (B, N, k) of each query, for every task.

    grams (B, n, n), labels (B, n_s); rows (B, n) and features serve ties between neighbours.
    """
    n_tasks, n = grams.shape[0], grams.shape[1]
    n_support, n_classes, k = labels.shape[1], unary.shape[2], neighbors.shape[2]
    shifted = np.empty((n, n), dtype=np.float32)
    plain = np.empty((n_classes, n), dtype=np.float32)
    products = np.empty((n_classes, n), dtype=np.float32)
    plain_norms = np.empty(n_classes, dtype=np.float32)
    norms = np.empty(n_classes, dtype=np.float32)
    scratch = np.empty(n, dtype=np.float32)
    weights = np.empty(n, dtype=np.float32)
    owners = np.empty(n, dtype=np.int64)
    counts = np.empty(n_classes, dtype=np.int64)
    for b in range(n_tasks):
        gram = grams[b]
        if rectified:
            shift_queries(grams[b], n_support, scratch, shifted)
            gram = shifted
        plain_weights(labels[b], counts, owners, weights)
        class_products(gram, owners, weights, plain, plain_norms)
        if rectified:
            rectify(gram, labels[b], temperature, reassign_support, counts, owners, weights, plain, plain_norms)
            class_products(gram, owners, weights, products, norms)
            for c in range(n_classes):
                if counts[c] == 0:
                    products[c] = plain[c]
                    norms[c] = plain_norms[c]
            fill_unary(gram, n_support, products, norms, unary[b])
        else:
            fill_unary(gram, n_support, plain, plain_norms, unary[b])
        if k > 0:
            gram_neighbors(grams[b], n_support, k, rows[b], features, scratch, neighbors[b])


@kernel
def _edges(neighbors: Ints, symmetric: bool, shift: float, indptr: Ints, indices: Ints, weights: Floats) -> None:
    """The graph of one task in CSR form; an edge that both ends chose is listed twice, which sums to the same."""
    n, k = neighbors.shape
    own = 1 if shift > 0 else 0
    indptr[0] = 0
    for q in range(n):
        indptr[q + 1] = k + own
    if symmetric:
        for q in range(n):
            for e in range(k):
                indptr[neighbors[q, e] + 1] += 1
    for q in range(n):
        indptr[q + 1] += indptr[q]
    weight = np.float32(0.5) if symmetric else _ONE
    ends = indptr[:n].copy()
    for q in range(n):
        for e in range(k):
            p = neighbors[q, e]
            indices[ends[q]] = p
            weights[ends[q]] = weight
            ends[q] += 1
            if symmetric:
                indices[ends[p]] = q
                weights[ends[p]] = weight
                ends[p] += 1
        if own:
            indices[ends[q]] = q
            weights[ends[q]] = np.float32(shift)
            ends[q] += 1


@kernel
def bound_updates(
    unary: Floats,
    neighbors: Ints,
    shifts: Floats,
    lams: Floats,
    by_bound: bool,
    max_iter: int,
    tol: float,
    found: Ints,
    assignments: Floats,
    iterations: Ints,
    converged: Ints,
    objective: Floats,
) -> None:
    """``Y <- softmax(-a + lam W Y)`` for each task and each lambda until its stopping rule holds.

    ``by_bound`` is the rule of *paper* (symmetric W with ``shifts`` on its diagonal, stop by the bound); otherwise that
    of *reference* (directed W, stop by E). All lambdas of a task are updated together, so that each row of W is read
    once for all of them.

    unary (B, N, C), neighbors (B, N, k), shifts (B,), lams (L,). Receive: found (B, L, N) labels, iterations and
    converged (B, L) and, unless they have no task, assignments (B, N, C) of the first lambda and objective
    (B, L, max_iter).
    """
    n_tasks, n, n_classes = unary.shape
    k = neighbors.shape[2]
    n_lams = lams.shape[0]
    width = n_classes * n_lams
    current = np.empty((n, width), dtype=np.float32)
    updated = np.empty((n, width), dtype=np.float32)
    field = np.empty(width, dtype=np.float32)
    logits = np.empty(width, dtype=np.float32)
    tops = np.empty(n_lams, dtype=np.float32)
    totals = np.empty(n_lams, dtype=np.float32)
    pulls = np.empty(n_lams, dtype=np.float32)
    inner = np.empty(n_lams, dtype=np.float32)
    pairwise = np.empty(n_lams)
    smooth = np.empty(n_lams)
    next_smooth = np.empty(n_lams)
    surrogate = np.empty(n_lams)
    value = np.empty(n_lams)
    before = np.empty(n_lams)
    running = np.empty(n_lams, dtype=np.bool_)
    indptr = np.empty(n + 1, dtype=np.int64)
    indices = np.empty(n * (2 * k + 1), dtype=np.int64)
    weights = np.empty(n * (2 * k + 1), dtype=np.float32)
    spread_lams = np.empty(width, dtype=np.float32)
    for c in range(n_classes):
        for v in range(n_lams):
            spread_lams[c * n_lams + v] = lams[v]
    for b in range(n_tasks):
        a = unary[b]
        _edges(neighbors[b], by_bound, shifts[b], indptr, indices, weights)
        for q in range(n):
            least = a[q].min()
            total = _ZERO
            for c in range(n_classes):
                logits[c] = exp_nonpositive(least - a[q, c])
                total += logits[c]
            for c in range(n_classes):
                for v in range(n_lams):
                    current[q, c * n_lams + v] = logits[c] / total
        running[:] = True
        left = n_lams
        done = 0
        # An update's objective needs W Y at the new Y, which the next pass forms anyway: one pass more than updates.
        while True:
            pairwise[:] = 0
            next_smooth[:] = 0
            surrogate[:] = 0
            for q in range(n):
                row = current[q]
                target = updated[q]
                field[:] = _ZERO
                for e in range(indptr[q], indptr[q + 1]):
                    weight = weights[e]
                    neighbor = current[indices[e]]
                    for i in range(width):
                        field[i] += weight * neighbor[i]
                inner[:] = _ZERO
                for c in range(n_classes):
                    for v in range(n_lams):
                        inner[v] += row[c * n_lams + v] * field[c * n_lams + v]
                for c in range(n_classes):
                    cost = a[q, c]
                    for v in range(n_lams):
                        i = c * n_lams + v
                        field[i] *= spread_lams[i]
                        logits[i] = field[i] - cost
                tops[:] = logits[:n_lams]
                for c in range(1, n_classes):
                    for v in range(n_lams):
                        tops[v] = max(tops[v], logits[c * n_lams + v])
                for c in range(n_classes):
                    for v in range(n_lams):
                        logits[c * n_lams + v] -= tops[v]
                for i in range(width):
                    target[i] = exp_nonpositive(logits[i])
                totals[:] = _ZERO
                pulls[:] = _ZERO
                for c in range(n_classes):
                    for v in range(n_lams):
                        i = c * n_lams + v
                        totals[v] += target[i]
                        pulls[v] += target[i] * field[i]
                for v in range(n_lams):
                    pairwise[v] += inner[v]
                    inverse = _ONE / totals[v]
                    partition = tops[v] + np.log(totals[v])
                    next_smooth[v] += pulls[v] * inverse - partition
                    surrogate[v] -= partition
                    totals[v] = inverse
                for c in range(n_classes):
                    for v in range(n_lams):
                        target[c * n_lams + v] *= totals[v]
            if done > 0:
                # ``current`` is the result of update ``done - 1``.
                for v in range(n_lams):
                    if not running[v]:
                        continue
                    now = smooth[v] - (lams[v] / 2 if by_bound else lams[v]) * pairwise[v]
                    if objective.shape[0] > 0:
                        objective[b, v, done - 1] = now
                    if not by_bound:
                        before[v], value[v] = value[v], now
                    if done > (1 if by_bound else 2) and abs(value[v] - before[v]) <= tol * abs(before[v]):
                        converged[b, v] = 1
                    if converged[b, v] or done == max_iter:
                        running[v] = False
                        left -= 1
                        iterations[b, v] = done
                        for q in range(n):
                            choice = 0
                            for c in range(1, n_classes):
                                if current[q, c * n_lams + v] > current[q, choice * n_lams + v]:
                                    choice = c
                            found[b, v, q] = choice
                        if v == 0 and assignments.shape[0] > 0:
                            for q in range(n):
                                for c in range(n_classes):
                                    assignments[b, q, c] = current[q, c * n_lams]
                if left == 0:
                    break
            if by_bound:
                for v in range(n_lams):
                    before[v] = value[v]
                    value[v] = surrogate[v] + lams[v] / 2 * pairwise[v]
            smooth[:] = next_smooth
            current, updated = updated, current
            done += 1
