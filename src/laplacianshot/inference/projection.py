"""Bounds of inner products from few coordinates, for an exact search that forms few of them in full.

With d orthonormal directions Q (D, d), and ``r_x = x - Q Q^T x`` for what they miss of x::

    x.y = (Q^T x).(Q^T y) + r_x.r_y  <=  (Q^T x).(Q^T y) + |r_x| |r_y|

The right side is an inner product of rows of d + 1 numbers, ``[Q^T x, |r_x|]``: a matrix product bounds all pairs, and
only those that the bound leaves in question need all D coordinates. Directions in which the rows vary most leave few.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.linalg import qr

from laplacianshot.inference._threads import Workers, row_blocks
from laplacianshot.inference._types import Floats, Ints

# Fewer rows than this are searched in full sooner than directions are found.
LEAST_ROWS = 4096
# Rows that directions are found from; rows and columns that bounds are tried on.
_SAMPLE = 1024
_TRIED = 96
# Most directions, against all and against the rows that they have to be worth finding for; the steps in which their
# number is chosen.
_MOST_SHARE = 0.3
_ROWS_A_DIRECTION = 50
_STEP = 32
# First so few are tried. Where those make products this much cheaper they are enough, and where they leave this share
# of all pairs in question more of them will not do either.
_FEW = 64
_CHEAP = 0.4
_LOST = 0.3
# More that are sought, so that those asked for come out well.
_EXTRA = 16
# A pair formed by itself costs as much as this many of a matrix product, some of them being formed together; either row
# may ask for it, so many times as many are in question; and all of it must cost this much less than all products.
_PAIR_COST = 4.0
_EITHER = 1.5
_WORTH_IT = 0.7
# Neighbours farther away than this, against any two rows, are not told from others by few coordinates.
_TOO_FAR = 0.75
# Added to what the directions miss, over the squared length: more than the products are rounded by.
_ROUNDING = 1e-5
_BLOCK_ROWS = 1024


@dataclass(frozen=True)
class Projection:
    """Rows in few coordinates, in an order in which neighbours are near one another.

    Attributes
    ----------
    order : int array of shape (n,)
        Which row is in which place.
    coordinates : array of shape (n, d + 1)
        ``[Q^T x, |r_x|]`` of the rows in that order.
    """

    order: Ints
    coordinates: Floats


def project(workers: Workers, rows: Floats, halves: Floats, n_neighbors: int) -> Projection | None:
    """The projection that a search for ``n_neighbors`` is fastest with, or None where it would not help.

    Parameters
    ----------
    workers : Workers
    rows : array of shape (n, D), float32
        Near zero: their mean is small against their spread.
    halves : array of shape (n,)
        Half their squared lengths.
    n_neighbors : int
    """
    n, dim = rows.shape
    most = int(min(_MOST_SHARE * dim, n // _ROWS_A_DIRECTION)) // _STEP * _STEP
    if n < LEAST_ROWS or most < _STEP:
        return None
    rng = np.random.default_rng(0)
    # Directions fit the rows that they were found from: they are tried on others.
    sample, tried = np.split(rng.choice(n, 2 * _SAMPLE, replace=False), 2)
    directions = _chosen_directions(
        workers, rows[sample], _Trial.of_rows(workers, rows[tried], halves[tried], n_neighbors / n), most, rng
    )
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
    workers: Workers, sample: Floats, trial: _Trial, most: int, rng: np.random.Generator
) -> Floats | None:
    """The directions (D, d) that make the search cheapest, at most so many; None where none do."""
    dim = sample.shape[1]
    if trial.near > _TOO_FAR:
        return None
    few = min(most, _FEW)
    directions = _leading_directions(workers, sample, few, rng)
    d, cost, in_question = trial.cheapest(workers.product(trial.rows, directions))
    if few < most and cost > _CHEAP * dim:
        if in_question > _LOST:
            return None
        directions = _leading_directions(workers, sample, most, rng)
        d, cost, _ = trial.cheapest(workers.product(trial.rows, directions))
    return np.ascontiguousarray(directions[:, :d]) if cost < _WORTH_IT * dim else None


def _leading_directions(workers: Workers, sample: Floats, most: int, rng: np.random.Generator) -> Floats:
    """Orthonormal directions (D, most) in which the sample varies most, the first ones most of all, nearly."""
    sketch = workers.product(sample, rng.standard_normal((sample.shape[1], most + _EXTRA), dtype=np.float32))
    basis = qr(workers.product(sample.T, sketch), mode="economic", overwrite_a=True, check_finite=False)[0]
    seen = workers.product(sample, basis)
    rotation = np.linalg.eigh(workers.product(seen.T, seen))[1][:, : -most - 1 : -1]
    leading: Floats = workers.product(basis, rotation)
    return leading


def _missed(coordinates: Floats, halves: Floats) -> Floats:
    """``|r_x|`` of rows with these coordinates and half squared lengths, from above."""
    left = 2 * halves - np.einsum("nd,nd->n", coordinates, coordinates)
    missed: Floats = np.sqrt(np.maximum(left, 0) + np.float32(2 * _ROUNDING) * halves)
    return missed


@dataclass(frozen=True)
class _Trial:
    """Rows (n, D) to try bounds on, the first few of them against all.

    A pair of rows i and j is in question while a bound of ``h_j - x_i.x_j`` is below ``limits`` (m, 1): what it is for
    the neighbour that is as far down among these rows as the last one is among all. ``near`` is the squared distance of
    that neighbour over the one of any two rows.
    """

    rows: Floats
    halves: Floats
    limits: Floats
    near: float

    @classmethod
    def of_rows(cls, workers: Workers, rows: Floats, halves: Floats, share: float) -> _Trial:
        n = len(rows)
        keys = halves - workers.product(rows[:_TRIED], rows.T)
        keys[np.arange(_TRIED), np.arange(_TRIED)] = np.inf
        rank = min(int(share * n) + 1, n - 2)
        limits = np.partition(keys, rank, axis=1)[:, rank]
        spread = 2 * float(np.mean(halves))
        near = float(np.mean(limits + halves[:_TRIED])) / spread if spread else np.inf
        return cls(rows, halves, limits[:, None], near)

    def cheapest(self, seen: Floats) -> tuple[int, float, float]:
        """How many of the coordinates (n, d) to use, what a pair then costs, and the pairs in question with all."""
        dim = self.rows.shape[1]
        best, least, in_question = 0, np.inf, 1.0
        products = np.zeros((_TRIED, len(seen)), dtype=np.float32)
        for d in range(_STEP, seen.shape[1] + 1, _STEP):
            new = seen[:, d - _STEP : d]
            products += new[:_TRIED] @ new.T
            missed = _missed(seen[:, :d], self.halves)
            bounds = products + missed[:_TRIED, None] * missed
            in_question = np.count_nonzero(self.halves - bounds < self.limits) / bounds.size
            cost = d + _EITHER * in_question * _PAIR_COST * dim
            if cost < least:
                best, least = d, cost
        return best, least, in_question


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
