"""The Y step of ``round_kernels.py`` where only the r largest entries of an assignment are kept."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from laplacianshot.engine.round_kernels import Edges, Step
from laplacianshot.runtime.compilation import kernel
from laplacianshot.runtime.kernel_parts import LANE, exp_nonpositive, sift
from laplacianshot.runtime.types import Floats, Ints

# Entries that are e^-12 (6e-6) of the largest, or less, are not kept.
_DEPTH = 12.0


class Top(NamedTuple):
    """The r largest entries of each node, largest first: classes, logarithms and values, (n, r) each; 0 is none."""

    classes: Ints
    logs: Floats
    values: Floats

    @classmethod
    def empty(cls, n: int, r: int, n_classes: int) -> Top:
        """No entries yet."""
        kind = np.int16 if n_classes < 2**15 else np.int32
        return cls(np.zeros((n, r), kind), np.zeros((n, r), np.float32), np.zeros((n, r), np.float32))


@kernel
def top_rows(products: Floats, edges: Edges, step: Step, Y: Top, new: Top, sums: Floats, start: int, stop: int) -> None:
    """The Y step for rows ``start..stop`` of which only the r largest entries are known.

    An entry that was not kept has no logarithm to remember. It takes the one it would have if nothing changed any more,
    ``log y_c = z_c - log sum exp z`` with ``z = lam b - cost - d``, and so enters as soon as it is among the
    r largest. Its new logit is then ``z_c - steady`` with ``steady = h scale log sum exp z``. To ``sums`` (3,)
    are added pairwise, smooth and the mass of entries that are left out. Fixed rows stay as they are.
    """
    r = Y.classes.shape[1]
    n_classes = products.shape[1]
    b = np.zeros(n_classes, dtype=np.float32)
    cost = np.empty(n_classes, dtype=np.float32)
    logits = np.empty(n_classes, dtype=np.float32)
    keys = np.empty(r, dtype=np.float32)
    ids = np.empty(r, dtype=Y.classes.dtype)
    zero = np.float32(0)
    for q in range(start, stop):
        if edges.fixed[q] >= 0:
            sums[0] += _fixed_pairs(edges, Y, q)
            continue
        if step.lam > zero:
            _gather(edges, Y, q, b)
        product = products[q - start]
        for c in range(n_classes):
            cost[c] = step.offsets[c] - product[c]
            logits[c] = step.lam * b[c] - step.slopes[c] - cost[c]
        top = _largest(logits)
        single = zero
        for c in range(n_classes):
            single += exp_nonpositive(logits[c] - top)
        total = np.float64(single)
        steady = np.float32(step.hold * step.scale * (top + np.log(total)))

        # Entries kept so far first: most of them stay. They are taken out of the logits.
        size = 0
        new_top = -np.float32(np.inf)
        for j in range(r):
            if Y.values[q, j] == zero:
                break
            c = Y.classes[q, j]
            sums[0] += Y.values[q, j] * b[c]
            total -= exp_nonpositive(logits[c] - top)
            logit = step.scale * (logits[c] + step.hold * Y.logs[q, j])
            new_top = max(new_top, logit)
            keys[size] = -logit
            ids[size] = c
            size += 1
            logits[c] = -np.float32(np.inf)
        new_top = max(new_top, _largest(logits) - steady)
        rest = max(total, 0.0) * np.exp(np.float64(top) - steady - new_top)
        for j in range(size):
            gap: Any = np.float32(-keys[j] - new_top)
            rest += exp_nonpositive(gap)
        size = _offer_larger(logits, steady, np.float32(new_top - _DEPTH), keys, ids, size)
        kept = _sorted_entries(new_top, keys[:size], ids[:size], new.classes[q], new.logs[q], new.values[q])
        sums[2] += max(0.0, 1 - kept / rest)
        for j in range(r):
            if new.values[q, j] == zero:
                break
            sums[1] += new.values[q, j] * (new.logs[q, j] + cost[new.classes[q, j]])


@kernel
def top_pairwise_rows(edges: Edges, Y: Top, sums: Floats, n_classes: int, start: int, stop: int) -> None:
    """Add the pairwise sum of the rows ``start..stop`` to ``sums[0]``."""
    b = np.zeros(n_classes, dtype=np.float32)
    for q in range(start, stop):
        if edges.fixed[q] >= 0:
            sums[0] += _fixed_pairs(edges, Y, q)
            continue
        _gather(edges, Y, q, b)
        for j in range(Y.classes.shape[1]):
            sums[0] += Y.values[q, j] * b[Y.classes[q, j]]


@kernel
def _gather(edges: Edges, Y: Top, q: int, b: Floats) -> None:
    """``b <- sum_p w_qp y_p``."""
    zero = np.float32(0)
    b[:] = zero
    for e in range(edges.indptr[q], edges.indptr[q + 1]):
        p = edges.indices[e]
        weight = edges.weights[e]
        for j in range(Y.classes.shape[1]):
            if Y.values[p, j] == zero:
                break
            b[Y.classes[p, j]] += weight * Y.values[p, j]


@kernel
def _fixed_pairs(edges: Edges, Y: Top, q: int) -> Any:
    """``e sum_p w_qp y_pc`` over the free neighbors p of a node q that is fixed to class c."""
    c = edges.fixed[q]
    total = np.float32(0)
    for e in range(edges.indptr[q], edges.indptr[q + 1]):
        p = edges.indices[e]
        if edges.fixed[p] >= 0:
            continue
        for j in range(Y.classes.shape[1]):
            if Y.classes[p, j] == c:
                total += edges.weights[e] * Y.values[p, j]
                break
    return total * Y.values[q, 0]


@kernel
def _largest(x: Floats) -> Any:
    """The largest entry, by as many running maxima as a lane has entries."""
    best = np.full(LANE, -np.inf, dtype=np.float32)
    whole = x.shape[0] - x.shape[0] % LANE
    for left in range(0, whole, LANE):
        lane = x[left : left + LANE]
        for c in range(LANE):
            best[c] = max(best[c], lane[c])
    top = best[0]
    for c in range(1, LANE):
        top = max(top, best[c])
    for c in range(whole, x.shape[0]):
        top = max(top, x[c])
    return top


@kernel
def _offer_larger(logits: Floats, shift: Any, floor: Any, keys: Floats, ids: Ints, size: int) -> int:
    """Add logits less ``shift`` from ``floor`` on to the ``size`` entries held, and keep the r largest: their number.

    Keys are the negative logits. They become a max-heap, so that its root is the smallest of the logits.
    """
    r = keys.shape[0]
    for first in range(size // 2 - 1, -1, -1):
        sift(keys[:size], ids[:size], first, keys[first], ids[first])
    limit = max(floor, -keys[0]) if size == r else floor
    for left in range(0, logits.shape[0], LANE):
        lane = logits[left : left + LANE]
        bound = limit + shift
        hits = np.int32(0)
        for c in range(lane.shape[0]):
            hits += np.int32(lane[c] > bound)
        if hits == 0:
            continue
        for c in range(lane.shape[0]):
            value = lane[c] - shift
            if value <= limit:
                continue
            if size == r:
                sift(keys, ids, 0, -value, left + c)
            else:
                hole = size
                while hole > 0 and keys[(hole - 1) // 2] < -value:
                    parent = (hole - 1) // 2
                    keys[hole], ids[hole] = keys[parent], ids[parent]
                    hole = parent
                keys[hole], ids[hole] = -value, left + c
                size += 1
            if size == r:
                limit = max(floor, -keys[0])
    return size


@kernel
def _sorted_entries(top: Any, keys: Floats, ids: Ints, classes: Ints, logs: Floats, values: Floats) -> float:
    """A heap of negative logits as entries that sum to one, largest first; gives ``sum exp(logit - top)`` of them.

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
            sift(keys[:last], ids[:last], 0, keys[last], ids[last])
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
def add_top_rows(Y: Top, fixed: Ints, rows: Floats, features: Floats, shares: Floats, start: int, stop: int) -> None:
    """Add ``y_qc x_q`` to features (C, D) and ``y_qc`` to shares (C,) over free rows of ``start..stop``."""
    for q in range(start, stop):
        if fixed[q] >= 0:
            continue
        x = rows[q - start]
        for j in range(Y.classes.shape[1]):
            y = Y.values[q, j]
            if y == np.float32(0):
                break
            shares[Y.classes[q, j]] += y
            target = features[Y.classes[q, j]]
            for d in range(x.shape[0]):
                target[d] += y * x[d]
