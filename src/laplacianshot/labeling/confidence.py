"""Probabilities that mean what they say, from one fit and without a label more than the given ones."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from laplacianshot.inference._softmax import softmax
from laplacianshot.inference._types import Floats, Ints
from laplacianshot.inference.estimator import LaplacianShot
from laplacianshot.labeling.left_out import left_out_logits

# FIRST VERSION: one temperature.
TEMPERATURE = 2.0


@dataclass(frozen=True, repr=False)
class Calibration:
    """Calibrated probabilities.

    Attributes
    ----------
    probabilities : float32 array of shape (n, C)
        Probability of each class; for a given row what the graph says of it without its own label.
    temperature : float
        What the logits of the fit were divided by.
    expected_accuracy : float
        Share of the unlabelled rows whose label is expected to be right: their mean confidence; NaN without any.
    """

    probabilities: Floats
    temperature: float
    expected_accuracy: float

    def __repr__(self) -> str:
        n, c = self.probabilities.shape
        return f"Calibration({n} rows x {c} classes, expected accuracy {self.expected_accuracy:.3f})"


def calibrate(model: LaplacianShot, codes: Ints) -> Calibration:
    """Calibrated probabilities of every row that ``model`` was fitted on.

    Parameters
    ----------
    model : LaplacianShot
        The default recipe, fitted on rows with these codes.
    codes : int array of shape (n,)
        Class number of each row, -1 for unlabelled ones; ``0..C-1`` as in ``model.classes_``.

    Returns
    -------
    Calibration
    """
    unlabelled = codes < 0
    Y = model.label_distributions_
    logits = np.empty(Y.shape)
    logits[unlabelled] = np.log(np.maximum(Y[unlabelled], np.finfo(Y.dtype).tiny))
    logits[~unlabelled] = left_out_logits(model, codes)
    probabilities = softmax(logits / TEMPERATURE).astype(np.float32)
    sure = probabilities[unlabelled].max(axis=1)
    return Calibration(probabilities, TEMPERATURE, float(sure.mean()) if len(sure) else float("nan"))


def find_disputes(probabilities: Floats, codes: Ints) -> Ints:
    """Given labels that the neighbours dispute: the class they prefer (n,), -1 elsewhere.

    A given label is disputed where another class has more than half of the probability that the graph gives the row
    without its label.

    Parameters
    ----------
    probabilities : array of shape (n, C)
        Of :func:`calibrate`.
    codes : int array of shape (n,)
        Class number of each row, -1 for unlabelled ones.
    """
    preferred = probabilities.argmax(axis=1)
    disputed = (codes >= 0) & (preferred != codes) & (probabilities.max(axis=1, initial=0) > 0.5)
    return np.where(disputed, preferred, -1)
