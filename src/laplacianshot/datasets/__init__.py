"""Readers of data sets and of feature files, and the digits that come with scikit-learn."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from laplacianshot.runtime.types import Floats, Ints

__all__ = ["Digits", "load_digits"]


@dataclass(frozen=True, repr=False)
class Digits:
    """1,797 scanned digits of 8 x 8 pixels (UCI, test part; Alpaydin and Kaynak, 1998). Arrays are read-only."""

    features: Floats  # pixels, 0 to 16, (n, 64)
    labels: Ints  # the digit, (n,)
    class_names: tuple[str, ...]

    @property
    def images(self) -> Floats:
        """The pixels as pictures, (n, 8, 8)."""
        return self.features.reshape(-1, 8, 8)

    @property
    def smallest_class(self) -> int:
        """Number of rows of the rarest class."""
        return int(np.bincount(self.labels).min())

    def __repr__(self) -> str:
        return f"Digits({len(self.labels)} rows x {self.features.shape[1]} features, {len(self.class_names)} classes)"


def load_digits() -> Digits:
    """The bundled digits: real data with nothing to download.

    Examples
    --------
    >>> load_digits()
    Digits(1797 rows x 64 features, 10 classes)
    """
    # Here, as readers of feature files need numpy alone.
    from sklearn.datasets import load_digits as sklearn_digits

    bunch = sklearn_digits()
    features, labels = bunch.data, bunch.target.astype(np.int64)
    features.flags.writeable = labels.flags.writeable = False
    return Digits(features, labels, tuple(str(name) for name in bunch.target_names))
