"""How often the graph is right, from given labels that are held back.

The labels are dealt into ten parts (five of large sets), those of each class in turn. Each part is held back once, the
set is labeled from the others, and the share of held-back labels that come out as they were given is the estimate. A
class keeps at least one label; labels that only accepted a prediction are never asked, as they would agree with
themselves.
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
# A set of more items is large.
_LARGE = 20_000
# Fewer answers say next to nothing.
MIN_CHECKED = 5
# Standard errors of a 95% interval.
_Z = 1.959964


@dataclass(frozen=True)
class HeldBack:
    """What became of held-back labels.

    Attributes
    ----------
    right, checked : int
    """

    right: int
    checked: int

    @property
    def estimate(self) -> float:
        """Share that came out right."""
        return self.right / self.checked

    @property
    def interval(self) -> tuple[float, float]:
        """Wilson's 95% interval of the share."""
        n, p = self.checked, self.estimate
        middle = (p + _Z**2 / (2 * n)) / (1 + _Z**2 / n)
        half = _Z / (1 + _Z**2 / n) * math.sqrt(p * (1 - p) / n + _Z**2 / (4 * n**2))
        # Rounding must not part the interval from a share of none or all.
        return max(0.0, min(p, middle - half)), min(1.0, max(p, middle + half))


def held_back_parts(codes: Ints, asked: NDArray[np.bool_], n_parts: int = PARTS) -> Iterator[Ints]:
    """Positions of the labels to hold back, a part at a time; each class keeps a label at each time.

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
    """Label the rows (n, D) without a part of the labels, for each part; None if that was stopped, or says too little.

    ``codes`` and ``asked`` as for :func:`held_back_parts`; center and graph are those of the labeling itself.
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
