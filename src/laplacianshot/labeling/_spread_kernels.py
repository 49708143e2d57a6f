"""Kernels of strangeness: what an edge conducts, and mass that spreads over edges."""

from __future__ import annotations

import numpy as np

from laplacianshot.runtime.compilation import kernel
from laplacianshot.runtime.types import Floats, Ints


@kernel
def conduct(
    probabilities: Floats, indptr: Ints, indices: Ints, weights: Floats, leak: float, out: Floats, start: int, stop: int
) -> None:
    """``out_ij = w_ij (leak + p_i . p_j)`` for the edges of rows ``start..stop``, 0 for loops; probabilities (n, C)."""
    for i in range(start, stop):
        own = probabilities[i]
        for e in range(indptr[i], indptr[i + 1]):
            other = probabilities[indices[e]]
            agreement = probabilities.dtype.type(0)
            for c in range(own.shape[0]):
                agreement += own[c] * other[c]
            out[e] = weights[e] * (leak + agreement) if indices[e] != i else 0


@kernel
def conduct_sparse(
    firsts: Ints,
    classes: Ints,
    values: Floats,
    n_classes: int,
    indptr: Ints,
    indices: Ints,
    weights: Floats,
    leak: float,
    out: Floats,
    start: int,
    stop: int,
) -> None:
    """The same for sparse probabilities, as the arrays ``firsts``, ``classes`` and ``values`` of a CSR matrix."""
    own = np.zeros(n_classes, dtype=values.dtype)
    for i in range(start, stop):
        for at in range(firsts[i], firsts[i + 1]):
            own[classes[at]] = values[at]
        for e in range(indptr[i], indptr[i + 1]):
            j = indices[e]
            agreement = values.dtype.type(0)
            for at in range(firsts[j], firsts[j + 1]):
                agreement += own[classes[at]] * values[at]
            out[e] = weights[e] * (leak + agreement) if j != i else 0
        for at in range(firsts[i], firsts[i + 1]):
            own[classes[at]] = 0


@kernel
def spread_rows(
    indptr: Ints,
    indices: Ints,
    weights: Floats,
    scale: Floats,
    given: Floats,
    mass: Floats,
    out: Floats,
    start: int,
    stop: int,
) -> None:
    """``out_i = given_i + scale_i sum_j w_ij mass_j`` over rows ``start..stop``, in float64."""
    for i in range(start, stop):
        total = 0.0
        for e in range(indptr[i], indptr[i + 1]):
            total += np.float64(weights[e]) * mass[indices[e]]
        out[i] = given[i] + scale[i] * total
