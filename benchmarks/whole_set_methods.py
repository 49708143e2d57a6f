"""What whole_set.py compares: methods by name, the rows that they see, and Poisson learning."""

from __future__ import annotations

from collections.abc import Mapping
from importlib import import_module, metadata
from typing import Any

import numpy as np
import scipy.sparse as sp
from sklearn.base import clone
from sklearn.linear_model import RidgeClassifier
from sklearn.preprocessing import StandardScaler

from laplacianshot.baselines.contract import Baseline, Inductive, place_rows
from laplacianshot.baselines.prototype import NearestPrototype
from laplacianshot.episodes.methods import make_method
from laplacianshot.inference.transforms import base_mean
from laplacianshot.neighbors.knn import knn
from laplacianshot.runtime.types import Floats, Ints

OURS, NEAREST, RBF = "laplacianshot", "nearest-prototype", "label-spreading-rbf"
TITLES: Mapping[str, str] = {
    OURS: "LaplacianShot",
    NEAREST: "nearest prototype",
    "1-nearest-neighbor": "1-NN",
    "logistic-regression": "logistic regression",
    "ridge": "ridge",
    "label-spreading-knn": "LabelSpreading knn",
    RBF: "LabelSpreading rbf",
    "poisson": "Poisson learning",
}
# Up to this many columns a set is a table.
TABLE_COLUMNS = 40
# The kernel of rbf holds a number for each pair of rows.
RBF_ROWS = 5000


class Placed(Baseline):
    """``estimator`` on standardized columns of a table, on centered L2-normalized rows (CL2) of anything wider."""

    def __init__(self, estimator: Any) -> None:
        self.estimator = estimator

    def _assign(self, X: Floats, codes: Ints, n_classes: int) -> Ints:
        if X.shape[1] <= TABLE_COLUMNS:
            rows = StandardScaler().fit_transform(X)
        else:
            rows = place_rows(X, "cl2", base_mean(X))
        assigned: Ints = clone(self.estimator).fit(rows, codes).transduction_[codes < 0]
        return assigned


class PoissonLearning(Baseline):
    """Poisson learning (Calder et al., 2020) with 10 neighbors, by the package graphlearning or by :func:`poisson`.

    With ``d_i`` the distance from row i to its last neighbor and ``Y`` (m, C) the labels of the m labeled rows as
    indicators::

        a_ij = exp(-4 |x_i - x_j|^2 / d_i^2) if j is among the neighbors of i,    W = (A + A^T) / 2
        (D - W) U = B,    b_s = y_s - mean(Y) for labeled rows, 0 for others,    label_q = argmax_c u_qc

    Both take the steps of the paper's first algorithm: conjugate gradients, the package's default, need a connected
    graph. Their labels are the same.
    """

    def __init__(self, package: bool, n_neighbors: int = 10) -> None:
        self.package = package
        self.n_neighbors = n_neighbors

    def _assign(self, X: Floats, codes: Ints, n_classes: int) -> Ints:
        W = _graph(X, self.n_neighbors)
        labeled = np.flatnonzero(codes >= 0)
        if self.package:
            model = import_module("graphlearning").ssl.poisson(sp.csr_matrix(W), solver="gradient_descent")
            found: Ints = np.asarray(model.fit_predict(labeled, codes[labeled]), dtype=np.int64)
        else:
            indicators = np.eye(n_classes)[codes[labeled]]
            source = np.zeros((len(X), n_classes))
            source[labeled] = indicators - indicators.mean(axis=0)
            found = poisson(W, source).argmax(axis=1)
        return found[codes < 0]


def poisson(W: sp.csr_array, source: Floats, *, min_iter: int = 50, max_iter: int = 1000) -> Floats:
    """U (n, C) after T steps ``U <- U + D^-1 (B - (D - W) U)`` from 0, for a graph W (n, n) and B (n, C).

    T is the number of steps after which a random walk from the labeled rows (those with a source) is, in every row, as
    near as 1/n to the share of all degrees that the row has, between ``min_iter`` and ``max_iter``.
    """
    n, degrees = W.shape[0], W.sum(axis=1)
    P, added = sp.csr_array(W / degrees[:, None]), source / degrees[:, None]
    # A walk moves by W D^-1, which is the transpose of P as W is symmetric.
    back, rest = sp.csr_array(P.T), degrees / degrees.sum()
    at = np.abs(source).sum(axis=1) > 0
    walk, U = at / at.sum(), np.zeros_like(source)
    for t in range(max_iter):
        if t >= min_iter and np.abs(walk - rest).max() <= 1 / n:
            break
        U, walk = added + P @ U, back @ walk
    return U


def _graph(X: Floats, n_neighbors: int) -> sp.csr_array:
    """W (n, n)."""
    near = knn(X, n_neighbors, method="exact")
    n, k = near.indices.shape
    squares = near.distances.astype(np.float64)
    weights = np.exp(-4 * squares / np.maximum(squares[:, -1:], np.finfo(np.float64).tiny))
    A = sp.csr_array((weights.ravel(), near.indices.ravel(), np.arange(0, n * k + 1, k)), shape=(n, n))
    return sp.csr_array((A + A.T) / 2)


def poisson_version() -> str:
    """``graphlearning 1.7.5``, or ``re-made`` where the package cannot be imported."""
    try:
        import_module("graphlearning")
    except ImportError:
        return "re-made"
    return f"graphlearning {metadata.version('graphlearning')}"


def make_methods(poisson: str) -> dict[str, Any]:
    """New estimators in the order of :data:`TITLES`."""
    made = {OURS: make_method(OURS)}
    others = {
        NEAREST: NearestPrototype("none"),
        "ridge": Inductive(RidgeClassifier()),
        "poisson": PoissonLearning(poisson != "re-made"),
    }
    for name in TITLES:
        if name != OURS:
            made[name] = Placed(others[name] if name in others else make_method(name))
    return made
