"""Kernels of *paper* and *reference* over many tasks: unary, neighbors, and updates for a grid of lambda."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from laplacianshot.episodes._gram_kernels import (
    class_products,
    fill_unary,
    gram_neighbors,
    plain_weights,
    rectify,
    shift_queries,
)
from laplacianshot.runtime.compilation import kernel
from laplacianshot.runtime.kernel_parts import exp_nonpositive
from laplacianshot.runtime.types import Floats, Ints

# Lambdas updated together. Named eight times below: the compiler makes vectors of constants, not of variables.
_LANES = 8
_U1, _U2, _U3, _U4, _U5, _U6, _U7, _U8 = (np.uint64(v) for v in range(1, 9))

# Smaller assignments than e^-40 are as good as none, and their products would be denormal numbers, which are slow.
_LEAST: Any = np.float32(-40)
_ZERO: Any = np.float32(0)
_ONE: Any = np.float32(1)


@kernel
def bound_terms(
    grams: Floats,
    labels: Ints,
    rows: Ints,
    features: Floats,
    exact: bool,
    rectified: bool,
    temperature: float,
    reassign_support: bool,
    unary: Floats,
    neighbors: Ints,
) -> None:
    """Unary terms (B, N, C) and the k nearest other queries (B, N, k) of each query, for every task.

    grams (B, n, n), labels (B, n_s); rows (B, n), features and exact serve ties between neighbors.
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
            products[:] = plain
            rectify(gram, labels[b], temperature, reassign_support, counts, owners, weights, products, plain_norms)
            class_products(gram, owners, weights, products, norms)
            for c in range(n_classes):
                if counts[c] == 0:
                    products[c] = plain[c]
                    norms[c] = plain_norms[c]
            fill_unary(gram, n_support, products, norms, unary[b])
        else:
            fill_unary(gram, n_support, plain, plain_norms, unary[b])
        if k > 0:
            gram_neighbors(grams[b], n_support, k, rows[b], features, exact, scratch, neighbors[b])


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
def _pull(indptr: Ints, indices: Ints, weights: Floats, lanes: int, current: Floats, field: Floats) -> None:
    """``field_q <- sum_p w_qp y_p`` for one class: current and field (N * lanes,), lanes innermost, 1 or 8 of them."""
    if lanes == 1:
        for q in range(indptr.shape[0] - 1):
            total = _ZERO
            for e in range(indptr[q], indptr[q + 1]):
                total += weights[e] * current[indices[e]]
            field[q] = total
        return
    # Eight running sums by name become one vector register; unsigned indices are not tested for being negative.
    for q in range(indptr.shape[0] - 1):
        a0 = a1 = a2 = a3 = a4 = a5 = a6 = a7 = _ZERO
        for e in range(indptr[q], indptr[q + 1]):
            w = weights[e]
            p = _U8 * indices[e]
            a0 += w * current[p]
            a1 += w * current[p + _U1]
            a2 += w * current[p + _U2]
            a3 += w * current[p + _U3]
            a4 += w * current[p + _U4]
            a5 += w * current[p + _U5]
            a6 += w * current[p + _U6]
            a7 += w * current[p + _U7]
        t = _U8 * np.uint64(q)
        field[t], field[t + _U1], field[t + _U2], field[t + _U3] = a0, a1, a2, a3
        field[t + _U4], field[t + _U5], field[t + _U6], field[t + _U7] = a4, a5, a6, a7


