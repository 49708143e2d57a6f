"""Kernels of the updates: graph product, softmax and objective in one pass over CSR rows."""

from __future__ import annotations

import numpy as np

from laplacianshot.inference._compile import kernel
from laplacianshot.inference._types import Floats, Ints

_LOG2_E = 1.4426950408889634
# ln 2 in two parts, the first with zeros at its end, so that k ln 2 is taken away without rounding.
_LN2_HIGH = 6.93147180369123816490e-01
_LN2_LOW = 1.90821492927058770002e-10
_LEAST_EXPONENT = -708.0


@kernel
def _exp(x: float) -> float:
    """``e^x`` for ``x <= 0``, to 1e-14, in arithmetic that the compiler can vectorise (libm's cannot be).

    With k the integer nearest to ``x / ln 2`` and ``|r| <= ln 2 / 2``, ``e^x = 2^k e^r``: a polynomial and a shift.
    """
    x = max(x, _LEAST_EXPONENT)
    k = np.floor(x * _LOG2_E + 0.5)
    r = (x - k * _LN2_HIGH) - k * _LN2_LOW
    p = 1 / 39916800
    p = p * r + 1 / 3628800
    p = p * r + 1 / 362880
    p = p * r + 1 / 40320
    p = p * r + 1 / 5040
    p = p * r + 1 / 720
    p = p * r + 1 / 120
    p = p * r + 1 / 24
    p = p * r + 1 / 6
    p = p * r + 0.5
    p = p * r + 1.0
    p = p * r + 1.0
    power = np.int64((np.int64(k) + 1023) << 52).view(np.float64)
    return p * power  # type: ignore[no-any-return]


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
    pairwise = 0.0
    smooth = 0.0
    surrogate = 0.0
    for q in range(start, stop):
        field[:] = 0.0
        for e in range(indptr[q], indptr[q + 1]):
            neighbor = current[indices[e]]
            w = weights[e]
            for c in range(n_classes):
                field[c] += w * neighbor[c]
        row = current[q]
        target = updated[q]
        a = unary[q]
        largest = -np.inf
        for c in range(n_classes):
            pairwise += row[c] * field[c]
            field[c] *= lam
            largest = max(largest, field[c] - a[c])
        total = 0.0
        pull = 0.0
        for c in range(n_classes):
            value = _exp(field[c] - a[c] - largest)
            target[c] = value
            total += value
            pull += value * field[c]
        for c in range(n_classes):
            target[c] /= total
        log_partition = largest + np.log(total)
        smooth += pull / total - log_partition
        surrogate -= log_partition
    sums[0] = pairwise
    sums[1] = smooth
    sums[2] = surrogate


@kernel
def joint_rows(
    products: Floats,
    row_norms: Floats,
    prototype_norms: Floats,
    support_pull: Floats,
    indptr: Ints,
    indices: Ints,
    weights: Floats,
    tau: float,
    lam: float,
    pull: float,
    inertia: float,
    log_share: Floats,
    log_assignments: Floats,
    current: Floats,
    updated: Floats,
    sums: Floats,
    shares: Floats,
    start: int,
    stop: int,
) -> None:
    """The Y step for queries ``start..stop``, which ``products`` has the rows of, with the sums that F needs.

    With ``a_qc = |x_q|^2 - 2 products_qc + |m_c|^2``, ``b_q = sum_p w_qp y_p`` and the support's pull ``s_q``::

        y_q ~ exp{ [ -tau a_q + lam (s_q + b_q) + (pull + inertia) log y_q - pull log_share ] / (1 + pull + inertia) }

    ``log_assignments`` is brought up to date in place. To ``sums`` (4,) are added ``sum y.b`` of the current
    assignments and ``sum y log y``, ``sum y.a``, ``sum y.s`` of the updated ones; to ``shares`` (C,) their column sums.
    """
    n_classes = products.shape[1]
    keep = pull + inertia
    scale = 1.0 / (1.0 + keep)
    field = np.empty(n_classes, dtype=products.dtype)
    unary = np.empty(n_classes, dtype=products.dtype)
    pairwise = 0.0
    entropy = 0.0
    cost = 0.0
    support = 0.0
    for q in range(start, stop):
        field[:] = 0
        for e in range(indptr[q], indptr[q + 1]):
            neighbor = current[indices[e]]
            w = weights[e]
            for c in range(n_classes):
                field[c] += w * neighbor[c]
        row = current[q]
        target = updated[q]
        logs = log_assignments[q]
        labelled = support_pull[q]
        product = products[q - start]
        norm = row_norms[q]
        inner = 0.0
        for c in range(n_classes):
            inner += row[c] * field[c]
        pairwise += inner
        largest = -np.inf
        for c in range(n_classes):
            unary[c] = norm - 2.0 * product[c] + prototype_norms[c]
            logit = (lam * (labelled[c] + field[c]) - tau * unary[c] + keep * logs[c] - pull * log_share[c]) * scale
            logs[c] = logit
            largest = max(largest, logit)
        total = 0.0
        for c in range(n_classes):
            value = _exp(logs[c] - largest)
            target[c] = value
            total += value
        log_total = largest + np.log(total)
        inverse = 1.0 / total
        row_entropy = 0.0
        row_cost = 0.0
        row_support = 0.0
        for c in range(n_classes):
            y = target[c] * inverse
            log_y = logs[c] - log_total
            target[c] = y
            logs[c] = log_y
            row_entropy += y * log_y
            row_cost += y * unary[c]
            row_support += y * labelled[c]
            shares[c] += y
        entropy += row_entropy
        cost += row_cost
        support += row_support
    sums[0] += pairwise
    sums[1] += entropy
    sums[2] += cost
    sums[3] += support


@kernel
def confidence_rows(unary: Floats, tau: float, sums: Floats, start: int, stop: int) -> None:
    """``sum_q max_c softmax(-tau a_q)`` over rows ``start..stop``, into ``sums`` (1,)."""
    total = 0.0
    for q in range(start, stop):
        a = unary[q]
        least = a[0]
        for c in range(1, a.shape[0]):
            least = min(least, a[c])
        partition = 0.0
        for c in range(a.shape[0]):
            partition += _exp(-tau * (a[c] - least))
        total += 1.0 / partition
    sums[0] = total
