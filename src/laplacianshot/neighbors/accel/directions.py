"""Bounds of inner products from few coordinates, for an exact search that forms few of them in full.

With d orthonormal directions Q (D, d), and ``r_x = x - Q Q^T x`` for what they miss of x::

    x.y = (Q^T x).(Q^T y) + r_x.r_y  <=  (Q^T x).(Q^T y) + |r_x| |r_y|

The right side is an inner product of rows of d + 1 numbers, ``[Q^T x, |r_x|]``: a matrix product bounds all pairs, and
only those that the bound leaves in question need all D coordinates. Directions in which the rows vary most leave few.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from scipy.linalg import qr

from laplacianshot.runtime.threads import Workers, row_blocks
from laplacianshot.runtime.types import Floats, Ints

if TYPE_CHECKING:
    from laplacianshot.neighbors.accel import Trial

# Rows that directions are found from.
_SAMPLE = 1024
# Maximum number of directions, against all and against the rows that they have to be worth finding for; the steps in
# which their number is chosen.
_MAX_SHARE = 0.3
_ROWS_PER_DIRECTION = 50
_STEP = 32
# The number of directions tried first. Where those make products this much cheaper they are enough, and where they
# leave this share of all pairs in question, more of them do not help either.
_FEW = 64
_CHEAP = 0.4
_LOST = 0.3
# Extra directions that are searched, so that the requested ones are accurate.
_EXTRA = 16
# A pair formed by itself costs as much as this many of a matrix product, some of them being formed together; either row
# may ask for it, which leaves this many times as many in question.
_PAIR_COST = 4.0
_EITHER = 1.5
# Neighbors farther away than this, against any two rows, cannot be distinguished from others by few coordinates.
_TOO_FAR = 0.75
# Added to what the directions miss, over the squared length: more than the products are rounded by.
_ROUNDING = 1e-5
_BLOCK_ROWS = 1024


@dataclass(frozen=True)
class Projection:
    """Rows in few coordinates, in an order in which neighbors are near one another."""

    order: Ints  # (n,): which row is in which place
    coordinates: Floats  # (n, d + 1): [Q^T x, |r_x|] of the rows in that order


def project(workers: Workers, rows: Floats, halves: Floats, trial: Trial, worth: float) -> Projection | None:
    """The projection that a search is fastest with, or None where it would not help.

    The mean of the ``rows`` (n, D) must be small against their spread; ``halves`` (n,) are half their squared lengths.
    ``trial`` has some of the rows, for bounds to be tried on, and ``worth`` is what the search may cost with the
    projection, against one without.
    """
    n, dim = rows.shape
    max_count = int(min(_MAX_SHARE * dim, n // _ROWS_PER_DIRECTION)) // _STEP * _STEP
    if max_count < _STEP or worth * dim < _STEP:
        return None
    rng = np.random.default_rng(0)
    # Directions fit the rows that they were found from: they are tried on others.
    sample = rng.choice(np.setdiff1d(np.arange(n), trial.tried, assume_unique=True), _SAMPLE, replace=False)
    directions = _chosen_directions(workers, rows[sample], trial, max_count, worth, rng)
    if directions is None:
        return None
    d = directions.shape[1]
    coordinates = np.empty((n, d + 1), dtype=np.float32)

    def fill(_: int, start: int, stop: int) -> None:
        seen = rows[start:stop] @ directions
        coordinates[start:stop, :d] = seen
        coordinates[start:stop, d] = _missed(seen, halves[start:stop])

    workers.run(fill, row_blocks(n, _BLOCK_ROWS))
    order = _by_nearest_pivot(workers, coordinates, rng)
    return Projection(order, taken(workers, coordinates, order))


def taken(workers: Workers, rows: Floats, order: Ints) -> Floats:
    """``rows[order]``, by all threads."""
    result = np.empty_like(rows)

    def take(_: int, start: int, stop: int) -> None:
        np.take(rows, order[start:stop], axis=0, out=result[start:stop], mode="clip")

    workers.run(take, workers.share(len(rows)))
    return result


def _chosen_directions(
    workers: Workers, sample: Floats, trial: Trial, max_count: int, worth: float, rng: np.random.Generator
) -> Floats | None:
    """The directions (D, d) that make the search cheapest, at most ``max_count``; None where none do."""
    dim = sample.shape[1]
    if trial.near > _TOO_FAR:
        return None
    few = min(max_count, _FEW)
    directions = _leading_directions(workers, sample, few, rng)
    d, cost, in_question = _cheapest(trial, workers.product(trial.rows, directions))
    if few < max_count and cost > _CHEAP * dim:
        if in_question > _LOST:
            return None
        directions = _leading_directions(workers, sample, max_count, rng)
        d, cost, _ = _cheapest(trial, workers.product(trial.rows, directions))
    return np.ascontiguousarray(directions[:, :d]) if cost < worth * dim else None


def _leading_directions(workers: Workers, sample: Floats, max_count: int, rng: np.random.Generator) -> Floats:
    """Orthonormal directions (D, max_count) in which the sample varies most, the first ones most of all, nearly."""
    sketch = workers.product(sample, rng.standard_normal((sample.shape[1], max_count + _EXTRA), dtype=np.float32))
    basis = qr(workers.product(sample.T, sketch), mode="economic", overwrite_a=True, check_finite=False)[0]
    seen = workers.product(sample, basis)
    rotation = np.linalg.eigh(workers.product(seen.T, seen))[1][:, : -max_count - 1 : -1]
    leading: Floats = workers.product(basis, rotation)
    return leading


def _missed(coordinates: Floats, halves: Floats) -> Floats:
    """``|r_x|`` of rows with these coordinates and half squared lengths, from above."""
    left = 2 * halves - np.einsum("nd,nd->n", coordinates, coordinates)
    missed: Floats = np.sqrt(np.maximum(left, 0) + np.float32(2 * _ROUNDING) * halves)
    return missed


def _cheapest(trial: Trial, seen: Floats) -> tuple[int, float, float]:
    """How many of the coordinates (n, d) of the trial's rows to use, what a pair costs, and the share in question."""
    dim, few = trial.rows.shape[1], len(trial.limits)
    best, lowest, in_question = 0, np.inf, 1.0
    products = np.zeros((few, len(seen)), dtype=np.float32)
    for d in range(_STEP, seen.shape[1] + 1, _STEP):
        new = seen[:, d - _STEP : d]
        products += new[:few] @ new.T
        missed = _missed(seen[:, :d], trial.halves)
        in_question = trial.in_question(trial.halves - products - missed[:few, None] * missed)
        cost = d + _EITHER * in_question * _PAIR_COST * dim
        if cost < lowest:
            best, lowest = d, cost
    return best, lowest, in_question


