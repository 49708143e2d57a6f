"""Passes over many rows, in threads and in blocks that fit the cache.

Each function does what the one of the same name in :mod:`laplacianshot.inference` says, for arrays of any size.
"""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import ArrayLike

from laplacianshot.engine.round_kernels import bound_rows
from laplacianshot.engine.step_kernels import confidence_sum, fill_gaps
from laplacianshot.inference import bound
from laplacianshot.inference.bound import (
    TOLERANCE,
    BoundResult,
    BoundUpdate,
    StepWeights,
    StoppingRule,
    check_unary,
)
from laplacianshot.inference.temperature import find_tau
from laplacianshot.inference.transforms import transform_features as transform_block
from laplacianshot.runtime.arrays import mean_of_rows
from laplacianshot.runtime.kernel_parts import squares_about
from laplacianshot.runtime.limits import SMALL_ROWS
from laplacianshot.runtime.threads import Workers, even_blocks, row_blocks
from laplacianshot.runtime.types import Floats, Ints, Transform, working_dtype

_BLOCK_ROWS = 1024
_BLOCK_BYTES = 2**19
_MAX_BLOCKS = 32
_TILE_ENTRIES = 8192
_BOUND_ROWS = 256
_MAX_BOUND_BLOCKS = 64


def transform_features(
    X: Floats, transform: Transform, center: Floats | None = None, *, rows: Ints | None = None
) -> Floats:
    """Transformed rows (n, D) or, of the ``rows`` (m,) alone, (m, D)."""
    n = X.shape[0] if rows is None else len(rows)
    out = np.empty((n, X.shape[1]), dtype=working_dtype(X))

    def fill(_: int, start: int, stop: int) -> None:
        out[start:stop] = transform_block(X[start:stop] if rows is None else X[rows[start:stop]], transform, center)

    with Workers(out.size) as workers:
        workers.run(fill, row_blocks(n, rows_in_cache(out)))
    return out


def rows_in_cache(X: Floats) -> int:
    """How many rows of (n, D) to go over more than once before the next: about 512 KB of them."""
    return max(16, _BLOCK_BYTES // max(1, int(X.shape[1]) * X.itemsize))


def squared_distances(X: Floats, prototypes: Floats, *, wide: bool = True) -> Floats:
    """Unary terms ``a_qc = |x_q - m_c|^2``, (N, C), a block at a time."""
    M = prototypes.astype(np.float64)
    # Distances do not see a common shift, and small numbers cancel less.
    center = M.mean(axis=0)
    M = M - center
    if not wide:
        M, center = M.astype(X.dtype), center.astype(X.dtype)
    out = np.empty((X.shape[0], M.shape[0]), dtype=X.dtype)
    prototype_norms = np.einsum("cd,cd->c", M, M)

    def fill(_: int, start: int, stop: int) -> None:
        rows = X[start:stop] - center
        block = rows @ M.T
        block *= -2
        block += np.einsum("nd,nd->n", rows, rows)[:, None]
        block += prototype_norms
        out[start:stop] = np.maximum(block, 0, out=block)

    with Workers(X.size) as workers:
        workers.run(fill, row_blocks(X.shape[0], rows_in_cache(X)))
    return out


def mean_squared_distance(X: Floats, center: Floats | None = None) -> float:
    """Mean of ``|x_q - x_p|^2`` over pairs of different rows, 0 for fewer than two rows; their mean may be given."""
    n = X.shape[0]
    if n < 2:
        return 0.0
    center = mean_of_rows(X).astype(X.dtype) if center is None else center
    blocks = row_blocks(n, _BLOCK_ROWS)
    totals = np.zeros(len(blocks))

    def add(number: int, start: int, stop: int) -> None:
        totals[number] = squares_about(X[start:stop], center).sum()

    with Workers(X.size) as workers:
        workers.run(add, blocks)
    return float(2 * totals.sum() / (n - 1))


def choose_tau(unary: Floats, spread: float, pair_spread: float) -> float:
    """Temperature of the unary terms (N, C), in their dtype."""
    blocks = even_blocks(len(unary), _BLOCK_ROWS, _MAX_BLOCKS)
    gaps, sums = np.empty(unary.shape, unary.dtype), np.zeros(len(blocks))
    tile = max(1, _TILE_ENTRIES // max(1, unary.shape[1]))

    def add(tau: float, number: int, start: int, stop: int) -> None:
        scratch = np.empty((min(tile, stop - start), unary.shape[1]), unary.dtype)
        sums[number] = confidence_sum(gaps[start:stop], tau, scratch)

    with Workers(10 * unary.size) as workers:
        workers.run(lambda _, start, stop: fill_gaps(unary[start:stop], gaps[start:stop]), blocks)

        def confidence(tau: float) -> float:
            workers.run(partial(add, tau), blocks)
            return float(sums.sum()) / len(unary)

        return find_tau(confidence, unary, spread, pair_spread)


def bound_optimize(
    unary: ArrayLike,
    affinity: Any,
    lam: float,
    *,
    rule: StoppingRule = "paper",
    delta: float = 0.0,
    max_iter: int | None = None,
    tol: float = TOLERANCE,
) -> BoundResult:
    """Minimize the Laplacian-regularized objective over soft assignments."""
    a = check_unary(unary)
    if len(a) <= SMALL_ROWS:
        return bound.bound_optimize(a, affinity, lam, rule=rule, delta=delta, max_iter=max_iter, tol=tol)
    blocks = even_blocks(len(a), _BOUND_ROWS, _MAX_BOUND_BLOCKS)
    sums = np.zeros((len(blocks), 3))
    buffers = np.empty_like(a), np.empty_like(a)
    with Workers(10 * a.size) as workers:

        def update(a: Floats, W: sp.csr_array, weights: StepWeights, Y: Floats, V: Floats) -> BoundUpdate:
            target = buffers[1] if Y is buffers[0] else buffers[0]
            args = (a, W.indptr, W.indices, W.data, weights, Y, target, V)
            workers.run(lambda i, start, stop: bound_rows(*args, sums[i], start, stop), blocks)
            return BoundUpdate(target, V, *map(float, sums.sum(axis=0)))

        return bound.minimize_bound(update, a, affinity, lam, rule=rule, delta=delta, max_iter=max_iter, tol=tol)


bound_optimize.__doc__ = bound.bound_optimize.__doc__
