"""The default recipe on rows and assignments in memory, fast: threads over blocks of queries, one kernel per visit.

:func:`joint_optimize` is that of :mod:`laplacianshot.inference.joint`, for tasks too large for plain numpy.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

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
from laplacianshot.inference.joint import NO_CLUES, Clues, Prior, descend
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
    clues: Clues | None = None,
    reached: Floats | None = None,
    known: Floats | None = None,
    tol: float = TOLERANCE,
) -> Solution:
    """Minimize F; arguments and result as in :func:`laplacianshot.inference.joint.joint_optimize`."""
    clues = NO_CLUES if clues is None else clues
    dtype = query.dtype
    n = len(query)
    center = mean_of_rows(query).astype(dtype) if n > 1 else None
    spread = mean_squared_distance(query, center)
    far = center if center is not None and float(center @ center) > max(1.0, 2 * spread) else None
    if far is not None:
        rows = (support - far, labels, query - far, affinity, origin - far)
        more: Any = {"reached": reached, "known": known}
        near = joint_optimize(*rows, n_classes, constants, clues=clues.moved(-far), tol=tol, **more)
        return replace(near, prototypes=near.prototypes + far, prior=near.prior.moved(far), clues=clues)

    prior = Prior.of_support(support, labels, origin, n_classes, constants, clues)
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
            unary, prototypes, value, True, constants.lam,
            tau=tau, bias=nothing, constants=constants, prior=prior, clues=clues,
        )  # fmt: skip

    products = None
    if clues.start is None and clues.slopes is None:
        # a = |x|^2 - 2 x.m + |m|^2, and |x|^2 does not matter.
        products = np.subtract(np.einsum("cd,cd->c", prototypes, prototypes), unary, out=unary)
        products *= dtype.type((1 - clues.weight) * tau)
    with Workers((affinity.nnz + 10 * n) * n_classes) as workers:
        edges = edges_of(_queries_first(affinity, len(support)), np.concatenate([np.full(n, -1), labels]), dtype)
        rounds = DenseRounds(workers, query, edges, n_classes, tau, clues, constants.e)
        rounds.start(prototypes, products=products, reached=reached, known=known)
        solution = descend(rounds, prior, constants, n, tau, dtype, clues=clues, tol=tol)
    return replace(solution, assignments=rounds.assignments(), clues=clues)


def _queries_first(affinity: sp.csr_array, n_support: int) -> sp.csr_array:
    """The affinity of the same nodes, (n, n), with the first ``n_support`` of them last."""
    n, cut = affinity.shape[0], affinity.indptr[n_support]
    indptr = np.concatenate([affinity.indptr[n_support:], affinity.nnz + affinity.indptr[1 : n_support + 1]]) - cut
    indices, weights = np.roll(affinity.indices, -cut), np.roll(affinity.data, -cut)
    return sp.csr_array((weights, (indices - n_support) % n, indptr), shape=(n, n))


NUMERICS = Numerics(transform_features, squared_distances, joint_optimize, bound_optimize)
