"""Label propagation in closed form, on the graph of TPN."""

from __future__ import annotations

import numpy as np

from laplacianshot.baselines._rows import row_distances
from laplacianshot.baselines.batch import TaskBatch
from laplacianshot.baselines.contract import BatchedBaseline, Center, Space
from laplacianshot.baselines.label_spreading import PUBLISHED_ALPHA
from laplacianshot.runtime.types import Floats

# The neighbors of a row end where its Gaussian is this many standard deviations wide.
_DEVIATIONS = 3


class LabelPropagation(BatchedBaseline):
    """Label propagation of Zhou et al. (2004) on the graph of TPN (Liu et al., 2019), without its learning.

    With ``W`` the kernel over all rows of the task, ``D`` its row sums and ``Y`` (n, C) the given labels as
    indicators, zero for queries::

        w_ij = exp(-|x_i - x_j|^2 / (2 s_i s_j)) if j is among the k largest of row i or i among those of row j
        S = D^-1/2 W D^-1/2,    F = (I - alpha S)^-1 Y,    label_q = argmax_c f_qc

    A row counts among its own k, as in the authors' code. TPN learns a scale for each row; ours is a rule that looks
    at no label: ``s_i`` is a third of the distance from row i to the last of its k, so that the Gaussian has faded,
    three standard deviations away, where the graph ends.

    Parameters
    ----------
    space, center
        See :class:`~laplacianshot.baselines.contract.BatchedBaseline`.
    alpha : float
        Share of the neighbors' say, in (0, 1).
    n_neighbors : int
        k; cut to the rows of the task.
    """

    def __init__(
        self,
        *,
        space: Space = "cl2",
        center: Center | Floats = "pooled",
        alpha: float = PUBLISHED_ALPHA,
        n_neighbors: int = 20,
    ) -> None:
        self.space = space
        self.center = center
        self.alpha = alpha
        self.n_neighbors = n_neighbors

    def scores(self, batch: TaskBatch) -> Floats:
        """``f_qc``, (B, N, C)."""
        system = tpn_graph(row_distances(batch), self.n_neighbors)
        system *= -self.alpha
        np.einsum("bii->bi", system)[...] += 1
        given = np.zeros((*system.shape[:2], batch.n_classes), dtype=system.dtype)
        given[:, : batch.n_support] = batch.one_hot
        found: Floats = np.linalg.solve(system, given)
        return found[:, batch.n_support :]


def tpn_graph(distances: Floats, n_neighbors: int) -> Floats:
    """``S`` of :class:`LabelPropagation` (B, n, n) from squared distances (B, n, n), which are overwritten."""
    last = min(n_neighbors, distances.shape[1]) - 1
    reach = np.partition(distances, last, axis=2)[:, :, last]
    near = distances <= reach[:, :, None]
    near |= np.swapaxes(near, 1, 2)
    scale = np.sqrt(reach) / _DEVIATIONS
    # A row with k equal ones has no scale of its own: rows like it are at distance 0, all others infinitely far.
    per_scale = np.divide(1, scale, out=np.full_like(scale, np.finfo(scale.dtype).max), where=scale > 0)
    with np.errstate(over="ignore"):
        distances *= -0.5 * per_scale[:, :, None]
        distances *= per_scale[:, None, :]
    weights = np.exp(distances, out=distances)
    weights *= near
    # No row sum is zero: each row is its own neighbor with weight 1.
    normalizer = 1 / np.sqrt(weights.sum(axis=2))
    weights *= normalizer[:, :, None]
    weights *= normalizer[:, None, :]
    return weights
