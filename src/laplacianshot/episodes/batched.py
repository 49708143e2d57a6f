"""Batches of tasks as inner products: rows are placed once for all tasks, then multiplied task by task."""

from __future__ import annotations

import math
from dataclasses import dataclass
from time import perf_counter
from typing import Literal, TypeAlias

import numpy as np
from numpy.typing import NDArray

from laplacianshot.baselines.contract import Space, TaskBatch, place_rows
from laplacianshot.episodes._gram_kernels import Ties, gather_grams
from laplacianshot.episodes._joint_kernels import JointScratch, blended_grams, centered_grams
from laplacianshot.inference.recipes import MIN_CONFIDENCE, DefaultConstants
from laplacianshot.inference.transforms import CHANCE_FADE, MIN_FADE, before_center
from laplacianshot.runtime.threads import Workers, row_blocks
from laplacianshot.runtime.types import CENTERED, Floats, Ints, working_dtype

_TaskCenter: TypeAlias = Literal["pooled", "support", "blended"]

# The inner products of a whole set are formed once if they fit in this many bytes and take fewer operations than those
# of its tasks, where a scattered read counts as _SCATTERED_READ multiplications.
_MAX_WHOLE_BYTES = 2**30
_SCATTERED_READ = 64
_BLOCK_ROWS = 1024
_SOME_ROWS = 1024
# Squared distance from zero of rows whose inner products are still sharp, against that of a row from their middle:
# each factor of ten is a digit lost of float32's seven.
_FARTHEST = 100.0
# A row this many times as far from the middle as half of them may be left out of a center (ordinary_mean, which leaves
# out rows 1,000 times as far as half of those of its task).
_APART = 100.0


@dataclass(frozen=True)
class Placement:
    """Where a method sees the rows; only ``cl2`` and ``power`` have a center."""

    space: Space
    # A vector (its float64 bytes, so that equal ones are equal), or the name of a center that each task has of its own.
    center: bytes | _TaskCenter | None = None
    # Spaces none and l2 for a method that sees distances only: zero is moved amid the rows, which keeps inner products
    # sharp where rows lie far from it.
    movable: bool = False

    @classmethod
    def about(cls, space: Space, center: Floats | _TaskCenter | None, *, movable: bool = False) -> Placement:
        """The placement about a vector (D,) or a center of each task's own."""
        if space not in CENTERED:
            return cls(space, movable=movable and space in ("none", "l2"))
        if center is None:
            raise ValueError(f"space {space!r} needs a center.")
        return cls(space, center if isinstance(center, str) else np.asarray(center, dtype=np.float64).tobytes())

    @property
    def by_task(self) -> bool:
        """Whether every task has its own center."""
        return isinstance(self.center, str)


class Buffers:
    """Arrays of one thread that are used again from batch to batch."""

    def __init__(self) -> None:
        self._arrays: dict[str, Floats] = {}

    def take(self, name: str, *shape: int) -> Floats:
        """A float32 array of that shape, with whatever it held before."""
        size = math.prod(shape)
        held = self._arrays.get(name)
        if held is None or held.size < size:
            held = self._arrays[name] = np.empty(size, dtype=np.float32)
        return held[:size].reshape(shape)


@dataclass(frozen=True, repr=False)
class Batch(TaskBatch):
    """B tasks of one shape, with what the compiled recipes need besides their inner products."""

    ties: Ties


