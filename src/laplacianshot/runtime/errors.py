"""The base of all errors that this package raises on purpose."""

from __future__ import annotations


class LaplacianShotError(Exception):
    """Base of every error of this package: the message is one line that says what is wrong and what to do."""


class InputError(LaplacianShotError, ValueError):
    """Something that was given is not usable: an argument, a file or a folder."""
