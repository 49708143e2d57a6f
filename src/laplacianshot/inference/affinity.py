"""The graph: affinities W between nearby rows, in CSR form."""

from __future__ import annotations

from typing import Any, Literal, TypeAlias

import numpy as np
import scipy.sparse as sp
from scipy.sparse.linalg import ArpackError, eigsh

from laplacianshot.neighbors.knn import knn
from laplacianshot.neighbors.types import Neighbors
from laplacianshot.runtime.types import Floats, Ints

Symmetry: TypeAlias = Literal["directed", "mutual", "symmetric"]
EdgeWeights: TypeAlias = Literal["binary", "heat"]

# Up to this many nodes the smallest eigenvalue comes from a dense decomposition.
_DENSE_NODES = 256


def knn_affinity(
    X: Floats,
    n_neighbors: int,
    *,
    symmetry: Symmetry = "symmetric",
    weights: EdgeWeights = "binary",
) -> sp.csr_array:
    """Affinity between the rows of ``X`` and their nearest other rows.

    With ``A_qp = 1`` when p is among the k nearest other rows of q, or the heat kernel
    ``A_qp = exp(-|x_q - x_p|^2 / (s_q s_p))`` with ``s_q`` the distance from q to its k-th neighbor::

        directed    W = A
        mutual      W = min(A, A^T)
        symmetric   W = (A + A^T) / 2

    *symmetric* leaves ``sum_qp w_qp y_q.y_p`` as it is for *directed*: the paper's objective does not change.

    Parameters
    ----------
    X : array of shape (n, D)
    n_neighbors : int
        k, the row itself not counted; more than n - 1 means all the others.
    symmetry : {"directed", "mutual", "symmetric"}
    weights : {"binary", "heat"}

    Returns
    -------
    csr_array of shape (n, n), zero diagonal, of X's dtype
    """
    if weights == "binary":
        indices = knn(X, n_neighbors, method="exact", distances=False).indices
        return _symmetric(_graph(indices, np.ones(indices.size, dtype=X.dtype)), symmetry)
    return neighbor_affinity(knn(X, n_neighbors, method="exact"), symmetry=symmetry, weights=weights, dtype=X.dtype)


def neighbor_affinity(
    neighbors: Neighbors,
    *,
    symmetry: Symmetry = "symmetric",
    weights: EdgeWeights = "binary",
    dtype: Any = np.float32,
) -> sp.csr_array:
    """The affinity of :func:`knn_affinity` from neighbors already found."""
    n, k = neighbors.indices.shape
    if weights == "binary":
        data = np.ones(n * k, dtype=dtype)
    else:
        reach = np.sqrt(neighbors.distances[:, -1]) if k else np.zeros(n)
        scale = reach[:, None] * reach[neighbors.indices]
        # Scale zero: a pile of duplicates. Those at distance zero are as close as can be, the others not at all.
        exponent = np.divide(neighbors.distances, scale, out=np.full((n, k), np.inf), where=scale > 0)
        exponent[neighbors.distances == 0] = 0
        data = np.exp(-exponent).astype(dtype).ravel()
    return _symmetric(_graph(neighbors.indices, data), symmetry)


def _graph(indices: Ints, data: Floats) -> sp.csr_array:
    """Edges to the neighbors (n, k) of each row, with these weights (n k,)."""
    n, k = indices.shape
    indptr = np.arange(0, n * k + 1, k) if k else np.zeros(n + 1, dtype=np.int64)
    A = sp.csr_array((data, indices.ravel(), indptr), shape=(n, n))
    A.sort_indices()
    return A


def _symmetric(A: sp.csr_array, symmetry: Symmetry) -> sp.csr_array:
    if symmetry == "directed":
        return A
    if symmetry == "mutual":
        return sp.csr_array(A.minimum(A.T))
    return symmetrize(A)


def symmetrize(W: sp.csr_array) -> sp.csr_array:
    """``(W + W^T) / 2``."""
    half = W.dtype.type(0.5)
    return sp.csr_array((W + W.T.tocsr()) * half)


def normalize(W: sp.csr_array) -> sp.csr_array:
    """``D^-1/2 W D^-1/2``, D the row sums of a symmetric W: eigenvalues in [-1, 1]; isolated nodes stay isolated."""
    degrees = W.sum(axis=1)
    scale = np.divide(1.0, np.sqrt(degrees), out=np.zeros(len(degrees)), where=degrees > 0).astype(W.dtype)
    rows = np.repeat(np.arange(W.shape[0]), np.diff(W.indptr))
    return sp.csr_array((W.data * scale[rows] * scale[W.indices], W.indices, W.indptr), shape=W.shape)


def psd_shift(W: sp.csr_array) -> float:
    """The smallest ``delta >= 0`` (to rounding, from above) that makes ``W + delta I`` positive semi-definite.

    From the smallest eigenvalue of the symmetric W, never more than Gershgorin's bound, the largest row sum of |W|.
    """
    n = W.shape[0]
    if n == 0 or W.nnz == 0:
        return 0.0
    gershgorin = float(abs(W).sum(axis=1).max())
    A = W.astype(np.float64)
    if n <= _DENSE_NODES:
        smallest = float(np.linalg.eigvalsh(A.toarray())[0])
        slack = 1e-12 * gershgorin
    else:
        start = np.random.default_rng(0).standard_normal(n)
        try:
            values, vectors = eigsh(A, k=1, which="SA", tol=1e-4, v0=start, maxiter=1000)
        except ArpackError:
            return gershgorin
        smallest = float(values[0])
        residual = A @ vectors[:, 0] - smallest * vectors[:, 0]
        slack = float(np.linalg.norm(residual)) + 1e-6 * gershgorin
    return float(min(max(0.0, slack - smallest), gershgorin))


def check_affinity(graph: Any, n: int, *, name: str = "graph", nodes: str = "rows of X", dtype: Any) -> sp.csr_array:
    """A user's graph as CSR of shape (n, n), or an error that says what is wrong with it."""
    if not sp.issparse(graph):
        raise TypeError(
            f"{name} must be a scipy sparse matrix of shape ({n}, {n}), got {type(graph).__name__}; "
            "wrap a dense one in scipy.sparse.csr_array."
        )
    if graph.shape != (n, n):
        raise ValueError(
            f"{name} has shape {graph.shape}, expected ({n}, {n}): one row and one column for each of the {n} {nodes}."
        )
    try:
        # Routines in C trust the indices: a wrong one would end the process.
        if graph.format == "coo":
            sp.coo_array((graph.data, (graph.row, graph.col)), shape=graph.shape)
        elif graph.format in ("csr", "csc", "bsr"):
            graph.copy().check_format(full_check=True)
    except (ValueError, TypeError, IndexError) as error:
        raise ValueError(f"{name} is damaged ({' '.join(str(error).split())}); build it again.") from error
    W = sp.csr_array(graph, dtype=dtype, copy=True)
    W.sum_duplicates()
    if not np.all(np.isfinite(W.data)):
        raise ValueError(f"{name} has NaN or infinite weights; remove those edges.")
    if W.nnz and W.data.min() < 0:
        raise ValueError(f"{name} has negative weights (smallest {W.data.min():g}); weights must be >= 0.")
    return W
