"""Exact nearest neighbours from products of bytes, on processors that form four of those in the time of a float's.

Rows are rounded to eight bits a coordinate. How far the product of two rounded rows can be from that of the rows is
known for each pair, so that hardly more than the neighbours themselves have to be compared in full.
"""

from __future__ import annotations

import sys
from dataclasses import dataclass
from typing import Self

import numpy as np

from laplacianshot.inference._byte_kernels import FACTS, GROUP, LARGEST_CODE, PANEL, STRIP, round_rows, search_strips
from laplacianshot.inference._threads import Workers, row_blocks
from laplacianshot.inference._types import Floats, Ints
from laplacianshot.inference._vectors import processor_has
from laplacianshot.inference.search_trial import Trial

# Sums of so many products of bytes stay below 2^31.
_MOST_COORDINATES = 2**31 // (255 * 127) - 1
# Rows rounded together; queries that a thread searches for at a time, and points that they all meet before others.
_ROUNDED_ROWS = 10 * PANEL
_QUERIES = 4 * PANEL
_POINT_BYTES = 2**20
# What products of bytes, and what comparing all pairs one by one would cost against half of all products in full.
_PRODUCTS_COST, _PAIR_COST = 0.5, 34.0


def applies(dim: int) -> bool:
    """Whether rows of so many coordinates can be searched by bytes, on this processor."""
    return (
        0 < dim <= _MOST_COORDINATES
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


@dataclass(frozen=True)
class RoundedRows:
    """Rows (n, D) rounded to bytes, as queries of a search; n is filled up to whole panels.

    Attributes
    ----------
    strips : int8 array of shape (n / STRIP, ceil(D / 4), STRIP, 4)
    begins : int32 array of shape (n,)
    facts : array of shape (n, FACTS)
    """

    strips: Ints
    begins: Ints
    facts: Floats

    @classmethod
    def of(cls, workers: Workers, rows: Floats, halves: Floats) -> Self:
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
class RoundedPoints:
    """The same as points that are searched.

    Attributes
    ----------
    panels : uint8 array of shape (n / PANEL, ceil(D / 4), PANEL, 4)
    facts : array of shape (n / PANEL, FACTS, PANEL)
    """

    panels: Ints
    facts: Floats

    @classmethod
    def of(cls, workers: Workers, rounded: RoundedRows) -> Self:
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
    """The m nearest other rows of each row, by half squared distances in float32.

    Parameters
    ----------
    workers : Workers
    rows : float32 array of shape (n, D)
    halves : array of shape (n,)
        Half their squared lengths.
    keys, ids : arrays of shape (n, m)
        Receive half squared distances and numbers, a max-heap a row; ``m < n``.
    """
    rounded = RoundedRows.of(workers, rows, halves)
    points = RoundedPoints.of(workers, rounded)
    panels_at_once = max(1, _POINT_BYTES // (PANEL * GROUP * points.panels.shape[1]))

    def search(_: int, start: int, stop: int) -> None:
        search_strips(
            rows, halves, rounded.strips, rounded.begins, rounded.facts, rows, halves, points.panels, points.facts,
            True, panels_at_once, keys, ids, start, stop,
        )  # fmt: skip

    workers.run(search, row_blocks(len(rows), _QUERIES))
