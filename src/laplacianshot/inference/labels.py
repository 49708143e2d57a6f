"""Labels as people write them, to class numbers and back."""

from __future__ import annotations

import warnings
from dataclasses import dataclass
from numbers import Real
from typing import Any

import numpy as np
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import column_or_1d

from laplacianshot.runtime.arrays import in_one_line
from laplacianshot.runtime.types import Ints, Labels

# The number that means "no label", as in scikit-learn's semi-supervised estimators.
UNLABELED = -1

# Beyond this, floats no longer hold every integer.
_EXACT = 2**53

# Strings that look like a missing value written out.
WORDS_FOR_NOTHING = {"", "-1", "-1.0", "nan", "none", "null", "na", "n/a", "<na>", "nat"}


@dataclass(frozen=True)
class EncodedLabels:
    """Labels as class numbers.

    Attributes
    ----------
    classes : array of shape (C,)
        The labels that occur, sorted.
    codes : int array of shape (n,)
        Position of each row's label in ``classes``, -1 where it has none.
    """

    classes: Labels
    codes: Ints


def encode_labels(y: Any, *, need_labels: bool = True, argument: str = "y") -> EncodedLabels:
    """Encode labels, telling labeled rows from unlabeled ones.

    Unlabeled is -1 or NaN as a number, None, the empty string, and what pandas or a mask calls missing. Every other
    value is a class: numbers (other negative ones too), strings or bools, but not a mixture of them.

    Parameters
    ----------
    y : array-like of shape (n,)
    need_labels : bool
        Whether a y without any label is an error.
    argument : str
        What the labels are called in messages.

    Returns
    -------
    EncodedLabels
    """
    with in_one_line(argument):
        values = column_or_1d(_as_array(y), warn=True)
    kind = values.dtype.kind
    if kind == "O":
        missing = np.fromiter((_is_missing(value) for value in values), dtype=bool, count=len(values))
        labeled = _one_kind(values[~missing], argument)
    elif kind in "fiu":
        missing = np.isnan(values) | (values == UNLABELED)
        labeled = values[~missing]
    elif kind in "bU":
        missing = values == "" if kind == "U" else np.zeros(len(values), dtype=bool)
        labeled = values[~missing]
    else:
        raise TypeError(f"{argument} has dtype {values.dtype}; labels are strings, numbers or bools.")
    _warn_of_words_for_nothing(labeled, argument)
    if labeled.size == 0:
        if not need_labels:
            return EncodedLabels(labeled, np.full(len(values), UNLABELED, dtype=np.int64))
        raise ValueError(
            f"{argument} has no labeled row among {len(values)}; label at least one row of each class. "
            "(-1, NaN, None and '' mean unlabeled.)"
        )
    with warnings.catch_warnings():
        # With one label per class there are as many classes as labels: this is not a regression problem.
        warnings.filterwarnings("ignore", message="The number of unique classes", category=UserWarning)
        with in_one_line(argument):
            check_classification_targets(labeled)
    classes, numbers = np.unique(labeled, return_inverse=True)
    codes = np.full(len(values), UNLABELED, dtype=np.int64)
    codes[~missing] = numbers
    return EncodedLabels(classes, codes)


def _as_array(y: Any) -> Any:
    """``y`` with its missing values still distinct: objects where numpy would make strings or floats of them."""
    if isinstance(y, np.ma.MaskedArray):
        objects = np.array(y.tolist(), dtype=object)
        objects[np.ma.getmaskarray(y)] = None
        return objects
    if hasattr(y, "to_numpy") and not isinstance(getattr(y, "dtype", None), np.dtype | type(None)):
        return y.to_numpy(dtype=object)  # pandas' nullable and categorical columns
    if isinstance(y, np.ndarray) and y.dtype.kind == "T":
        return y.astype(object)  # numpy's strings of any length
    if isinstance(y, list | tuple) and any(
        isinstance(value, str | bool) or value is None or (isinstance(value, int) and abs(value) > _EXACT)
        for value in y
    ):
        return np.array([*y, None], dtype=object)[:-1]
    return y


def _is_missing(value: Any) -> bool:
    if value is None or (isinstance(value, str) and value == ""):
        return True
    if isinstance(value, Real | np.number) and not isinstance(value, bool | np.bool_):
        return bool(value != value or value == UNLABELED)
    # pandas.NA and NaT, without importing pandas.
    return type(value).__name__ in ("NAType", "NaTType")


def _warn_of_words_for_nothing(labeled: Labels, argument: str) -> None:
    """Warn of strings that were probably meant as no label, as ``str(nan)`` makes them."""
    if labeled.dtype.kind not in "UO":
        return
    found = sorted(value for value in set(labeled.tolist()) if value.strip().lower() in WORDS_FOR_NOTHING)
    if found:
        warnings.warn(
            f"{argument} holds the string {found[0]!r}, a class like any other; use None, NaN or '' for unlabeled "
            "rows.",
            UserWarning,
            stacklevel=4,
        )


def _one_kind(values: Labels, argument: str) -> Labels:
    """Objects as an array of the one kind they are of: strings stay objects, bools and numbers get their own dtype."""
    kinds = {_kind(value) for value in values}
    if len(kinds) > 1 or "other" in kinds:
        found = ", ".join(sorted({type(v).__name__ for v in values}))
        raise TypeError(
            f"{argument} mixes labels of different types ({found}); use strings only, numbers only or bools only."
        )
    if kinds == {"bool"}:
        return values.astype(bool)
    if kinds == {"number"}:
        numbers = np.array(values.tolist())
        inexact = [number != value for number, value in zip(numbers.tolist(), values.tolist(), strict=True)]
        lost = values if numbers.dtype == object else values[inexact]
        if len(lost):
            raise ValueError(
                f"{argument} holds the number {lost[0]}, which no dtype of numpy holds exactly; use strings."
            )
        return numbers
    return values


def _kind(value: Any) -> str:
    if isinstance(value, str):
        return "string"
    if isinstance(value, bool | np.bool_):
        return "bool"
    return "number" if isinstance(value, Real | np.number) else "other"
