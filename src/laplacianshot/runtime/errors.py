"""The base of all errors that this package raises on purpose."""

from __future__ import annotations

import difflib
from collections.abc import Iterable


class LaplacianShotError(Exception):
    """Base of every error of this package: the message is one line that says what is wrong and what to do."""


class InputError(LaplacianShotError, ValueError):
    """Something that was given is not usable: an argument, a file or a folder."""


def suggestion(name: str, known: Iterable[str]) -> str:
    """What to write instead of a name that is not known: the name most like it, or one of all.

    >>> suggestion("resnet81", ["conv4", "resnet18"])
    'did you mean resnet18?'
    >>> suggestion("vgg", ["conv4", "resnet18"])
    'there are conv4, resnet18.'
    """
    names = list(known)
    near = difflib.get_close_matches(name, names, n=1)
    return f"did you mean {near[0]}?" if near else f"there are {', '.join(names)}."
