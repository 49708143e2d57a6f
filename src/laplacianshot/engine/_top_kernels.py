"""The Y step of ``_round_kernels.py`` where only the r largest entries of an assignment are kept."""

from __future__ import annotations

from typing import Any

import numpy as np

from laplacianshot.runtime.compilation import kernel
from laplacianshot.runtime.kernel_parts import exp_nonpositive, replace_root, sift, support_edges
from laplacianshot.runtime.types import Floats, Ints

# Entries that are e^-12 (6e-6) of the largest, or less, are not kept.
_DEPTH = 12.0
# Entries tested together: a loop without a branch, which the compiler vectorizes.
_LANE = 64


@kernel
def first_top_rows(logits: Floats, classes: Ints, logs: Floats, values: Floats, sums: Floats, start: int) -> None:
    """The r largest entries of ``softmax(logits)`` for the queries from ``start`` on, brought to sum one.

    To ``sums`` (3,) is added, last, what the entries left out would have had. ``logits`` are overwritten.
    """
    r = classes.shape[1]
    keys = np.empty(r, dtype=np.float32)
    ids = np.empty(r, dtype=classes.dtype)
    for i in range(logits.shape[0]):
        row = logits[i]
        top = _largest(row)
        total = _exp_sum(row, top)
        size = _offer_larger(row, np.float32(0), np.float32(top - _DEPTH), keys, ids, 0)
        q = start + i
        sums[2] += 1 - _sorted_entries(top, keys[:size], ids[:size], classes[q], logs[q], values[q]) / total


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
    r largest. Its new logit is then ``z_c - steady`` with ``steady = keep scale log sum exp z``. Entries that are left
    out are added up: ``sums`` (3,) has them last.
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
        split = support_edges(indices, first, last, n_query)
        field[:] = zero
        for e in range(first, split):
            p = indices[e]
            weight = weights[e]
            for j in range(r):
                if values[p, j] == zero:
                    break
                field[classes[p, j]] += weight * values[p, j]
        product = products[q - start]
        for c in range(n_classes):
            cost[c] = prototype_cost[c] - twice_tau * product[c]
            logits[c] = lam * field[c] - share_cost[c] - cost[c]
        for e in range(split, last):
            pull = lam * support_edge * weights[e]
            cost[support_labels[indices[e] - n_query]] -= pull
            logits[support_labels[indices[e] - n_query]] += pull
        top = _largest(logits)
        total = _exp_sum(logits, top)
        steady = np.float32(keep * scale * (top + np.log(total)))

        # Entries kept so far first: most of them stay. They are taken out of the logits.
        size = 0
        new_top = -np.float32(np.inf)
        for j in range(r):
            if values[q, j] == zero:
                break
            c = classes[q, j]
            sums[0] += values[q, j] * field[c]
            total -= exp_nonpositive(logits[c] - top)
            new = scale * (logits[c] + keep * logs[q, j])
            new_top = max(new_top, new)
            keys[size] = -new
            ids[size] = c
            size += 1
            logits[c] = -np.float32(np.inf)
        new_top = max(new_top, _largest(logits) - steady)
        rest = max(total, 0.0) * np.exp(np.float64(top) - steady - new_top)
        for j in range(size):
            gap: Any = np.float32(-keys[j] - new_top)
            rest += exp_nonpositive(gap)
        size = _offer_larger(logits, steady, np.float32(new_top - _DEPTH), keys, ids, size)
        kept = _sorted_entries(new_top, keys[:size], ids[:size], new_classes[q], new_logs[q], new_values[q])
        sums[2] += max(0.0, 1 - kept / rest)
        for j in range(r):
            if new_values[q, j] == zero:
                break
            sums[1] += new_values[q, j] * (new_logs[q, j] + cost[new_classes[q, j]])


@kernel
def _largest(x: Floats) -> Any:
    """The largest entry, by as many running maxima as a lane has entries."""
    best = np.full(_LANE, -np.inf, dtype=np.float32)
    whole = x.shape[0] - x.shape[0] % _LANE
    for left in range(0, whole, _LANE):
        lane = x[left : left + _LANE]
        for c in range(_LANE):
            best[c] = max(best[c], lane[c])
    top = best[0]
    for c in range(1, _LANE):
        top = max(top, best[c])
    for c in range(whole, x.shape[0]):
        top = max(top, x[c])
    return top


@kernel
def _exp_sum(x: Floats, top: Any) -> float:
    """``sum_c exp(x_c - top)``."""
    total = np.float32(0)
    for c in range(x.shape[0]):
        total += exp_nonpositive(x[c] - top)
    return np.float64(total)


@kernel
def _offer_larger(logits: Floats, shift: Any, floor: Any, keys: Floats, ids: Ints, size: int) -> int:
    """Add logits less ``shift`` from ``floor`` on to the ``size`` entries held, and keep the r largest: their number.

    Keys are the logits turned round, so that the root of a max-heap is the least of them.
    """
    r = keys.shape[0]
    if size == r:
        _make_heap(keys, ids)
    limit = max(floor, -keys[0]) if size == r else floor
    for left in range(0, logits.shape[0], _LANE):
        lane = logits[left : left + _LANE]
        least = limit + shift
        hits = np.int32(0)
        for c in range(lane.shape[0]):
            hits += np.int32(lane[c] > least)
        if hits == 0:
            continue
        for c in range(lane.shape[0]):
            value = lane[c] - shift
            if value <= limit:
                continue
            if size < r:
                keys[size] = -value
                ids[size] = left + c
                size += 1
                if size == r:
                    _make_heap(keys, ids)
            else:
                replace_root(keys, ids, -value, left + c)
            if size == r:
                limit = max(floor, -keys[0])
    if size < r:
        _make_heap(keys[:size], ids[:size])
    return size


@kernel
def _sorted_entries(top: Any, keys: Floats, ids: Ints, classes: Ints, logs: Floats, values: Floats) -> float:
    """A heap of turned logits as entries that sum to one, largest first; gives ``sum exp(logit - top)`` of them.

    Those more than _DEPTH below the largest are not kept: their value is 0.
    """
    r = classes.shape[0]
    size = keys.shape[0]
    kept = 0.0
    count = 0
    for last in range(size - 1, -1, -1):
        gap: Any = np.float32(-keys[0] - top)
        if gap >= -np.float32(_DEPTH):
            logs[last] = gap
            values[last] = exp_nonpositive(gap)
            classes[last] = ids[0]
            kept += values[last]
            count += 1
        if last > 0:
            replace_root(keys[:last], ids[:last], keys[last], ids[last])
    shift = np.float32(np.log(kept))
    for j in range(count):
        values[j] = np.float32(values[j] / kept)
        logs[j] -= shift
    for j in range(count, r):
        values[j] = np.float32(0)
        logs[j] = np.float32(0)
        classes[j] = 0
    return kept


@kernel
def _make_heap(keys: Floats, ids: Ints) -> None:
    """Bring keys and ids into the order of a max-heap."""
    for first in range(keys.shape[0] // 2 - 1, -1, -1):
        sift(keys, ids, first, keys[first], ids[first])


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
