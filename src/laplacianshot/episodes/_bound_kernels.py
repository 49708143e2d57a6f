"""Kernels of *paper* and *reference* over many tasks: unary, neighbors, and updates for a grid of lambda."""

from __future__ import annotations

import math
from typing import Any, NamedTuple, Self

import numpy as np

from laplacianshot.episodes._gram_kernels import (
    HALF,
    MIN_LOG,
    ONE,
    TWO,
    ZERO,
    BatchSolution,
    Ties,
    class_products,
    fill_unary,
    gram_neighbors,
    plain_weights,
    shift_queries,
)
from laplacianshot.runtime.compilation import inlined_kernel, kernel, part_kernel
from laplacianshot.runtime.kernel_parts import exp_nonpositive
from laplacianshot.runtime.types import Floats, Ints

# Lambdas updated together. Named eight times below: the compiler makes vectors of constants, not of variables.
_LANES = 8
_U1, _U2, _U3, _U4, _U5, _U6, _U7, _U8 = (np.uint64(v) for v in range(1, 9))


@inlined_kernel
def _rectify(
    gram: Floats,
    labels: Ints,
    temperature: float,
    by_cosine: bool,
    plain_norms: Floats,
    products: Floats,
    counts: Ints,
    owners: Ints,
    weights: Floats,
) -> None:
    """Owners and weights (n,) of the rectified prototypes, given ``products`` and ``plain_norms`` of the plain ones.

    ``products`` (C, n) is used up.

    Row z goes to ``argmax_c cos(z, m_c)`` if ``by_cosine``, else to ``argmin_c |z - m_c|^2`` or, of the support, to its
    label, with weight ``softmax_c(temperature cos(z, m_c)) / n_c``; ``counts`` (C,) receives n_c, 0 for a class that
    gets no row.
    """
    n = gram.shape[0]
    n_classes, n_support = products.shape[0], labels.shape[0]
    lengths, tops, totals = np.empty(n, np.float32), np.empty(n, np.float32), np.empty(n, np.float32)
    counts[:] = 0
    scaled: Any = np.float32(temperature)
    if not by_cosine:
        for i in range(n):
            owners[i] = labels[i] if i < n_support else 0
        for c in range(1, n_classes):
            for i in range(n_support, n):
                best = owners[i]
                if plain_norms[c] - TWO * products[c, i] < plain_norms[best] - TWO * products[best, i]:
                    owners[i] = c
    # Cosines in the place of the products, then their exponentials; both a class at a time, over all rows.
    for i in range(n):
        lengths[i] = ONE / np.sqrt(gram[i, i]) if gram[i, i] > 0 else ZERO
        tops[i] = -np.inf
        totals[i] = ZERO
    for c in range(n_classes):
        row = products[c]
        length = ONE / np.sqrt(plain_norms[c]) if plain_norms[c] > 0 else ZERO
        for i in range(n):
            row[i] *= length * lengths[i]
            tops[i] = max(tops[i], row[i])
    for i in range(n):
        if by_cosine:
            choice = 0
            while products[choice, i] < tops[i]:
                choice += 1
            owners[i] = choice
        counts[owners[i]] += 1
    for c in range(n_classes):
        row = products[c]
        for i in range(n):
            row[i] = exp_nonpositive(scaled * (row[i] - tops[i]))
            totals[i] += row[i]
    for i in range(n):
        weights[i] = products[owners[i], i] / (totals[i] * np.float32(counts[owners[i]]))