class GramSource:
    """Inner products of tasks, from the rows (n, D) that they refer to, placed once.

    ``work`` is the number of inner products that all tasks together need.

    Attributes
    ----------
    rows : float32 array of shape (n, D)
        What settles ties between distances: rows at the placement or, where tasks have centers of their own, before it.
    sharp : bool
        Whether float32 inner products distinguish the rows. They do not where rows lie far from zero and close
        together: such tasks are better fitted on their features.
    seconds : float
        Time that placing the rows took.
    """

    def __init__(self, features: Floats, placement: Placement, work: int) -> None:
        start = perf_counter()
        self._placement = placement
        if placement.by_task:
            # The center comes later, task by task.
            placed = before_center(features, placement.space).astype(working_dtype(features), copy=False)
        else:
            center = np.frombuffer(placement.center) if isinstance(placement.center, bytes) else None
            placed = place_rows(features, placement.space, center)
        single = np.ascontiguousarray(placed, dtype=np.float32)
        moved = placement.by_task or placement.movable
        self._rows: Floats = (placed - _middle(placed)).astype(np.float32, copy=False) if moved else single
        # Ties between rows that float32 cannot hold are those of the moved ones.
        self.rows: Floats = single if np.array_equal(single, placed) else self._rows
        self.sharp = _sharp(self._rows)
        self._apart = _apart(self._rows) if placement.by_task else None
        self._whole = self._inner_products() if self._whole_is_cheaper(work) else None
        self.seconds = perf_counter() - start

    def suits(self, rows: Ints) -> bool:
        """Whether inner products are enough for the tasks with these rows (B, n).

        They are not :attr:`sharp`, or the center of a task may leave rows out, which takes features to see.
        """
        return self.sharp and (self._apart is None or not self._apart[rows].any())

    def batch(self, rows: Ints, labels: Ints, n_classes: int, buffers: Buffers) -> Batch:
        """The tasks with these rows (B, n) and labels (B, n_s) of the support; valid until the buffers' next batch."""
        n_tasks, n = rows.shape
        by_task = self._placement.by_task
        grams = buffers.take("grams", n_tasks, n, n)
        target = buffers.take("uncentered", n_tasks, n, n) if by_task else grams
        if self._whole is not None:
            gather_grams(self._whole, rows, target)
        else:
            gathered = buffers.take("gathered", n, self._rows.shape[1])
            for b in range(n_tasks):
                np.take(self._rows, rows[b], axis=0, out=gathered, mode="clip")
                np.matmul(gathered, gathered.T, out=target[b])
        if by_task:
            self._center(target, labels, n_classes, grams)
        return Batch(grams, labels, n_classes, Ties(rows, self.rows, not by_task))

    def _center(self, uncentered: Floats, labels: Ints, n_classes: int, grams: Floats) -> None:
        """Rows of length one about the center of each task."""
        n, n_support = grams.shape[1], labels.shape[1]
        n_query = n - n_support
        if self._placement.center != "blended" or n_query == 0:
            centered_grams(uncentered, n_support, self._placement.center == "support", grams)
            return
        constants = DefaultConstants.for_task(n_support, n_query, n_classes)
        fade = max(MIN_FADE, CHANCE_FADE * (n_classes - 1) / n_query)
        scratch = JointScratch.of(n, n_support, n_classes, constants.n_neighbors)
        blended_grams(uncentered, labels, constants, MIN_CONFIDENCE, fade, scratch, grams)

    def _whole_is_cheaper(self, work: int) -> bool:
        n, dim = self._rows.shape
        # Symmetric both: half the products are formed.
        whole = n * n * dim / 2 + work * _SCATTERED_READ
        return bool(4 * n * n <= _MAX_WHOLE_BYTES and whole < work * dim / 2)

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


def _apart(rows: Floats) -> NDArray[np.bool_] | None:
    """Which rows (n, D), with zero amid them, lie far apart from all others; None: none of them."""
    squares = np.einsum("nd,nd->n", rows, rows)
    apart: NDArray[np.bool_] = squares > _APART**2 * np.median(squares)
    return apart if apart.any() else None


def _sharp(rows: Floats) -> bool:
    some = rows[:: -(-len(rows) // _SOME_ROWS)].astype(np.float64)
    middle = _middle(some)
    spread = float(np.median(np.square(some - middle).sum(axis=1)))
    return float(middle @ middle) <= _FARTHEST * spread
