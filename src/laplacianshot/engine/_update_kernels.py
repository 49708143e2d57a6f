"""Kernels of the updates: graph product, softmax and objective in one pass over CSR rows."""

from __future__ import annotations

from typing import Any

import numpy as np

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
