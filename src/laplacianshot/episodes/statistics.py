"""Means of accuracies with 95% intervals, and paired differences."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from laplacianshot.runtime.types import Floats

# Standard normal quantile of a two-sided 95% interval.
Z95 = 1.96


@dataclass(frozen=True, repr=False)
class MeanInterval:
    """A mean and the half-width of its 95% interval.

    Attributes
    ----------
    mean : float
    ci95 : float
        ``1.96 std / sqrt(n)`` with the sample standard deviation (``n - 1`` below the sum); infinite for one value,
        which tells nothing about its spread.
    n : int
    """

    mean: float
    ci95: float
    n: int

    @property
    def low(self) -> float:
        """Lower end of the interval."""
        return self.mean - self.ci95

    @property
    def high(self) -> float:
        """Upper end of the interval."""
        return self.mean + self.ci95

    def percent(self, *, digits: int = 1, sign: bool = False) -> str:
        """The mean in percent with its interval; the margin of a single value is left out.

        Examples
        --------
        >>> MeanInterval(0.949, 0.001, 100).percent()
        '94.9 ± 0.1'
        >>> MeanInterval(-0.02, 0.001, 100).percent(digits=2, sign=True)
        '-2.00 ± 0.10'
        """
        mean = f"{100 * self.mean:{'+' if sign else ''}.{digits}f}"
        return f"{mean} ± {100 * self.ci95:.{digits}f}" if math.isfinite(self.ci95) else mean

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.mean:.4g} ± {self.ci95:.2g}, n={self.n})"


@dataclass(frozen=True, repr=False)
class PairedDifference(MeanInterval):
    """Mean of ``a_i - b_i`` over the same tasks, with its own interval."""

    @property
    def clear(self) -> bool:
        """Whether the interval leaves out zero."""
        return abs(self.mean) > self.ci95


def mean_interval(values: ArrayLike) -> MeanInterval:
    """Mean of values (n,) with its 95% interval.

    Examples
    --------
    >>> mean_interval([0.8, 0.9, 1.0])
    MeanInterval(0.9 ± 0.11, n=3)
    """
    return MeanInterval(*_mean_and_ci95(_values(values, "values")))


def paired_difference(a: ArrayLike, b: ArrayLike) -> PairedDifference:
    """Mean of ``a - b`` for values (n,) measured on the same n tasks.

    Examples
    --------
    >>> paired_difference([0.8, 0.9, 1.0], [0.7, 0.8, 0.9])
    PairedDifference(0.1 ± ..., n=3)
    """
    first, second = _values(a, "a"), _values(b, "b")
    if first.shape != second.shape:
        raise ValueError(f"a and b must come from the same tasks, got {len(first)} and {len(second)} values.")
    return PairedDifference(*_mean_and_ci95(first - second))


def _values(values: ArrayLike, name: str) -> Floats:
    array: Floats = np.asarray(values, dtype=np.float64)
    if array.ndim != 1 or array.size == 0:
        raise ValueError(f"{name} must be a non-empty array of shape (n,), got shape {array.shape}.")
    return array


def _mean_and_ci95(values: Floats) -> tuple[float, float, int]:
    n = len(values)
    ci95 = Z95 * float(values.std(ddof=1)) / math.sqrt(n) if n > 1 else math.inf
    return float(values.mean()), ci95, n
