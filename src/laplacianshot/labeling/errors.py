"""Errors of labeling, in one line."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager

from laplacianshot.runtime.errors import InputError, LaplacianShotError

# Number of rows that a message names; the others are counted.
_NAMED = 5


class LabelingError(InputError):
    """Input that cannot be labeled; the message is one line that names it and says what to do."""

    def __init__(self, message: str) -> None:
        # File names and texts may hold newlines.
        super().__init__(" ".join(message.split()))


@contextmanager
def one_line(place: object = "") -> Iterator[None]:
    """Raise what another room does not support, or not with this input, as an error of this room."""
    try:
        yield
    except (LaplacianShotError, ValueError) as error:
        raise LabelingError(f"{place}: {error}" if place else str(error)) from error


def listed(things: Iterable[object]) -> str:
    """Name the first few of many things, and count the rest.

    >>> listed(["a", "b"])
    "'a', 'b'"
    >>> listed(range(9))
    '0, 1, 2, 3, 4 and 4 more'
    """
    every: Sequence[object] = list(things)
    named = ", ".join(_short(thing) for thing in every[:_NAMED])
    return named if len(every) <= _NAMED else f"{named} and {len(every) - _NAMED} more"


def first_three(faults: list[str]) -> str:
    """Return the first three of many faults, and how many more there are."""
    more = f"; {len(faults) - 3} more" if len(faults) > 3 else ""
    return "; ".join(faults[:3]) + more


def _short(thing: object) -> str:
    text = repr(thing)
    return text if len(text) <= 80 else f"{text[:60]}...{text[-10:]}"
