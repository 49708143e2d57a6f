"""Inner products of the rows of tasks, in the space that a method works in."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal, TypeAlias

import numpy as np

from laplacianshot.baselines.contract import Space, place_rows
from laplacianshot.episodes.batch._gram_kernels import gather_grams
from laplacianshot.episodes.batch._joint_kernels import blended_grams, centered_grams
from laplacianshot.inference.center import CHANCE_FADE, LEAST_FADE
from laplacianshot.inference.recipes import LEAST_CONFIDENCE, DefaultConstants
from laplacianshot.inference.transforms import working_dtype
from laplacianshot.runtime.threads import Workers, row_blocks
from laplacianshot.runtime.types import Floats, Ints

TaskCenter: TypeAlias = Literal["pooled", "support", "blended"]

# The inner products of a whole set are formed once if they fit in this many bytes and take fewer operations than those
# of its tasks, a scattered read counting for so many multiplications.
_LARGEST_WHOLE = 2**30
_SCATTERED_READ = 64
_BLOCK_ROWS = 1024
_SOME_ROWS = 1024
# Squared distance from zero of rows whose inner products are still sharp, against that of a row from their middle:
# each factor of ten is a digit lost of float32's seven.
_FARTHEST = 100.0


@dataclass(frozen=True)
class Placement:
    """Where a method sees the rows.

    Attributes
    ----------
    space : {"cl2", "l2", "none", "power"}
    center : bytes, str or None
        What ``cl2`` takes away: a vector (its float64 bytes, so that equal ones are equal), or ``pooled``, ``support``
        or ``blended`` for a center that each task has of its own.
    movable : bool
        Spaces ``none`` and ``l2`` for a method that sees distances only: zero is moved amid the rows, which keeps inner
        products sharp where they lie far from it.
    """

    space: Space
    center: bytes | TaskCenter | None = None
    movable: bool = False

    @classmethod
    def about(cls, space: Space, center: Floats | TaskCenter | None, *, movable: bool = False) -> Placement:
        """The placement about a vector (D,) or a center of each task's own; only ``cl2`` has a center."""
        if space != "cl2":
            return cls(space, movable=movable and space in ("none", "l2"))
        if center is None:
            raise ValueError("space 'cl2' needs a center.")
        return cls(space, center if isinstance(center, str) else np.asarray(center, dtype=np.float64).tobytes())

    @property
    def by_task(self) -> bool:
        """Whether every task has its own center."""
        return isinstance(self.center, str)


class GramSource:
    """Inner products of tasks, from the rows of a set placed once.

    Parameters
    ----------
    features : array of shape (n, D)
        Rows that the tasks refer to.
    placement : Placement
    work : int
        Inner products that all tasks together need.

    Attributes
    ----------
    rows : float32 array of shape (n, D)
        What settles ties between distances: rows at the placement or, where tasks have centers of their own, before it.
    sharp : bool
        Whether float32 inner products tell the rows apart. They do not where rows lie far from zero and close together:
        such tasks are better fitted on their features.
    """

    def __init__(self, features: Floats, placement: Placement, work: int) -> None:
        self._placement = placement
        if placement.by_task:
            # CL2 comes later, task by task.
            placed = features.astype(working_dtype(features), copy=False)
        else:
            center = np.frombuffer(placement.center) if isinstance(placement.center, bytes) else None
            placed = place_rows(features, placement.space, center)
        single = np.ascontiguousarray(placed, dtype=np.float32)
        moved = placement.by_task or placement.movable
        self._rows: Floats = (placed - _middle(placed)).astype(np.float32, copy=False) if moved else single
        # Ties between rows that float32 cannot hold are those of the moved ones.
        self.rows: Floats = single if np.array_equal(single, placed) else self._rows
        self.sharp = _sharp(self._rows)
        self._whole = self._inner_products() if self._whole_is_cheaper(work) else None

    def fill(self, rows: Ints, labels: Ints, n_classes: int, grams: Floats, buffers: Buffers) -> None:
        """Inner products (B, n, n) of the tasks with these rows (B, n); labels (B, n_s) of their support."""
        by_task = self._placement.by_task
        target = buffers.take("raw", grams.shape) if by_task else grams
        if self._whole is not None:
            gather_grams(self._whole, rows, target)
        else:
            gathered = buffers.take("gathered", (rows.shape[1], self._rows.shape[1]))
            for b in range(len(rows)):
                np.take(self._rows, rows[b], axis=0, out=gathered, mode="clip")
                np.matmul(gathered, gathered.T, out=target[b])
        if not by_task:
            return
        n_support = labels.shape[1]
        n_query = rows.shape[1] - n_support
        if self._placement.center != "blended" or n_query == 0:
            centered_grams(target, n_support, self._placement.center == "support", grams)
            return
        constants = DefaultConstants.for_task(n_support, n_query, n_classes)
        blended_grams(
            target,
            labels,
            n_classes,
            constants.beta,
            constants.kappa,
            constants.pair_spread,
            LEAST_CONFIDENCE,
            max(LEAST_FADE, CHANCE_FADE * (n_classes - 1) / n_query),
            grams,
        )

    def _whole_is_cheaper(self, work: int) -> bool:
        n, dim = self._rows.shape
        # Symmetric both: half the products are formed.
        whole = n * n * dim / 2 + work * _SCATTERED_READ
        return bool(4 * n * n <= _LARGEST_WHOLE and whole < work * dim / 2)

    def _inner_products(self) -> Floats:
        n = len(self._rows)
        whole = np.empty((n, n), dtype=np.float32)

        def fill(_: int, start: int, stop: int) -> None:
            np.matmul(self._rows[start:stop], self._rows[start:].T, out=whole[start:stop, start:])
            whole[stop:, start:stop] = whole[start:stop, stop:].T

        with Workers(n * n) as workers:
            workers.run(fill, row_blocks(n, _BLOCK_ROWS))
        return whole


def _middle(rows: Floats) -> Floats:
    """A point (D,) amid the rows, wherever a few of them may lie: the median of some, feature by feature."""
    middle: Floats = np.median(rows[:: -(-len(rows) // _SOME_ROWS)], axis=0)
    return middle


def _sharp(rows: Floats) -> bool:
    some = rows[:: -(-len(rows) // _SOME_ROWS)].astype(np.float64)
    middle = _middle(some)
    spread = float(np.median(np.square(some - middle).sum(axis=1)))
    return float(middle @ middle) <= _FARTHEST * spread


class Buffers:
    """Arrays of one thread that are used again from batch to batch."""

    def __init__(self) -> None:
        self._arrays: dict[str, Any] = {}

    def take(self, name: str, shape: tuple[int, ...], dtype: Any = np.float32) -> Any:
        """An array of that shape, with whatever it held before."""
        size = int(np.prod(shape))
        held = self._arrays.get(name)
        if held is None or held.size < size or held.dtype != dtype:
            held = self._arrays[name] = np.empty(size, dtype=dtype)
        return held[:size].reshape(shape)
