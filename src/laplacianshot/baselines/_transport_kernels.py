"""Kernel of PT-MAP: optimal transport with an entropy term, solved in the dual."""

from __future__ import annotations

import math

import numpy as np

from laplacianshot.runtime.compilation import kernel
from laplacianshot.runtime.kernel_parts import exp_nonpositive
from laplacianshot.runtime.types import Floats

# Relative error allowed in the mass of a class, and the maximum number of rounds to get there: the authors' figures.
_TOLERANCE = 1e-6
_MAX_ROUNDS = 1000
# A Newton step of the potentials goes no further: where plans are nearly integer their curvature says little.
_LONGEST_STEP = 5.0
# Affinities of a query span at most e^300 (lam = 10 needs e^40), which leaves potentials and plans within float64.
_MIN_LOGIT = -300.0


@kernel
def _plan(affinity: Floats, potentials: Floats, plan: Floats, masses: Floats, row: Floats) -> float:
    """``plan_cq = a_cq e^f_c / r_q`` with ``r_q = sum_c a_cq e^f_c``, its masses by class, and ``sum_q log r_q``."""
    n_classes, n_query = plan.shape
    row[:] = 0
    for c in range(n_classes):
        scale = math.exp(potentials[c])
        for i in range(n_query):
            plan[c, i] = affinity[c, i] * scale
            row[i] += plan[c, i]
    total = 0.0
    for i in range(n_query):
        total += math.log(row[i])
        row[i] = 1 / row[i]
    for c in range(n_classes):
        mass = 0.0
        for i in range(n_query):
            plan[c, i] *= row[i]
            mass += plan[c, i]
        masses[c] = mass
    return total


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

    A round is a Newton step if D falls by it, else a step of Sinkhorn's, ``f_c += log((N/C) / mass_c)``, by which D
    always falls. Sinkhorn's alone need hundreds of rounds where classes are well separated.
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
        dual = _plan(affinity, f, plan, masses, row) - target * f.sum()
        for _ in range(_MAX_ROUNDS):
            worst = 0.0
            for c in range(n_classes):
                worst = max(worst, abs(masses[c] - target))
            if worst <= _TOLERANCE * target:
                break
            paid = False
            if _newton_step(plan, masses, target, factor, step):
                for c in range(n_classes):
                    moved[c] = f[c] + step[c]
                trial_dual = _plan(affinity, moved, trial, trial_masses, row) - target * moved.sum()
                paid = trial_dual < dual
            if paid:
                dual = trial_dual
                f[:], plan[:], masses[:] = moved, trial, trial_masses
            else:
                for c in range(n_classes):
                    f[c] += math.log(target / masses[c])
                dual = _plan(affinity, f, plan, masses, row) - target * f.sum()
