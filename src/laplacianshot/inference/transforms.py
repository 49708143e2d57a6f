"""Feature transforms: none, L2 and centered L2 (CL2)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Literal, TypeAlias

import numpy as np
from numpy.typing import ArrayLike

from laplacianshot.runtime.row_kernels import add_rows
from laplacianshot.runtime.threads import Workers, even_blocks, row_blocks
from laplacianshot.runtime.types import Floats, Ints

Transform: TypeAlias = Literal["none", "l2", "cl2"]

# Rows converted at a time, in cache, so that a memory-mapped or float16 source is never copied whole in a wider type.
_BLOCK_ROWS = 1024
_BLOCK_BYTES = 2**19
_MOST_BLOCKS = 64


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
        ``(1/n_base) sum_i x_i``, the center that CL2 takes away.
    """
    rows = np.asanyarray(features)
    if rows.ndim != 2 or rows.shape[0] == 0:
        raise ValueError(f"features must be a non-empty array of shape (n_base, D), got shape {rows.shape}.")
    blocks = even_blocks(len(rows), _BLOCK_ROWS, _MOST_BLOCKS)
    sums = np.zeros((len(blocks), rows.shape[1]), dtype=np.float64)

    def add(number: int, start: int, stop: int) -> None:
        for first in range(start, stop, _BLOCK_ROWS):
            block = np.asarray(rows[first : min(first + _BLOCK_ROWS, stop)])
            if block.flags.carray and block.dtype in (np.float32, np.float64):
                add_rows(block, sums[number])
            else:
                sums[number] += block.sum(axis=0, dtype=np.float64)

    with Workers(rows.size) as workers:
        workers.run(add, blocks)
    mean: Floats = sums.sum(axis=0) / len(rows)
    return mean


def transform_features(
    X: Floats, transform: Transform, center: Floats | None = None, *, rows: Ints | None = None
) -> Floats:
    """Bring features into the space in which prototypes and neighbors are sought.

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
    form = row_transform(transform, center, working_dtype(X))
    n = X.shape[0] if rows is None else len(rows)
    out = np.empty((n, X.shape[1]), dtype=working_dtype(X))

    def fill(_: int, start: int, stop: int) -> None:
        form(X[start:stop] if rows is None else X[rows[start:stop]], out[start:stop])

    with Workers(out.size) as workers:
        workers.run(fill, row_blocks(n, rows_in_cache(out)))
    return out


def rows_in_cache(X: Floats) -> int:
    """How many rows of (n, D) to go over more than once before the next: about 512 KB of them."""
    return max(16, _BLOCK_BYTES // max(1, int(X.shape[1]) * X.itemsize))


def row_transform(
    transform: Transform, center: Floats | None, dtype: np.dtype[Any]
) -> Callable[[Floats, Floats], None]:
    """The transform of :func:`transform_features` as a function ``(rows, out)``, both (m, D), ``out`` of ``dtype``."""
    if transform == "cl2" and center is None:
        raise ValueError("transform='cl2' needs a center of shape (D,).")
    origin = center.astype(dtype) if transform == "cl2" and center is not None else None
    # What is left of a row equal to the center is rounding, not a direction.
    negligible = 0.0 if origin is None else 8 * np.finfo(dtype).eps * float(np.linalg.norm(origin))

    def form(rows: Floats, out: Floats) -> None:
        np.copyto(out, rows, casting="unsafe")
        if origin is not None:
            out -= origin
        if transform != "none":
            _normalize(out, negligible)

    return form


def _normalize(rows: Floats, negligible: float) -> None:
    """Divide each row by its norm, in place; rows of a norm up to ``negligible`` become zero."""
    squares = np.einsum("nd,nd->n", rows, rows)
    info = np.finfo(rows.dtype)
    extreme = (squares < info.tiny / info.eps) | ~np.isfinite(squares)
    if extreme.any():
        # Squares of huge and of tiny rows leave the range of the type: scale those rows by their largest entry first.
        scaled = rows[extreme]
        largest = np.abs(scaled).max(axis=1, initial=0.0)
        scaled /= np.where(largest > negligible, largest, np.inf)[:, None]
        rows[extreme] = scaled
        squares[extreme] = np.einsum("nd,nd->n", scaled, scaled)
    norms = np.sqrt(squares)
    rows[~extreme & (norms <= negligible)] = 0
    rows /= np.where(norms > 0, norms, 1)[:, None]
