"""A map of the vectors: a place in the plane for each, neighbors near one another.

Places are fitted to a question: is a pair of points an edge of the neighbor graph, or drawn at random? With
``d_ij = |z_i - z_j|`` the answer *edge* has probability ``s_ij = 1 / (2 + d_ij^2)``, and places move down the gradient
of::

    - sum_(ij an edge) w_ij log s_ij  -  repulsion  sum_(ir drawn at random) log(1 - s_ir)

This is the loss of negative sampling with the kernel of t-SNE (Damrich, Böhm, Hamprecht and Kobak, *From t-SNE to UMAP
with contrastive learning*, 2023). Each point's gradient is divided by its weight in the graph, so that one length of
step is right for all. The start is the plane of the first two principal components, so that far apart stays far apart.
"""

from __future__ import annotations

import numpy as np
import scipy.sparse as sp

from laplacianshot.inference.affinity import knn_affinity
from laplacianshot.runtime.threads import Workers, row_blocks, single_threaded_blas
from laplacianshot.runtime.types import Floats, working_dtype
from laplacianshot.ui._map_kernels import move_rows

# Number of neighbors of a point if no graph is given.
_NEIGHBORS = 15
# Number of neighbors in one step of a point, and of random points that push it.
_EDGES = 16
_DRAWS = 16
# Weight of the random pairs, which grows over the first half of the steps: a small one lets points find their group, a
# large one spreads the groups.
_FIRST_REPULSION, _REPULSION = 2.0, 20.0
_STEPS = 400
_RATE, _MOMENTUM = 0.5, 0.8
# Standard deviation of the start along its first axis: small, so that all points are in reach of one another.
_START_SPREAD = 2.0
# Number of rows that a thread takes at once.
_BLOCK = 1024


def map_2d(X: Floats, graph: sp.csr_array | None = None, *, seed: int = 0) -> Floats:
    """Return a place in the plane for each row of ``X``, near rows near one another.

    Parameters
    ----------
    X : array of shape (n, D)
        Finite.
    graph : csr_array of shape (n, n), optional
        Weights >= 0 of the edges, such as the affinity of a fitted estimator; by default each row's 15 nearest others.
    seed : int
        Random seed for drawing pairs. The same seed gives the same map, on any number of threads.

    Returns
    -------
    float64 array of shape (n, 2)
        In the square [-1, 1]^2, which it fills along its longer side.
    """
    n = len(X)
    if n < 2:
        return np.zeros((n, 2))
    W = knn_affinity(np.ascontiguousarray(X, dtype=working_dtype(X)), _NEIGHBORS) if graph is None else graph
    rng = np.random.default_rng(seed)
    places = principal_plane(X, rng)
    return fit_square(_level(_settle(places, sp.csr_array(W), rng)))


def principal_plane(X: Floats, rng: np.random.Generator) -> Floats:
    """Coordinates of the rows along their first two principal components, (n, 2), by subspace iteration.

    Scaled to a standard deviation of 2 along the first, with a little noise that separates equal rows.
    """
    n, dim = X.shape
    plane = np.zeros((n, 2))
    width = min(dim, 8)
    basis = rng.standard_normal((dim, width))
    mean = X.mean(axis=0, dtype=np.float64)
    largest = float(np.max(np.abs(X.max(axis=0) - mean), initial=0.0)) or 1.0
    # One thread of BLAS: the number of threads must not change the last digits.
    with single_threaded_blas():
        for _ in range(6):
            basis, _ = np.linalg.qr(basis)
            total = np.zeros((dim, width))
            for start, stop in row_blocks(n, 4096):
                rows = (X[start:stop] - mean) / largest
                total += rows.T @ (rows @ basis)
            basis = total
        axes = np.linalg.svd(basis, full_matrices=False)[0][:, :2]
        axes = axes * np.where(axes[np.argmax(np.abs(axes), axis=0), np.arange(axes.shape[1])] < 0, -1.0, 1.0)
        for start, stop in row_blocks(n, 4096):
            plane[start:stop, : axes.shape[1]] = ((X[start:stop] - mean) / largest) @ axes
    spread = plane[:, 0].std() or 1.0
    return plane * (_START_SPREAD / spread) + 1e-3 * rng.standard_normal((n, 2))


def _level(places: Floats) -> Floats:
    """Turn places so that their longest direction is horizontal, as screens are wide."""
    x, y = (places - places.mean(axis=0)).T
    angle = np.arctan2(2 * np.mean(x * y), np.mean(x * x) - np.mean(y * y)) / 2
    turn = np.array([[np.cos(angle), -np.sin(angle)], [np.sin(angle), np.cos(angle)]])
    level: Floats = places @ turn
    return level


def fit_square(places: Floats) -> Floats:
    """Move and scale places, equally in both directions, into the square [-1, 1]^2."""
    low, high = places.min(axis=0), places.max(axis=0)
    half = float((high - low).max()) / 2 or 1.0
    fitted: Floats = (places - (low + high) / 2) / half
    return fitted


def _settle(places: Floats, W: sp.csr_array, rng: np.random.Generator) -> Floats:
    speeds, moved = np.zeros_like(places), np.empty_like(places)
    edges = (W.indptr, W.indices, W.data.astype(np.float64), _EDGES, _DRAWS)
    blocks = row_blocks(len(places), _BLOCK)

    def move(_: int, start: int, stop: int) -> None:
        # With the forces, draws and places of the current step.
        move_rows(*edges, repulsion, _MOMENTUM, rate, bits, places, speeds, moved, start, stop)

    with Workers(len(places) * (_EDGES + _DRAWS)) as workers:
        for number in range(_STEPS):
            half = 2 * number / _STEPS
            repulsion = _FIRST_REPULSION * (_REPULSION / _FIRST_REPULSION) ** min(1.0, half)
            # Full steps for the first half, then ever shorter ones that let the noise of the draws die down.
            rate = _RATE * min(1.0, 2.0 - half)
            bits = rng.integers(2**64, dtype=np.uint64)
            workers.run(move, blocks)
            places, moved = moved, places
    return places
