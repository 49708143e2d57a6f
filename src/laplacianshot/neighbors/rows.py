"""Rows of a matrix that stays where it is, transformed a block at a time.

A memory-mapped file of a million vectors is never copied whole: rows are formed block by block. Only one number per row
is kept, the length that it is divided by, or two where roots are taken.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from laplacianshot.neighbors.kernels import form_roots, form_rows, halves_to_single
from laplacianshot.runtime.arrays import mean_of_rows
from laplacianshot.runtime.kernel_parts import squares_about
from laplacianshot.runtime.threads import Workers, row_blocks
from laplacianshot.runtime.types import CENTERED, Floats, Ints, Transform, working_dtype

_FLOAT32: np.dtype[Any] = np.dtype(np.float32)
_BLOCK_ROWS = 1024


@dataclass(frozen=True, repr=False, eq=False)
class Rows:
    """Rows ``(x_i - origin) scale_i`` (n, D) in float32, formed when they are asked for.

    With ``norms`` x_i is ``sign(x_i) sqrt(|x_i|) norms_i``.

    Rows are taken by slices or positions, as new arrays, by several threads at once. Made by :meth:`transformed`.
    """

    source: Floats  # (n_all, D): float16, float32 or float64, in memory or memory-mapped; finite
    origin: Floats  # (D,), float32
    scale: Floats  # (n_all,), float32
    order: Ints  # (n,): which rows of the source, in which order
    unit: bool = False  # whether the rows have length one, or zero
    norms: Floats | None = None  # (n_all,): inverse lengths of the roots of the source's entries; None: no roots

    @classmethod
    def transformed(cls, X: Floats, transform: Transform = "none", center: Floats | None = None) -> Rows:
        """All rows of X (n, D), transformed as by :func:`~laplacianshot.inference.transforms.transform_features`."""
        if transform in CENTERED and center is None:
            raise ValueError(f"transform={transform!r} needs a center of shape (D,).")
        source = np.asarray(X)
        origin = np.zeros(X.shape[1]) if transform not in CENTERED or center is None else center
        scale = np.ones(len(X), dtype=np.float32)
        norms = np.empty(len(X), working_dtype(source)) if transform == "power" else None
        if transform != "none":
            # What is left of a row equal to the center is rounding, not a direction.
            negligible = 8 * float(np.finfo(np.float32).eps) * float(np.linalg.norm(origin))
            _inverse_norms(source, origin, negligible, scale, norms)
        return cls(source, origin.astype(np.float32), scale, np.arange(len(X)), transform != "none", norms)

    @property
    def shape(self) -> tuple[int, int]:
        """``(n, D)``."""
        return len(self.order), self.source.shape[1]

    @property
    def size(self) -> int:
        """``n D``."""
        return self.shape[0] * self.shape[1]

    @property
    def dtype(self) -> np.dtype[Any]:
        """float32."""
        return _FLOAT32

    def __len__(self) -> int:
        return len(self.order)

    def __getitem__(self, rows: slice | Ints) -> Floats:
        """Rows (m, D), consecutive or by their positions."""
        return self.formed(rows)

    def ordered(self, order: Ints) -> Rows:
        """The same rows in another order, or some of them."""
        return replace(self, order=self.order[order])

    def centered(self) -> Rows:
        """The same rows moved to their mean, where float32 products are sharpest; rows of length one stay as they are.

        That changes no distance between two of them.
        """
        return self if self.unit else replace(self, origin=(self.origin + mean_of_rows(self)).astype(np.float32))

    def formed(self, rows: slice | Ints, buffer: Floats | None = None) -> Floats:
        """Rows (m, D) by their positions; in the first m rows of ``buffer``, where that is given."""
        chosen = self.order[rows]
        out = np.empty((len(chosen), self.shape[1]), np.float32) if buffer is None else buffer[: len(chosen)]
        source, scale, norms = self.source, self.scale, self.norms
        if source.dtype == np.float16:
            # Kernels do not support half precision.
            halves_to_single(source[chosen].view(np.uint16), out)
            source, scale, norms = out, scale[chosen], None if norms is None else norms[chosen]
            chosen = np.arange(len(chosen))
        if norms is None:
            form_rows(source, chosen, self.origin, scale, out)
        else:
            form_roots(source, chosen, norms, self.origin, scale, out)
        return out


def _inverse_norms(X: Floats, origin: Floats, negligible: float, scale: Floats, norms: Floats | None) -> None:
    """``1 / |x_i - origin|`` into scale (n,), 0 for lengths up to ``negligible``.

    With ``norms`` (n,) x_i is divided roots, and the inverse lengths of these go there.
    """
    origin = origin.astype(np.float32 if X.dtype != np.float64 or norms is not None else np.float64)

    def fill(_: int, start: int, stop: int) -> None:
        block = X[start:stop]
        if X.dtype == np.float16:
            single = np.empty(block.shape, dtype=np.float32)
            halves_to_single(np.ascontiguousarray(block).view(np.uint16), single)
            block = single
        if norms is not None:
            # |r|^2 = sum_d |x_d| for roots r.
            sums = np.abs(block).sum(axis=1, dtype=np.float64)
            norms[start:stop] = np.divide(1.0, np.sqrt(sums), out=np.zeros(len(sums)), where=sums > 0)
            roots = np.empty(block.shape, np.float32)
            ones = np.ones(len(block), np.float32)
            form_roots(block, np.arange(len(block)), norms[start:stop], np.zeros_like(origin), ones, roots)
            block = roots
        lengths = np.sqrt(squares_about(block, origin))
        scale[start:stop] = np.divide(1.0, lengths, out=np.zeros(len(lengths)), where=lengths > negligible)

    with Workers(X.size) as workers:
        workers.run(fill, row_blocks(len(X), _BLOCK_ROWS))
