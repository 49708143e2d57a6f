"""Any scikit-learn classifier as a transductive one: fitted on the labeled rows, asked about the rest."""

from __future__ import annotations

from typing import Any, ClassVar, Literal, TypeAlias

import numpy as np
from sklearn.base import clone

from laplacianshot.baselines.contract import Baseline
from laplacianshot.runtime.types import Floats, Ints

Scaling: TypeAlias = Literal["none", "common"]


class Inductive(Baseline):
    """Fit ``estimator`` on the labeled rows and let it predict the others.

    Parameters
    ----------
    estimator : scikit-learn classifier
        Cloned before it is fitted.
    scaling : {"none", "common"}
        ``common`` brings every row to ``(x - mean(X)) / sigma`` with one number ``sigma^2 = (1/D) sum_d var(X_d)`` over
        all rows, for classifiers that depend on the scale. Scaling each feature by itself would blow up the nearly
        constant ones: on digits with one label per class it costs logistic regression 6 points.
    """

    # One task at a time.
    slow: ClassVar[bool] = True

    def __init__(self, estimator: Any, *, scaling: Scaling = "none") -> None:
        self.estimator = estimator
        self.scaling = scaling

    def _assign(self, X: Floats, codes: Ints, n_classes: int) -> Ints:
        labeled = codes >= 0
        assigned = codes.copy()
        if labeled.all():
            return assigned
        rows = _common_scale(X) if self.scaling == "common" else X
        fitted = clone(self.estimator).fit(rows[labeled], codes[labeled])
        assigned[~labeled] = fitted.predict(rows[~labeled])
        return assigned


def _common_scale(X: Floats) -> Floats:
    centered = X - X.mean(axis=0)
    sigma = float(np.sqrt(np.mean(np.square(centered))))
    scaled: Floats = centered / sigma if sigma > 0 else centered
    return scaled
