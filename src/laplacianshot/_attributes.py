"""Attributes of the estimator that are more than a value."""

from __future__ import annotations

from typing import Any


class HiddenParameter:
    """A constructor parameter that is no attribute.

    scikit-learn takes whatever has an attribute ``transform`` for a transformer. Our parameter of that name is stored
    like any other, and is read through ``get_params``.
    """

    def __set_name__(self, owner: type, name: str) -> None:
        self._name = name

    def __get__(self, instance: object | None, owner: type) -> Any:
        raise AttributeError(f"{self._name!r} is a parameter; read it with get_params()[{self._name!r}].")

    def __set__(self, instance: object, value: Any) -> None:
        instance.__dict__[self._name] = value


class GraphWhenAsked:
    """``affinity_`` of a large fit: made from the fitted graph, and kept in its place, when it is first read.

    A small fit stores it, and what an instance stores comes before this.
    """

    def __get__(self, instance: Any, owner: type) -> Any:
        graph = None if instance is None else instance.__dict__.get("_graph")
        if graph is None:
            raise AttributeError("affinity_ is known after fit.")
        instance.affinity_ = graph.affinity
        instance.__dict__.pop("_graph", None)
        return instance.affinity_
