"""A fit that tells how far it is, and that goes on where it was stopped."""

from __future__ import annotations

from os import PathLike
from pathlib import Path

from numpy.typing import ArrayLike

from laplacianshot.inference.estimator import LaplacianShot
from laplacianshot.scale.solve import Watch


def fit_large(
    estimator: LaplacianShot,
    X: ArrayLike,
    y: ArrayLike,
    *,
    watch: Watch | None = None,
    checkpoint: str | PathLike[str] | None = None,
) -> LaplacianShot:
    """``estimator.fit(X, y)`` with progress and a folder for finished stages; small sets need neither.

    Parameters
    ----------
    estimator : LaplacianShot
    X : array of shape (n, D)
        In memory or memory-mapped.
    y : array of shape (n,)
    watch : callable, optional
        Called with the name of each stage ("Neighbours", "Graph", "Updates"), it gives what is called with
        ``(done, total)`` on the way.
    checkpoint : path, optional
        Folder where the neighbours of a large set are kept, by the content of X and by what they depend on. A fit of
        the same rows takes them from there.

    Returns
    -------
    LaplacianShot
        The estimator, fitted.
    """
    return estimator._fit(X, y, watch=watch, checkpoint=None if checkpoint is None else Path(checkpoint))
