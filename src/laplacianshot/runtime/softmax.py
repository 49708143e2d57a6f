"""Softmax over rows, for use outside the kernels."""

from __future__ import annotations

import numpy as np

from laplacianshot.runtime.types import Floats


def softmax(logits: Floats) -> Floats:
    """``exp(z_qc) / sum_c exp(z_qc)`` of logits (N, C), which are overwritten."""
    if logits.size:
        logits -= logits.max(axis=1, keepdims=True)
        np.exp(logits, out=logits)
        logits /= logits.sum(axis=1, keepdims=True)
    return logits
