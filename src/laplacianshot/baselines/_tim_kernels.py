"""Kernels of TIM and alpha-TIM: a whole task in the cache of one core, its heads as combinations of its rows.

Heads ``w_k = sum_j a_kj x_j`` are kept as weights A (C, n), what they say of the rows as products ``U = A G`` (C, n):
classes first, so that every inner loop runs along rows.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from laplacianshot.runtime.compilation import kernel
from laplacianshot.runtime.kernel_parts import exp_nonpositive
from laplacianshot.runtime.types import Floats, Ints

# float32 throughout: one float64 would widen all lanes.
_F = np.float32
_ZERO, _HALF, _ONE = _F(0), _F(0.5), _F(1)

# A step of descent that pays makes the next one longer, one that does not is taken back and halved.
_LONGER, _SHORTER = _F(1.1), _F(0.5)


@kernel
def _posteriors(weights: Floats, products: Floats, tau: Any, log_p: Floats, p: Floats, row: Floats) -> None:
    """``p_ki ~ exp(-tau/2 |x_i - w_k|^2)`` (C, n) and its logarithm; the norm of x_i falls out."""
    n_classes, n = p.shape
    for c in range(n_classes):
        norm = _ZERO
        for i in range(n):
            norm += weights[c, i] * products[c, i]
        norm *= _HALF
        for i in range(n):
            log_p[c, i] = tau * (products[c, i] - norm)
    row[:] = log_p[0]
    for c in range(1, n_classes):
        for i in range(n):
            row[i] = max(row[i], log_p[c, i])
    for c in range(n_classes):
        for i in range(n):
            log_p[c, i] -= row[i]
    row[:] = _ZERO
    for c in range(n_classes):
        for i in range(n):
            p[c, i] = exp_nonpositive(log_p[c, i])
            row[i] += p[c, i]
    for c in range(n_classes):
        for i in range(n):
            p[c, i] /= row[i]
    for i in range(n):
        row[i] = math.log(row[i])
    for c in range(n_classes):
        for i in range(n):
            log_p[c, i] -= row[i]


@kernel
def alternate(gram: Floats, labels: Ints, start: Floats, n_iter: int, lam: Any, alpha: Any, tau: Any) -> Floats:
    """Posteriors (B, C, n) of TIM after ``n_iter`` rounds of its q and w steps from heads ``start`` (B, C, n).

    With ``r_i = (lam/n_s) (y_i - p_i)`` for the support, ``((1 + alpha)/N) (q_i - p_i)`` for queries and
    ``d_k = lam n_k/n_s + (1 + alpha)/N sum_i q_ik``, the w step is ``a_k <- a_k + (r_k - (sum_i r_ik) a_k) / d_k``.
    """
    n_tasks, n_classes, n = start.shape
    n_support = labels.shape[1]
    n_query = n - n_support
    power = _ONE + alpha
    of_support, of_query = lam / _F(n_support), power / _F(n_query)
    weights, products = np.empty((n_classes, n), _F), np.empty((n_classes, n), _F)
    log_p, r = np.empty((n_classes, n), _F), np.empty((n_classes, n), _F)
    q, row, d = np.empty((n_classes, n_query), _F), np.empty(n, _F), np.empty(n_classes, _F)
    posteriors = np.empty((n_tasks, n_classes, n), _F)
    for task in range(n_tasks):
        p = posteriors[task]
        weights[:] = start[task]
        np.dot(weights, gram[task], products)
        _posteriors(weights, products, tau, log_p, p, row)
        for _ in range(n_iter):
            row[:] = _ZERO
            for c in range(n_classes):
                total = _ZERO
                for i in range(n_query):
                    q[c, i] = exp_nonpositive(power * log_p[c, n_support + i])
                    total += q[c, i]
                total = _ONE / _F(math.sqrt(total))
                for i in range(n_query):
                    q[c, i] *= total
                    row[i] += q[c, i]
                d[c] = _ZERO
            for i in range(n_query):
                row[i] = _ONE / row[i]
            for c in range(n_classes):
                for i in range(n_support):
                    r[c, i] = -of_support * p[c, i]
            for i in range(n_support):
                r[labels[task, i], i] += of_support
                d[labels[task, i]] += of_support
            for c in range(n_classes):
                mass = _ZERO
                for i in range(n_query):
                    mass += q[c, i] * row[i]
                    r[c, n_support + i] = of_query * (q[c, i] * row[i] - p[c, n_support + i])
                pull = _ZERO
                for i in range(n):
                    pull += r[c, i]
                rate = _ONE / (d[c] + of_query * mass)
                keep = _ONE - rate * pull
                for i in range(n):
                    weights[c, i] = keep * weights[c, i] + rate * r[c, i]
            np.dot(weights, gram[task], products)
            _posteriors(weights, products, tau, log_p, p, row)
    return posteriors


@kernel
def _loss_and_descent(
    labels: Ints, alpha: Any, log_p: Floats, p: Floats, tsallis: Floats, descent: Floats, row: Floats
) -> Any:
    """The loss of alpha-TIM; ``descent`` (C, n) becomes minus its gradient in the logits of every row."""
    n_classes, n = p.shape
    n_support = len(labels)
    of_support, of_query = _ONE / _F(n_support), _ONE / _F(n - n_support)
    scale = alpha / (alpha - _ONE) * of_query
    loss = _ZERO
    for c in range(n_classes):
        for i in range(n_support):
            descent[c, i] = -of_support * p[c, i]
    for i in range(n_support):
        loss -= of_support * log_p[labels[i], i]
        descent[labels[i], i] += of_support
    row[:] = _ZERO
    for c in range(n_classes):
        mass, concentration = _ZERO, _ZERO
        for i in range(n_support, n):
            mass += p[c, i]
            tsallis[c, i] = exp_nonpositive((alpha - _ONE) * log_p[c, i])
            concentration += p[c, i] * tsallis[c, i]
        mass *= of_query
        marginal = _F(mass ** (alpha - _ONE))
        loss += (mass * marginal - of_query * concentration) / (alpha - _ONE)
        for i in range(n_support, n):
            tsallis[c, i] = scale * (tsallis[c, i] - marginal)
            row[i] += p[c, i] * tsallis[c, i]
    for c in range(n_classes):
        for i in range(n_support, n):
            descent[c, i] = p[c, i] * (tsallis[c, i] - row[i])
    return loss


@kernel
def descend(gram: Floats, labels: Ints, start: Floats, n_iter: int, alpha: Any, tau: Any, first: Floats) -> Floats:
    """Posteriors (B, C, n) of alpha-TIM after ``n_iter`` steps tried from heads ``start``, the first ``first`` long.

    With ``r`` minus the gradient in the logits, that in ``w_k`` is ``-tau (sum_i r_ki x_i - (sum_i r_ki) w_k)``.
    """
    n_tasks, n_classes, n = start.shape
    shape = (n_classes, n)
    weights, moved, products = np.empty(shape, _F), np.empty(shape, _F), np.empty(shape, _F)
    log_p, tsallis, row = np.empty(shape, _F), np.empty(shape, _F), np.empty(n, _F)
    r, r_moved, p_moved = np.empty(shape, _F), np.empty(shape, _F), np.empty(shape, _F)
    posteriors = np.empty((n_tasks, n_classes, n), _F)
    for task in range(n_tasks):
        weights[:] = start[task]
        np.dot(weights, gram[task], products)
        _posteriors(weights, products, tau, log_p, p_moved, row)
        loss = _loss_and_descent(labels[task], alpha, log_p, p_moved, tsallis, r, row)
        posteriors[task] = p_moved
        step = first[task]
        for _ in range(n_iter):
            for c in range(n_classes):
                pull = _ZERO
                for i in range(n):
                    pull += r[c, i]
                rate = step * tau
                keep = _ONE - rate * pull
                for i in range(n):
                    moved[c, i] = keep * weights[c, i] + rate * r[c, i]
            np.dot(moved, gram[task], products)
            _posteriors(moved, products, tau, log_p, p_moved, row)
            moved_loss = _loss_and_descent(labels[task], alpha, log_p, p_moved, tsallis, r_moved, row)
            if moved_loss < loss:
                loss, step = moved_loss, step * _LONGER
                weights, moved = moved, weights
                r, r_moved = r_moved, r
                posteriors[task] = p_moved
            else:
                step *= _SHORTER
    return posteriors
