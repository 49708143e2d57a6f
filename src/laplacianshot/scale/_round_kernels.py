"""Kernels of the Y step on a graph of nodes: dense assignments, and the top r of each row.

Both take for each query q, with edges to queries ``b_q = sum_p w_qp y_p`` and to the support
``s_qc = e sum_{s of class c} w_qs``::

    cost_qc = prototype_cost_c - twice_tau x_q.m_c - lam s_qc
    y_q ~ exp{ scale [ lam b_q - cost_q - share_cost + keep log y_q ] },    scale = 1 / (1 + keep)

``products`` holds ``x_q.m_c`` of the queries ``start..stop``. To ``sums`` are added ``sum y.b`` of the current
assignments and ``sum y.(log y + cost)`` of the updated ones.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from laplacianshot.inference._compile import kernel
from laplacianshot.inference._kernel_parts import exp_nonpositive, gather_rows, largest, replace_root
from laplacianshot.inference._types import Floats, Ints


@kernel
def _support_edges(indices: Ints, first: int, last: int, n_query: int) -> int:
    """Where the edges to the support begin: they are the last of a row."""
    split = last
    while split > first and indices[split - 1] >= n_query:
        split -= 1
    return split


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
    updated: Floats,
    sums: Floats,
    start: int,
    stop: int,
) -> None:
    """The Y step for queries ``start..stop`` with all C entries of each; ``log_assignments`` is updated in place.

    ``sums`` is (2,). Every scalar has the type of the arrays.
    """
    n_query, n_classes = current.shape
    field = np.empty(n_classes, dtype=products.dtype)
    cost = np.empty(n_classes, dtype=products.dtype)
    zero: Any = products.dtype.type(0)
    one: Any = products.dtype.type(1)
    pairwise = 0.0
    smooth = 0.0
    for q in range(start, stop):
        first, last = indptr[q], indptr[q + 1]
        split = _support_edges(indices, first, last, n_query)
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
        top = largest(logs)
        total = zero
        for c in range(n_classes):
            value = exp_nonpositive(logs[c] - top)
            target[c] = value
            total += value
        log_total = top + np.log(total)
        inverse = one / total
        inner = zero
        for c in range(n_classes):
            target[c] *= inverse
            logs[c] -= log_total
            inner += target[c] * (logs[c] + cost[c])
        smooth += inner
    sums[0] += pairwise
    sums[1] += smooth


@kernel
def first_top_rows(logits: Floats, classes: Ints, logs: Floats, values: Floats, sums: Floats, start: int) -> None:
    """The r largest entries of ``softmax(logits)`` for the queries from ``start`` on, and their share of one.

    To ``sums`` (3,) is added, last, what the entries left out would have had.
    """
    n_classes = logits.shape[1]
    r = classes.shape[1]
    keys = np.empty(r, dtype=np.float32)
    ids = np.empty(r, dtype=classes.dtype)
    for i in range(logits.shape[0]):
        row = logits[i]
        top = largest(row)
        total = 0.0
        for c in range(n_classes):
            total += exp_nonpositive(row[c] - top)
        sums[2] += _keep_top(row, top, total, keys, ids, classes[start + i], logs[start + i], values[start + i])


@kernel
def top_rows(
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
    classes: Ints,
    logs: Floats,
    values: Floats,
    new_classes: Ints,
    new_logs: Floats,
    new_values: Floats,
    sums: Floats,
    start: int,
    stop: int,
) -> None:
    """The Y step for queries ``start..stop`` of which only the r largest entries are known, (N, r), largest first.

    An entry that was not kept has no logarithm to remember. It takes the one it would have if nothing changed any more,
    ``log y_c = z_c - log sum exp z`` with ``z = lam b - cost - share_cost``, and so enters as soon as it is among the
    r largest. Entries that are left out are added up: ``sums`` (3,) has them last.
    """
    n_query, r = classes.shape
    n_classes = products.shape[1]
    field = np.zeros(n_classes, dtype=np.float32)
    cost = np.empty(n_classes, dtype=np.float32)
    logits = np.empty(n_classes, dtype=np.float32)
    keys = np.empty(r, dtype=np.float32)
    ids = np.empty(r, dtype=classes.dtype)
    zero = np.float32(0)
    for q in range(start, stop):
        first, last = indptr[q], indptr[q + 1]
        split = _support_edges(indices, first, last, n_query)
        field[:] = zero
        for e in range(first, split):
            p = indices[e]
            weight = weights[e]
            for j in range(r):
                if values[p, j] == zero:
                    break
                field[classes[p, j]] += weight * values[p, j]
        for j in range(r):
            sums[0] += values[q, j] * field[classes[q, j]]
        product = products[q - start]
        for c in range(n_classes):
            cost[c] = prototype_cost[c] - twice_tau * product[c]
        for e in range(split, last):
            cost[support_labels[indices[e] - n_query]] -= lam * support_edge * weights[e]
        for c in range(n_classes):
            logits[c] = lam * field[c] - cost[c] - share_cost[c]
        if keep > zero:
            top = largest(logits)
            total = 0.0
            for c in range(n_classes):
                total += exp_nonpositive(logits[c] - top)
            steady = keep * scale * np.float32(top + np.log(total))
            for j in range(r):
                if values[q, j] > zero:
                    c = classes[q, j]
                    # Below, steady is taken from every entry.
                    logits[c] = scale * (logits[c] + keep * logs[q, j]) + steady
            for c in range(n_classes):
                logits[c] -= steady
        top = largest(logits)
        total = 0.0
        for c in range(n_classes):
            total += exp_nonpositive(logits[c] - top)
        sums[2] += _keep_top(logits, top, total, keys, ids, new_classes[q], new_logs[q], new_values[q])
        for j in range(r):
            if new_values[q, j] > zero:
                sums[1] += new_values[q, j] * (new_logs[q, j] + cost[new_classes[q, j]])


@kernel
def _keep_top(
    logits: Floats, top: float, total: float, keys: Floats, ids: Ints, classes: Ints, logs: Floats, values: Floats
) -> float:
    """The r largest entries of a softmax, brought to sum one, largest first; gives the mass of the others.

    Entries below 1e-7 of the largest are not kept: their value is 0.
    """
    r = keys.shape[0]
    floor = np.float32(top - 16.0)
    # Heaps have their largest key at the root, so keys are turned round: the root is the least of those kept.
    for j in range(r):
        keys[j] = -floor
        ids[j] = 0
    for c in range(logits.shape[0]):
        if -logits[c] < keys[0]:
            replace_root(keys, ids, -logits[c], c)
    kept = 0.0
    for last in range(r - 1, -1, -1):
        key, index = keys[0], ids[0]
        if last > 0:
            replace_root(keys[:last], ids[:last], keys[last], ids[last])
        found = -key > floor
        gap: Any = np.float32(-key - top)
        values[last] = exp_nonpositive(gap) if found else np.float32(0)
        logs[last] = -key
        classes[last] = index
        kept += values[last]
    shift = np.float32(top + np.log(kept))
    for j in range(r):
        values[j] = np.float32(values[j] / kept)
        logs[j] -= shift
    return (total - kept) / total


@kernel
def add_top_features(
    classes: Ints, values: Floats, rows: Floats, features: Floats, share: Floats, start: int, stop: int
) -> None:
    """Add ``y_qc x_q`` to features (C, D) and ``y_qc`` to share (C,), over queries ``start..stop`` of rows (m, D)."""
    for q in range(start, stop):
        x = rows[q - start]
        for j in range(classes.shape[1]):
            y = values[q, j]
            if y == np.float32(0):
                break
            share[classes[q, j]] += y
            target = features[classes[q, j]]
            for d in range(x.shape[0]):
                target[d] += y * x[d]