def _by_nearest_pivot(workers: Workers, coordinates: Floats, rng: np.random.Generator) -> Ints:
    """An order of the rows by the nearest of about sqrt(n) of them, those in turn along a chain of nearest ones."""
    n = len(coordinates)
    pivots = coordinates[rng.choice(n, int(n**0.5), replace=False), :-1]
    halves = np.einsum("nd,nd->n", pivots, pivots) / 2
    place = np.empty(len(pivots), dtype=np.int64)
    place[_chain(halves[:, None] + halves - pivots @ pivots.T)] = np.arange(len(pivots))
    nearest = np.empty(n, dtype=np.int64)

    def assign(_: int, start: int, stop: int) -> None:
        nearest[start:stop] = np.argmin(halves - coordinates[start:stop, :-1] @ pivots.T, axis=1)

    workers.run(assign, row_blocks(n, _BLOCK_ROWS))
    order: Ints = np.argsort(place[nearest], kind="stable")
    return order


def _chain(distances: Floats) -> Ints:
    """From the first on, always the nearest that is left."""
    left = distances.copy()
    chain = np.zeros(len(left), dtype=np.int64)
    for step in range(1, len(left)):
        left[:, chain[step - 1]] = np.inf
        chain[step] = np.argmin(left[chain[step - 1]])
    return chain
