"""The contract of every baseline, any scikit-learn classifier under it, and batches of tasks as inner products."""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import dataclass
from functools import cached_property
from typing import Any, ClassVar, Literal, Protocol, Self, TypeAlias, runtime_checkable

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import BaseEstimator, ClassifierMixin, clone
from sklearn.utils.validation import validate_data

from laplacianshot.inference.labels import encode_labels
from laplacianshot.inference.transforms import base_mean, signed_roots, transform_features
from laplacianshot.runtime.arrays import (
    check_length,
    check_size,
    in_one_line,
    refuse_complex,
    refuse_masked,
    warn_of_far_rows,
)
from laplacianshot.runtime.types import CENTERED, Floats, Ints, Labels, Transform

Space: TypeAlias = Transform | Literal["roots"]
Center: TypeAlias = Literal["pooled", "support"]

# What PT-MAP adds before it takes roots.
_ROOT_OFFSET = 1e-6


@runtime_checkable
class TransductiveClassifier(Protocol):
    """Labels the unlabeled rows it is fitted on, as :class:`~laplacianshot.LaplacianShot` does.

    Attributes
    ----------
    transduction_ : array of shape (n,)
        After ``fit``: a label for every row, labeled rows keep theirs.
    """

    transduction_: Labels

    def fit(self, X: ArrayLike, y: ArrayLike) -> Any:
        """Label every row of X (n, D) from y (n,), where -1 means unlabeled."""


class Baseline(ClassifierMixin, BaseEstimator):  # type: ignore[misc]
    """A transductive classifier that has to say only how it assigns rows to classes.

    A subclass implements :meth:`_assign`. Checking X and y, encoding labels of any type and keeping the given ones is
    done here, once.

    Attributes
    ----------
    classes_ : array of shape (C,)
    transduction_ : array of shape (n,)
    """

    def fit(self, X: ArrayLike, y: ArrayLike) -> Self:
        """Label every row of X.

        Parameters
        ----------
        X : array of shape (n, D)
        y : array of shape (n,)
            A label or, for unlabeled rows, -1 (numbers), None, NaN or "" (strings).

        Returns
        -------
        self
        """
        refuse_masked(X, "X")
        refuse_masked(y, "y")
        refuse_complex(X)
        with in_one_line("X"):
            features: Floats = validate_data(self, X, dtype=[np.float64, np.float32])
        check_size(features)
        warn_of_far_rows(features)
        check_length(features, y)
        encoded = encode_labels(y)
        codes, unlabeled = encoded.codes.copy(), encoded.codes < 0
        if unlabeled.any():
            codes[unlabeled] = self._assign(features, encoded.codes, len(encoded.classes))
        self.classes_: Labels = encoded.classes
        self.transduction_: Labels = encoded.classes[codes]
        return self

    @abstractmethod
    def _assign(self, X: Floats, codes: Ints, n_classes: int) -> Ints:
        """Class numbers of the unlabeled rows of X (n, D); ``codes`` (n,) holds the known ones, -1 elsewhere."""


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

    slow: ClassVar[bool] = True  # one task at a time

    def __init__(self, estimator: Any, *, scaling: Literal["none", "common"] = "none") -> None:
        self.estimator = estimator
        self.scaling = scaling

    def _assign(self, X: Floats, codes: Ints, n_classes: int) -> Ints:
        labeled = codes >= 0
        if self.scaling == "common":
            X = X - X.mean(axis=0)
            sigma = float(np.sqrt(np.mean(np.square(X))))
            X = X / sigma if sigma > 0 else X
        predicted: Ints = clone(self.estimator).fit(X[labeled], codes[labeled]).predict(X[~labeled])
        return predicted


@dataclass(repr=False, eq=False, kw_only=True)
class BatchedBaseline(Baseline):
    """A baseline that scores many tasks at once, each known by the inner products of its rows.

    A subclass has parameters ``space`` and ``center`` beside its own, and implements :meth:`scores`. That is all it
    needs both to be fitted as an estimator and to run over thousands of tasks. Ours are data classes: their fields are
    the parameters that scikit-learn sees.

    Parameters
    ----------
    space : {"cl2", "power", "l2", "roots", "none"}
        Where inner products are taken: see :func:`place_rows`.
    center : {"pooled", "support"} or array of shape (D,)
        What ``cl2`` and ``power`` take away: the mean of the task's rows, of its labeled rows, or a base mean.

    Attributes
    ----------
    slow : bool
        Whether a task costs so much more than others that fewer of them are run in our tables.
    """

    space: Space = "cl2"
    center: Center | Floats = "pooled"
    slow: ClassVar[bool] = False

    @abstractmethod
    def scores(self, batch: TaskBatch) -> Floats:
        """How much each class claims each query, (B, N, C): the largest entry of a row is its label."""

    def _assign(self, X: Floats, codes: Ints, n_classes: int) -> Ints:
        labeled = codes >= 0
        rows = self._place(X, labeled)[np.argsort(~labeled, kind="stable")]
        batch = TaskBatch((rows @ rows.T)[None], codes[labeled][None], n_classes)
        assigned: Ints = best_classes(self.scores(batch), batch, type(self).__name__)[0]
        return assigned

    def _place(self, X: Floats, labeled: NDArray[np.bool_]) -> Floats:
        """The rows of one task in the method's space, (n, D)."""
        if isinstance(self.center, str):
            center = base_mean(X if self.center == "pooled" else X[labeled], self.space)
        else:
            center = np.asarray(self.center)
        return place_rows(X, self.space, center)


def best_classes(scores: Any, batch: TaskBatch, method: str) -> Ints:
    """Classes (B, N) with the largest of a method's scores (B, N, C); ValueError for invalid scores.

    Infinity decides like any number; NaN would win silently.
    """
    given, expected = np.asarray(scores), (len(batch), batch.n_query, batch.n_classes)
    if given.shape != expected or given.dtype.kind not in "biuf":
        fault = f"an array of shape {given.shape} and dtype {given.dtype}"
    elif (unknown := np.isnan(given)).any():
        fault = f"NaN for {np.count_nonzero(unknown.any(axis=2))} of {expected[0] * expected[1]} queries"
    else:
        best: Ints = given.argmax(axis=2)
        return best
    raise ValueError(
        f"{method}: scores gave {fault}; it must return numbers of shape {expected}: (tasks, queries, classes)."
    )


def place_rows(X: Floats, space: Space, center: Floats | None) -> Floats:
    """Rows X (n, D) in a method's space, (n, D).

    All but ``roots`` are those of :func:`~laplacianshot.inference.transforms.transform_features`. ``roots`` is
    ``z / |z|`` with ``z_d = sign(x_d) sqrt(|x_d| + 1e-6)``, the power transform of PT-MAP, which its paper gives for
    non-negative features and does not center.
    """
    if space == "roots":
        return transform_features(signed_roots(X, _ROOT_OFFSET), "l2")
    return transform_features(X, space, center if space in CENTERED else None)


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

    def __repr__(self) -> str:
        return f"TaskBatch({len(self)} tasks, {self.n_classes} classes, {self.n_support} + {self.n_query} rows)"


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
