"""The temperature of the unary terms, chosen without labels or scale."""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy.optimize import brentq

from laplacianshot.engine._update_kernels import confidence_rows
from laplacianshot.inference.recipes import LEAST_CONFIDENCE
from laplacianshot.inference.transforms import base_mean
from laplacianshot.runtime.row_kernels import squares_about
from laplacianshot.runtime.threads import Workers, even_blocks, row_blocks
from laplacianshot.runtime.types import Floats

# Relative width at which the search for the temperature stops, and the most doublings it starts with.
_TAU_TOLERANCE = 1e-8
_TAU_DOUBLINGS = 60
_BLOCK_ROWS = 1024
_MOST_BLOCKS = 32


def mean_squared_distance(X: Floats, center: Floats | None = None) -> float:
    """Mean of ``|x_q - x_p|^2`` over pairs of different rows, 0 for fewer than two rows; their mean may be given."""
    n = X.shape[0]
    if n < 2:
        return 0.0
    center = base_mean(X).astype(X.dtype) if center is None else center
    blocks = row_blocks(n, _BLOCK_ROWS)
    totals = np.zeros(len(blocks))

    def add(number: int, start: int, stop: int) -> None:
        totals[number] = squares_about(X[start:stop], center)

    with Workers(X.size) as workers:
        workers.run(add, blocks)
    return float(2 * totals.sum() / (n - 1))


def choose_tau(unary: Floats, spread: float, pair_spread: float) -> float:
    """Temperature of the unary terms.

    ``tau = max(pair_spread / spread, tau_conf)``, where at ``tau_conf`` the nearest prototype is as sure as
    ``mean_q max_c softmax(-tau a_q) = 1/C + 0.6 (1 - 1/C)``. Where all rows are equal any temperature will do: 1.

    Parameters
    ----------
    unary : array of shape (N, C)
        Squared distances of the queries to the first prototypes.
    spread : float
        Mean squared distance of two rows (:func:`mean_squared_distance`).
    pair_spread : float
        What tau times the spread is, at least.
    """
    if spread <= 0:
        return 1.0
    low = pair_spread / spread
    n, n_classes = len(unary), unary.shape[1]
    if n == 0 or n_classes < 2:
        return low
    target = 1 / n_classes + LEAST_CONFIDENCE * (1 - 1 / n_classes)
    blocks = even_blocks(n, _BLOCK_ROWS, _MOST_BLOCKS)
    partial = np.zeros((len(blocks), 1))
    rtol = max(_TAU_TOLERANCE, 10 * float(np.finfo(unary.dtype).eps))
    with Workers(10 * unary.size) as workers:

        def confidence(tau: float) -> float:
            scale: Any = unary.dtype.type(tau)
            workers.run(lambda i, start, stop: confidence_rows(unary, scale, partial[i], start, stop), blocks)
            return float(partial.sum()) / n

        if confidence(low) >= target:
            return low
        high = 2 * low
        for _ in range(_TAU_DOUBLINGS):
            if confidence(high) >= target:
                break
            low, high = high, 2 * high
        else:
            # Queries as near to one prototype as to another never become sure.
            return pair_spread / spread
        return float(brentq(lambda tau: confidence(tau) - target, low, high, rtol=rtol, xtol=rtol * low))


def divergence(share: Floats) -> float:
    """``KL(p|u) = sum_c p_c log(C p_c)`` of class shares (C,), with ``0 log 0 = 0``."""
    present = share[share > 0]
    return max(0.0, float(present @ np.log(present * len(share))))
