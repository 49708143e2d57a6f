"""Readers of data sets and of feature files, and the data that comes with the package's dependencies."""

from __future__ import annotations

from typing import TYPE_CHECKING

from laplacianshot.runtime.extras import lazy_names

if TYPE_CHECKING:
    from laplacianshot.datasets.digits import Digits, load_digits

__all__ = ["Digits", "load_digits"]

__getattr__, __dir__ = lazy_names(__name__, dict.fromkeys(__all__, "laplacianshot.datasets.digits"))
