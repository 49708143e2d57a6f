"""Values of tables as labels, ids and texts."""

from __future__ import annotations

import math
import unicodedata
from typing import Any

import numpy as np


def label_of(value: Any) -> str | None:
    """A label, or None where there is none: None, NaN, the number -1 and what is blank.

    Blanks around a label are dropped and its characters composed (NFC), so that what looks the same is the same.

    >>> [label_of(value) for value in (" cat ", "", None, float("nan"), -1, 3, 3.0, True)]
    ['cat', None, None, None, None, '3', '3', 'True']
    """
    if isinstance(value, float | np.floating):
        number = float(value)
        if math.isnan(number):
            return None
        value = int(number) if number.is_integer() else number
    if value is None or (isinstance(value, int | np.integer) and not isinstance(value, bool) and value == -1):
        return None
    return composed(str(value)).strip() or None


def id_of(value: Any) -> str:
    """An id as a string; a whole number in floating point, as spreadsheets and pandas write them, without its point."""
    if value is None or (isinstance(value, float | np.floating) and math.isnan(value)):
        return ""
    if isinstance(value, float | np.floating) and float(value).is_integer():
        return str(int(value))
    return str(value)


def text_of(value: Any) -> str:
    """A text as a string, ``""`` where there is none."""
    return "" if value is None or (isinstance(value, float) and math.isnan(value)) else str(value)


def composed(text: str) -> str:
    """The same characters, an accent and its letter as one (NFC)."""
    return text if text.isascii() else unicodedata.normalize("NFC", text)
