"""A fit, or a graph alone, that tells how far it is and goes on where it was stopped."""

from __future__ import annotations

from dataclasses import astuple
from os import PathLike
from pathlib import Path

import scipy.sparse as sp
from numpy.typing import ArrayLike

from laplacianshot.engine.checkpoint import StageFolder, content_of, kept_neighbors
from laplacianshot.engine.choices import Engine
from laplacianshot.engine.graph import node_graph
from laplacianshot.engine.plan import GraphChoice
from laplacianshot.estimator import LaplacianShot
from laplacianshot.neighbors.rows import Rows
from laplacianshot.runtime.progress import Watch


def fit_large(
    estimator: LaplacianShot,
    X: ArrayLike,
    y: ArrayLike,
    *,
    watch: Watch | None = None,
    checkpoint: str | PathLike[str] | None = None,
    engine: Engine | None = None,
) -> LaplacianShot:
    """``estimator.fit(X, y)`` with progress and a folder for finished stages; small sets need neither.

    Parameters
    ----------
    estimator : LaplacianShot
    X : array of shape (n, D)
        In memory or memory-mapped.
    y : array of shape (n,)
    watch : callable, optional
        Called with the name of each stage ("Neighbors", "Graph", "Updates"), it gives what is called with
        ``(done, total)`` on the way.
    checkpoint : path, optional
        Folder where finished stages of a large set are kept, neighbors and updates, by the content of X and by what
        they depend on. A fit of the same rows takes them from there. Of each kind the last four stay.
    engine : callable, optional
        What fits elsewhere, such as :class:`~laplacianshot.ray.RayEngine`.

    Returns
    -------
    LaplacianShot
        The estimator, fitted.
    """
    folder = None if checkpoint is None else Path(checkpoint)
    return estimator._fit(X, y, watch=watch, checkpoint=folder, engine=engine)


def scaled_affinity(
    rows: Rows, n_neighbors: int, *, watch: Watch | None = None, checkpoint: Path | None = None
) -> sp.csr_array:
    """The default recipe's graph ``D^-1/2 ((A + A^T)/2) D^-1/2`` of many rows (n, D), with k neighbors each: (n, n).

    ``watch`` and ``checkpoint`` are those of :func:`fit_large`.
    """
    progress = None if watch is None else watch("Neighbors")
    folder = None
    if checkpoint is not None:
        folder = StageFolder.of(checkpoint, "neighbors", content_of(rows), n_neighbors, astuple(GraphChoice()))
    found = kept_neighbors(rows, n_neighbors, GraphChoice(), progress=progress, folder=folder)
    if watch is not None:
        watch("Graph")
    return node_graph(found.order, found.indices).affinity
