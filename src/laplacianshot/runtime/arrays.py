"""Arrays of many rows: checked to hold finite numbers, and their mean."""

from __future__ import annotations

import re
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
from numpy.typing import ArrayLike
from sklearn.utils.validation import _num_samples, check_array

from laplacianshot.runtime.limits import SMALL_ROWS
from laplacianshot.runtime.threads import Workers, even_blocks, row_blocks
from laplacianshot.runtime.types import Floats, working_dtype

DTYPES = [np.float64, np.float32, np.float16]
# Entries of X from which on it is checked in blocks of rows.
_BLOCKS_FROM = 2**22
_CHECKED_ROWS = 4096
# Rows of one kind differ in length by far less: this is another unit, or an error.
_FAR = 1000.0
# Rows added up at a time, in blocks that have sums of their own.
_SUMMED_ROWS = 1024
_MAX_BLOCKS = 64


def refuse_masked(array: Any, name: str) -> None:
    """ValueError for a masked array with masked entries, which would silently count as whatever lies under the mask."""
    if np.ma.isMaskedArray(array) and np.ma.is_masked(array):
        raise ValueError(f"{name} is a masked array with masked entries; fill them first, with {name}.filled(...).")


def refuse_complex(X: Any) -> None:
    """ValueError for complex rows, in one line: scikit-learn's message prints them all. TypeError for dates."""
    kinds = {getattr(dtype, "kind", "") for dtype in (getattr(X, "dtype", None), *_column_types(X))}
    if getattr(getattr(X, "dtype", None), "kind", "") == "c":
        raise ValueError(f"Complex data not supported: X has dtype {X.dtype}; use real numbers.")
    if kinds & {"m", "M"}:
        # They would count as their number of nanoseconds.
        raise TypeError("X holds dates or times; turn them into numbers of a unit that means something.")


def _column_types(X: Any) -> list[Any]:
    """Types of the columns of a table."""
    types: Any = getattr(X, "dtypes", None)
    return list(types) if hasattr(types, "__iter__") else []


@contextmanager
def in_one_line(name: str) -> Iterator[None]:
    """Raise what scikit-learn's checks say in one line that names the argument, without printing its entries."""
    try:
        yield
    except (ValueError, TypeError) as error:
        first, *others = str(error).splitlines() or [type(error).__name__]
        # What follows the first line are entries, hints on other estimators, or how to reshape.
        advice = next((line for line in others if line.startswith("Reshape")), "")
        words = " ".join(f"{first[:400]} {advice}".split())
        kind = TypeError if isinstance(error, TypeError) else ValueError
        raise kind(words if re.search(rf"\b{name}\b", words) else f"{name}: {words}") from None


def check_length(X: Any, y: Any) -> None:
    """ValueError unless there is one label per row."""
    rows = _num_samples(X)
    with in_one_line("y"):
        labels = _num_samples(y)
    if rows != labels:
        raise ValueError(f"X has {rows} rows and y has {labels} labels; give one label per row, -1 for none.")


def checked_rows(X: ArrayLike, estimator: Any) -> Floats:
    """Finite numbers in two dimensions, or an error. Large arrays are checked block by block, never copied."""
    refuse_masked(X, "X")
    refuse_complex(X)
    if not (isinstance(X, np.ndarray) and X.ndim == 2 and X.dtype in DTYPES and X.size > _BLOCKS_FROM):
        with in_one_line("X"):
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
            with in_one_line("X"):
                check_array(block, dtype=DTYPES, estimator=estimator, input_name="X")
        _check_largest(largest, working_dtype(block))

    with Workers(rows.size) as workers:
        workers.run(check, blocks)
    return rows


def check_size(features: Any, name: str = "X", dtype: Any = None) -> None:
    """Refuse entries whose squares overflow in ``dtype``, by default the one that these rows are worked on in."""
    _check_largest(_largest(features), working_dtype(features) if dtype is None else np.dtype(dtype), name)


def _largest(features: Any) -> float:
    """The largest absolute value; NaN if there is one."""
    # In Python's numbers: the smallest integer of a type has no opposite in it.
    return max(float(features.max()), -float(features.min()), key=lambda value: (np.isnan(value), value))


def _check_largest(largest: float, dtype: np.dtype[Any], name: str = "X") -> None:
    if largest > float(np.finfo(dtype).max) ** 0.5 / 1e3:
        raise ValueError(
            f"{name} {'have' if name.endswith('s') else 'has'} entries as large as {largest:.3g}, whose squares "
            f"overflow; divide {name} by a constant."
        )


def warn_of_far_rows(X: Floats) -> None:
    """Warn of rows that alone decide a mean or a typical distance, in recipes that are not robust to them."""
    lengths = np.concatenate([np.linalg.norm(block, axis=1) for block in _single_blocks(X)])
    typical = float(np.median(lengths))
    far = np.flatnonzero(lengths > _FAR * typical)
    if typical > 0 and far.size:
        warnings.warn(
            f"row {far[0]} of X is {lengths[far[0]] / typical:,.0f} times as long as a typical row and may decide all "
            f"labels ({far.size} such rows); check it, or use the default recipe with transform='auto'.",
            UserWarning,
            stacklevel=4,
        )


def _single_blocks(X: Floats) -> Iterator[Floats]:
    for start in range(0, len(X), _CHECKED_ROWS):
        yield np.asarray(X[start : start + _CHECKED_ROWS], dtype=working_dtype(X))


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
