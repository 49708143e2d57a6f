"""Kernels of the default recipe over many tasks, in terms of the inner products of their rows.

A prototype is ``m_c = (mass_c u_c + sum_q y_qc x_q) / (mass_c + sum_q y_qc)`` with ``u_c`` the mean of its support and
the origin, so ``x_q.m_c``, ``|m_c|^2`` and every term of F follow from ``G_qq Y`` and ``x_q.u_c``. See
:mod:`laplacianshot.inference.joint` for F and its two steps; their formulas are those of
:mod:`laplacianshot.engine.step_kernels`. Which classes are absent, of :mod:`laplacianshot.inference.clues`, follows
from distances; :mod:`laplacianshot.inference.episode` has the stages of a few-shot task. What else is learned
from many queries does not follow from them: such tasks are not for these kernels.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple, Self

import numpy as np

from laplacianshot.baselines._kernels import transport
from laplacianshot.engine.step_kernels import (
    balance,
    balance_cost,
    choose_tau,
    divergence,
    fill_gaps,
    hold_weight,
    share_slope,
    step_logit,
)
from laplacianshot.episodes._gram_kernels import (
    HALF,
    MIN_LOG,
    ONE,
    TWO,
    ZERO,
    BatchSolution,
    Ties,
    center_gram,
    class_products,
    fill_unary,
    gram_neighbors,
    mean_query_spread,
    plain_weights,
)
from laplacianshot.inference.episode import Stages
from laplacianshot.inference.recipes import AbsenceConstants, DefaultConstants
from laplacianshot.runtime.compilation import inlined_kernel, kernel, part_kernel
from laplacianshot.runtime.kernel_parts import exp_nonpositive
from laplacianshot.runtime.types import Floats, Ints

# A plain 0 would be a type of its own, and what is called with it compiled once more.
_FIRST: Any = np.int64(0)


class _Graph(NamedTuple):
    """Edges between queries in CSR form, and ``e W_qs Y_s``."""

    neighbors: Ints  # (n, k)
    degrees: Floats  # (n,)
    indptr: Ints  # (N + 1,)
    ends: Ints  # (N,)
    indices: Ints  # (2 n k,)
    weights: Floats  # (2 n k,)
    support_field: Floats  # (N, C)


class _Prior(NamedTuple):
    """What support and origin say of the prototypes: u, in terms of inner products."""

    counts: Ints  # (C,)
    owners: Ints  # (n,)
    weights: Floats  # (n,)
    origin: Floats  # (n,): x_i.o, or weights of a center
    products: Floats  # (C, n): x_i.u_c
    norms: Floats  # (C,): |u_c|^2
    to_queries: Floats  # (N, C): x_q.u_c
    mass: Floats  # (C,)


class _Rounds(NamedTuple):
    """What the two steps pass to one another."""

    query_gram: Floats  # (N, N)
    logs: Floats  # (N, C): log Y
    pulled: Floats  # (N, C): G Y
    cost: Floats  # (N, C)
    field: Floats  # (N, C): lam W Y + mu H Y
    p: Floats  # (C,)
    inner: Floats  # (2, C): sum_q y_qc x_q.u_c and sum_q y_qc (G Y)_qc
    class_cost: Floats  # (3, C): tau |m_c|^2 - h_c, 2 tau / (mass_c + N p_c), d_c of the balance
    bias: Floats  # (C,): h


class _Equal(NamedTuple):
    """What makes class shares equal."""

    logits: Floats  # (1, C, N)
    plans: Floats  # (1, C, N)
    potentials: Floats  # (1, C)


class _Ridge(NamedTuple):
    """A linear classifier of all rows, fitted anew in each round; square arrays of size 0 where there is none."""

    inverse: Floats  # (n, n): (G + r I)^-1, G about the mean
    hat: Floats  # (N, N): mu H_qq
    scores: Floats  # (N, C): mu H_qq Y
    by_labels: Floats  # (N, C): mu H_qs Y_s


class _Absence(NamedTuple):
    """What tells absent classes from others."""

    nearest: Floats  # (n,): squared distance to the nearest other query
    second: Floats  # (n_s,): that of labeled rows to the second nearest
    ranks: Floats  # (n_s,)
    by_class: Floats  # (C,)


class _Price(NamedTuple):
    """What a class that is used costs."""

    eta: float
    small: float  # s


class JointScratch(NamedTuple):
    """Arrays of one task, used again for the next: n rows, N queries, C classes, k neighbors."""

    graph: _Graph
    prior: _Prior
    rounds: _Rounds
    equal: _Equal
    ridge: _Ridge
    absence: _Absence
    unary: Floats  # (N, C)
    gaps: Floats  # (2, N, C)
    y: Floats  # (N, C)
    new_y: Floats  # (N, C)
    kept: Floats  # (2, N, C): assignments of a trial, and their logarithms
    row: Floats  # (n,)

    @classmethod
    def of(cls, n: int, n_support: int, n_classes: int, n_neighbors: int, *, ridge: bool = False) -> Self:
        """Arrays for tasks of this size, with or without a linear classifier."""
        n_query, k, C = n - n_support, min(n_neighbors, n - 1), n_classes

        def floats(*shape: int) -> Floats:
            return np.empty(shape, dtype=np.float32)

        def ints(*shape: int) -> Ints:
            return np.empty(shape, dtype=np.int64)

        def per_query() -> Floats:
            return floats(n_query, C)

        edges = 2 * n * k
        graph = _Graph(ints(n, k), floats(n), ints(n_query + 1), ints(n_query), ints(edges), floats(edges), per_query())
        prior = _Prior(ints(C), ints(n), floats(n), floats(n), floats(C, n), floats(C), per_query(), np.empty(C))
        square, logs, pulled, cost, field = floats(n_query, n_query), *(per_query() for _ in range(4))
        rounds = _Rounds(square, logs, pulled, cost, field, np.empty(C), np.empty((2, C)), floats(3, C), floats(C))
        equal = _Equal(np.empty((1, C, n_query)), np.empty((1, C, n_query)), np.empty((1, C)))
        size, inner = (n, n_query) if ridge else (0, 0)
        linear = _Ridge(floats(size, size), floats(inner, inner), per_query(), per_query())
        absence = _Absence(floats(n), floats(n_support), np.empty(n_support), np.empty(C))
        gaps, y, new_y = floats(2, n_query, C), per_query(), per_query()
        kept = floats(2, n_query, C)
        return cls(graph, prior, rounds, equal, linear, absence, per_query(), gaps, y, new_y, kept, floats(n))


@part_kernel
def _normalize(y: Floats, s: _Rounds) -> float:
    """``y <- softmax(logs)``, ``logs <- log y`` and ``p <- mean_q y_q``; returns ``sum_q y_q.(log y_q + cost_q)``."""
    logs, costs, p = s.logs, s.cost, s.p
    n, n_classes = y.shape
    for q in range(n):
        top = logs[q, 0]
        for c in range(1, n_classes):
            top = max(top, logs[q, c])
        for c in range(n_classes):
            logs[q, c] -= top
    # All entries in one loop: rows of few classes would not fill a vector.
    flat_logs, flat_y = logs.ravel(), y.ravel()
    for i in range(len(flat_logs)):
        flat_y[i] = exp_nonpositive(max(flat_logs[i], MIN_LOG))
    p[:] = 0
    energy: Any = 0.0
    for q in range(n):
        total = ZERO
        for c in range(n_classes):
            total += y[q, c]
        log_total = np.log(total)
        inverse = ONE / total
        row_energy = ZERO
        for c in range(n_classes):
            y[q, c] *= inverse
            logs[q, c] -= log_total
            row_energy += y[q, c] * (logs[q, c] + costs[q, c])
            p[c] += y[q, c]
        energy += row_energy
    for c in range(n_classes):
        p[c] /= n
    return float(energy)


@part_kernel
def _first_assignments(unary: Floats, tau: float, y: Floats, s: _Rounds) -> None:
    """``y_q <- softmax(h - tau a_q)``, its logarithm, and its mean p."""
    logs, costs, bias = s.logs, s.cost, s.bias
    fill_gaps(unary, logs)
    slope = np.float32(-tau)
    for q in range(len(logs)):
        for c in range(logs.shape[1]):
            logs[q, c] = slope * logs[q, c] + bias[c]
            costs[q, c] = ZERO
    _normalize(y, s)


@kernel
def blended_grams(
    grams: Floats,
    labels: Ints,
    constants: DefaultConstants,
    min_confidence: float,
    fade: float,
    s: JointScratch,
    out: Floats,
) -> None:
    """CL2 about the center of :func:`laplacianshot.inference.transforms.blended_center`, for every task.

    grams (B, n, n) of rows before CL2, labels (B, n_s); out (B, n, n).
    """
    counts, owners, weights, origin, products, norms, _, _ = s.prior
    n, n_support, n_classes = grams.shape[1], labels.shape[1], s.unary.shape[1]
    s.rounds.bias[:] = ZERO
    for b in range(grams.shape[0]):
        plain_weights(labels[b], counts, owners, weights)
        origin[:] = ZERO
        for i in range(n_support):
            origin[i] = weights[i] / np.float32(n_classes)
        center_gram(grams[b], origin, s.row, out[b])
        for i in range(n_support):
            mass = constants.beta * counts[labels[b, i]]
            weights[i] *= np.float32(mass / (mass + constants.kappa))
        class_products(out[b], owners, weights, products, norms)
        fill_unary(out[b], n_support, products, norms, s.unary)
        spread = mean_query_spread(out[b], n_support)
        tau = choose_tau(s.unary, spread, constants.pair_spread, min_confidence, s.gaps)
        _first_assignments(s.unary, tau, s.y, s.rounds)
        pooled = np.float32(math.exp(-divergence(s.rounds.p) / fade))
        for i in range(n):
            origin[i] += pooled * (ONE / np.float32(n) - origin[i])
        center_gram(grams[b], origin, s.row, out[b])


@kernel
def centered_grams(grams: Floats, n_support: int, on_support: bool, out: Floats) -> None:
    """CL2 about the mean of all rows or of the support, for every task: grams and out (B, n, n)."""
    n = grams.shape[1]
    scratch = np.empty(n, dtype=np.float32)
    center = np.empty(n, dtype=np.float32)
    used = n_support if on_support else n
    for i in range(n):
        center[i] = np.float32(1.0 / used) if i < used else ZERO
    for b in range(grams.shape[0]):
        center_gram(grams[b], center, scratch, out[b])


@inlined_kernel
def _normalized_edges(labels: Ints, e: float, s: _Graph) -> None:
    """``W = D^-1/2 ((A + A^T)/2) D^-1/2``: edges between queries in CSR form, edges to the support summed by class.

    An edge that both ends chose is listed twice, which sums to the same.
    """
    neighbors, degrees, indptr, ends, indices, weights, support_field = s
    n, k = neighbors.shape
    n_support, n_query = len(labels), len(ends)
    degrees[:] = np.float32(0.5 * k)
    for i in range(n):
        for slot in range(k):
            degrees[neighbors[i, slot]] += HALF
    for i in range(n):
        degrees[i] = ONE / np.sqrt(degrees[i]) if degrees[i] > 0 else ZERO
    indptr[:] = 0
    support_field[:] = ZERO
    edge = np.float32(0.5 * e)
    for i in range(n):
        for slot in range(k):
            j = neighbors[i, slot]
            weight = degrees[i] * degrees[j]
            if i >= n_support and j >= n_support:
                indptr[i - n_support + 1] += 1
                indptr[j - n_support + 1] += 1
            elif i >= n_support:
                support_field[i - n_support, labels[j]] += edge * weight
            elif j >= n_support:
                support_field[j - n_support, labels[i]] += edge * weight
    for q in range(n_query):
        indptr[q + 1] += indptr[q]
        ends[q] = indptr[q]
    for q in range(n_query):
        for slot in range(k):
            p = neighbors[n_support + q, slot] - n_support
            if p >= 0:
                weight = HALF * degrees[n_support + q] * degrees[n_support + p]
                indices[ends[q]] = p
                weights[ends[q]] = weight
                ends[q] += 1
                indices[ends[p]] = q
                weights[ends[p]] = weight
                ends[p] += 1


@inlined_kernel
def _fill_prior(gram: Floats, labels: Ints, origin_on_support: bool, beta: float, kappa: float, s: _Prior) -> float:
    """``u_c = (beta sum_{s in c} x_s + kappa o) / mass_c``, ``mass_c = beta n_c + kappa``; returns the prior's cost.

    The origin o is the mean of the support or zero. The cost is ``sum_c [beta sum_{s in c} |x_s - u_c|^2 +
    kappa |o - u_c|^2]``.
    """
    counts, owners, weights, origin, products, norms, to_queries, mass = s
    n, n_support, n_classes = len(gram), len(labels), len(mass)
    plain_weights(labels, counts, owners, weights)
    class_products(gram, owners, weights, products, norms)
    origin[:] = ZERO
    origin_square = 0.0
    cost = 0.0
    for i in range(n_support):
        cost += beta * gram[i, i]
    if origin_on_support:
        for i in range(n_support):
            for j in range(n):
                origin[j] += gram[i, j]
        for j in range(n):
            origin[j] /= np.float32(n_support)
        for i in range(n_support):
            origin_square += origin[i] / n_support
    cost += n_classes * kappa * origin_square
    for c in range(n_classes):
        own = beta * counts[c]
        mass[c] = own + kappa
        near = np.float32(own / mass[c])
        far = np.float32(kappa / mass[c])
        across = 0.0
        for i in range(n_support):
            if labels[i] == c:
                across += origin[i] / counts[c]
        norms[c] = near * near * norms[c] + TWO * near * far * across + far * far * origin_square
        for i in range(n):
            products[c, i] = near * products[c, i] + far * origin[i]
        for q in range(n - n_support):
            to_queries[q, c] = products[c, n_support + q]
        cost -= mass[c] * norms[c]
    return cost


@inlined_kernel
def _m_step(tau: float, y: Floats, prior: _Prior, s: _Rounds) -> float:
    """Prototypes for the assignments y (N, C): ``class_cost`` and ``G Y``; gives ``sum_c mass_c |m_c - u_c|^2``."""
    masses, norms, to_queries = prior.mass, prior.norms, prior.to_queries
    query_gram, _, pulled, _, _, p, inner, class_cost, bias = s
    n, n_classes = y.shape
    np.dot(query_gram, y, pulled)
    inner[:] = 0
    for q in range(n):
        for c in range(n_classes):
            inner[0, c] += y[q, c] * to_queries[q, c]
            inner[1, c] += y[q, c] * pulled[q, c]
    cost = 0.0
    for c in range(n_classes):
        mass, whole = masses[c], masses[c] + n * p[c]
        square = (mass * mass * norms[c] + 2 * mass * inner[0, c] + inner[1, c]) / whole**2
        cost += mass * (square - 2 * (mass * norms[c] + inner[0, c]) / whole + norms[c])
        class_cost[0, c] = tau * square - bias[c]
        class_cost[1, c] = 2 * tau / whole
    return cost


@inlined_kernel
def _equalize(y: Floats, s: _Rounds, equal: _Equal) -> float:
    """``y <- softmax(logs + f)`` with the f that make all class shares equal; else as :func:`_normalize`."""
    logs = s.logs
    n, n_classes = y.shape
    for q in range(n):
        for c in range(n_classes):
            equal.logits[0, c, q] = logs[q, c]
    transport(equal.logits, equal.potentials, equal.plans)
    for q in range(n):
        for c in range(n_classes):
            logs[q, c] += np.float32(equal.potentials[0, c])
    return _normalize(y, s)


@inlined_kernel
def _y_step(lam: float, g: float, price: _Price, new_y: Floats, scratch: JointScratch) -> float:
    """New assignments, their logarithms and shares p; returns ``sum_q y_q.(log y_q + cost_q)``.

    ``cost_qc`` is ``tau |x_q - m_c|^2 - h_c - lam e (W_qs Y_s)_c - mu (H_qs Y_s)_c`` without ``tau |x_q|^2``. Infinite
    g makes all shares equal.
    """
    s = scratch.rounds
    mass, to_queries = scratch.prior.mass, scratch.prior.to_queries
    support_field, by_labels = scratch.graph.support_field, scratch.ridge.by_labels
    _, logs, pulled, costs, field, p, _, class_cost, _ = s
    n, n_classes = new_y.shape
    eta = price.eta
    all_equal = math.isinf(g)
    if all_equal:
        g, eta = 0.0, 0.0
    hold = hold_weight(lam, g)
    keep, scale, graph = np.float32(hold), np.float32(1 / (1 + hold)), np.float32(lam)
    for c in range(n_classes):
        class_cost[2, c] = share_slope(p[c], g, eta, price.small)
    for q in range(n):
        for c in range(n_classes):
            product = np.float32(mass[c]) * to_queries[q, c] + pulled[q, c]
            known = graph * support_field[q, c] + by_labels[q, c]
            cost = class_cost[0, c] - class_cost[1, c] * product - known
            costs[q, c] = cost
            logs[q, c] = step_logit(field[q, c], cost, class_cost[2, c], keep, logs[q, c], scale)
    return _equalize(new_y, s, scratch.equal) if all_equal else _normalize(new_y, s)


@inlined_kernel
def _fill_ridge(gram: Floats, labels: Ints, mu: float, row: Floats, s: _Ridge) -> None:
    """``mu H_qq`` and ``mu H_qs Y_s`` from inner products (n, n) and labels (n_s,).

    With G the inner products about the mean of all rows and r the mean of its diagonal, ``H = I - r (G + r I)^-1``.
    """
    inverse, hat, _, by_labels = s
    n, n_support = len(gram), len(labels)
    whole = 0.0
    for i in range(n):
        total = 0.0
        for j in range(n):
            total += gram[i, j]
        row[i] = np.float32(total / n)
        whole += total / n
    mean = np.float32(whole / n)
    trace = 0.0
    for i in range(n):
        for j in range(n):
            inverse[i, j] = gram[i, j] - row[i] - row[j] + mean
        trace += inverse[i, i]
    penalty = np.float32(max(trace / n, 1e-30))
    for i in range(n):
        inverse[i, i] += penalty
    inverse[:] = np.linalg.inv(inverse)
    scale = np.float32(mu) * penalty
    for q in range(n - n_support):
        for p in range(n - n_support):
            hat[q, p] = -scale * inverse[n_support + q, n_support + p]
        hat[q, q] += np.float32(mu)
        for i in range(n_support):
            by_labels[q, labels[i]] -= scale * inverse[n_support + q, i]


@part_kernel
def _find_absent(
    gram: Floats, labels: Ints, counts: Ints, spread: float, known: AbsenceConstants, s: _Absence, bias: Floats
) -> _Price:
    """``bias <- h`` (C,), and gives eta and s; eta 0, and the bias as it was, where no class seems to be absent.

    As :func:`laplacianshot.inference.clues.absent_classes` has them; spread is the mean squared distance of two
    queries.
    """
    nearest, second, ranks, by_class = s
    n, n_support, n_classes = len(gram), len(labels), len(bias)
    n_query = n - n_support
    if n_classes < known.min_classes or n_support < known.min_labels or n_query < 2:
        return _Price(0.0, 1.0)
    nearest[:] = np.inf
    second[:] = np.inf
    for q in range(n_support, n):
        row = gram[q]
        square = row[q]
        own = nearest[q]
        for i in range(n_support):
            second[i] = min(second[i], max(nearest[i], square - TWO * row[i]))
        for i in range(n):
            nearest[i] = min(nearest[i], square - TWO * row[i])
        # A query is not its own neighbor.
        nearest[q] = own
    for i in range(n_support):
        second[i] = max(second[i] + gram[i, i], ZERO)
    for i in range(n):
        nearest[i] = max(nearest[i] + gram[i, i], ZERO)
    by_class[:] = 0
    equal = np.float32(known.close * spread)
    left_out = min(known.most_left_out, n_classes / n_query)
    for i in range(n_support):
        first, next_one = nearest[i] - equal, second[i] - equal
        below = 0
        below_next = 0
        for q in range(n_support, n):
            below += nearest[q] < first
            below_next += nearest[q] < next_one
        ranks[i] = ((1 - left_out) * below + left_out * below_next) / n_query
        by_class[labels[i]] += ranks[i]
    mean = 0.0
    for c in range(n_classes):
        mean += by_class[c] / counts[c]
    mean /= n_classes
    chance = known.chance / math.sqrt(12 * n_support)
    excess = mean - 0.5
    share = min(known.most, 2 * (excess - chance**2 / excess)) if excess > chance else 0.0
    if share <= 0:
        return _Price(0.0, 1.0)
    by_class[:] = 0
    for i in range(n_support):
        rank = max(ranks[i], known.least_rank)
        by_class[labels[i]] += math.log(known.power) + (known.power - 1) * math.log(rank)
    for c in range(n_classes):
        odds = math.log((1 - share) / share) - by_class[c] / math.sqrt(counts[c])
        log_presence = min(odds, 0.0) - math.log1p(math.exp(-abs(odds)))
        bias[c] = np.float32(known.weight * share * max(log_presence, known.least_log))
    return _Price(known.push * share**2 / (share + known.fade), known.small / ((1 - share) * n_classes))


@part_kernel
def _descend(
    b: int,
    place: int,
    tau: float,
    fixed_cost: float,
    constants: DefaultConstants,
    price: _Price,
    tol: float,
    s: JointScratch,
    out: BatchSolution,
) -> float:
    """M and Y steps of one task from the assignments in ``s.y``, until F changes by less than ``tol`` of itself.

    ``fixed_cost`` is what no step changes, the price of a class that is used is the task's own. Gives F without the
    cost of the shares.
    """
    y, new_y, p, field = s.y, s.new_y, s.rounds.p, s.rounds.field
    indptr, indices, weights = s.graph.indptr, s.graph.indices, s.graph.weights
    hat, scores = s.ridge.hat, s.ridge.scores
    found, iterations, converged, assignments, objective = out
    n_query, n_classes = y.shape
    done = 0
    recorded = 0
    smooth = 0.0
    value = 0.0
    balanced = 0.0
    converged[b, place] = 0
    if objective.shape[0] > 0:
        # An earlier stage may have been longer.
        objective[b, place] = np.nan
    while True:
        lam = constants.start_lam if done < constants.start_rounds else constants.lam
        graph = np.float32(lam)
        if constants.mu > 0:
            np.dot(hat, y, scores)
        # field = lam W Y + mu H Y among the queries.
        pairwise = 0.0
        for q in range(n_query):
            field_q = field[q]
            field_q[:] = ZERO
            for i in range(indptr[q], indptr[q + 1]):
                neighbor = y[indices[i]]
                weight = weights[i]
                for c in range(n_classes):
                    field_q[c] += weight * neighbor[c]
            for c in range(n_classes):
                field_q[c] *= graph
                if constants.mu > 0:
                    field_q[c] += scores[q, c]
                pairwise += y[q, c] * field_q[c]
        if done > constants.start_rounds:
            before = value
            value = smooth - pairwise / 2
            # A trial may have more rounds than a user allows the last descent, whose values are kept.
            if objective.shape[0] > 0 and recorded < objective.shape[2]:
                objective[b, place, recorded] = value
            recorded += 1
            if recorded > 1 and abs(value - before) < tol * abs(before):
                converged[b, place] = 1
            if converged[b, place] or done == constants.max_rounds:
                break
        prior_cost = _m_step(tau, y, s.prior, s.rounds)
        g = math.inf if math.isinf(constants.gamma) else balance(p, constants.gamma, constants.delta)
        energy = _y_step(lam, g, price, new_y, s)
        smooth = energy + fixed_cost + tau * prior_cost
        balanced = 0.0
        if math.isfinite(g):
            balanced = n_query * balance_cost(p, constants.gamma, constants.delta, price.eta, price.small)
        smooth += balanced
        y, new_y = new_y, y
        done += 1
    iterations[b, place] = recorded
    if done % 2 == 1:
        s.y[:] = y
    for q in range(n_query):
        choice = 0
        for c in range(1, n_classes):
            if y[q, c] > y[q, choice]:
                choice = c
        found[b, place, q] = choice
        if place == 0 and assignments.shape[0] > 0:
            for c in range(n_classes):
                assignments[b, q, c] = y[q, c]
    return value - balanced


@inlined_kernel
def _start(unary: Floats, tau: float, equal: bool, s: JointScratch) -> None:
    """First assignments, with equal shares where these are demanded."""
    _first_assignments(unary, tau, s.y, s.rounds)
    if equal:
        s.equal.potentials[:] = 0
        _equalize(s.y, s.rounds, s.equal)


@inlined_kernel
def _solve_episode(
    b: int,
    place: int,
    gram: Floats,
    labels: Ints,
    tau: float,
    fixed_cost: float,
    stages: Stages,
    price: _Price,
    tol: float,
    s: JointScratch,
    out: BatchSolution,
) -> None:
    """The stages of :func:`laplacianshot.inference.episode.episode_optimize` for one task."""
    known = math.isinf(stages.free.delta)
    equal = known
    if known and stages.weight == 0:
        _start(s.unary, tau, True, s)
    else:
        gain = 0.0
        if not known:
            _start(s.unary, tau, False, s)
            gain = _descend(b, place, tau, tau * fixed_cost, stages.free, price, tol, s, out)
            s.kept[0] = s.y
            s.kept[1] = s.rounds.logs
        _start(s.unary, tau, True, s)
        dearer = _descend(b, place, tau, tau * fixed_cost, stages.equal, price, tol, s, out) - gain
        equal = known or dearer < stages.price
        if not equal:
            s.y[:] = s.kept[0]
            s.rounds.logs[:] = s.kept[1]
            for c in range(s.y.shape[1]):
                s.rounds.p[c] = s.y[:, c].mean()
    if stages.weight > 0:
        _fill_ridge(gram, labels, stages.last_free.mu, s.row, s.ridge)
    rest = (1 - stages.weight) * tau
    last = stages.last_equal if equal else stages.last_free
    _descend(b, place, rest, rest * fixed_cost, last, price, tol, s, out)


@kernel
def joint_tasks(
    grams: Floats,
    labels: Ints,
    ties: Ties,
    origin_on_support: bool,
    constants: DefaultConstants,
    stages: Stages,
    episode: bool,
    absence: AbsenceConstants,
    min_confidence: float,
    tol: float,
    place: int,
    s: JointScratch,
    out: BatchSolution,
) -> None:
    """The default recipe for every task: grams (B, n, n), labels (B, n_s).

    ``origin_on_support``: the origin o is the mean of the support, else zero. ``episode``: tasks are few-shot tasks,
    solved in ``stages``. ``place`` is the number of this weight of the graph in ``out``. Classes may be found absent
    unless delta is infinite.
    """
    n, n_support = grams.shape[1], labels.shape[1]
    query_gram = s.rounds.query_gram
    for b in range(grams.shape[0]):
        gram = grams[b]
        if s.graph.neighbors.shape[1] > 0:
            gram_neighbors(gram, _FIRST, b, ties, s.row, s.graph.neighbors)
        _normalized_edges(labels[b], constants.e, s.graph)
        fixed_cost = 0.0
        for q in range(n - n_support):
            fixed_cost += gram[n_support + q, n_support + q]
            for p in range(n - n_support):
                query_gram[q, p] = gram[n_support + q, n_support + p]
        fixed_cost += _fill_prior(gram, labels[b], origin_on_support, constants.beta, constants.kappa, s.prior)
        fill_unary(gram, n_support, s.prior.products, s.prior.norms, s.unary)
        spread = mean_query_spread(gram, n_support)
        s.rounds.bias[:] = ZERO
        s.ridge.by_labels[:] = ZERO
        price = _Price(0.0, 1.0)
        if math.isfinite(constants.delta):
            price = _find_absent(gram, labels[b], s.prior.counts, spread, absence, s.absence, s.rounds.bias)
        if spread == 0:
            # With one query there is no pair of queries: take all rows.
            spread = mean_query_spread(gram, _FIRST)
        tau = choose_tau(s.unary, spread, constants.pair_spread, min_confidence, s.gaps)
        if episode:
            _solve_episode(b, place, gram, labels[b], tau, fixed_cost, stages, price, tol, s, out)
        else:
            _start(s.unary, tau, False, s)
            _descend(b, place, tau, tau * fixed_cost, constants, price, tol, s, out)
