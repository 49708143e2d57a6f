"""The digits that come with scikit-learn: real data with nothing to download."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from sklearn.datasets import load_digits as sklearn_digits

from laplacianshot.runtime.types import Floats, Ints


@dataclass(frozen=True, repr=False)
class Digits:
    """1,797 scanned digits of 8 x 8 pixels (UCI, test part; Alpaydin and Kaynak, 1998).

    Attributes
    ----------
    features : array of shape (n, 64)
        Pixels, 0 to 16; read-only.
    labels : int array of shape (n,)
        The digit; read-only.
    class_names : tuple of str
    """

    features: Floats
    labels: Ints
    class_names: tuple[str, ...]

    @property
    def images(self) -> Floats:
        """The pixels as pictures, (n, 8, 8)."""
        return self.features.reshape(-1, 8, 8)

    @property
    def smallest_class(self) -> int:
        """Rows of the rarest class."""
        return int(np.bincount(self.labels).min())

    def __repr__(self) -> str:
        return f"Digits({len(self.labels)} rows x {self.features.shape[1]} features, {len(self.class_names)} classes)"


def load_digits() -> Digits:
    """The bundled digits.

    Examples
    --------
    >>> load_digits()
    Digits(1797 rows x 64 features, 10 classes)
    """
    bunch = sklearn_digits()
    features, labels = bunch.data, bunch.target.astype(np.int64)
    features.flags.writeable = False
    labels.flags.writeable = False
    return Digits(features, labels, tuple(str(name) for name in bunch.target_names))
