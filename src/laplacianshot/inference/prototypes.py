"""Class prototypes: plain means, and the two rectifications that borrow from the queries."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import scipy.sparse as sp
from scipy.special import softmax

from laplacianshot.runtime.types import Floats, Ints

# The authors' code sharpens the cosine by this factor; the paper's text has none (1).
REFERENCE_TEMPERATURE = 10.0
PAPER_TEMPERATURE = 1.0


@dataclass(frozen=True)
class RectifiedPrototypes:
    """Prototypes after rectification, and the shift that every query takes.

    Attributes
    ----------
    prototypes : array of shape (C, D)
    query_shift : array of shape (D,)
        ``mean(support) - mean(query)``, to be added to each query.
    """

    prototypes: Floats
    query_shift: Floats


def class_sums(X: Floats, labels: Ints, n_classes: int) -> Floats:
    """Sum of the rows of each class, (C, D), accumulated in float64."""
    sums = np.zeros((n_classes, X.shape[1]), dtype=np.float64)
    order = np.argsort(labels, kind="stable")
    starts = np.searchsorted(labels[order], np.arange(n_classes + 1))
    for c in range(n_classes):
        sums[c] = X[order[starts[c] : starts[c + 1]]].sum(axis=0, dtype=np.float64)
    return sums


def class_means(X: Floats, labels: Ints, n_classes: int) -> Floats:
    """Plain prototypes ``m_c = (1/n_c) sum_{s in c} x_s``, not re-normalized.

    Parameters
    ----------
    X : array of shape (n_s, D)
        Support rows.
    labels : int array of shape (n_s,)
        Class of each row in ``0..C-1``, in any order, each class at least once.
    n_classes : int

    Returns
    -------
    array of shape (C, D), of X's dtype
    """
    counts = np.bincount(labels, minlength=n_classes)
    means: Floats = (class_sums(X, labels, n_classes) / counts[:, None]).astype(X.dtype)
    return means


def rectify_prototypes(
    support: Floats,
    labels: Ints,
    query: Floats,
    n_classes: int,
    *,
    temperature: float = PAPER_TEMPERATURE,
    by_cosine: bool = False,
) -> RectifiedPrototypes:
    """Prototypes that borrow from the queries first predicted to be of their class.

    With ``Q <- Q + mean(S) - mean(Q)``, rows ``z`` of ``[S; Q]``, plain prototypes ``m`` and
    ``w_c(z) = softmax_c(temperature * cos(z, m_c))``::

        m~_c = (1/n_c) sum_{z grouped to c} w_c(z) z

    A query is grouped to its nearest prototype, ``argmin_c |z - m_c|^2``, and a support row to its own label (the
    paper); with ``by_cosine`` every row of either kind is grouped to ``argmax_c cos(z, m_c)`` (the authors' code). A
    class that no row is grouped to keeps its plain prototype.

    Parameters
    ----------
    support : array of shape (n_s, D)
    labels : int array of shape (n_s,), in ``0..C-1``
    query : array of shape (N, D)
    n_classes : int
    temperature : float
    by_cosine : bool

    Returns
    -------
    RectifiedPrototypes
    """
    plain = class_means(support, labels, n_classes).astype(np.float64)
    if query.shape[0] == 0:
        return RectifiedPrototypes(plain.astype(support.dtype), np.zeros(support.shape[1], support.dtype))
    shift = support.mean(axis=0, dtype=np.float64) - query.mean(axis=0, dtype=np.float64)
    directions = plain / _norms(plain)
    rows = np.concatenate([support, query + shift]).astype(np.float64)
    cosines = (rows @ directions.T) / _norms(rows)
    if by_cosine:
        groups = cosines.argmax(axis=1)
    else:
        groups = np.concatenate([labels, squared_distances(rows[len(labels) :], plain).argmin(axis=1)])
    weights = softmax(temperature * cosines, axis=1)[np.arange(len(rows)), groups]
    sums = sp.csr_array((weights, (groups, np.arange(len(rows)))), shape=(n_classes, len(rows))) @ rows
    counts = np.bincount(groups, minlength=n_classes)
    rectified = np.where(counts[:, None] > 0, sums / np.maximum(counts, 1)[:, None], plain)
    return RectifiedPrototypes(rectified.astype(support.dtype), shift.astype(support.dtype))


def squared_distances(X: Floats, prototypes: Floats, *, wide: bool = True) -> Floats:
    """Unary terms ``a_qc = |x_q - m_c|^2``, (N, C), returned in X's dtype.

    They are computed in float64 if ``wide``, else in X's dtype: twice as fast in float32, and as good for rows that lie
    about as far from the prototypes as those from one another.
    """
    # Distances do not see a common shift, and small numbers cancel less.
    dtype = np.float64 if wide else X.dtype
    center = prototypes.mean(axis=0, dtype=np.float64)
    rows, M = X - center.astype(dtype), (prototypes - center).astype(dtype)
    squares = np.einsum("nd,nd->n", rows, rows)[:, None] + np.einsum("cd,cd->c", M, M)
    distances: Floats = np.maximum(squares - 2 * (rows @ M.T), 0).astype(X.dtype, copy=False)
    return distances


def _norms(rows: Floats) -> Floats:
    """Row norms (n, 1), 1 where a row is zero: the cosine of a zero row is 0."""
    norms = np.linalg.norm(rows, axis=1, keepdims=True)
    result: Floats = np.where(norms > 0, norms, 1.0)
    return result
