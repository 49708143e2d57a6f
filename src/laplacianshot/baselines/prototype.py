"""Nearest prototype: our method without its graph."""

from __future__ import annotations

from typing import Literal, TypeAlias

from laplacianshot.baselines.contract import Baseline
from laplacianshot.inference._types import Floats, Ints
from laplacianshot.inference.prototypes import class_means, squared_distances
from laplacianshot.inference.transforms import Transform, base_mean, transform_features

Center: TypeAlias = Literal["pooled", "support"]


class NearestPrototype(Baseline):
    """Each row takes the class whose mean labelled row is nearest (SimpleShot).

    With ``z`` the transformed rows and ``S_c`` the labelled rows of class c::

        m_c = (1/|S_c|) sum_{s in S_c} z_s,    label_q = argmin_c |z_q - m_c|^2

    Parameters
    ----------
    space : {"cl2", "l2", "none"}
        Centre and L2-normalise the rows, only L2-normalise them, or leave them.
    center : {"pooled", "support"} or array of shape (D,)
        What ``cl2`` takes away: the mean of all rows, as :class:`~laplacianshot.LaplacianShot` does by default, the
        mean of the labelled rows, or a base mean.
    """

    def __init__(self, space: Transform = "cl2", *, center: Center | Floats = "pooled") -> None:
        self.space = space
        self.center = center

    def _assign(self, X: Floats, codes: Ints, n_classes: int) -> Ints:
        labelled = codes >= 0
        if isinstance(self.center, str):
            center = base_mean(X if self.center == "pooled" else X[labelled])
        else:
            center = self.center
        rows = transform_features(X, self.space, center if self.space == "cl2" else None)
        prototypes = class_means(rows[labelled], codes[labelled], n_classes)
        nearest: Ints = squared_distances(rows, prototypes).argmin(axis=1)
        return nearest
