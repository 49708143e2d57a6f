"""Arrays of many rows: checked to hold finite numbers, and their mean."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import ArrayLike
from sklearn.utils.validation import check_array

from laplacianshot.runtime.limits import SMALL_ROWS
from laplacianshot.runtime.threads import Workers, even_blocks, row_blocks
from laplacianshot.runtime.types import Floats, working_dtype

DTYPES = [np.float64, np.float32, np.float16]
# Entries of X from which on it is checked in blocks of rows.
_BLOCKS_FROM = 2**22
_CHECKED_ROWS = 4096
# Rows added up at a time, in blocks that have sums of their own.
_SUMMED_ROWS = 1024
_MAX_BLOCKS = 64


def refuse_masked(array: Any, name: str) -> None:
    """ValueError for a masked array with masked entries, which would silently count as whatever lies under the mask."""
    if np.ma.isMaskedArray(array) and np.ma.is_masked(array):
        raise ValueError(f"{name} is a masked array with masked entries; fill them first, with {name}.filled(...).")


def checked_rows(X: ArrayLike, estimator: Any) -> Floats:
    """Finite numbers in two dimensions, or an error. Large arrays are checked block by block, never copied."""
    refuse_masked(X, "X")
    if not (isinstance(X, np.ndarray) and X.ndim == 2 and X.dtype in DTYPES and X.size > _BLOCKS_FROM):
        features: Floats = check_array(X, dtype=DTYPES, estimator=estimator, input_name="X")
        check_size(features)
        return features
    rows = np.asarray(X)
    blocks = row_blocks(len(rows), _CHECKED_ROWS)

    def check(_: int, start: int, stop: int) -> None:
        block = rows[start:stop]
        if block.dtype == np.float16:
            # The bits of infinity and NaN are the largest; comparing halves themselves is slow.
            largest = 0.0 if (block.view(np.uint16) & 0x7FFF).max() < 0x7C00 else np.inf
        else:
            largest = _largest(block)
        if not np.isfinite(largest):
            check_array(block, dtype=DTYPES, estimator=estimator, input_name="X")
        _check_largest(largest, block)

    with Workers(rows.size) as workers:
        workers.run(check, blocks)
    return rows


def check_size(features: Floats) -> None:
    """Refuse entries whose squares overflow."""
    _check_largest(_largest(features), features)


def _largest(features: Floats) -> float:
    """The largest absolute value; NaN if there is one."""
    return float(np.maximum(features.max(), -features.min()))


def _check_largest(largest: float, features: Floats) -> None:
    if largest > float(np.finfo(working_dtype(features)).max) ** 0.5 / 1e3:
        raise ValueError(f"X has entries as large as {largest:.3g}, whose squares overflow; divide X by a constant.")


def mean_of_rows(X: Any) -> Floats:
    """``(1/n) sum_i x_i`` of an array or :class:`~laplacianshot.neighbors.rows.Rows` (n, D), in float64."""
    if len(X) <= SMALL_ROWS:
        mean: Floats = np.asarray(X[:]).mean(axis=0, dtype=np.float64)
        return mean
    # Here, as small arrays need no numba.
    from laplacianshot.runtime.kernel_parts import add_rows

    blocks = even_blocks(len(X), _SUMMED_ROWS, _MAX_BLOCKS)
    sums = np.zeros((len(blocks), X.shape[1]), dtype=np.float64)

    def add(number: int, start: int, stop: int) -> None:
        for first in range(start, stop, _SUMMED_ROWS):
            block = np.asarray(X[first : min(first + _SUMMED_ROWS, stop)])
            if block.flags.carray and block.dtype in (np.float32, np.float64):
                add_rows(block, sums[number])
            else:
                sums[number] += block.sum(axis=0, dtype=np.float64)

    with Workers(X.size) as workers:
        workers.run(add, blocks)
    mean = sums.sum(axis=0) / len(X)
    return mean
