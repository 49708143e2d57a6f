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

from laplacianshot.inference._compile import kernel
from laplacianshot.inference._kernel_parts import gather_rows, settle, support_edges
from laplacianshot.inference._types import Floats, Ints

# Entries that a sum of assignments, in float32, does not notice.
_NEGLIGIBLE = np.float32(2.0**-30)


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
    few: Floats,
    counts: Ints,
    updated: Floats,
    new_few: Floats,
    new_counts: Ints,
    sums: Floats,
    start: int,
    stop: int,
) -> None:
    """The Y step for queries ``start..stop`` with all C entries of each; ``log_assignments`` is updated in place.

    ``few`` (N, 2 r) holds value and class of the entries of a row that are not negligible, ``counts`` (N,) how many
    there are, -1 where they are more than r: of most neighbours one entry is read, not C. ``sums`` is (3,). Every
    scalar has the type of the arrays.
    """
    n_query, n_classes = current.shape
    field = np.empty(n_classes, dtype=products.dtype)
    cost = np.empty(n_classes, dtype=products.dtype)
    widest = 0
    for q in range(start, stop):
        widest = max(widest, indptr[q + 1] - indptr[q])
    broad = np.empty(widest, dtype=indices.dtype)
    broad_weights = np.empty(widest, dtype=weights.dtype)
    zero: Any = products.dtype.type(0)
    pairwise = 0.0
    smooth = 0.0
    for q in range(start, stop):
        first, last = indptr[q], indptr[q + 1]
        split = support_edges(indices, first, last, n_query)
        n_broad = 0
        for e in range(first, split):
            if counts[indices[e]] < 0:
                broad[n_broad] = indices[e]
                broad_weights[n_broad] = weights[e]
                n_broad += 1
        gather_rows(current, broad[:n_broad], broad_weights[:n_broad], field)
        # Most neighbours are of the row's own class: what they give it waits in a register, not in memory.
        own: Any = np.int64(few[q, 1]) if counts[q] > 0 else np.int64(0)
        own_field = zero
        for e in range(first, split):
            entries = few[indices[e]]
            weight = weights[e]
            for j in range(counts[indices[e]]):
                k = np.int64(entries[2 * j + 1])
                if k == own:
                    own_field += weight * entries[2 * j]
                else:
                    field[k] += weight * entries[2 * j]
        field[own] += own_field
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
        inner, _ = settle(logs, cost, target)
        smooth += inner
        new_counts[q] = keep_few(target, new_few[q])
    sums[0] += pairwise
    sums[1] += smooth


@kernel
def keep_few(assignment: Floats, entries: Floats) -> int:
    """Value and class of the entries (C,) that are not negligible, into (2 r,): how many, -1 if more than r."""
    room = entries.shape[0] // 2
    largest_at = 0
    count = 0
    for c in range(assignment.shape[0]):
        if assignment[c] > _NEGLIGIBLE:
            if count == room:
                return -1
            entries[2 * count] = assignment[c]
            entries[2 * count + 1] = c
            if assignment[c] > entries[2 * largest_at]:
                largest_at = count
            count += 1
    # The largest first.
    for side in range(2):
        entries[side], entries[2 * largest_at + side] = entries[2 * largest_at + side], entries[side]
    return count


@kernel
def add_few_features(
    few: Floats, counts: Ints, rows: Floats, features: Floats, share: Floats, start: int, stop: int
) -> int:
    """Add ``y_qc x_q`` to features (C, D) and ``y_qc`` to share (C,), over queries of few entries: how many there are.

    Of the queries ``start..stop``, whose rows are (m, D).
    """
    done = 0
    for q in range(start, stop):
        if counts[q] < 0:
            continue
        done += 1
        x = rows[q - start]
        for j in range(counts[q]):
            y = few[q, 2 * j]
            c = np.int64(few[q, 2 * j + 1])
            share[c] += y
            target = features[c]
            for d in range(x.shape[0]):
                target[d] += y * x[d]
    return done
