"""Vectors of the names of classes, which predictions start from before anybody has labeled an item."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Mapping
from threading import Lock
from typing import TYPE_CHECKING

import numpy as np

from laplacianshot.labeling.classes import ClassNames
from laplacianshot.runtime.errors import InputError
from laplacianshot.runtime.types import Floats
from laplacianshot.studio.change_log import ActionError, ClassEntry
from laplacianshot.studio.relabel import NO_NAMES, NamedClasses

if TYPE_CHECKING:
    from laplacianshot.embedding.encoders import Encoder, Kind


class NameVectors:
    """Vectors of names and descriptions, each encoded once.

    ``open_encoder`` opens what reads texts, when it is first needed; ``given`` are vectors of names that the user has
    brought, in place of it. ``problem`` says why there is neither: then names are names and nothing else.
    """

    def __init__(
        self,
        kind: Kind,
        open_encoder: Callable[[], Encoder] | None = None,
        given: Mapping[str, Floats] | None = None,
        problem: str | None = None,
    ) -> None:
        self._kind, self._open, self._given = kind, open_encoder, dict(given or {})
        self.problem = problem
        self._lock = Lock()
        self._encoder: Encoder | None = None
        self._vectors: dict[tuple[str, tuple[str, ...]], Floats] = {}

    @property
    def usable(self) -> bool:
        """Whether names can be compared with items."""
        return self.problem is None

    def of(self, classes: Mapping[int, ClassEntry]) -> NamedClasses:
        """Return the vectors of the classes, by id, whose names count.

        Vectors that a user brings are there for the names of that run; other names do not count then.
        """
        found: dict[int, Floats] = {}
        for id, entry in classes.items():
            if entry.said is not None and self.usable:
                with contextlib.suppress(ActionError, KeyError):
                    found[id] = self._encoded(entry.name, entry.said)
        return NamedClasses(np.array([*found]), np.stack([*found.values()])) if found else NO_NAMES

    def check(self, names: Mapping[str, tuple[str, ...]]) -> None:
        """Encode names with their descriptions; an ActionError says that one cannot be."""
        if self._open is not None:
            for name, texts in names.items():
                self._encoded(name, texts)

    def _encoded(self, name: str, texts: tuple[str, ...]) -> Floats:
        """Return the unit vector (D,) of a name, or of its descriptions."""
        if self._open is None:
            return self._given[name]
        with self._lock:
            if (name, texts) not in self._vectors:
                self._encoder = self._encoder or self._open()
                try:
                    vectors = ClassNames((name,), (texts,)).encoded(self._encoder, self._kind, self._encoder.dim)
                except InputError as error:
                    raise ActionError(str(error), 422) from error
                self._vectors[name, texts] = vectors[0]
            return self._vectors[name, texts]
