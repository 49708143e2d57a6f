"""Kernels of the default recipe over many tasks, in terms of the inner products of their rows.

A prototype is ``m_c = (mass_c u_c + sum_q y_qc x_q) / (mass_c + sum_q y_qc)`` with ``u_c`` what support and origin say
of it, so ``x_q.m_c``, ``|m_c|^2`` and every term of F follow from ``G_qq Y`` and ``x_q.u_c``: see
:mod:`laplacianshot.inference.joint` for F and its two steps.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from laplacianshot.episodes._gram_kernels import (
    center_gram,
    class_products,
    fill_unary,
    gram_neighbors,
    mean_query_spread,
    plain_weights,
)
from laplacianshot.runtime.compilation import kernel
from laplacianshot.runtime.kernel_parts import exp_nonpositive
from laplacianshot.runtime.types import Floats, Ints

# Smaller assignments than e^-40 are as good as none, and their products would be denormal numbers, which are slow.
_LEAST: Any = np.float32(-40)
_ZERO: Any = np.float32(0)
_ONE: Any = np.float32(1)
_TWO: Any = np.float32(2)
_TINY = 2.2250738585072014e-308
# As in laplacianshot.inference.temperature.
_TAU_TOLERANCE = 1.2e-6
_TAU_DOUBLINGS = 60


@kernel
def _confidence(gaps: Floats, tau: float, scratch: Floats) -> float:
    """``mean_q max_c softmax(-tau a_q)`` from ``gaps = a_q - min_c a_q`` (N, C)."""
    n, n_classes = gaps.shape
    flat = gaps.ravel()
    values = scratch.ravel()
    slope = np.float32(-tau)
    for i in range(flat.shape[0]):
        values[i] = exp_nonpositive(slope * flat[i])
    total: Any = 0.0
    for q in range(n):
        partition = _ZERO
        for c in range(n_classes):
            partition += scratch[q, c]
        total += _ONE / partition
    return float(total / n)


@kernel
def _choose_tau(unary: Floats, spread: float, pair_spread: float, least_confidence: float, gaps: Floats) -> float:
    """The temperature of :func:`laplacianshot.inference.temperature.choose_tau`. gaps (2, N, C) is scratch."""
    if spread <= 0:
        return 1.0
    low = pair_spread / spread
    n, n_classes = unary.shape
    if n == 0 or n_classes < 2:
        return low
    target = 1 / n_classes + least_confidence * (1 - 1 / n_classes)
    for q in range(n):
        least = unary[q].min()
        for c in range(n_classes):
            gaps[0, q, c] = unary[q, c] - least
    below = _confidence(gaps[0], low, gaps[1]) - target
    if below >= 0:
        return low
    first = low
    high = 2 * low
    above = _confidence(gaps[0], high, gaps[1]) - target
    doublings = 0
    while above < 0:
        doublings += 1
        if doublings >= _TAU_DOUBLINGS:
            # Queries as near to one prototype as to another never become sure.
            return first
        low, below = high, above
        high = 2 * high
        above = _confidence(gaps[0], high, gaps[1]) - target
    # False position with Illinois' halving: the end that stays behind counts half.
    side = 0
    tau = high
    for _ in range(100):
        last = tau
        tau = (low * above - high * below) / (above - below)
        if abs(tau - last) <= 0.1 * _TAU_TOLERANCE * tau or high - low <= _TAU_TOLERANCE * low:
            break
        value = _confidence(gaps[0], tau, gaps[1]) - target
        if value == 0:
            break
        if value > 0:
            high, above = tau, value
            if side == 1:
                below /= 2
            side = 1
        else:
            low, below = tau, value
            if side == -1:
                above /= 2
            side = -1
    return tau


@kernel
def _divergence(shares: Floats) -> float:
    """``KL(p|u)``."""
    total = 0.0
    for c in range(shares.shape[0]):
        if shares[c] > 0:
            total += shares[c] * math.log(shares[c] * shares.shape[0])
    return max(0.0, total)


@kernel
def blended_grams(
    grams: Floats,
    labels: Ints,
    n_classes: int,
    support_weight: float,
    origin_weight: float,
    pair_spread: float,
    least_confidence: float,
    fade: float,
    out: Floats,
) -> None:
    """CL2 about the center of :func:`laplacianshot.inference.transforms.blended_center`, for every task.

    grams (B, n, n) of rows before CL2; out (B, n, n).
    """
    n_tasks, n = grams.shape[0], grams.shape[1]
    n_support = labels.shape[1]
    n_query = n - n_support
    centered = np.empty((n, n), dtype=np.float32)
    products = np.empty((n_classes, n), dtype=np.float32)
    norms = np.empty(n_classes, dtype=np.float32)
    scratch = np.empty(n, dtype=np.float32)
    weights = np.empty(n, dtype=np.float32)
    center = np.empty(n, dtype=np.float32)
    owners = np.empty(n, dtype=np.int64)
    counts = np.empty(n_classes, dtype=np.int64)
    unary = np.empty((n_query, n_classes), dtype=np.float32)
    gaps = np.empty((2, n_query, n_classes), dtype=np.float32)
    shares = np.empty(n_classes)
    for b in range(n_tasks):
        plain_weights(labels[b], counts, owners, weights)
        center[:] = _ZERO
        for s in range(n_support):
            center[s] = weights[s] / np.float32(n_classes)
        center_gram(grams[b], center, scratch, centered)
        for s in range(n_support):
            mass = support_weight * counts[labels[b, s]]
            weights[s] *= np.float32(mass / (mass + origin_weight))
        class_products(centered, owners, weights, products, norms)
        fill_unary(centered, n_support, products, norms, unary)
        tau = np.float32(
            _choose_tau(unary, mean_query_spread(centered, n_support), pair_spread, least_confidence, gaps)
        )
        shares[:] = 0
        for q in range(n_query):
            least = unary[q].min()
            total = _ZERO
            for c in range(n_classes):
                gaps[1, q, c] = exp_nonpositive(tau * (least - unary[q, c]))
                total += gaps[1, q, c]
            for c in range(n_classes):
                shares[c] += gaps[1, q, c] / total
        shares /= n_query
        pooled = np.float32(math.exp(-_divergence(shares) / fade))
        for i in range(n):
            center[i] += pooled * (_ONE / np.float32(n) - center[i])
        center_gram(grams[b], center, scratch, out[b])


@kernel
def centered_grams(grams: Floats, n_support: int, on_support: bool, out: Floats) -> None:
    """CL2 about the mean of all rows or of the support, for every task: grams and out (B, n, n)."""
    n = grams.shape[1]
    scratch = np.empty(n, dtype=np.float32)
    center = np.empty(n, dtype=np.float32)
    center[:] = _ZERO
    used = n_support if on_support else n
    center[:used] = np.float32(1.0 / used)
    for b in range(grams.shape[0]):
        center_gram(grams[b], center, scratch, out[b])


@kernel
def _normalized_edges(
    neighbors: Ints,
    labels: Ints,
    support_edge: float,
    degrees: Floats,
    indptr: Ints,
    indices: Ints,
    weights: Floats,
    support_pull: Floats,
) -> None:
    """``D^-1/2 ((A + A^T)/2) D^-1/2``: edges between queries in CSR form, edges to the support summed by class.

    An edge that both ends chose is listed twice, which sums to the same. support_pull (N, C) is ``e W_qs Y_s``.
    """
    n, k = neighbors.shape
    n_support = labels.shape[0]
    degrees[:] = np.float32(0.5 * k)
    for i in range(n):
        for e in range(k):
            degrees[neighbors[i, e]] += np.float32(0.5)
    for i in range(n):
        degrees[i] = _ONE / np.sqrt(degrees[i]) if degrees[i] > 0 else _ZERO
    indptr[:] = 0
    support_pull[:] = _ZERO
    edge = np.float32(0.5 * support_edge)
    for i in range(n):
        for e in range(k):
            j = neighbors[i, e]
            weight = degrees[i] * degrees[j]
            if i >= n_support and j >= n_support:
                indptr[i - n_support + 1] += 1
                indptr[j - n_support + 1] += 1
            elif i >= n_support:
                support_pull[i - n_support, labels[j]] += edge * weight
            elif j >= n_support:
                support_pull[j - n_support, labels[i]] += edge * weight
    n_query = n - n_support
    for q in range(n_query):
        indptr[q + 1] += indptr[q]
    ends = indptr[:n_query].copy()
    for i in range(n_support, n):
        for e in range(k):
            j = neighbors[i, e]
            if j >= n_support:
                weight = np.float32(0.5) * degrees[i] * degrees[j]
                q, p = i - n_support, j - n_support
                indices[ends[q]] = p
                weights[ends[q]] = weight
                ends[q] += 1
                indices[ends[p]] = q
                weights[ends[p]] = weight
                ends[p] += 1


@kernel
def joint_tasks(
    grams: Floats,
    labels: Ints,
    rows: Ints,
    features: Floats,
    exact: bool,
    origin_on_support: bool,
    n_neighbors: int,
    lam: float,
    start_lam: float,
    start_rounds: int,
    max_rounds: int,
    support_edge: float,
    support_weight: float,
    origin_weight: float,
    balance: float,
    fade: float,
    pair_spread: float,
    least_confidence: float,
    tol: float,
    assignments: Floats,
    iterations: Ints,
    converged: Ints,
    objective: Floats,
) -> None:
    """The default recipe for every task.

    grams (B, n, n), labels (B, n_s); rows (B, n), features and exact serve ties between neighbors.
    ``origin_on_support``: o is the mean of the support, else zero. Receive: assignments (B, N, C), iterations and
    converged (B,) and, unless it has no task, objective (B, most rounds).
    """
    n_tasks, n = grams.shape[0], grams.shape[1]
    n_support, n_query, n_classes = labels.shape[1], assignments.shape[1], assignments.shape[2]
    k = min(n_neighbors, n - 1)
    neighbors = np.empty((n, k), dtype=np.int64)
    degrees = np.empty(n, dtype=np.float32)
    indptr = np.empty(n_query + 1, dtype=np.int64)
    indices = np.empty(2 * n * k, dtype=np.int64)
    weights = np.empty(2 * n * k, dtype=np.float32)
    support_pull = np.empty((n_query, n_classes), dtype=np.float32)
    scratch = np.empty(n, dtype=np.float32)
    counts = np.empty(n_classes, dtype=np.int64)
    owners = np.empty(n, dtype=np.int64)
    row_weights = np.empty(n, dtype=np.float32)
    products = np.empty((n_classes, n), dtype=np.float32)
    prior_norms = np.empty(n_classes, dtype=np.float32)
    origin_products = np.empty(n, dtype=np.float32)
    prior_products = np.empty((n_query, n_classes), dtype=np.float32)
    mass = np.empty(n_classes)
    query_gram = np.empty((n_query, n_query), dtype=np.float32)
    unary = np.empty((n_query, n_classes), dtype=np.float32)
    gaps = np.empty((2, n_query, n_classes), dtype=np.float32)
    logs = np.empty((n_query, n_classes), dtype=np.float32)
    current = np.empty((n_query, n_classes), dtype=np.float32)
    updated = np.empty((n_query, n_classes), dtype=np.float32)
    pulled = np.empty((n_query, n_classes), dtype=np.float32)
    cost = np.empty((n_query, n_classes), dtype=np.float32)
    field = np.empty((n_query, n_classes), dtype=np.float32)
    tops = np.empty(n_query, dtype=np.float32)
    shares = np.empty(n_classes)
    prior_inner = np.empty(n_classes)
    own_inner = np.empty(n_classes)
    prototype_cost = np.empty(n_classes, dtype=np.float32)
    share_cost = np.empty(n_classes, dtype=np.float32)
    slopes = np.empty(n_classes, dtype=np.float32)
    for b in range(n_tasks):
        gram = grams[b]
        if k > 0:
            gram_neighbors(gram, 0, k, rows[b], features, exact, scratch, neighbors)
        _normalized_edges(neighbors, labels[b], support_edge, degrees, indptr, indices, weights, support_pull)
        for q in range(n_query):
            query_gram[q] = gram[n_support + q, n_support:]

        # What support and origin say: u_c = (beta sum_{s in c} x_s + kappa o) / mass_c.
        plain_weights(labels[b], counts, owners, row_weights)
        class_products(gram, owners, row_weights, products, prior_norms)
        origin_products[:] = _ZERO
        origin_square = 0.0
        if origin_on_support:
            for s in range(n_support):
                origin_products += gram[s]
            origin_products /= np.float32(n_support)
            for s in range(n_support):
                origin_square += origin_products[s] / n_support
        # Sum over the support of |x_s|^2 by class, for the least cost of the prior.
        least_cost = 0.0
        for s in range(n_support):
            least_cost += support_weight * gram[s, s]
        least_cost += n_classes * origin_weight * origin_square
        for c in range(n_classes):
            own = support_weight * counts[c]
            mass[c] = own + origin_weight
            near = np.float32(own / mass[c])
            far = np.float32(origin_weight / mass[c])
            across = 0.0
            for s in range(n_support):
                if labels[b, s] == c:
                    across += origin_products[s] / counts[c]
            prior_norms[c] = near * near * prior_norms[c] + _TWO * near * far * across + far * far * origin_square
            for i in range(n):
                products[c, i] = near * products[c, i] + far * origin_products[i]
            least_cost -= mass[c] * prior_norms[c]
        fill_unary(gram, n_support, products, prior_norms, unary)
        for q in range(n_query):
            for c in range(n_classes):
                prior_products[q, c] = products[c, n_support + q]
        spread = mean_query_spread(gram, n_support)
        if spread == 0:
            # With one query there is no pair of queries: take all rows.
            spread = mean_query_spread(gram, 0)
        tau = _choose_tau(unary, spread, pair_spread, least_confidence, gaps)
        slope = np.float32(tau)
        query_cost = 0.0
        shares[:] = 0
        for q in range(n_query):
            query_cost += tau * query_gram[q, q]
            least = unary[q].min()
            total = _ZERO
            for c in range(n_classes):
                logs[q, c] = slope * (least - unary[q, c])
                current[q, c] = exp_nonpositive(max(logs[q, c], _LEAST))
                total += current[q, c]
            log_total = np.log(total)
            for c in range(n_classes):
                logs[q, c] -= log_total
                current[q, c] /= total
                shares[c] += current[q, c]
        shares /= n_query

        flat_logs, flat_field, flat_cost = logs.ravel(), field.ravel(), cost.ravel()
        done = 0
        recorded = 0
        smooth = 0.0
        value = 0.0
        iterations[b] = 0
        converged[b] = 0
        while True:
            weight = start_lam if done < start_rounds else lam
            # M step: products of the queries with the prototypes, and what the prior asks of those.
            np.dot(query_gram, current, pulled)
            prior_inner[:] = 0
            own_inner[:] = 0
            for q in range(n_query):
                for c in range(n_classes):
                    prior_inner[c] += current[q, c] * prior_products[q, c]
                    own_inner[c] += current[q, c] * pulled[q, c]
            prior_cost = 0.0
            divergence = _divergence(shares)
            pull = balance * math.exp(-divergence / fade)
            for c in range(n_classes):
                count = n_query * shares[c]
                whole = mass[c] + count
                square = (mass[c] * mass[c] * prior_norms[c] + 2 * mass[c] * prior_inner[c] + own_inner[c]) / whole**2
                inner = (mass[c] * prior_norms[c] + prior_inner[c]) / whole
                prior_cost += mass[c] * (square - 2 * inner + prior_norms[c])
                prototype_cost[c] = tau * square
                share_cost[c] = pull * math.log(max(shares[c], _TINY))
                slopes[c] = 2 * tau / whole
            # Y step.
            pairwise = 0.0
            lam32 = np.float32(weight)
            for q in range(n_query):
                edge_field = field[q]
                edge_field[:] = _ZERO
                for e in range(indptr[q], indptr[q + 1]):
                    neighbor = current[indices[e]]
                    edge = weights[e]
                    for c in range(n_classes):
                        edge_field[c] += edge * neighbor[c]
                for c in range(n_classes):
                    pairwise += current[q, c] * edge_field[c]
            for q in range(n_query):
                for c in range(n_classes):
                    product = np.float32(mass[c]) * prior_products[q, c] + pulled[q, c]
                    cost[q, c] = prototype_cost[c] - slopes[c] * product - lam32 * support_pull[q, c]
                    field[q, c] = lam32 * field[q, c] - share_cost[c]
            if done > start_rounds:
                before = value
                value = smooth - lam / 2 * pairwise
                if objective.shape[0] > 0:
                    objective[b, recorded] = value
                recorded += 1
                if recorded > 1 and abs(value - before) < tol * abs(before):
                    converged[b] = 1
                if converged[b] or done == max_rounds:
                    break
            keep = pull + max(0.0, (weight / 2 - 1 - pull) / 2)
            keep32, scale = np.float32(keep), np.float32(1 / (1 + keep))
            for i in range(flat_logs.shape[0]):
                flat_logs[i] = scale * (flat_field[i] - flat_cost[i] + keep32 * flat_logs[i])
            for q in range(n_query):
                top = logs[q, 0]
                for c in range(1, n_classes):
                    top = max(top, logs[q, c])
                tops[q] = top
            for q in range(n_query):
                for c in range(n_classes):
                    logs[q, c] -= tops[q]
            flat_updated = updated.ravel()
            for i in range(flat_logs.shape[0]):
                flat_updated[i] = exp_nonpositive(max(flat_logs[i], _LEAST))
            shares[:] = 0
            energy: Any = 0.0
            for q in range(n_query):
                total = _ZERO
                for c in range(n_classes):
                    total += updated[q, c]
                log_total = np.log(total)
                inverse = _ONE / total
                row_energy = _ZERO
                for c in range(n_classes):
                    updated[q, c] *= inverse
                    logs[q, c] -= log_total
                    row_energy += updated[q, c] * (logs[q, c] + cost[q, c])
                    shares[c] += updated[q, c]
                energy += row_energy
            shares /= n_query
            current, updated = updated, current
            done += 1
            divergence = _divergence(shares)
            if math.isinf(fade):
                balance_cost = balance * n_query * divergence
            else:
                balance_cost = -balance * n_query * fade * math.expm1(-divergence / fade)
            smooth = energy + query_cost + tau * (least_cost + prior_cost) + balance_cost
        iterations[b] = recorded
        assignments[b] = current
