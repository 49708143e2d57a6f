"""What a feature store says when it cannot be used."""

from __future__ import annotations

from laplacianshot.runtime.errors import InputError


class StoreError(InputError):
    """A feature store that is missing, damaged, or asked for what it does not hold."""


class StaleStore(StoreError):
    """A feature store that was made from something else than what is asked for.

    Attributes
    ----------
    changed : tuple of str
        Which parts differ: ``weights``, ``view``, ``data``, ``code``, ``dtype``, ``dim``, ``rows``, ``item keys``.
    """

    def __init__(self, message: str, changed: tuple[str, ...]) -> None:
        super().__init__(message)
        self.changed = changed


class IncompleteStore(StoreError):
    """A feature store whose extraction has not come to its end."""


class StoreInUse(StoreError):
    """A feature store that is being written already."""
