"""Estimate the accuracy by cross-validation on the given labels.

The labels are divided into ten parts (five in large sets), the same share of each class in each. Each part is held
back once and predicted from the others; the share of right predictions is the estimate. A class keeps at least one
label. Labels that accepted a prediction are not held back, as they would agree with themselves.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from laplacianshot.estimator import LaplacianShot
from laplacianshot.runtime.types import Floats, Ints

PARTS, FEWER_PARTS = 10, 5
# Number of items above which a set is large.
_LARGE = 20_000
# Minimum number of held-back labels for an estimate.
MIN_CHECKED = 5
# Number of standard errors of a 95% interval.
_Z = 1.959964


@dataclass(frozen=True)
class HeldBack:
    """Result of holding back labels.

    Attributes
    ----------
    right, checked : int
    """

    right: int
    checked: int

    @property
    def estimate(self) -> float:
        """Share of held-back labels that were predicted right."""
        return self.right / self.checked

    @property
    def interval(self) -> tuple[float, float]:
        """Wilson's 95% interval of the share."""
        n, p = self.checked, self.estimate
        middle = (p + _Z**2 / (2 * n)) / (1 + _Z**2 / n)
        half = _Z / (1 + _Z**2 / n) * math.sqrt(p * (1 - p) / n + _Z**2 / (4 * n**2))
        # Rounding must not exclude a share of 0 or 1 from its interval.
        return max(0.0, min(p, middle - half)), min(1.0, max(p, middle + half))


def held_back_parts(codes: Ints, asked: NDArray[np.bool_], n_parts: int = PARTS) -> Iterator[Ints]:
    """Yield the positions of the labels to hold back, part by part; each class keeps at least one label.

    Parameters
    ----------
    codes : int array of shape (n,)
        Class of each labeled item in ``0..C-1``, -1 for the others.
    asked : bool array of shape (n,)
        Labels that may be held back.
    n_parts : int
        Two or more.
    """
    parts: list[list[int]] = [[] for _ in range(n_parts)]
    dealt = 0
    for code in range(int(codes.max(initial=-1)) + 1):
        members = np.flatnonzero((codes == code) & asked)
        if np.count_nonzero(codes == code) < 2:
            continue
        for member in members:
            parts[dealt % n_parts].append(int(member))
            dealt += 1
    for part in parts:
        if part:
            yield np.array(part)


def hold_back(
    X: Floats,
    codes: Ints,
    asked: NDArray[np.bool_],
    center: Floats,
    graph: sp.csr_array,
    *,
    stopped: Callable[[], bool] = lambda: False,
) -> HeldBack | None:
    """Predict each part from the other labels; None if stopped, or if there are too few labels.

    ``X`` has shape (n, D); ``codes`` and ``asked`` as for :func:`held_back_parts`; center and graph as for the
    predictions.
    """
    right = checked = 0
    for part in held_back_parts(codes, asked, FEWER_PARTS if len(X) > _LARGE else PARTS):
        if stopped():
            return None
        fewer = codes.copy()
        fewer[part] = -1
        model = LaplacianShot(base_mean=center, graph=graph).fit(X, fewer)
        right += int(np.count_nonzero(model.label_distributions_[part].argmax(axis=1) == codes[part]))
        checked += len(part)
    return HeldBack(right, checked) if checked >= MIN_CHECKED else None
