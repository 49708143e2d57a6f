"""A few rows of a set against more of them: what is tried here tells which way of searching all rows is cheapest."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Self

import numpy as np

from laplacianshot.runtime.threads import Workers
from laplacianshot.runtime.types import Floats, Ints

# Fewer rows than this are searched in full sooner than anything is tried.
MIN_ROWS = 4096
_ROWS, _FIRST = 1024, 96


@dataclass(frozen=True)
class Trial:
    """Rows to try bounds on, the first few of them against all.

    A pair is in question while a bound of its key, ``|x_j|^2 / 2 - x_i.x_j``, is not above the limit of row i: the key
    of the neighbor that is as far down among these rows as the last one is among all.

    Attributes
    ----------
    tried : int array of shape (m,)
        Which rows they are.
    rows : array of shape (m, D)
    halves : array of shape (m,)
        Half their squared lengths.
    keys : array of shape (f, m)
    limits : array of shape (f, 1)
    near : float
        The squared distance of that neighbor over the one of any two rows.
    """

    tried: Ints
    rows: Floats
    halves: Floats
    keys: Floats
    limits: Floats
    near: float

    @classmethod
    def of_rows(cls, workers: Workers, rows: Floats, halves: Floats, n_neighbors: int) -> Self:
        """From rows (n, D), at least MIN_ROWS, whose ``n_neighbors`` nearest are searched."""
        tried = np.random.default_rng(0).choice(len(rows), _ROWS, replace=False)
        some, halves = rows[tried], halves[tried]
        keys = halves - workers.product(some[:_FIRST], some.T)
        keys[np.arange(_FIRST), np.arange(_FIRST)] = np.inf
        rank = min(int(n_neighbors / len(rows) * _ROWS) + 1, _ROWS - 2)
        limits = np.partition(keys, rank, axis=1)[:, rank]
        spread = 2 * float(np.mean(halves))
        near = float(np.mean(limits + halves[:_FIRST])) / spread if spread else np.inf
        return cls(tried, some, halves, keys, limits[:, None], near)

    def in_question(self, lower: Floats) -> float:
        """The share of pairs with these lower bounds of keys (f, m) that are."""
        return float(np.count_nonzero(lower <= self.limits)) / lower.size
