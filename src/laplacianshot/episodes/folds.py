"""Cross-validation where most rows have no label: folds of the labeled rows, every unlabeled row in each fit."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from laplacianshot.inference.labels import encode_labels
from laplacianshot.runtime.types import Ints


class SemiSupervisedKFold:
    """A splitter for ``GridSearchCV`` and ``cross_val_score`` where y has unlabeled rows (-1, None, NaN or "").

    scikit-learn's own splitters put unlabeled rows into the test folds too, where nothing can be right. Here the
    labeled rows of each class are divided into folds; a fit has the labels of all folds but one and every unlabeled
    row, and is scored on the labeled rows of that fold. A class with one label keeps it for every fit, so that all
    classes are known; a class with fewer labels than there are folds is asked for in some of them only.

    Parameters
    ----------
    n_splits : int
        Number of folds, at least 2.
    random_state : int
        Seed of the order in which labeled rows are divided.

    Examples
    --------
    >>> import numpy as np
    >>> from laplacianshot import SemiSupervisedKFold
    >>> y = np.array([0, 0, 1, 1, -1, -1])
    >>> for train, test in SemiSupervisedKFold(2).split(np.zeros((6, 1)), y):
    ...     print(sorted(y[train].tolist()), sorted(y[test].tolist()))
    [-1, -1, 0, 1] [0, 1]
    [-1, -1, 0, 1] [0, 1]
    """

    def __init__(self, n_splits: int = 5, *, random_state: int = 0) -> None:
        if isinstance(n_splits, bool) or int(n_splits) != n_splits or n_splits < 2:
            raise ValueError(f"n_splits must be a whole number of at least 2, got {n_splits!r}.")
        self.n_splits = int(n_splits)
        self.random_state = random_state

    def get_n_splits(self, X: Any = None, y: Any = None, groups: Any = None) -> int:
        """Return the number of folds."""
        return self.n_splits

    def split(self, X: Any, y: Any, groups: Any = None) -> Iterator[tuple[Ints, Ints]]:
        """Yield the positions of the rows to fit, labeled and unlabeled, and of those to score; groups are ignored."""
        if y is None:
            raise ValueError("y is None; SemiSupervisedKFold divides the labeled rows of y.")
        codes = encode_labels(y).codes
        counts = np.bincount(codes[codes >= 0])
        if counts.max() < 2:
            raise ValueError("y has one label of each class, so none can be held out; label a few more rows.")
        order = np.random.default_rng(self.random_state).permutation(np.flatnonzero(codes >= 0))
        order = order[np.argsort(codes[order], kind="stable")]
        held = order[counts[codes[order]] >= 2]
        if len(held) < self.n_splits:
            raise ValueError(f"y has {len(held)} labels that can be held out, fewer than n_splits={self.n_splits}.")
        for fold in range(self.n_splits):
            # Labels of a class lie side by side, so no fold has all of them.
            test = held[fold :: self.n_splits]
            yield np.setdiff1d(np.arange(len(codes)), test), np.sort(test)

    def __repr__(self) -> str:
        return f"SemiSupervisedKFold(n_splits={self.n_splits}, random_state={self.random_state})"
