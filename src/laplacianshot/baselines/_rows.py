"""What several methods ask of the rows of a batch, and softmax over any axis."""

from __future__ import annotations

import numpy as np

from laplacianshot.baselines.batch import TaskBatch
from laplacianshot.runtime.types import Floats

# Inner products are rounded in the last bits: what is this many of them away from zero is zero.
_ROUNDING = 32


def softmax(logits: Floats, *, axis: int = -1) -> Floats:
    """``exp(z_c) / sum_c exp(z_c)`` along ``axis`` of the logits, which are overwritten."""
    logits -= logits.max(axis=axis, keepdims=True)
    np.exp(logits, out=logits)
    logits /= logits.sum(axis=axis, keepdims=True)
    return logits


def row_distances(batch: TaskBatch) -> Floats:
    """``|x_i - x_j|^2`` between the rows of each task, (B, n, n): symmetric, and zero between equal rows."""
    norms = batch.squared_norms
    sums = norms[:, :, None] + norms[:, None, :]
    distances: Floats = sums - 2 * batch.gram
    distances[distances <= _ROUNDING * np.finfo(sums.dtype).eps * sums] = 0
    return distances


def cosines(batch: TaskBatch, weights: Floats) -> Floats:
    """``cos(x_i, m_c)`` (B, n, C) for prototypes ``m_c = sum_j weights_cj x_j``; 0 where either has no length."""
    products = batch.products(weights)
    prototype_norms = np.einsum("bci,bic->bc", weights, products)
    products *= inverse_norms(batch.squared_norms, batch)[:, :, None]
    products *= inverse_norms(prototype_norms, batch)[:, None, :]
    return products


def inverse_norms(squares: Floats, batch: TaskBatch) -> Floats:
    """``1 / |v|`` from squares (B, m) of vectors in the span of the rows; 0 where only rounding is left of one."""
    negligible = _ROUNDING * np.finfo(squares.dtype).eps * batch.squared_norms.max(axis=1, keepdims=True)
    inverse: Floats = np.zeros_like(squares)
    np.divide(1, np.sqrt(np.maximum(squares, 0)), out=inverse, where=squares > negligible)
    return inverse
