"""Kernels of the updates: graph product, softmax and objective in one pass over CSR rows."""

from __future__ import annotations

from typing import Any

import numpy as np

from laplacianshot.engine.step_kernels import y_row
from laplacianshot.neighbors.accel._narrow_kernels import add_class_sums, multiply_rows
from laplacianshot.runtime.compilation import kernel
from laplacianshot.runtime.kernel_parts import exp_nonpositive, gather_rows, largest
from laplacianshot.runtime.types import Floats, Ints


@kernel
def bound_rows(
    unary: Floats,
    indptr: Ints,
    indices: Ints,
    weights: Floats,
    lam: float,
    current: Floats,
    updated: Floats,
    sums: Floats,
    start: int,
    stop: int,
) -> None:
    """Update rows ``start..stop``: ``y_q <- softmax(-a_q + lam b_q)`` with ``b_q = sum_p w_qp y_p``.

    ``sums`` (3,) receives, over these rows, ``sum y.b`` of the current assignments and, of the updated ones,
    ``sum y.(log y + a)`` and ``sum y.(log y + a - lam b)``, which is minus the sum of their log-partitions.
    """
    n_classes = unary.shape[1]
    field = np.empty(n_classes, dtype=np.float64)
    logits = np.empty(n_classes, dtype=np.float64)
    pairwise = 0.0
    smooth = 0.0
    surrogate = 0.0
    for q in range(start, stop):
        gather_rows(current, indices[indptr[q] : indptr[q + 1]], weights[indptr[q] : indptr[q + 1]], field)
        row = current[q]
        target = updated[q]
        a = unary[q]
        for c in range(n_classes):
            pairwise += row[c] * field[c]
            field[c] *= lam
            logits[c] = field[c] - a[c]
        top = largest(logits)
        total = 0.0
        pull = 0.0
        for c in range(n_classes):
            logits[c] = exp_nonpositive(logits[c] - top)
            total += logits[c]
            pull += logits[c] * field[c]
        inverse = 1.0 / total
        for c in range(n_classes):
            target[c] = logits[c] * inverse
        log_partition = top + np.log(total)
        smooth += pull * inverse - log_partition
        surrogate -= log_partition
    sums[0] = pairwise
    sums[1] = smooth
    sums[2] = surrogate


@kernel
def joint_rows(
    products: Floats,
    support_pull: Floats,
    indptr: Ints,
    indices: Ints,
    weights: Floats,
    twice_tau: float,
    lam: float,
    keep: float,
    scale: float,
    prototype_cost: Floats,
    share_cost: Floats,
    log_assignments: Floats,
    current: Floats,
    updated: Floats,
    sums: Floats,
    start: int,
    stop: int,
) -> None:
    """The Y step for queries ``start..stop``, which ``products`` has the rows of, with the sums that F needs.

    Up to terms that depend on the query alone, with ``b_q = sum_p w_qp y_p`` and the support's pull ``s_q``::

        cost_qc = prototype_cost_c - twice_tau x_q.m_c - lam s_qc
        y_q ~ exp{ scale [ lam b_q - cost_q - share_cost + keep log y_q ] }

    ``log_assignments`` is brought up to date in place. To ``sums`` (2,) are added ``sum y.b`` of the current
    assignments and ``sum y.(log y + cost)`` of the updated ones. Every scalar has the type of the arrays.
    """
    n_classes = products.shape[1]
    field = np.empty(n_classes, dtype=products.dtype)
    cost = np.empty(n_classes, dtype=products.dtype)
    zero: Any = products.dtype.type(0)
    pairwise = 0.0
    smooth = 0.0
    for q in range(start, stop):
        gather_rows(current, indices[indptr[q] : indptr[q + 1]], weights[indptr[q] : indptr[q + 1]], field)
        row = current[q]
        logs = log_assignments[q]
        pull = support_pull[q]
        product = products[q - start]
        inner = zero
        for c in range(n_classes):
            inner += row[c] * field[c]
            cost[c] = prototype_cost[c] - twice_tau * product[c] - lam * pull[c]
            logs[c] = scale * (lam * field[c] - cost[c] - share_cost[c] + keep * logs[c])
        pairwise += inner
        inner, _ = y_row(logs, cost, updated[q])
        smooth += inner
    sums[0] += pairwise
    sums[1] += smooth


