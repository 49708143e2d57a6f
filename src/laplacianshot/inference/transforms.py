"""Feature transforms: none, L2 and centred L2 (CL2)."""

from __future__ import annotations

from typing import Any, Literal, TypeAlias

import numpy as np
from numpy.typing import ArrayLike

from laplacianshot.inference._types import Floats, Ints

Transform: TypeAlias = Literal["none", "l2", "cl2"]

# Rows converted at a time, so that a memory-mapped or float16 source is never copied whole in a wider type.
_BLOCK_ROWS = 16_384


def working_dtype(X: Floats) -> np.dtype[Any]:
    """float64 stays float64 and integers become float64; float16 and float32 are worked on in float32."""
    return np.dtype(np.float32) if X.dtype in (np.float16, np.float32) else np.dtype(np.float64)


def base_mean(features: ArrayLike) -> Floats:
    """Mean of a base set, accumulated in float64 a block at a time.

    Parameters
    ----------
    features : array of shape (n_base, D)
        Features of the base classes, in memory or memory-mapped.

    Returns
    -------
    array of shape (D,)
        ``(1/n_base) sum_i x_i``, the centre that CL2 takes away.
    """
    rows = np.asanyarray(features)
    if rows.ndim != 2 or rows.shape[0] == 0:
        raise ValueError(f"features must be a non-empty array of shape (n_base, D), got shape {rows.shape}.")
    total = np.zeros(rows.shape[1], dtype=np.float64)
    for start in range(0, rows.shape[0], _BLOCK_ROWS):
        total += rows[start : start + _BLOCK_ROWS].sum(axis=0, dtype=np.float64)
    mean: Floats = total / rows.shape[0]
    return mean


def transform_features(
    X: Floats, transform: Transform, center: Floats | None = None, *, rows: Ints | None = None
) -> Floats:
    """Bring features into the space in which prototypes and neighbours are sought.

    ========  ===========================================
    ``none``  ``x``
    ``l2``    ``x / |x|``
    ``cl2``   ``(x - center) / |x - center|``
    ========  ===========================================

    A row of norm zero stays zero. The result is a new C-contiguous array.

    Parameters
    ----------
    X : array of shape (n, D)
    transform : {"none", "l2", "cl2"}
    center : array of shape (D,), for ``cl2``
    rows : int array of shape (m,), optional
        Which rows, in which order; all of them as they are if not given.

    Returns
    -------
    array of shape (n, D) or (m, D), float32 or float64
    """
    if transform == "cl2" and center is None:
        raise ValueError("transform='cl2' needs a center of shape (D,).")
    dtype = working_dtype(X)
    n = X.shape[0] if rows is None else len(rows)
    out = np.empty((n, X.shape[1]), dtype=dtype)
    negligible = 8 * np.finfo(dtype).eps * np.abs(center).max(initial=0.0) if center is not None else 0.0
    for start in range(0, n, _BLOCK_ROWS):
        chosen = slice(start, start + _BLOCK_ROWS)
        block = X[chosen if rows is None else rows[chosen]].astype(dtype)
        if transform == "cl2" and center is not None:
            block -= center.astype(dtype)
        if transform != "none":
            # Scaling by the largest entry first keeps the squares of huge and of tiny rows in range.
            largest = np.abs(block).max(axis=1, keepdims=True, initial=0.0)
            # What is left of a row equal to the centre is rounding, not a direction.
            block[largest[:, 0] <= negligible] = 0
            block /= np.where(largest > 0, largest, 1)
            norms = np.sqrt(np.einsum("nd,nd->n", block, block))[:, None]
            block /= np.where(norms > 0, norms, 1)
        out[chosen] = block
    return out
