"""scikit-learn's LabelSpreading with the settings that were published for it, and the same rounds over batches."""

from __future__ import annotations

import warnings
from dataclasses import KW_ONLY, dataclass
from typing import ClassVar, Literal

import numpy as np
from scipy.cluster.hierarchy import linkage
from scipy.spatial.distance import pdist, squareform
from sklearn.exceptions import ConvergenceWarning
from sklearn.semi_supervised import LabelSpreading

from laplacianshot.baselines.contract import BatchedBaseline, Space, TaskBatch, row_distances
from laplacianshot.runtime.types import Floats, Ints

# Zhou et al. (2004); scikit-learn's own default is 0.2.
_ALPHA = 0.99
# scikit-learn stops when all changes sum to 1e-3, before labels far from a labeled row have settled.
_TOLERANCE = 1e-9
# A labeled row this far from all others is heard by none of them; its own entries stay finite.
_LARGEST_LOG = 60.0


@dataclass(repr=False, eq=False)
class PublishedLabelSpreading(BatchedBaseline):
    """Local and global consistency (Zhou et al., 2004), by :class:`sklearn.semi_supervised.LabelSpreading`.

    With ``W`` the kernel, its diagonal zero, ``S = D^-1/2 W D^-1/2`` and ``Y_0`` the given labels as indicators::

        Y <- alpha S Y + (1 - alpha) Y_0,    label_q = argmax_c y_qc

    Kernel ``rbf`` is ``w_qp = exp(-gamma |x_q - x_p|^2)`` over all pairs. scikit-learn's ``gamma = 20`` fits one scale
    of data only (on raw digits nearly every weight is zero and a tenth of the labels is right), so gamma follows the
    rule of Zhu and Ghahramani (2002), which looks at the rows, at the given labels and at nothing else:
    :func:`tree_bandwidth`. Kernel ``knn`` gives weight 1 to each of the ``n_neighbors`` nearest rows.

    Both work on the rows as they are: on digits that is better for them than centered L2-normalized rows.

    A fit is scikit-learn's; :meth:`scores` runs the same rounds on a batch, and finds the same labels up to rounding.
    """

    kernel: Literal["rbf", "knn"] = "rbf"
    _: KW_ONLY
    space: Space = "none"
    alpha: float = _ALPHA  # share of the neighbors' say, in (0, 1)
    gamma: float | None = None  # None: by the rule
    n_neighbors: int = 7  # of kernel knn
    max_iter: int = 30
    slow: ClassVar[bool] = True

    def scores(self, batch: TaskBatch) -> Floats:
        """``y_qc`` after ``max_iter`` rounds, (B, N, C), each row times a factor of its own.

        The rounds are run on ``D^-1/2 Y``, whose rows are those of Y but for a factor: with ``P = D^-1 W`` in the
        place of S nothing underflows, however far a row is from all others.
        """
        distances = row_distances(batch)
        if self.kernel == "knn":
            graph, log_degrees = _knn_transitions(distances, self.n_neighbors)
        else:
            graph, log_degrees = _rbf_transitions(distances, self._bandwidths(distances, batch.labels))
        graph *= self.alpha
        scale = (log_degrees.max(axis=1, keepdims=True) - log_degrees[:, : batch.n_support]) / 2
        given = np.zeros((*distances.shape[:2], batch.n_classes), dtype=distances.dtype)
        given[:, : batch.n_support] = batch.one_hot * np.exp(np.minimum(scale, _LARGEST_LOG))[:, :, None]
        spread, kept = given, (1 - self.alpha) * given
        for _ in range(self.max_iter):
            spread = np.matmul(graph, spread)
            spread += kept
        return spread[:, batch.n_support :]

    def _bandwidths(self, distances: Floats, labels: Ints) -> Floats:
        """The bandwidth of each task, (B,), from squared distances (B, n, n)."""
        if self.gamma is not None:
            return np.full(len(distances), self.gamma, dtype=distances.dtype)
        codes = np.full(distances.shape[1], -1)
        gammas: Floats = np.empty(len(distances), dtype=distances.dtype)
        for task, lengths in enumerate(np.sqrt(distances)):
            codes[: labels.shape[1]] = labels[task]
            gammas[task] = _bandwidth(squareform(lengths, checks=False), codes)
        return gammas

    def _assign(self, X: Floats, codes: Ints, n_classes: int) -> Ints:
        if self.space != "none":
            X = self._place(X, codes >= 0)
        gamma = 1.0  # not used by knn
        if self.kernel == "rbf":
            gamma = tree_bandwidth(X, codes) if self.gamma is None else self.gamma
        spreading = LabelSpreading(
            kernel=self.kernel,
            gamma=gamma,
            n_neighbors=min(self.n_neighbors, len(X)),
            alpha=self.alpha,
            max_iter=self.max_iter,
            tol=_TOLERANCE,
        )
        with warnings.catch_warnings():
            # The number of rounds is chosen, and a row that no label reaches takes the first class.
            warnings.simplefilter("ignore", ConvergenceWarning)
            warnings.simplefilter("ignore", RuntimeWarning)
            spreading.fit(X, codes)
        assigned: Ints = spreading.transduction_[codes < 0]
        return assigned


