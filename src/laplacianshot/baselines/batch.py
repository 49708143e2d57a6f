"""Many tasks at once, seen through the inner products of their rows.

Every method here depends on its rows only through distances and angles: prototypes, linear heads and classifiers are
combinations of rows, so what they say of a row is a combination of inner products. A task of n rows is therefore an
n x n matrix whatever the dimension of the features, and methods work on batches of such matrices.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from laplacianshot.runtime.types import Floats, Ints


@dataclass(frozen=True, repr=False)
class TaskBatch:
    """B tasks of one shape.

    Attributes
    ----------
    gram : float32 array of shape (B, n, n)
        Inner products of the ``n = n_s + N`` rows of each task in the method's space, the support first. Not to be
        written to: methods share it.
    labels : int array of shape (B, n_s)
        Classes of the support in ``0..C-1``, each at least once.
    n_classes : int
        C.
    """

    gram: Floats
    labels: Ints
    n_classes: int

    def __len__(self) -> int:
        return len(self.gram)

    @property
    def n_support(self) -> int:
        """n_s."""
        return int(self.labels.shape[1])

    @property
    def n_query(self) -> int:
        """N."""
        return int(self.gram.shape[1]) - self.n_support

    @cached_property
    def one_hot(self) -> Floats:
        """Labels of the support as indicators, (B, n_s, C)."""
        indicators: Floats = (self.labels[:, :, None] == np.arange(self.n_classes)).astype(self.gram.dtype)
        return indicators

    @cached_property
    def squared_norms(self) -> Floats:
        """``|x_i|^2``, (B, n)."""
        norms: Floats = np.einsum("bii->bi", self.gram)
        return norms

    @cached_property
    def class_mean_weights(self) -> Floats:
        """Weights (B, C, n) of the rows in the plain prototypes: ``1/n_c`` for the support of class c, else 0."""
        weights = np.zeros((len(self), self.n_classes, self.gram.shape[1]), dtype=self.gram.dtype)
        indicators = self.one_hot
        weights[:, :, : self.n_support] = np.swapaxes(indicators / indicators.sum(axis=1, keepdims=True), 1, 2)
        return weights

    def products(self, weights: Floats) -> Floats:
        """``x_i . m_c`` (B, n, C) for prototypes ``m_c = sum_j weights_cj x_j``, weights (B, C, n)."""
        products: Floats = np.matmul(self.gram, np.swapaxes(weights, 1, 2))
        return products

    def squared_distances(self, weights: Floats) -> Floats:
        """``|x_i - m_c|^2`` (B, n, C) for prototypes ``m_c = sum_j weights_cj x_j``, weights (B, C, n)."""
        products = self.products(weights)
        prototype_norms = np.einsum("bci,bic->bc", weights, products)
        distances: Floats = self.squared_norms[:, :, None] - 2 * products + prototype_norms[:, None, :]
        return np.maximum(distances, 0, out=distances)

    @cached_property
    def coordinates(self) -> Floats:
        """Rows (B, n, n) with these inner products, for methods that must have features: exact up to a rotation."""
        values, vectors = np.linalg.eigh(self.gram)
        rows: Floats = vectors * np.sqrt(np.maximum(values, 0))[:, None, :]
        return rows

    def __repr__(self) -> str:
        return f"TaskBatch({len(self)} tasks, {self.n_classes} classes, {self.n_support} + {self.n_query} rows)"


def gram_of(rows: Floats) -> Floats:
    """Inner products (B, n, n) of batches of rows (B, n, D)."""
    gram: Floats = np.matmul(rows, np.swapaxes(rows, -1, -2))
    return gram
