"""Engines by name: what runs a job somewhere else than on this machine.

A room that brings an engine registers it when it is imported, so that the rooms whose jobs it runs need not know it.
"""

from __future__ import annotations

from collections.abc import Mapping
from importlib import import_module
from typing import Any

LOCAL = "local"

# Rooms of this package that register an engine of their own name.
_ROOMS = ("ray",)
_registered: dict[str, Mapping[str, str]] = {}


def register_engine(name: str, jobs: Mapping[str, str]) -> None:
    """Offer an engine.

    Parameters
    ----------
    name : str
    jobs : mapping of str to str
        For each job that the engine can run, ``module:function``; the module is imported when the job is first asked
        for.
    """
    _registered[name] = jobs


def engine_names() -> tuple[str, ...]:
    """All names that can be chosen: this machine first."""
    return (LOCAL, *dict.fromkeys((*_ROOMS, *_registered)))


def check_engine(engine: str, address: str | None = None) -> None:
    """Raise ValueError for an unknown engine, and for the address of a cluster where none is used."""
    if engine not in engine_names():
        names = " or ".join(repr(name) for name in engine_names())
        raise ValueError(f"engine must be {names}, got {engine!r}.")
    if engine == LOCAL and address is not None:
        raise ValueError("address belongs to engine='ray'; leave it None.")


def find_job(engine: str, job: str) -> Any:
    """The function with which an engine runs a job."""
    check_engine(engine)
    if engine not in _registered and engine in _ROOMS:
        import_module(f"laplacianshot.{engine}")
    place = _registered.get(engine, {}).get(job)
    if place is None:
        raise ValueError(f"engine {engine!r} cannot {job}.")
    module, _, function = place.partition(":")
    return getattr(import_module(module), function)
