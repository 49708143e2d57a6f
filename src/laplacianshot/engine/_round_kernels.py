"""The Y step on a graph of nodes, all entries of an assignment kept.

For each query q, with edges to queries ``b_q = sum_p w_qp y_p`` and to the support
``s_qc = e sum_{s of class c} w_qs``::

    cost_qc = prototype_cost_c - twice_tau x_q.m_c - lam s_qc
    y_q ~ exp{ scale [ lam b_q - cost_q - share_cost + keep log y_q ] },    scale = 1 / (1 + keep)

``products`` holds ``x_q.m_c`` of the queries ``start..stop``. To ``sums`` are added ``sum y.b`` of the current
assignments and ``sum y.(log y + cost)`` of the updated ones.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from laplacianshot.engine.step_kernels import y_row
from laplacianshot.runtime.compilation import kernel
from laplacianshot.runtime.kernel_parts import gather_rows, support_edges
from laplacianshot.runtime.types import Floats, Ints


@kernel
def dense_rows(
    products: Floats,
    indptr: Ints,
    indices: Ints,
    weights: Floats,
    support_labels: Ints,
    support_edge: float,
    twice_tau: float,
    lam: float,
    keep: float,
    scale: float,
    prototype_cost: Floats,
    share_cost: Floats,
    log_assignments: Floats,
    current: Floats,
    certain: Ints,
    mixed: bool,
    updated: Floats,
    new_certain: Ints,
    sums: Floats,
    start: int,
    stop: int,
) -> None:
    """The Y step for queries ``start..stop`` with all C entries of each; ``log_assignments`` is updated in place.

    ``certain`` (N,) is the class of a row that has all of its mass there, to the last digit, and C for other rows.
    Where many are, ``mixed``, one entry of each of those is read, not C. ``sums`` is (3,). Every scalar has the type of
    the arrays.
    """
    n_query, n_classes = current.shape
    field = np.empty(n_classes, dtype=products.dtype)
    cost = np.empty(n_classes, dtype=products.dtype)
    widest = 0
    for q in range(start, stop):
        widest = max(widest, indptr[q + 1] - indptr[q])
    others = np.empty(widest + 1, dtype=indices.dtype)
    other_weights = np.empty(widest + 1, dtype=weights.dtype)
    sides = np.zeros((4, n_classes + 1), dtype=products.dtype)
    zero: Any = products.dtype.type(0)
    pairwise = 0.0
    smooth = 0.0
    for q in range(start, stop):
        first, last = indptr[q], indptr[q + 1]
        split = support_edges(indices, first, last, n_query)
        if mixed:
            n_others = 0
            # No branch: where an edge leads cannot be foreseen. Sums of four edges in turn do not wait for one another.
            for e in range(first, split):
                p = indices[e]
                others[n_others] = p
                other_weights[n_others] = weights[e]
                n_others += int(certain[p] == n_classes)
                sides[e & 3, certain[p]] += weights[e]
            gather_rows(current, others[:n_others], other_weights[:n_others], field)
            for c in range(n_classes):
                field[c] += (sides[0, c] + sides[1, c]) + (sides[2, c] + sides[3, c])
            sides[:] = 0
        else:
            gather_rows(current, indices[first:split], weights[first:split], field)
        row = current[q]
        target = updated[q]
        logs = log_assignments[q]
        product = products[q - start]
        inner = zero
        for c in range(n_classes):
            inner += row[c] * field[c]
            cost[c] = prototype_cost[c] - twice_tau * product[c]
        pairwise += inner
        for e in range(split, last):
            cost[support_labels[indices[e] - n_query]] -= lam * support_edge * weights[e]
        for c in range(n_classes):
            logs[c] = scale * (lam * field[c] - cost[c] - share_cost[c] + keep * logs[c])
        inner, top = y_row(logs, cost, target)
        smooth += inner
        new_certain[q] = only_class(target) if top == 1 else n_classes
    sums[0] += pairwise
    sums[1] += smooth


@kernel
def only_class(assignment: Floats) -> int:
    """The class of the entry (C,) that is one."""
    c = 0
    while assignment[c] < 1:
        c += 1
    return c


@kernel
def add_certain(certain: Ints, rows: Floats, features: Floats, share: Floats) -> int:
    """Add x_q to features (C, D) and one to share (C,), at the class of each certain row: how many there are.

    ``certain`` (m,) is of the rows (m, D), C for those that are not.
    """
    done = 0
    for i in range(rows.shape[0]):
        if certain[i] == features.shape[0]:
            continue
        done += 1
        share[certain[i]] += 1
        target = features[certain[i]]
        x = rows[i]
        for d in range(x.shape[0]):
            target[d] += x[d]
    return done
