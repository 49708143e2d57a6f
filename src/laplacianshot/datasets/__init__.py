"""Readers of data sets, and the data that comes with the package's dependencies."""

from laplacianshot.datasets.digits import Digits, load_digits

__all__ = ["Digits", "load_digits"]
