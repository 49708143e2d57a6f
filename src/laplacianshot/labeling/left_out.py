"""What the graph says of a given row without the row's own label, from one fit."""

from __future__ import annotations

import numpy as np
import scipy.sparse as sp

from laplacianshot.inference._types import Floats, Ints
from laplacianshot.inference.estimator import LaplacianShot
from laplacianshot.inference.prototypes import squared_distances
from laplacianshot.inference.recipes import DefaultConstants

# Entries of the dense arrays that one block of given rows needs.
_BLOCK_ENTRIES = 4_000_000


def left_out_logits(model: LaplacianShot, codes: Ints) -> Floats:
    """Logits of the given rows, each as if it had no label: (n_s, C), in the order of their positions.

    A query's assignment is ``softmax(-tau a_q + lam (e W_qs Y_s + W_qq Y)_q + b)``. The same is said of a given row s
    of class c after two corrections that need no second fit:

    - its prototype forgets it: with ``M_c = beta n_c + kappa + sum_q y_qc`` the mean without s lies
      ``M_c / (M_c - beta)`` times as far from it as the mean with it;
    - its neighbours forget it: each has ``lam e W_qs`` taken from its logit of class c before it votes.

    What the label did to rows further away stays, so a row that stands alone with its class is still somewhat believed.

    Parameters
    ----------
    model : LaplacianShot
        The default recipe, fitted on these codes.
    codes : int array of shape (n,)
        Class number of each row, -1 for unlabelled ones.
    """
    given = np.flatnonzero(codes >= 0)
    labels = codes[given]
    n_classes = len(model.classes_)
    rule = model._rule
    constants = DefaultConstants.for_task(
        len(given), len(codes) - len(given), n_classes, balanced=model.balanced
    ).with_choices(lam=model.lam, n_neighbors=model.n_neighbors)
    Y = model.label_distributions_
    beta, lam, edge = constants.support_weight, constants.lam, constants.support_edge

    unary = squared_distances(rule.points[: len(given)], rule.prototypes).astype(np.float64)
    mass = beta * np.bincount(labels, minlength=n_classes) + constants.origin_weight + Y[codes < 0].sum(axis=0)
    own = np.arange(len(given)), labels
    unary[own] *= np.square(mass / (mass - beta))[labels]
    logits: Floats = -rule.tau * unary + rule.bias

    # Votes: neighbours' assignments, those of given rows times e.
    weights = np.where(codes >= 0, edge, 1.0)
    graph = sp.csr_array(model.affinity_[given])
    n_edges = np.diff(graph.indptr)
    rows = np.repeat(np.arange(len(given)), n_edges)
    for start, stop in _blocks(graph.indptr, n_classes):
        part = slice(graph.indptr[start], graph.indptr[stop])
        near, weight, row = graph.indices[part], graph.data[part].astype(np.float64), rows[part]
        votes = Y[near].astype(np.float64)
        query = codes[near] < 0
        # p -> p exp(-d) / (1 - p + p exp(-d)), d what the row's own label gave this neighbour.
        fade = np.exp(-lam * edge * weight * query)
        each = np.arange(len(near)), labels[row]
        kept = 1 - votes[each] * (1 - fade)
        votes[each] *= fade
        votes *= (weight * weights[near] / np.maximum(kept, np.finfo(np.float64).tiny))[:, None]
        np.add.at(logits, row, lam * votes)
    return logits


def _blocks(indptr: Ints, n_classes: int) -> list[tuple[int, int]]:
    """Ranges of rows whose edges make at most ``_BLOCK_ENTRIES`` votes, or a single row."""
    most = max(1, _BLOCK_ENTRIES // n_classes)
    blocks, start = [], 0
    while start < len(indptr) - 1:
        stop = max(start + 1, int(np.searchsorted(indptr, indptr[start] + most, side="right")) - 1)
        blocks.append((start, stop))
        start = stop
    return blocks
