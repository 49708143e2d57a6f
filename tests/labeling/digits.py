"""scikit-learn's digits, a few of each with a label."""

from __future__ import annotations

import numpy as np
from sklearn.datasets import load_digits


def digits_task(shots, seed):
    """Pixels, codes with that number of labels per digit, and all digits."""
    X, digits = load_digits(return_X_y=True)
    rng = np.random.default_rng(seed)
    codes = np.full(len(X), -1)
    for c in range(10):
        codes[rng.permutation(np.flatnonzero(digits == c))[:shots]] = c
    return X, codes, digits
