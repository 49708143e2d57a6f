"""Exact nearest neighbors from products of bytes, on processors that form four of those in the time of a float's.

Rows are rounded to eight bits per coordinate. How far the product of two rounded rows can be from that of the rows is
known for each pair, so that hardly more than the neighbors themselves have to be compared in full.
"""

from __future__ import annotations

import sys
from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING, Self

import numpy as np

from laplacianshot.neighbors.accel._byte_kernels import (
    FACTS,
    GROUP,
    LARGEST_CODE,
    PANEL,
    STRIP,
    compare_waiting,
    meet_panels,
    round_rows,
)
from laplacianshot.neighbors.accel._vector_kernels import processor_has
from laplacianshot.runtime.threads import Workers, disjoint_pairs, row_blocks
from laplacianshot.runtime.types import Floats, Ints

if TYPE_CHECKING:
    from laplacianshot.neighbors.accel import Trial

# Sums of this many products of bytes stay below 2^31.
_MAX_COORDINATES = 2**31 // (255 * 127) - 1
# Rows rounded together, and compared in full together; bytes of the points of a block; how many may wait for a point,
# against the groups that its upper bounds fall into.
_ROUNDED_ROWS = 10 * PANEL
_COMPARED_ROWS = 4 * PANEL
_BLOCK_BYTES = 2**20
_ROOM = 4
# One group per this many neighbors.
_PER_GROUPS = 16
# What products of bytes, and what comparing all pairs one by one would cost against half of all products in full.
_PRODUCTS_COST, _PAIR_COST = 0.3, 34.0


def applies(dim: int) -> bool:
    """Whether rows of ``dim`` coordinates can be searched by bytes, on this processor."""
    return (
        0 < dim <= _MAX_COORDINATES
        and sys.byteorder == "little"
        and processor_has("avx512f", "avx512bw", "avx512vl", "avx512vnni")
    )


def cost(trial: Trial) -> float:
    """What a search by bytes costs against one by products in full, judged by a few of the rows."""
    largest = np.abs(trial.rows).max(axis=1)
    # Rounding to whole numbers loses a twelfth of a unit in each square.
    errors = largest / LARGEST_CODE * (trial.rows.shape[1] / 12) ** 0.5
    lengths = np.sqrt(2 * trial.halves)
    few = len(trial.limits)
    blur = errors[:few, None] * lengths + lengths[:few, None] * errors
    return _PRODUCTS_COST + _PAIR_COST * trial.in_question(trial.keys - blur)


