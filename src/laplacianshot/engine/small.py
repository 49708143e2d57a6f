"""The default recipe on rows and assignments in memory, fast: threads over blocks of queries, one kernel per visit.

:func:`joint_optimize` is that of :mod:`laplacianshot.inference.joint`, for tasks too large for plain numpy.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import scipy.sparse as sp

from laplacianshot.engine.passes import (
    bound_optimize,
    choose_tau,
    mean_squared_distance,
    squared_distances,
    transform_features,
)
from laplacianshot.engine.rounds import DenseRounds, edges_of
from laplacianshot.inference.joint import Prior, descend
from laplacianshot.inference.recipes import TOLERANCE, DefaultConstants
from laplacianshot.inference.solution import Solution
from laplacianshot.inference.solve import Numerics
from laplacianshot.runtime.arrays import mean_of_rows
from laplacianshot.runtime.threads import Workers
from laplacianshot.runtime.types import Floats, Ints


def joint_optimize(
    support: Floats,
    labels: Ints,
    query: Floats,
    affinity: sp.csr_array,
    origin: Floats,
    n_classes: int,
    constants: DefaultConstants,
    *,
    tol: float = TOLERANCE,
) -> Solution:
    """Minimize F; arguments and result as in :func:`laplacianshot.inference.joint.joint_optimize`."""
    dtype = query.dtype
    n_support, n = support.shape[0], query.shape[0]
    center = mean_of_rows(query).astype(dtype) if n > 1 else None
    spread = mean_squared_distance(query, center)
    far = center if center is not None and float(center @ center) > max(1.0, 2 * spread) else None
    if far is not None:
        near = joint_optimize(support - far, labels, query - far, affinity, origin - far, n_classes, constants, tol=tol)
        return replace(near, prototypes=near.prototypes + far, prior=near.prior.moved(far))

    prior = Prior.of_support(support, labels, origin, n_classes, constants)
    prototypes = prior.means.astype(dtype)
    unary = squared_distances(query, prototypes, wide=False)
    # With one query there is no pair of queries: take all rows.
    spread = spread or mean_squared_distance(np.concatenate([support, query]))
    tau = choose_tau(unary, spread, constants.pair_spread)
    if n == 0:
        # Only the prototypes are free, and one M step is exact.
        value = np.array([tau * prior.least_cost])
        nothing = np.zeros(n_classes, dtype)
        return Solution(
            unary, prototypes, value, True, constants.lam, tau=tau, bias=nothing, constants=constants, prior=prior
        )

    fixed = np.concatenate([labels, np.full(n, -1)])
    with Workers((affinity.nnz + 10 * n) * n_classes) as workers:
        edges = edges_of(affinity, fixed, dtype)
        nodes = np.concatenate([support, query])
        rounds = DenseRounds(workers, nodes, edges, n_classes, tau, e=constants.e)
        rounds.start(prototypes)
        solution = descend(rounds, prior, constants, n, tau, dtype, tol=tol)
    return replace(solution, assignments=rounds.assignments()[n_support:])


NUMERICS = Numerics(transform_features, squared_distances, joint_optimize, bound_optimize)
