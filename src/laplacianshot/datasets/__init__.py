"""Readers of data sets and of feature files, and the digits that come with scikit-learn."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from laplacianshot.datasets.feature_set import FeatureSet

__all__ = ["load_digits"]


def load_digits() -> FeatureSet:
    """1,797 scanned digits of 8 x 8 pixels from 0 to 16 (UCI, test part; Alpaydin and Kaynak, 1998).

    Real data with nothing to download.

    >>> load_digits()
    FeatureSet(1797 rows x 64, 10 classes, no splits)
    """
    # Here, as readers of feature files need numpy alone.
    from sklearn.datasets import load_digits as sklearn_digits

    from laplacianshot.datasets.feature_set import FeatureSet

    return FeatureSet(*sklearn_digits(return_X_y=True))