def tree_bandwidth(X: Floats, codes: Ints) -> float:
    """The rule of Zhu and Ghahramani (2002) for ``exp(-gamma |x - x'|^2)``.

    Rows are joined by ever longer edges, as a minimum spanning tree grows. Let ``d0`` be the first edge that joins two
    groups with labels of different classes: an edge that crosses a class boundary. It gets the weight of a gap of three
    standard deviations, ``gamma = (3 / d0)^2``, so that labels travel along shorter edges first.

    Parameters
    ----------
    X : array of shape (n, D)
    codes : int array of shape (n,)
        Class numbers, -1 where unlabeled.

    Returns
    -------
    float
        With labels of one class only, from the longest edge of the tree; 1 if all rows are equal.
    """
    return 1.0 if len(X) < 2 else _bandwidth(pdist(X), codes)


def _bandwidth(distances: Floats, codes: Ints) -> float:
    """The same from the distances between pairs of rows, in scipy's condensed form."""
    labels = codes.tolist()
    crossing = 0.0
    # Single linkage is the minimum spanning tree, its edges in order of length.
    for first, second, length, _ in linkage(distances, method="single").tolist():
        label, other = labels[int(first)], labels[int(second)]
        crossing = max(crossing, length)
        if label >= 0 and other >= 0 and label != other and length > 0:
            break
        labels.append(max(label, other))
    with np.errstate(over="ignore"):
        gamma = float(np.square(3.0 / np.float64(crossing))) if crossing > 0 else 1.0
    return gamma if np.isfinite(gamma) else 1.0


def _rbf_transitions(distances: Floats, gammas: Floats) -> tuple[Floats, Floats]:
    """``D^-1 W`` (B, n, n) and ``log D`` (B, n) of the rbf kernel from squared distances, which are overwritten."""
    np.einsum("bii->bi", distances)[...] = np.inf
    logits = np.multiply(distances, -gammas[:, None, None], out=distances)
    largest = np.maximum(logits.max(axis=2, keepdims=True), np.finfo(logits.dtype).min)
    logits -= largest
    kernel = np.exp(logits, out=logits)
    degrees = np.maximum(kernel.sum(axis=2, keepdims=True), np.finfo(kernel.dtype).tiny)
    kernel /= degrees
    return kernel, (np.log(degrees) + largest)[:, :, 0]


def _knn_transitions(distances: Floats, n_neighbors: int) -> tuple[Floats, Floats]:
    """The same of the knn kernel as scikit-learn makes it: a row counts among its own neighbors.

    The kernel is directed and ``D`` holds the number of rows that each row is a neighbor of, itself apart.
    """
    n = distances.shape[1]
    np.einsum("bii->bi", distances)[...] = -1
    near = np.argpartition(distances, min(n_neighbors, n) - 1, axis=2)[:, :, :n_neighbors]
    kernel = np.zeros_like(distances)
    np.put_along_axis(kernel, near, 1, axis=2)
    np.einsum("bii->bi", kernel)[...] = 0
    degrees = np.maximum(kernel.sum(axis=1), 1)
    kernel /= degrees[:, :, None]
    return kernel, np.log(degrees)


# The neighbors of a row end where its Gaussian is this many standard deviations wide.
_DEVIATIONS = 3


@dataclass(repr=False, eq=False, kw_only=True)
class LabelPropagation(BatchedBaseline):
    """Label propagation of Zhou et al. (2004) on the graph of TPN (Liu et al., 2019), without its learning.

    With ``W`` the kernel over all rows of the task, ``D`` its row sums and ``Y`` (n, C) the given labels as
    indicators, zero for queries::

        w_ij = exp(-|x_i - x_j|^2 / (2 s_i s_j)) if j is among the k largest of row i or i among those of row j
        S = D^-1/2 W D^-1/2,    F = (I - alpha S)^-1 Y,    label_q = argmax_c f_qc

    A row counts among its own k, as in the authors' code. TPN learns a scale for each row; ours is a rule that looks
    at no label: ``s_i`` is a third of the distance from row i to the last of its k, so that the Gaussian has faded,
    three standard deviations away, where the graph ends.
    """

    alpha: float = _ALPHA  # share of the neighbors' say, in (0, 1)
    n_neighbors: int = 20  # cut to the rows of the task

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
