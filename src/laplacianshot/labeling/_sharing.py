"""Probabilities of all classes from how sure the label is: the other classes share the rest."""

from __future__ import annotations

import numpy as np
import scipy.sparse as sp

from laplacianshot.labeling._class_rows import ClassRows
from laplacianshot.runtime.types import Floats, Ints

# Power of the assignments of the other classes.
REST_POWER = 2 / 3

_MOST_CONFIDENCE = 1 - 1e-6
_TINY = np.finfo(np.float32).tiny
# Entries of a given row that are kept where probabilities are sparse.
_MOST_ENTRIES = 32


def shared_out(assignments: Floats, z: Floats) -> Floats:
    """Probabilities (m, C): that of the label, of log-odds z (m,), and the rest by the power of other assignments."""
    rows = np.arange(len(assignments))
    label = assignments.argmax(axis=1)
    others = np.maximum(assignments, _TINY) ** np.float32(REST_POWER)
    others[rows, label] = 0
    others /= others.sum(axis=1, keepdims=True)
    sure = _ahead(z, others.max(axis=1, initial=0))
    others *= (1 - sure)[:, None]
    others[rows, label] = sure
    return others


def shared_out_dense(assignments: ClassRows, z: Floats, given: Ints, of_given: Floats) -> tuple[Floats, Floats]:
    """How sure each label of the queries is (N,), and the probabilities of all rows (n, C).

    From assignments (N, C), log-odds (N,) and the probabilities ``of_given`` (n_s, C) of the rows ``given`` (n_s,).
    """
    sure = np.empty(len(assignments))
    probabilities = np.empty((len(assignments) + len(given), of_given.shape[1]), dtype=np.float32)
    probabilities[given] = of_given
    for start, stop in assignments.blocks():
        block = shared_out(assignments[start:stop], z[start:stop])
        probabilities[assignments.rows[start:stop]] = block
        sure[start:stop] = block.max(axis=1)
    return sure, probabilities


def shared_out_sparse(assignments: ClassRows, z: Floats, given: Ints, of_given: Floats) -> tuple[Floats, sp.csr_array]:
    """The same for sparse assignments. Classes that are not kept have none; of given rows the largest are kept."""
    Y = sp.csr_array(assignments.matrix[assignments.rows])
    each = np.repeat(np.arange(Y.shape[0]), np.diff(Y.indptr))
    firsts = Y.indptr[:-1]
    # Every row has an entry. Of equal ones the first is the label.
    tops = np.flatnonzero(Y.data == np.maximum.reduceat(Y.data, firsts)[each])
    tops = tops[np.unique(each[tops], return_index=True)[1]]
    others = np.maximum(Y.data, _TINY) ** np.float32(REST_POWER)
    others[tops] = 0
    sums = np.add.reduceat(others, firsts)
    others /= np.where(sums > 0, sums, 1)[each]
    sure = _ahead(z, np.maximum.reduceat(others, firsts))
    others *= (1 - sure).astype(np.float32)[each]
    others[tops] = sure
    Y.data = others
    least: Floats | float = 0.0
    if of_given.shape[1] > _MOST_ENTRIES:
        least = -np.partition(-of_given, _MOST_ENTRIES, axis=1)[:, _MOST_ENTRIES, None]
    kept = sp.csr_array(np.where(of_given > least, of_given, 0).astype(np.float32))
    order = np.argsort(np.concatenate([assignments.rows, given]))
    return sure, sp.csr_array(sp.vstack([Y, kept], format="csr")[order])


def _ahead(z: Floats, least: Floats) -> Floats:
    """How sure a label of log-odds z is; it stays ahead of the next class, by a hair where it would not."""
    sure: Floats = np.clip(sigmoid(z), (least + 1e-6) / (1 + least), _MOST_CONFIDENCE)
    return sure


def sigmoid(z: Floats) -> Floats:
    """``1 / (1 + exp(-z))``."""
    p: Floats = 1 / (1 + np.exp(-z))
    return p
