"""What the vectors of a store were made from, in a form that can be compared."""

from __future__ import annotations

import dataclasses
import hashlib
import json
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

# Raised by one whenever the same weights, view and data would give other vectors than before.
CODE_VERSION = 1

# Parts of a key in the words of a message.
_WORDS = {
    "weights": "other weights",
    "view": "another view",
    "data": "other data",
    "code": "another version of the code",
}


@dataclass(frozen=True)
class StoreKey:
    """What vectors were made from. Stores with equal keys hold equal vectors.

    Attributes
    ----------
    weights : str
        Which encoder, such as :func:`arrays_hash` of a network.
    view : str
        How a picture is turned into the encoder's input, such as :func:`view_text`.
    data : str
        Which items, in which order, such as ``Pictures.content_key()``. Empty where each item has a key of its own.
    code : int
        Version of the code that goes from the ones to the others.
    """

    weights: str
    view: str
    data: str
    code: int = CODE_VERSION

    @property
    def digest(self) -> str:
        """One SHA-256 over all parts, in hexadecimal."""
        return hashlib.sha256(json.dumps(dataclasses.asdict(self), sort_keys=True).encode()).hexdigest()

    def changed(self, other: StoreKey) -> tuple[str, ...]:
        """Names of the parts in which two keys differ."""
        names = [field.name for field in dataclasses.fields(self)]
        return tuple(name for name in names if getattr(self, name) != getattr(other, name))

    def difference(self, other: StoreKey) -> str:
        """The parts in which this key differs from another, in words; a short view is spelled out."""
        parts = []
        for name in self.changed(other):
            text = _WORDS[name]
            if name == "view" and max(len(self.view), len(other.view)) <= 200:
                text = f"{text} ({self.view}, not {other.view})"
            parts.append(text)
        return " and ".join(parts)


def view_text(view: Any) -> str:
    """A view as text: its class and all its parameters, the same for equal views.

    Examples
    --------
    >>> @dataclass(frozen=True)
    ... class Center:
    ...     resize: int = 96
    ...     crop: int = 84
    >>> view_text(Center(crop=80))
    'Center(resize=96, crop=80)'
    """
    if not dataclasses.is_dataclass(view) or isinstance(view, type):
        raise TypeError(f"view must be a data class whose fields are its parameters, or None; got {view!r}.")
    fields = [f"{field.name}={getattr(view, field.name)!r}" for field in dataclasses.fields(view)]
    return f"{type(view).__name__}({', '.join(fields)})"


def item_key(content: bytes) -> str:
    """Key of one item by its content: SHA-256 in hexadecimal."""
    return hashlib.sha256(content).hexdigest()


def packed_keys(keys: Iterable[str]) -> list[bytes]:
    """Item keys of 64 hexadecimal digits as 32 bytes each."""
    packed = []
    for key in keys:
        try:
            packed.append(bytes.fromhex(key))
        except (TypeError, ValueError):
            packed.append(b"")
        if len(packed[-1]) != 32:
            raise ValueError(f"item keys are SHA-256 in 64 hexadecimal digits, as item_key gives them; got {key!r}.")
    return packed