def memory(n_rows: int, dim: int, n_neighbors: int) -> float:
    """Bytes that a search for the ``n_neighbors`` nearest of each row holds beside the rows."""
    codes = 2 * GROUP * -(-dim // GROUP)
    waiting = 4 * _n_groups(n_neighbors) * (1 + 2 * _ROOM)
    return n_rows * (codes + waiting + 8.0 * FACTS + 12)


def _n_groups(n_neighbors: int) -> int:
    """How many groups the upper bounds of a point fall into: enough for the nearest to be of different ones, mostly."""
    return PANEL * -(-n_neighbors // _PER_GROUPS)


@dataclass(frozen=True)
class QuantizedRows:
    """Rows (n, D) rounded to bytes, as queries of a search; n is filled up to whole panels."""

    strips: Ints  # int8 (n / STRIP, ceil(D / 4), STRIP, 4)
    begins: Ints  # int32 (n,)
    facts: Floats  # (n, FACTS)

    @classmethod
    def of(cls, workers: Workers, rows: Floats, halves: Floats) -> Self:
        """From rows (n, D) and half their squared lengths (n,)."""
        n, dim = rows.shape
        filled = -(-n // PANEL) * PANEL
        strips = np.zeros((filled // STRIP, -(-dim // GROUP), STRIP, GROUP), dtype=np.int8)
        begins = np.zeros(filled, dtype=np.int32)
        facts = np.zeros((filled, FACTS), dtype=np.float32)
        facts[n:, 0] = np.inf  # far from everybody
        workers.run(
            lambda _, start, stop: round_rows(rows, halves, strips, begins, facts, start, stop),
            row_blocks(n, _ROUNDED_ROWS),
        )
        return cls(strips, begins, facts)


@dataclass(frozen=True)
class QuantizedPoints:
    """The same as points that are searched."""

    panels: Ints  # uint8 (n / PANEL, ceil(D / 4), PANEL, 4)
    facts: Floats  # (n / PANEL, FACTS, PANEL)

    @classmethod
    def of(cls, workers: Workers, rounded: QuantizedRows) -> Self:
        """The rows as points."""
        n_strips, groups = rounded.strips.shape[:2]
        each = PANEL // STRIP
        n_panels = n_strips // each
        # Eight bytes at a time; flipping the highest bit of a signed byte adds 128.
        strips = rounded.strips.reshape(n_panels, each, groups, STRIP * GROUP).view(np.uint64)
        panels = np.empty((n_panels, groups, each, strips.shape[-1]), dtype=np.uint64)
        flip = np.uint64(0x8080808080808080)

        def turn(_: int, start: int, stop: int) -> None:
            np.bitwise_xor(strips[start:stop].transpose(0, 2, 1, 3), flip, out=panels[start:stop])

        workers.run(turn, row_blocks(n_panels, 4))
        facts = np.ascontiguousarray(rounded.facts.reshape(n_panels, PANEL, FACTS).transpose(0, 2, 1))
        return cls(panels.view(np.uint8).reshape(n_panels, groups, PANEL, GROUP), facts)


def search_by_bytes(workers: Workers, rows: Floats, halves: Floats, keys: Floats, ids: Ints) -> None:
    """The ``m < n`` nearest other rows of each row of (n, D), by half squared distances in float32.

    ``halves`` (n,) are half their squared lengths. ``keys`` and ``ids`` (n, m) receive half squared distances and
    numbers, one max-heap per row.
    """
    n, m = keys.shape
    rounded = QuantizedRows.of(workers, rows, halves)
    points = QuantizedPoints.of(workers, rounded)
    filled = len(rounded.begins)
    groups = _n_groups(m)
    minima = np.full((filled, groups), np.inf, dtype=np.float32)
    # Finite, so that no row waits for itself or for the padding of the last panel, which are infinitely far away.
    limits = np.full(filled, np.finfo(np.float32).max, dtype=np.float32)
    limits[n:] = -np.inf  # the padding of the last panel has no neighbors
    lowers = np.empty((n, _ROOM * groups), dtype=np.float32)
    waiting = np.empty((n, _ROOM * groups), dtype=ids.dtype)
    counts = np.zeros(n, dtype=np.int32)
    blocks = _blocks(len(points.panels), points.panels[0].nbytes)

    def meet(_: int, one: int, other: int) -> None:
        # Each is the one in strips as often as the other: only these lower their limits.
        if (one + other) % 2:
            one, other = other, one
        start, stop = (edge * PANEL for edge in blocks[one])
        meet_panels(
            rows, halves, rounded.strips, rounded.begins, rounded.facts, points.panels, points.facts,
            minima, limits, lowers, waiting, counts, keys, ids, start, min(stop, n), *blocks[other],
        )  # fmt: skip

    def compare(_: int, start: int, stop: int) -> None:
        compare_waiting(rows, halves, limits, lowers, waiting, counts, keys, ids, start, stop)

    workers.run(meet, [(block, block) for block in range(len(blocks))])
    for pairs in disjoint_pairs(len(blocks)):
        workers.run(meet, pairs)
    workers.run(compare, row_blocks(n, _COMPARED_ROWS))


def _blocks(n_panels: int, panel_bytes: int) -> list[tuple[int, int]]:
    """Panels cut into blocks of nearly equal size, a multiple of four of them, so that threads end together."""
    count = max(1, n_panels * panel_bytes // _BLOCK_BYTES)
    count += -count % 4
    edges = [n_panels * block // count for block in range(count + 1)]
    return [(start, stop) for start, stop in pairwise(edges) if stop > start]
