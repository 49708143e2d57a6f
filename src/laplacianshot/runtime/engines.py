"""Engines: other places than this machine where work can be done, by name.

Rooms to the left of an engine do not import it. They take an engine object, or the name of one and its options, and
use the methods that they need: ``fit`` (:class:`~laplacianshot.estimator.LaplacianShot`), ``encode``
(:func:`~laplacianshot.label_source`) or ``spread`` (:func:`~laplacianshot.evaluate`).
"""

from __future__ import annotations

from importlib import import_module
from typing import Any

from laplacianshot.runtime.errors import InputError

LOCAL = "local"
_HOMES = {"ray": ("laplacianshot.ray.engine", "RayEngine")}

# What a user may ask for.
ENGINES = (LOCAL, *_HOMES)


def open_engine(engine: Any, **options: Any) -> Any:
    """An engine from its name and options.

    Parameters
    ----------
    engine : str or engine
        A name of :data:`ENGINES`, or an engine, which is returned as it is.
    **options
        Passed to the engine's class by name; those that are None are left to it.

    Returns
    -------
    engine, or None for this machine

    Raises
    ------
    InputError
        The engine is unknown, or options are given that it does not take.

    Examples
    --------
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
    if isinstance(engine, str) and engine != LOCAL:
        raise InputError(f"engine must be one of {', '.join(map(repr, ENGINES))}, got {engine!r}.")
    if given:
        raise InputError(f"{next(iter(given))} belongs to engine 'ray' (--engine ray); leave it out.")
    return None if engine == LOCAL else engine
