"""Packages that only an extra installs."""

from __future__ import annotations

from importlib import import_module
from types import ModuleType

from laplacianshot.runtime.errors import LaplacianShotError


class MissingExtra(LaplacianShotError, ModuleNotFoundError):
    """A package that an extra installs is missing; the message says how to install it."""


def require(module: str, extra: str) -> ModuleType:
    """Import a package of an extra, or say which extra it is.

    Parameters
    ----------
    module : str
        Name to import, such as ``"torch"`` or ``"safetensors.torch"``.
    extra : str
        The extra of laplacianshot that installs it.

    Returns
    -------
    module

    Raises
    ------
    MissingExtra
        The package is not installed. The message is one line with the commands that install it.
    """
    package = module.partition(".")[0]
    try:
        return import_module(module)
    except ModuleNotFoundError as error:
        # An installed package that lacks one of its own requirements is another fault, with its own message.
        if error.name is None or error.name.partition(".")[0] != package:
            raise
        message = f"this needs {package}, which is not installed; {how_to_install(extra)}"
        raise MissingExtra(message, name=error.name) from None


def how_to_install(extra: str) -> str:
    """Return the commands that install an extra, from an index of packages and in a clone.

    Examples
    --------
    >>> print(how_to_install("cli"))
    install the extra cli: pip install "laplacianshot[cli]", or in a clone: pip install -c constraints.txt ".[cli]"
    """
    return (
        f'install the extra {extra}: pip install "laplacianshot[{extra}]", '
        f'or in a clone: pip install -c constraints.txt ".[{extra}]"'
    )
