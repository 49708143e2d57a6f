"""The contract that every method of a comparison keeps."""

from __future__ import annotations

from abc import abstractmethod
from typing import Any, Protocol, Self, runtime_checkable

import numpy as np
from numpy.typing import ArrayLike
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.utils.validation import check_consistent_length, validate_data

from laplacianshot.inference._types import Floats, Ints, Labels
from laplacianshot.inference.labels import encode_labels


@runtime_checkable
class TransductiveClassifier(Protocol):
    """Labels the unlabelled rows it is fitted on, as :class:`~laplacianshot.LaplacianShot` does.

    Attributes
    ----------
    transduction_ : array of shape (n,)
        After ``fit``: a label for every row, labelled rows keep theirs.
    """

    transduction_: Labels

    def fit(self, X: ArrayLike, y: ArrayLike) -> Any:
        """Label every row of X (n, D) from y (n,), where -1 means unlabelled."""


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
            A label or, for unlabelled rows, -1 (numbers), None, NaN or "" (strings).

        Returns
        -------
        self
        """
        features: Floats = validate_data(self, X, dtype=[np.float64, np.float32])
        check_consistent_length(features, y)
        encoded = encode_labels(y)
        labelled = encoded.codes >= 0
        assigned = self._assign(features, encoded.codes, len(encoded.classes))
        self.classes_: Labels = encoded.classes
        self.transduction_: Labels = encoded.classes[np.where(labelled, encoded.codes, assigned)]
        return self

    @abstractmethod
    def _assign(self, X: Floats, codes: Ints, n_classes: int) -> Ints:
        """Class numbers (n,) for the rows of X (n, D); ``codes`` (n,) holds the known ones, -1 elsewhere.

        What is returned for labelled rows is not looked at.
        """
