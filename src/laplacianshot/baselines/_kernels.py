"""Kernels of TIM, alpha-TIM and PT-MAP.

TIM keeps a whole task in the cache of one core. Its heads ``w_k = sum_j a_kj x_j`` are weights A (C, n), what they say
of the rows are products ``U = A G`` (C, n): classes first, so that every inner loop runs along rows.
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


# Relative error allowed in the mass of a class, and the maximum number of rounds to get there: the authors' figures.
_TOLERANCE = 1e-6
_MAX_ROUNDS = 1000
# A Newton step of the potentials goes no further: where plans are nearly integer their curvature says little.
_LONGEST_STEP = 5.0
# Affinities of a query span at most e^300 (lam = 10 needs e^40), which leaves potentials and plans within float64.
_MIN_LOGIT = -300.0


@kernel
def _plan(affinity: Floats, potentials: Floats, plan: Floats, masses: Floats, row: Floats) -> float:
    """``plan_cq = a_cq e^f_c / sum_c a_cq e^f_c`` and its masses by class; gives their largest distance from N/C."""
    n_classes, n_query = plan.shape
    row[:] = 0
    for c in range(n_classes):
        scale = math.exp(potentials[c])
        for i in range(n_query):
            plan[c, i] = affinity[c, i] * scale
            row[i] += plan[c, i]
    for i in range(n_query):
        row[i] = 1 / row[i]
    worst = 0.0
    for c in range(n_classes):
        mass = 0.0
        for i in range(n_query):
            plan[c, i] *= row[i]
            mass += plan[c, i]
        masses[c] = mass
        worst = max(worst, abs(mass - n_query / n_classes))
    return worst


@kernel
def _newton_step(plan: Floats, masses: Floats, target: float, factor: Floats, step: Floats) -> bool:
    """Solve ``(diag(masses) - P P^T) step = target - masses`` with ``step_0 = 0``; False where that is singular."""
    n_classes = len(masses)
    step[0] = 0
    # Cholesky factors, row by row: potentials count only up to a constant, so the first stays where it is.
    for c in range(1, n_classes):
        for other in range(1, c + 1):
            entry = masses[c] if c == other else 0.0
            for i in range(plan.shape[1]):
                entry -= plan[c, i] * plan[other, i]
            for k in range(1, other):
                entry -= factor[c, k] * factor[other, k]
            if c != other:
                factor[c, other] = entry / factor[other, other]
            elif entry > 1e-12 * target:
                factor[c, c] = math.sqrt(entry)
            else:
                return False
        step[c] = target - masses[c]
        for k in range(1, c):
            step[c] -= factor[c, k] * step[k]
        step[c] /= factor[c, c]
    longest = 0.0
    for back in range(1, n_classes):
        c = n_classes - back
        for k in range(c + 1, n_classes):
            step[c] -= factor[k, c] * step[k]
        step[c] /= factor[c, c]
        longest = max(longest, abs(step[c]))
    if longest > _LONGEST_STEP:
        for c in range(n_classes):
            step[c] *= _LONGEST_STEP / longest
    return True


@kernel
def transport(logits: Floats, potentials: Floats, plans: Floats) -> None:
    """Plans (B, C, N) ``~ exp(logits)`` up to factors of rows and classes, each query of mass 1, each class of N/C.

    The potentials (B, C), where the search starts and ends, minimize the convex ::

        D(f) = sum_q log sum_c exp(logits_cq + f_c) - (N/C) sum_c f_c

    A round is a Newton step if it halves the error of the masses, else a step of Sinkhorn's, ``f_c += log((N/C) /
    mass_c)``, by which D always falls. Sinkhorn's alone need hundreds of rounds where classes are well separated.
    """
    n_tasks, n_classes, n_query = logits.shape
    target = n_query / n_classes
    affinity, trial = np.empty((n_classes, n_query)), np.empty((n_classes, n_query))
    factor, row = np.empty((n_classes, n_classes)), np.empty(n_query)
    step, moved = np.empty(n_classes), np.empty(n_classes)
    masses, trial_masses = np.empty(n_classes), np.empty(n_classes)
    for task in range(n_tasks):
        f, plan = potentials[task], plans[task]
        row[:] = logits[task, 0]
        for c in range(1, n_classes):
            for i in range(n_query):
                row[i] = max(row[i], logits[task, c, i])
        for c in range(n_classes):
            for i in range(n_query):
                affinity[c, i] = exp_nonpositive(max(logits[task, c, i] - row[i], _MIN_LOGIT))
        worst = _plan(affinity, f, plan, masses, row)
        for _ in range(_MAX_ROUNDS):
            if worst <= _TOLERANCE * target:
                break
            error = worst
            if _newton_step(plan, masses, target, factor, step):
                for c in range(n_classes):
                    moved[c] = f[c] + step[c]
                error = _plan(affinity, moved, trial, trial_masses, row)
            if error <= worst / 2:
                worst = error
                f[:], plan[:], masses[:] = moved, trial, trial_masses
            else:
                for c in range(n_classes):
                    f[c] += math.log(target / masses[c])
                worst = _plan(affinity, f, plan, masses, row)
