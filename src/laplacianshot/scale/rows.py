"""Rows of a matrix that stays where it is, transformed a block at a time.

A memory-mapped file of a million vectors is never copied whole: whoever needs rows asks for a block of them.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from laplacianshot.inference._types import Floats, Ints
from laplacianshot.inference.transforms import Transform, row_transform

_FLOAT32: np.dtype[Any] = np.dtype(np.float32)


class Rows:
    """Transformed rows (n, D) in float32, formed when they are asked for.

    Slices and ``take`` give new arrays, and may be called from several threads at once.

    Parameters
    ----------
    X : array of shape (n_all, D)
        float16, float32 or float64, in memory or memory-mapped; finite.
    transform : {"none", "l2", "cl2"}
        See :func:`~laplacianshot.inference.transforms.transform_features`.
    center : array of shape (D,), for ``cl2``
    order : int array of shape (n,), optional
        Which rows of X, in which order; all of them as they are if not given.
    """

    def __init__(
        self, X: Floats, transform: Transform = "none", center: Floats | None = None, *, order: Ints | None = None
    ) -> None:
        self._X = X
        self._choices = (transform, center)
        self._form = row_transform(transform, center, _FLOAT32)
        self._order = order
        self.shape = (len(X) if order is None else len(order), X.shape[1])
        self.size = self.shape[0] * self.shape[1]
        self.dtype = _FLOAT32

    def __len__(self) -> int:
        return self.shape[0]

    def __getitem__(self, rows: slice) -> Floats:
        """Consecutive rows (m, D)."""
        return self._formed(self._X[rows] if self._order is None else self._X[self._order[rows]])

    def take(self, rows: Ints) -> Floats:
        """Any rows (m, D), by their positions."""
        return self._formed(self._X[rows if self._order is None else self._order[rows]])

    def ordered(self, order: Ints) -> Rows:
        """The same rows in another order, or some of them."""
        return Rows(self._X, *self._choices, order=order if self._order is None else self._order[order])

    def _formed(self, source: Floats) -> Floats:
        out = np.empty(source.shape, dtype=_FLOAT32)
        self._form(source, out)
        return out
