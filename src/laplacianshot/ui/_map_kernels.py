"""The kernel of the map: one step of every point, towards its neighbors and away from a few random points."""

from __future__ import annotations

from typing import Any

import numpy as np

from laplacianshot.runtime.compilation import kernel
from laplacianshot.runtime.kernel_parts import GOLDEN, mix64
from laplacianshot.runtime.types import Floats, Ints

_S32 = np.uint64(32)


@kernel
def move_rows(
    indptr: Ints,
    indices: Ints,
    weights: Floats,
    max_edges: int,
    n_draws: int,
    repulsion: float,
    momentum: float,
    step: float,
    bits: Any,
    places: Floats,
    speeds: Floats,
    moved: Floats,
    start: int,
    stop: int,
) -> None:
    """One step of points ``start..stop``, from ``places`` (n, 2) into ``moved`` (n, 2).

    With v the ``speeds`` (n, 2)::

        pull_i  =  sum_j w_ij 2 (z_j - z_i) / (2 + d_ij^2)  /  sum_j w_ij               over the neighbors j of i
        push_i  =  repulsion  mean_r 2 (z_i - z_r) / ((1 + d_ir^2) (2 + d_ir^2))        over n_draws random points r
        v_i    <-  momentum v_i + step (pull_i + push_i),    z_i <- z_i + v_i

    At most ``max_edges`` neighbors per point take part, a random run of consecutive ones. All points move at once, and
    the draws depend on ``bits`` (uint64) and i alone, so that a map does not depend on how rows are shared by threads.
    A point without neighbors stays where it is.
    """
    n = np.uint64(places.shape[0])
    for i in range(start, stop):
        x, y = places[i, 0], places[i, 1]
        degree = indptr[i + 1] - indptr[i]
        if degree == 0:
            moved[i, 0], moved[i, 1] = x, y
            continue
        state = mix64(bits ^ (np.uint64(i) * GOLDEN))
        edge = indptr[i]
        if degree > max_edges:
            edge += np.int64(((state >> _S32) * np.uint64(degree)) >> _S32)
        total = pull_x = pull_y = 0.0
        for _ in range(min(degree, max_edges)):
            if edge == indptr[i + 1]:
                edge = indptr[i]
            j, weight = indices[edge], weights[edge]
            right, up = places[j, 0] - x, places[j, 1] - y
            force = weight * 2.0 / (2.0 + right * right + up * up)
            pull_x += force * right
            pull_y += force * up
            total += weight
            edge += 1
        push_x = push_y = 0.0
        for _ in range(n_draws):
            state += GOLDEN
            r = np.int64(((mix64(state) >> _S32) * n) >> _S32)
            right, up = x - places[r, 0], y - places[r, 1]
            square = right * right + up * up
            force = 2.0 / ((1.0 + square) * (2.0 + square))
            push_x += force * right
            push_y += force * up
        share = repulsion / n_draws
        speeds[i, 0] = momentum * speeds[i, 0] + step * (pull_x / total + share * push_x)
        speeds[i, 1] = momentum * speeds[i, 1] + step * (pull_y / total + share * push_y)
        moved[i, 0] = x + speeds[i, 0]
        moved[i, 1] = y + speeds[i, 1]