@kernel
def bound_terms(
    grams: Floats,
    labels: Ints,
    ties: Ties,
    rectified: bool,
    temperature: float,
    by_cosine: bool,
    unary: Floats,
    neighbors: Ints,
) -> None:
    """Unary terms (B, N, C) and the k nearest other queries (B, N, k) of each query, for every task.

    grams (B, n, n), labels (B, n_s).
    """
    n, n_support, n_classes, k = grams.shape[1], labels.shape[1], unary.shape[2], neighbors.shape[2]
    shifted, weights, row = np.empty((n, n), np.float32), np.empty(n, np.float32), np.empty(n, np.float32)
    plain, plain_norms = np.empty((n_classes, n), np.float32), np.empty(n_classes, np.float32)
    rectified_products, rectified_norms = np.empty((n_classes, n), np.float32), np.empty(n_classes, np.float32)
    owners, counts = np.empty(n, np.int64), np.empty(n_classes, np.int64)
    for b in range(grams.shape[0]):
        gram = grams[b]
        if rectified:
            shift_queries(grams[b], n_support, weights, row, shifted)
            gram = shifted
        plain_weights(labels[b], counts, owners, weights)
        class_products(gram, owners, weights, plain, plain_norms)
        products, norms = plain, plain_norms
        if rectified:
            products, norms = rectified_products, rectified_norms
            for c in range(n_classes):
                for i in range(n):
                    products[c, i] = plain[c, i]
            _rectify(gram, labels[b], temperature, by_cosine, plain_norms, products, counts, owners, weights)
            class_products(gram, owners, weights, products, norms)
            for c in range(n_classes):
                if counts[c] == 0:
                    norms[c] = plain_norms[c]
                    for i in range(n):
                        products[c, i] = plain[c, i]
        fill_unary(gram, n_support, products, norms, unary[b])
        if k > 0:
            gram_neighbors(grams[b], n_support, b, ties, row, neighbors[b])


class UpdateScratch(NamedTuple):
    """Arrays of one task of N queries, C classes and k neighbors, for 1 or 8 lambdas at a time (lanes)."""

    cost: Floats  # (C, N * lanes), as the four below: lanes innermost
    one: Floats
    other: Floats
    field: Floats  # lam W Y
    logits: Floats  # V of BoundUpdate
    rows: Floats  # (4, N * lanes)
    lams: Floats  # (N * lanes,), as the two below
    r: Floats
    scale: Floats  # 1 / (1 + r)
    sums: Floats  # (5, lanes)
    values: Floats  # (3, lanes): smooth part of the objective, and the last two values that the rule compares
    running: Any  # (lanes,)
    indptr: Ints  # (N + 1,)
    ends: Ints  # (N,)
    indices: Any  # (2 N k,) unsigned
    weights: Floats  # (2 N k,)

    @classmethod
    def of(cls, n_query: int, n_classes: int, k: int, n_lams: int) -> Self:
        """Arrays for tasks of this size and a grid of ``n_lams`` lambdas."""
        lanes = _LANES if n_lams > 1 else 1
        width, edges = lanes * n_query, 2 * n_query * k
        cost, one, other, field, logits = (np.empty((n_classes, width), dtype=np.float32) for _ in range(5))
        rows, weights = np.empty((4, width), dtype=np.float32), np.empty(edges, dtype=np.float32)
        lams, r, scale = (np.empty(width, dtype=np.float32) for _ in range(3))
        sums, values, running = np.empty((5, lanes)), np.zeros((3, lanes)), np.empty(lanes, dtype=np.bool_)
        indptr, ends = np.empty(n_query + 1, dtype=np.int64), np.empty(n_query, dtype=np.int64)
        indices = np.empty(edges, dtype=np.uint64)
        return cls(
            cost, one, other, field, logits, rows, lams, r, scale, sums, values, running, indptr, ends, indices, weights
        )


@inlined_kernel
def _edges(neighbors: Ints, symmetric: bool, s: UpdateScratch) -> None:
    """The graph of one task in CSR form; an edge that both ends chose is listed twice, which sums to the same."""
    n, k = neighbors.shape
    indptr, indices, weights, ends = s.indptr, s.indices, s.weights, s.ends
    indptr[0] = 0
    for q in range(n):
        indptr[q + 1] = k
    if symmetric:
        for q in range(n):
            for e in range(k):
                indptr[neighbors[q, e] + 1] += 1
    for q in range(n):
        indptr[q + 1] += indptr[q]
        ends[q] = indptr[q]
    weight = HALF if symmetric else ONE
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


