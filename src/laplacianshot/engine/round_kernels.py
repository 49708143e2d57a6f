"""The Y step over rows of a graph of nodes, all C entries of an assignment kept.

A node is free or fixed: a fixed one has ``e`` times its class in place of an assignment, for its neighbors to read. For
a free node q, with ``b_q = sum_p w_qp y_p`` over nodes of both kinds::

    cost_qc = offset_c - d_c.x_q                     (up to what depends on q alone)
    y_q ~ exp{ scale [ lam b_q - cost_q - d + h log y_q ] },    scale = 1 / (1 + h)

with directions and offsets of :class:`~laplacianshot.inference.joint.Clues`; without any they are ``2 tau m_c`` and
``tau |m_c|^2``.

Two sums over these rows make F: ``pairwise``, of the current assignments, ``sum y_q.b_q`` over free q plus the same
edges seen from the fixed nodes, so that edges between free nodes and edges to fixed ones all count twice; ``smooth``,
of the updated assignments, ``sum y_q.(log y_q + cost_q)``.

:func:`bound_rows` is the update of the paper's own recipe.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from laplacianshot.engine.step_kernels import step_logit, y_row
from laplacianshot.inference.bound import StepWeights
from laplacianshot.neighbors.accel._vector_kernels import add_class_sums, multiply_rows
from laplacianshot.runtime.compilation import kernel
from laplacianshot.runtime.kernel_parts import exp_nonpositive, gather_rows, largest
from laplacianshot.runtime.types import Floats, Ints


class Edges(NamedTuple):
    """Rows of W in CSR form, and what is fixed."""

    indptr: Ints
    indices: Ints
    weights: Floats
    fixed: Ints  # class of every node, -1 where it is free


class Step(NamedTuple):
    """One Y step; every number has the type of the arrays."""

    lam: Any
    hold: Any  # h
    scale: Any
    offsets: Floats
    slopes: Floats  # d, of the balance


class Dense(NamedTuple):
    """Assignments of all nodes and of the rows that are updated, before and after a step.

    ``certain`` (n,) is the class of a row that has all of its mass there, to the last digit, and C for others.
    """

    current: Floats
    certain: Ints
    updated: Floats
    new_certain: Ints
    logs: Floats


@kernel
def dense_rows(
    products: Floats, edges: Edges, step: Step, Y: Dense, mixed: bool, sums: Floats, start: int, stop: int
) -> None:
    """The Y step for rows ``start..stop``, whose products ``d_c.x_q`` are given; adds pairwise and smooth to ``sums``.

    Where ``mixed``, of neighbors that are certain one entry is read, not C. Fixed rows become zero, for sums by class
    to pass over them, until the step is accepted.
    """
    n_classes = products.shape[1]
    b = np.zeros(n_classes, dtype=products.dtype)
    cost = np.empty(n_classes, dtype=products.dtype)
    widest = 0
    if mixed:
        for q in range(start, stop):
            widest = max(widest, edges.indptr[q + 1] - edges.indptr[q])
    others = np.empty(widest + 1, dtype=edges.indices.dtype)
    other_weights = np.empty(widest + 1, dtype=edges.weights.dtype)
    sides = np.zeros((4, n_classes + 1), dtype=products.dtype)
    zero: Any = products.dtype.type(0)
    pairwise = 0.0
    smooth = 0.0
    for q in range(start, stop):
        if edges.fixed[q] >= 0:
            pairwise += fixed_pairs(edges, Y.current, q)
            Y.updated[q] = zero
            Y.new_certain[q] = n_classes
            continue
        first, last = edges.indptr[q], edges.indptr[q + 1]
        if step.lam == zero:
            pass
        elif mixed:
            n_others = 0
            # No branch: where an edge leads cannot be foreseen. Sums of four edges in turn do not wait for one another.
            for e in range(first, last):
                p = edges.indices[e]
                others[n_others] = p
                other_weights[n_others] = edges.weights[e]
                n_others += int(Y.certain[p] == n_classes)
                sides[e & 3, Y.certain[p]] += edges.weights[e]
            gather_rows(Y.current, others[:n_others], other_weights[:n_others], b)
            for c in range(n_classes):
                b[c] += (sides[0, c] + sides[1, c]) + (sides[2, c] + sides[3, c])
            sides[:] = 0
        else:
            gather_rows(Y.current, edges.indices[first:last], edges.weights[first:last], b)
        y, logs, product = Y.current[q], Y.logs[q], products[q - start]
        inner = zero
        for c in range(n_classes):
            inner += y[c] * b[c]
            cost[c] = step.offsets[c] - product[c]
            logs[c] = step_logit(step.lam * b[c], cost[c], step.slopes[c], step.hold, logs[c], step.scale)
        pairwise += inner
        target = Y.updated[q]
        inner, top = y_row(logs, cost, target)
        smooth += inner
        certain = n_classes
        if top == 1:
            certain = 0
            while target[certain] < 1:
                certain += 1
        Y.new_certain[q] = certain
    sums[0] += pairwise
    sums[1] += smooth


@kernel
def narrow_rows(
    rows: Floats,
    directions: Floats,
    known: Floats,
    edges: Edges,
    step: Step,
    Y: Dense,
    sums: Floats,
    features: Floats,
    shares: Floats,
    tile: int,
    start: int,
) -> None:
    """:func:`dense_rows` for rows (m, D) from ``start`` on with few directions (C, D), at least ``tile`` at a time.

    What is ``known`` of each row of the set besides, (n, C), is added to the products; none if it has no rows.
    To ``features`` (C, D) and ``shares`` (C,) are added the rows, and their number, by the class that they are assigned
    to. Only where :func:`laplacianshot.neighbors.accel._vector_kernels.applies`.
    """
    m = len(rows)
    products = np.empty((2 * tile, len(directions)), dtype=rows.dtype)
    count = max(1, m // tile)
    for visit in range(count):
        first, last = m * visit // count, m * (visit + 1) // count
        free = 0
        for q in range(first, last):
            free += int(edges.fixed[start + q] < 0)
        if free > 0:
            multiply_rows(rows[first:last], directions, products[: last - first])
            if len(known) > 0:
                products[: last - first] += known[start + first : start + last]
        dense_rows(products, edges, step, Y, False, sums, start + first, start + last)
        if free > 0:
            add_class_sums(Y.updated[start + first : start + last], rows[first:last], features)
        for q in range(start + first, start + last):
            for c in range(len(shares)):
                shares[c] += Y.updated[q, c]


@kernel
def pairwise_rows(edges: Edges, current: Floats, sums: Floats, start: int, stop: int) -> None:
    """Add the pairwise sum of the rows ``start..stop`` to ``sums[0]``."""
    n_classes = current.shape[1]
    b = np.empty(n_classes, dtype=current.dtype)
    pairwise = 0.0
    for q in range(start, stop):
        if edges.fixed[q] >= 0:
            pairwise += fixed_pairs(edges, current, q)
            continue
        first, last = edges.indptr[q], edges.indptr[q + 1]
        gather_rows(current, edges.indices[first:last], edges.weights[first:last], b)
        y = current[q]
        inner: Any = current.dtype.type(0)
        for c in range(n_classes):
            inner += y[c] * b[c]
        pairwise += inner
    sums[0] += pairwise


@kernel
def fixed_pairs(edges: Edges, current: Floats, q: int) -> Any:
    """``e sum_p w_qp y_pc`` over the free neighbors p of a node q that is fixed to class c."""
    c = edges.fixed[q]
    total = current.dtype.type(0)
    for e in range(edges.indptr[q], edges.indptr[q + 1]):
        p = edges.indices[e]
        if edges.fixed[p] < 0:
            total += edges.weights[e] * current[p, c]
    return total * current[q, c]


@kernel
def add_certain(certain: Ints, rows: Floats, features: Floats) -> None:
    """Add x_q to features (C, D) at the class of each certain row.

    ``certain`` (m,) is of the rows (m, D), C for those that are not.
    """
    for i in range(rows.shape[0]):
        if certain[i] == features.shape[0]:
            continue
        target = features[certain[i]]
        x = rows[i]
        for d in range(x.shape[0]):
            target[d] += x[d]


@kernel
def bound_rows(
    unary: Floats,
    indptr: Ints,
    indices: Ints,
    weights: Floats,
    step: StepWeights,
    current: Floats,
    updated: Floats,
    V: Floats,
    sums: Floats,
    start: int,
    stop: int,
) -> None:
    """Update rows ``start..stop`` of V (N, C), in place, and of the assignments.

    With ``b_q = sum_p w_qp y_p``: ``v_q <- (lam b_q + r v_q) / (1 + r)``, then ``y_q <- softmax(-a_q + v_q)``.
    ``sums`` (3,) receives, over these rows, ``pairwise``, ``smooth`` and ``surrogate`` of
    :class:`laplacianshot.inference.bound.BoundUpdate`.
    """
    lam, r, scale = step.lam, step.r, 1.0 / (1.0 + step.r)
    n_classes = unary.shape[1]
    b, v = np.empty(n_classes, dtype=np.float64), np.empty(n_classes, dtype=np.float64)
    logits = np.empty(n_classes, dtype=np.float64)
    pairwise = 0.0
    smooth = 0.0
    surrogate = 0.0
    for q in range(start, stop):
        gather_rows(current, indices[indptr[q] : indptr[q + 1]], weights[indptr[q] : indptr[q + 1]], b)
        row = current[q]
        target = updated[q]
        a = unary[q]
        for c in range(n_classes):
            pairwise += row[c] * b[c]
            b[c] *= lam
            v[c] = (b[c] + r * V[q, c]) * scale
            V[q, c] = v[c]
            logits[c] = v[c] - a[c]
        top = largest(logits)
        total = 0.0
        inner = 0.0
        held = 0.0
        for c in range(n_classes):
            logits[c] = exp_nonpositive(logits[c] - top)
            total += logits[c]
            inner += logits[c] * v[c]
            held += logits[c] * (v[c] - b[c])
        inverse = 1.0 / total
        moved = 0.0
        for c in range(n_classes):
            target[c] = logits[c] * inverse
            moved += (target[c] - row[c]) ** 2
        log_partition = top + np.log(total)
        smooth += inner * inverse - log_partition
        surrogate += held * inverse + lam * step.delta / 2 * moved - log_partition
    sums[0] = pairwise
    sums[1] = smooth
    sums[2] = surrogate
