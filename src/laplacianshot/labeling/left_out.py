"""What the graph says of a given row without the row's own label, from one fit."""

from __future__ import annotations

import numpy as np
import scipy.sparse as sp

from laplacianshot.estimator import LaplacianShot
from laplacianshot.inference.prototypes import squared_distances
from laplacianshot.inference.recipes import DefaultConstants
from laplacianshot.labeling._class_rows import ClassRows, dense
from laplacianshot.runtime.types import Floats, Ints

# Entries of the dense arrays that one block of given rows needs.
_BLOCK_ENTRIES = 4_000_000


def constants_of(model: LaplacianShot, codes: Ints) -> DefaultConstants:
    """The constants that the default recipe took for rows with these codes."""
    n_support = int(np.sum(codes >= 0))
    constants = DefaultConstants.for_task(
        n_support, len(codes) - n_support, len(model.classes_), balanced=model.balanced
    )
    return constants.with_choices(lam=model.lam, n_neighbors=model.n_neighbors)


def left_out_logits(model: LaplacianShot, codes: Ints) -> Floats:
    """Logits of the given rows, each as if it had no label: (n_s, C), in the order of their positions.

    A query's assignment is ``softmax(-tau a_q + lam (e W_qs Y_s + W_qq Y)_q + b)``. The same is said of a given row s
    of class c after two corrections that need no second fit:

    - its prototype forgets it: with ``M_c = beta n_c + kappa + sum_q y_qc`` the mean without s lies
      ``M_c / (M_c - beta)`` times as far from it as the mean with it;
    - its neighbors forget it: each has ``lam e W_qs`` taken from its logit of class c before it votes.

    What the label did to rows further away stays, so a row that stands alone with its class is still somewhat believed.

    Parameters
    ----------
    model : LaplacianShot
        The default recipe, fitted on these codes.
    codes : int array of shape (n,)
        Class number of each row, -1 for unlabeled ones.
    """
    given = np.flatnonzero(codes >= 0)
    labels = codes[given]
    rule, constants = model._rule, constants_of(model, codes)
    Y = model.label_distributions_
    lam, edge = constants.lam, constants.e
    queries = ClassRows(Y, np.flatnonzero(codes < 0))
    masses = len(queries) * queries.mean()
    logits: Floats = -rule.tau * _distances_without(
        rule.points[: len(given)], labels, rule.prototypes, constants, masses
    )
    logits += rule.bias

    # Votes: neighbors' assignments, those of given rows times e.
    weights = np.where(codes >= 0, edge, 1.0)
    graph = sp.csr_array(model.affinity_[given])
    rows = np.repeat(np.arange(len(given)), np.diff(graph.indptr))
    for start, stop in _blocks(graph.indptr, len(model.classes_)):
        part = slice(graph.indptr[start], graph.indptr[stop])
        near, weight, row = graph.indices[part], graph.data[part].astype(np.float64), rows[part]
        votes = dense(Y[near]).astype(np.float64)
        # p -> p exp(-d) / (1 - p + p exp(-d)), d what the row's own label gave this neighbor.
        fade = np.exp(-lam * edge * weight * (codes[near] < 0))
        each = np.arange(len(near)), labels[row]
        kept = 1 - votes[each] * (1 - fade)
        votes[each] *= fade
        votes *= (weight * weights[near] / np.maximum(kept, np.finfo(np.float64).tiny))[:, None]
        sums = sp.csr_array((np.ones(len(near)), (row - start, np.arange(len(near)))), shape=(stop - start, len(near)))
        logits[start:stop] += lam * (sums @ votes)
    return logits


def left_out_first_logits(model: LaplacianShot, codes: Ints, first: Floats) -> Floats:
    """``-tau a0`` of the given rows to the first prototypes (C, D), their own without them: (n_s, C)."""
    given = codes >= 0
    rows = model._rule.points[: int(given.sum())]
    logits: Floats = -model._rule.tau * _distances_without(rows, codes[given], first, constants_of(model, codes), 0.0)
    return logits


def _distances_without(
    rows: Floats, labels: Ints, prototypes: Floats, constants: DefaultConstants, queries: Floats | float
) -> Floats:
    """Squared distances (n_s, C) of given rows to the prototypes, to their own as it would be without them."""
    beta = constants.beta
    distances = squared_distances(rows, prototypes).astype(np.float64)
    mass = beta * np.bincount(labels, minlength=len(prototypes)) + constants.kappa + queries
    distances[np.arange(len(rows)), labels] *= np.square(mass / (mass - beta))[labels]
    return distances


def _blocks(indptr: Ints, n_classes: int) -> list[tuple[int, int]]:
    """Ranges of rows whose edges make at most ``_BLOCK_ENTRIES`` votes, or a single row."""
    most = max(1, _BLOCK_ENTRIES // n_classes)
    blocks, start = [], 0
    while start < len(indptr) - 1:
        stop = max(start + 1, int(np.searchsorted(indptr, indptr[start] + most, side="right")) - 1)
        blocks.append((start, stop))
        start = stop
    return blocks