@inlined_kernel
def _pull(indptr: Ints, indices: Ints, weights: Floats, lanes: int, current: Floats, field: Floats) -> None:
    """``field_q <- sum_p w_qp y_p`` for one class: current and field (N * lanes,), lanes innermost, 1 or 8 of them."""
    if lanes == 1:
        for q in range(indptr.shape[0] - 1):
            total = ZERO
            for e in range(indptr[q], indptr[q + 1]):
                total += weights[e] * current[indices[e]]
            field[q] = total
        return
    # Eight running sums by name become one vector register; unsigned indices are not tested for being negative.
    for q in range(indptr.shape[0] - 1):
        a0 = a1 = a2 = a3 = a4 = a5 = a6 = a7 = ZERO
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


@part_kernel
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


@part_kernel
def _update(current: Floats, updated: Floats, proximal: bool, s: UpdateScratch) -> None:
    """One update of all rows and lanes: ``v <- (lam b + r v) / (1 + r)`` with ``b = W y``, ``y <- softmax(-a + v)``.

    current, updated: (C, N * lanes). sums (5, lanes) receives ``sum y.b`` of the current assignments and, of the
    updated ones, ``sum y.(log y + a)``, ``sum y.(log y + a - lam b)`` and the squared distance to the current ones; its
    last row is scratch. Unless ``proximal``, r is 0 and that distance is not formed.
    """
    n_classes, width = s.cost.shape
    sums, field, logits, lams = s.sums, s.field, s.logits, s.lams
    lanes = sums.shape[1]
    tops, totals, pulls, holds = s.rows[0], s.rows[1], s.rows[2], s.rows[3]
    sums[:] = 0
    tops[:] = -np.inf
    pulls[:] = ZERO
    for c in range(n_classes):
        y, b, logit, a, target = current[c], field[c], logits[c], s.cost[c], updated[c]
        _pull(s.indptr, s.indices, s.weights, lanes, y, b)
        if proximal:
            for i in range(width):
                pulls[i] += y[i] * b[i]
                b[i] *= lams[i]
                logit[i] = (b[i] + s.r[i] * logit[i]) * s.scale[i]
                target[i] = logit[i] - a[i]
                tops[i] = max(tops[i], target[i])
        else:
            for i in range(width):
                pulls[i] += y[i] * b[i]
                logit[i] = b[i] * lams[i]
                target[i] = logit[i] - a[i]
                tops[i] = max(tops[i], target[i])
    _add(pulls, lanes, sums[0])
    totals[:] = ZERO
    pulls[:] = ZERO
    holds[:] = ZERO
    for c in range(n_classes):
        target, b, logit = updated[c], field[c], logits[c]
        for i in range(width):
            value: Any = exp_nonpositive(max(target[i] - tops[i], MIN_LOG))
            target[i] = value
            totals[i] += value
            pulls[i] += value * logit[i]
        if proximal:
            for i in range(width):
                holds[i] += target[i] * (logit[i] - b[i])
    # sums_4 = sum of the log-partitions, by the logarithm of products: C^32 fits into float64 for C up to 10^9.
    _add(tops, lanes, sums[4])
    products = sums[3]
    for top in range(0, width // lanes, 32):
        products[:] = 1.0
        for q in range(top, min(top + 32, width // lanes)):
            for v in range(lanes):
                products[v] *= totals[q * lanes + v]
        for v in range(lanes):
            sums[4, v] += math.log(products[v])
    products[:] = 0
    for i in range(width):
        totals[i] = ONE / totals[i]
        pulls[i] *= totals[i]
        holds[i] *= totals[i]
    _add(pulls, lanes, sums[1])
    for c in range(n_classes):
        target = updated[c]
        for i in range(width):
            target[i] *= totals[i]
    if proximal:
        _add(holds, lanes, sums[2])
        holds[:] = ZERO
        for c in range(n_classes):
            y, target = current[c], updated[c]
            for i in range(width):
                holds[i] += (target[i] - y[i]) * (target[i] - y[i])
        _add(holds, lanes, sums[3])
    for v in range(lanes):
        sums[1, v] -= sums[4, v]
        sums[2, v] -= sums[4, v]


@inlined_kernel
def _record(task: int, place: int, lane: int, done: int, current: Floats, lanes: int, out: BatchSolution) -> None:
    """Note the result of one lambda: labels, updates, and the assignments of the first lambda."""
    n_classes, n = current.shape[0], current.shape[1] // lanes
    found, assignments = out.found, out.assignments
    out.iterations[task, place] = done
    for q in range(n):
        at = lanes * q + lane
        choice = 0
        for c in range(1, n_classes):
            if current[c, at] > current[choice, at]:
                choice = c
        found[task, place, q] = choice
        if place == 0 and assignments.shape[0] > 0:
            for c in range(n_classes):
                assignments[task, q, c] = current[c, at]


@kernel
def bound_updates(
    unary: Floats,
    neighbors: Ints,
    deltas: Floats,
    r: Floats,
    lams: Floats,
    by_bound: bool,
    max_iter: int,
    tol: float,
    s: UpdateScratch,
    out: BatchSolution,
) -> None:
    """:func:`~laplacianshot.inference.bound.bound_optimize` for each task and each lambda.

    ``by_bound`` is the rule of *paper* (symmetric W, stop by the bound); otherwise that of *reference* (directed W,
    stop by E). Eight lambdas of a task are updated together, one per lane of the processor, so that a grid costs little
    more than one value; a single lambda has one lane.

    unary (B, N, C), neighbors (B, N, k), deltas (B,), r (B, L), lams (L,).
    """
    n_tasks, n, n_classes = unary.shape
    n_lams, lanes = lams.shape[0], s.sums.shape[1]
    sums, cost, running = s.sums, s.cost, s.running
    smooth, value, before = s.values[0], s.values[1], s.values[2]
    current, updated = s.one, s.other
    for b in range(n_tasks):
        _edges(neighbors[b], by_bound, s)
        proximal = deltas[b] > 0
        for c in range(n_classes):
            for q in range(n):
                for v in range(lanes):
                    cost[c, lanes * q + v] = unary[b, q, c]
        for first in range(0, n_lams, lanes):
            used = min(lanes, n_lams - first)
            for q in range(n):
                for v in range(lanes):
                    place = first + min(v, used - 1)
                    s.lams[lanes * q + v] = lams[place]
                    s.r[lanes * q + v] = r[b, place]
                    s.scale[lanes * q + v] = 1 / (1 + r[b, place])
            # softmax(-a): an update from nothing.
            current[:] = ZERO
            s.logits[:] = ZERO
            _update(current, updated, proximal, s)
            current, updated = updated, current
            for v in range(used):
                running[v] = True
            left = used
            done = 0
            # An objective needs W Y at the new Y, which the next pass forms anyway: one pass more than updates.
            while True:
                _update(current, updated, proximal, s)
                # ``current`` is the result of update ``done - 1``.
                for v in range(used if done > 0 else 0):
                    if not running[v]:
                        continue
                    lam, place = lams[first + v], first + v
                    now = smooth[v] - (lam / 2 if by_bound else lam) * sums[0, v]
                    if out.objective.shape[0] > 0:
                        out.objective[b, place, done - 1] = now
                    if not by_bound:
                        before[v], value[v] = value[v], now
                    if done > (1 if by_bound else 2) and abs(value[v] - before[v]) <= tol * abs(before[v]):
                        out.converged[b, place] = 1
                    if out.converged[b, place] or done == max_iter:
                        running[v] = False
                        left -= 1
                        _record(b, place, v, done, current, lanes, out)
                if left == 0:
                    break
                if by_bound:
                    for v in range(used):
                        before[v] = value[v]
                        value[v] = sums[2, v] + lams[first + v] / 2 * (sums[0, v] + deltas[b] * sums[3, v])
                for v in range(lanes):
                    smooth[v] = sums[1, v]
                current, updated = updated, current
                done += 1
