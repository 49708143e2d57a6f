"""Packages that only an extra installs."""

from __future__ import annotations

from importlib import import_module
from types import ModuleType


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
    ModuleNotFoundError
        The package is not installed. The message, of one line, holds the command that installs it.
    """
    package = module.partition(".")[0]
    try:
        return import_module(module)
    except ModuleNotFoundError as error:
        # A package that is there but lacks something of its own is another fault, and says so itself.
        if error.name is None or error.name.partition(".")[0] != package:
            raise
        message = f'this needs {package}, which is not installed; install with: pip install "laplacianshot[{extra}]"'
        raise ModuleNotFoundError(message, name=error.name) from None
