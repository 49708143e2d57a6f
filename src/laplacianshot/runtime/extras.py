"""What is loaded only when it is used: packages of an extra, names of our packages, engines.

Rooms to the left of an engine do not import it. They take an engine object, or the name of one and its options, and
use the methods that they need: ``fit`` (:class:`~laplacianshot.estimator.LaplacianShot`), ``encode``
(:func:`~laplacianshot.label_source`) or ``spread`` (:func:`~laplacianshot.evaluate`).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from importlib import import_module
from types import ModuleType
from typing import Any

from laplacianshot.runtime.errors import InputError, LaplacianShotError

_LOCAL = "local"
_HOMES = {"ray": ("laplacianshot.ray.engine", "RayEngine")}


class MissingExtra(LaplacianShotError, ModuleNotFoundError):
    """A package that an extra installs is missing; the message says how to install it."""


def require(module: str, extra: str) -> ModuleType:
    """Import a package of an extra, such as ``"safetensors.torch"``; MissingExtra names the extra in one line."""
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

    >>> print(how_to_install("cli"))
    install the extra cli: pip install "laplacianshot[cli]", or in a clone: pip install -c constraints.txt ".[cli]"
    """
    return (
        f'install the extra {extra}: pip install "laplacianshot[{extra}]", '
        f'or in a clone: pip install -c constraints.txt ".[{extra}]"'
    )


def lazy_names(package: str, homes: Mapping[str, str]) -> tuple[Callable[[str], Any], Callable[[], list[str]]]:
    """``__getattr__`` and ``__dir__`` (PEP 562) of a package that loads each name from its module in ``homes``."""

    def get(name: str) -> Any:
        if name not in homes:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        return getattr(import_module(homes[name]), name)

    def names() -> list[str]:
        return sorted({*vars(import_module(package)), *homes})

    return get, names


def open_engine(engine: Any, **options: Any) -> Any:
    """An engine from its name and options, None for this machine; an engine object is returned as it is.

    Options are passed to the class of the engine; those that are None are left to it. InputError if the engine is
    unknown, or does not take options that are given.

    >>> open_engine("local", address=None) is None
    True
    >>> open_engine("local", address="10.0.0.1:6379")
    Traceback (most recent call last):
    ...
    laplacianshot.runtime.errors.InputError: address belongs to engine 'ray' (--engine ray); leave it out.
    """
    given = {name: value for name, value in options.items() if value is not None}
    if isinstance(engine, str) and engine in _HOMES:
        module, name = _HOMES[engine]
        return getattr(import_module(module), name)(**given)
    if isinstance(engine, str) and engine != _LOCAL:
        raise InputError(f"engine must be one of {', '.join(map(repr, (_LOCAL, *_HOMES)))}, got {engine!r}.")
    if given:
        raise InputError(f"{next(iter(given))} belongs to engine 'ray' (--engine ray); leave it out.")
    return None if engine == _LOCAL else engine