@kernel
def _add(values: Floats, lanes: int, sums: Floats) -> None:
    """``sums_v += sum_q values_qv``: values (N * lanes,), sums in float64."""
    if lanes == 1:
        total = 0.0
        for i in range(values.shape[0]):
            total += values[i]
        sums[0] += total
        return
    s0 = s1 = s2 = s3 = s4 = s5 = s6 = s7 = 0.0
    for q in range(values.shape[0] // _LANES):
        t = _U8 * np.uint64(q)
        s0 += values[t]
        s1 += values[t + _U1]
        s2 += values[t + _U2]
        s3 += values[t + _U3]
        s4 += values[t + _U4]
        s5 += values[t + _U5]
        s6 += values[t + _U6]
        s7 += values[t + _U7]
    sums[0] += s0
    sums[1] += s1
    sums[2] += s2
    sums[3] += s3
    sums[4] += s4
    sums[5] += s5
    sums[6] += s6
    sums[7] += s7


@kernel
def _add_logs(values: Floats, lanes: int, products: Floats, sums: Floats) -> None:
    """``sums_v += sum_q log values_qv`` for values from 1 to C, by the logarithm of products that cannot overflow.

    products (lanes,) is scratch.
    """
    n = values.shape[0] // lanes
    # C^32 fits into float64 for C up to 10^9.
    for top in range(0, n, 32):
        products[:] = 1.0
        for q in range(top, min(top + 32, n)):
            for v in range(lanes):
                products[v] *= values[q * lanes + v]
        for v in range(lanes):
            sums[v] += math.log(products[v])


@kernel
def _update(
    cost: Floats,
    lams: Floats,
    indptr: Ints,
    indices: Ints,
    weights: Floats,
    current: Floats,
    updated: Floats,
    field: Floats,
    rows: Floats,
    sums: Floats,
) -> None:
    """One update of all rows and lanes: ``y <- softmax(-a + lam b)`` with ``b = W y``, and its sums (8,).

    cost, current, updated, field: (C, N * lanes); lams: (N * lanes,); rows (3, N * lanes) is scratch. sums (4, lanes)
    receives ``sum y.b`` of the current assignments and, of the updated ones, ``sum y.(log y + a)`` and
    ``sum y.(log y + a - lam b)``, which is minus the sum of their log-partitions; its last row is scratch.
    """
    n_classes, width = cost.shape
    lanes = sums.shape[1]
    tops, totals, pulls = rows[0], rows[1], rows[2]
    sums[:] = 0
    tops[:] = -np.inf
    pulls[:] = _ZERO
    for c in range(n_classes):
        y, b, a, target = current[c], field[c], cost[c], updated[c]
        _pull(indptr, indices, weights, lanes, y, b)
        for i in range(width):
            pulls[i] += y[i] * b[i]
            b[i] *= lams[i]
            target[i] = b[i] - a[i]
            tops[i] = max(tops[i], target[i])
    _add(pulls, lanes, sums[0])
    totals[:] = _ZERO
    pulls[:] = _ZERO
    for c in range(n_classes):
        target, b = updated[c], field[c]
        for i in range(width):
            value: Any = exp_nonpositive(max(target[i] - tops[i], _LEAST))
            target[i] = value
            totals[i] += value
            pulls[i] += value * b[i]
    _add(tops, lanes, sums[2])
    _add_logs(totals, lanes, sums[3], sums[2])
    for i in range(width):
        totals[i] = _ONE / totals[i]
        pulls[i] *= totals[i]
    _add(pulls, lanes, sums[1])
    for c in range(n_classes):
        target = updated[c]
        for i in range(width):
            target[i] *= totals[i]
    for v in range(lanes):
        sums[1, v] -= sums[2, v]
        sums[2, v] = -sums[2, v]


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
    of *reference* (directed W, stop by E). Eight lambdas of a task are updated together, one a lane of the processor,
    so that a grid costs little more than one value; a single lambda has one lane.

    unary (B, N, C), neighbors (B, N, k), shifts (B,), lams (L,). Receive: found (B, L, N) labels, iterations and
    converged (B, L) and, unless they have no task, assignments (B, N, C) of the first lambda and objective
    (B, L, max_iter).
    """
    n_tasks, n, n_classes = unary.shape
    k = neighbors.shape[2]
    n_lams = lams.shape[0]
    lanes = _LANES if n_lams > 1 else 1
    width = lanes * n
    cost = np.empty((n_classes, width), dtype=np.float32)
    current = np.empty((n_classes, width), dtype=np.float32)
    updated = np.empty((n_classes, width), dtype=np.float32)
    field = np.empty((n_classes, width), dtype=np.float32)
    rows = np.empty((3, width), dtype=np.float32)
    spread_lams = np.empty(width, dtype=np.float32)
    sums = np.empty((4, lanes))
    smooth = np.empty(lanes)
    value = np.empty(lanes)
    before = np.empty(lanes)
    running = np.empty(lanes, dtype=np.bool_)
    indptr = np.empty(n + 1, dtype=np.int64)
    indices = np.empty(n * (2 * k + 1), dtype=np.uint64)
    weights = np.empty(n * (2 * k + 1), dtype=np.float32)
    for b in range(n_tasks):
        _edges(neighbors[b], by_bound, shifts[b], indptr, indices, weights)
        for c in range(n_classes):
            for q in range(n):
                for v in range(lanes):
                    cost[c, lanes * q + v] = unary[b, q, c]
        for first in range(0, n_lams, lanes):
            used = min(lanes, n_lams - first)
            for q in range(n):
                for v in range(lanes):
                    spread_lams[lanes * q + v] = lams[first + min(v, used - 1)]
            # softmax(-a): an update from nothing.
            current[:] = _ZERO
            _update(cost, spread_lams, indptr, indices, weights, current, updated, field, rows, sums)
            current, updated = updated, current
            running[:used] = True
            left = used
            done = 0
            # An objective needs W Y at the new Y, which the next pass forms anyway: one pass more than updates.
            while True:
                _update(cost, spread_lams, indptr, indices, weights, current, updated, field, rows, sums)
                # ``current`` is the result of update ``done - 1``.
                for v in range(used if done > 0 else 0):
                    if not running[v]:
                        continue
                    lam = lams[first + v]
                    now = smooth[v] - (lam / 2 if by_bound else lam) * sums[0, v]
                    if objective.shape[0] > 0:
                        objective[b, first + v, done - 1] = now
                    if not by_bound:
                        before[v], value[v] = value[v], now
                    if done > (1 if by_bound else 2) and abs(value[v] - before[v]) <= tol * abs(before[v]):
                        converged[b, first + v] = 1
                    if converged[b, first + v] or done == max_iter:
                        running[v] = False
                        left -= 1
                        iterations[b, first + v] = done
                        for q in range(n):
                            place = lanes * q + v
                            choice = 0
                            for c in range(1, n_classes):
                                if current[c, place] > current[choice, place]:
                                    choice = c
                            found[b, first + v, q] = choice
                        if first + v == 0 and assignments.shape[0] > 0:
                            for q in range(n):
                                for c in range(n_classes):
                                    assignments[b, q, c] = current[c, lanes * q]
                if left == 0:
                    break
                if by_bound:
                    for v in range(used):
                        before[v] = value[v]
                        value[v] = sums[2, v] + lams[first + v] / 2 * sums[0, v]
                smooth[:] = sums[1]
                current, updated = updated, current
                done += 1