@kernel
def joint_visits(
    query: Floats,
    prototypes: Floats,
    support_pull: Floats,
    indptr: Ints,
    indices: Ints,
    weights: Floats,
    twice_tau: float,
    lam: float,
    keep: float,
    scale: float,
    prototype_cost: Floats,
    share_cost: Floats,
    log_assignments: Floats,
    current: Floats,
    updated: Floats,
    sums: Floats,
    class_features: Floats,
    share: Floats,
    rows: int,
    start: int,
    stop: int,
) -> None:
    """:func:`joint_rows` for queries ``start..stop`` of (N, D), at least ``rows`` at a time, for prototypes (C, D).

    ``class_features`` (C, D) and ``share`` (C,) receive the sums of the queries, and of their number, by the class that
    they are assigned to. Only where :func:`laplacianshot.neighbors.accel._narrow_kernels.applies`.
    """
    products = np.empty((2 * rows, len(prototypes)), dtype=query.dtype)
    class_features[:] = 0
    share[:] = 0
    count = max(1, (stop - start) // rows)
    for visit in range(count):
        first, last = start + (stop - start) * visit // count, start + (stop - start) * (visit + 1) // count
        multiply_rows(query[first:last], prototypes, products[: last - first])
        joint_rows(
            products, support_pull, indptr, indices, weights, twice_tau, lam, keep, scale, prototype_cost, share_cost,
            log_assignments, current, updated, sums, first, last,
        )  # fmt: skip
        add_class_sums(updated[first:last], query[first:last], class_features)
        for q in range(first, last):
            for c in range(len(share)):
                share[c] += updated[q, c]


@kernel
def sum_rows(query: Floats, assignments: Floats, class_features: Floats, share: Floats, start: int, stop: int) -> None:
    """The sums of :func:`joint_visits` alone, by these assignments (N, C)."""
    class_features[:] = 0
    share[:] = 0
    add_class_sums(assignments[start:stop], query[start:stop], class_features)
    for q in range(start, stop):
        for c in range(len(share)):
            share[c] += assignments[q, c]


@kernel
def pairwise_rows(
    current: Floats, indptr: Ints, indices: Ints, weights: Floats, sums: Floats, start: int, stop: int
) -> None:
    """Add ``sum y_q.b_q`` with ``b_q = sum_p w_qp y_p`` over queries ``start..stop`` to ``sums[0]``."""
    n_classes = current.shape[1]
    field = np.empty(n_classes, dtype=current.dtype)
    pairwise = 0.0
    for q in range(start, stop):
        gather_rows(current, indices[indptr[q] : indptr[q + 1]], weights[indptr[q] : indptr[q + 1]], field)
        row = current[q]
        inner: Any = current.dtype.type(0)
        for c in range(n_classes):
            inner += row[c] * field[c]
        pairwise += inner
    sums[0] += pairwise


@kernel
def confidence_rows(unary: Floats, tau: float, sums: Floats, start: int, stop: int) -> None:
    """``sum_q max_c softmax(-tau a_q)`` over rows ``start..stop``, into ``sums`` (1,)."""
    n_classes = unary.shape[1]
    logits = np.empty(n_classes, dtype=unary.dtype)
    zero: Any = unary.dtype.type(0)
    total = 0.0
    for q in range(start, stop):
        a = unary[q]
        for c in range(n_classes):
            logits[c] = -tau * a[c]
        top = largest(logits)
        partition = zero
        for c in range(n_classes):
            partition += exp_nonpositive(logits[c] - top)
        total += 1.0 / partition
    sums[0] = total
