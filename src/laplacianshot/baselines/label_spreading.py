"""scikit-learn's LabelSpreading with the settings that were published for it."""

from __future__ import annotations

import warnings
from typing import Literal, TypeAlias

import numpy as np
from scipy.cluster.hierarchy import linkage
from scipy.spatial.distance import pdist
from sklearn.exceptions import ConvergenceWarning
from sklearn.semi_supervised import LabelSpreading

from laplacianshot.baselines.contract import Baseline
from laplacianshot.inference._types import Floats, Ints

Kernel: TypeAlias = Literal["rbf", "knn"]

# Zhou et al. (2004); scikit-learn's own default is 0.2.
PUBLISHED_ALPHA = 0.99
# scikit-learn stops when all changes sum to 1e-3, before labels far from a labelled row have settled.
_TOLERANCE = 1e-9


class PublishedLabelSpreading(Baseline):
    """Local and global consistency (Zhou et al., 2004), by :class:`sklearn.semi_supervised.LabelSpreading`.

    With ``W`` the kernel, its diagonal zero, ``S = D^-1/2 W D^-1/2`` and ``Y_0`` the given labels as indicators::

        Y <- alpha S Y + (1 - alpha) Y_0,    label_q = argmax_c y_qc

    Kernel ``rbf`` is ``w_qp = exp(-gamma |x_q - x_p|^2)`` over all pairs. scikit-learn's ``gamma = 20`` fits one scale
    of data only (on raw digits nearly every weight is zero and a tenth of the labels is right), so gamma follows the
    rule of Zhu and Ghahramani (2002), which looks at the rows, at the given labels and at nothing else:
    :func:`tree_bandwidth`. Kernel ``knn`` gives weight 1 to each of the ``n_neighbors`` nearest rows.

    Both work on the rows as they are: on digits that is better for them than centred L2-normalised rows.

    Parameters
    ----------
    kernel : {"rbf", "knn"}
    alpha : float
        Share of the neighbours' say, in (0, 1).
    gamma : float, optional
        None: by the rule.
    n_neighbors : int
        For ``knn``.
    max_iter : int
        Most rounds.
    """

    def __init__(
        self,
        kernel: Kernel = "rbf",
        *,
        alpha: float = PUBLISHED_ALPHA,
        gamma: float | None = None,
        n_neighbors: int = 7,
        max_iter: int = 30,
    ) -> None:
        self.kernel = kernel
        self.alpha = alpha
        self.gamma = gamma
        self.n_neighbors = n_neighbors
        self.max_iter = max_iter

    def _assign(self, X: Floats, codes: Ints, n_classes: int) -> Ints:
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
        assigned: Ints = spreading.transduction_
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
        Class numbers, -1 where unlabelled.

    Returns
    -------
    float
        With labels of one class only, from the longest edge of the tree; 1 if all rows are equal.
    """
    if len(X) < 2:
        return 1.0
    labels = codes.tolist()
    crossing = 0.0
    # Single linkage is the minimum spanning tree, its edges in order of length.
    for first, second, length, _ in linkage(pdist(X), method="single").tolist():
        label, other = labels[int(first)], labels[int(second)]
        crossing = max(crossing, length)
        if label >= 0 and other >= 0 and label != other and length > 0:
            break
        labels.append(max(label, other))
    with np.errstate(over="ignore"):
        gamma = float(np.square(3.0 / np.float64(crossing))) if crossing > 0 else 1.0
    return gamma if np.isfinite(gamma) else 1.0
