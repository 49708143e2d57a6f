"""Items by what they hold, each file read once while it is unchanged."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from concurrent.futures import Executor, Future
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

from laplacianshot.datasets._decoding import _MACHINE, CorruptPicture
from laplacianshot.embedding.vector_cache import FileHashes, FileState, file_state, short_hash

# Items looked up together, hashed by one call of a worker, and given together.
_BLOCK = 8192
_TASK = 64
_STRETCH = 512


class Items(Protocol):
    """Pictures or texts by number. All methods may be called from several threads at once."""

    def __len__(self) -> int: ...

    def content_hash(self, i: int) -> bytes:
        """A cryptographic hash of item i's content, 16 bytes or more."""
        ...

    def load(self, i: int) -> Any:
        """Item i: a ``PIL.Image`` or a str; raises ``CorruptPicture`` where it cannot be read."""
        ...

    def file(self, i: int) -> Path | None:
        """The file that item i is all of, if there is one.

        It is not read again while it is unchanged. A picture is decoded from it, upright and at the size the encoder
        needs; ``load`` is not called.
        """
        ...


@dataclass(frozen=True)
class Content:
    """What an item holds.

    Attributes
    ----------
    position : int
    hash : bytes
        16 bytes; empty if the item cannot be read.
    state : FileState or None
        Of the item's file, taken before it was read.
    fault : str
        Why it cannot be read.
    """

    position: int
    hash: bytes
    state: FileState | None = None
    fault: str = ""

    def is_unchanged(self, items: Items) -> bool:
        """Whether the item's file, if it is one, is as it was when it was hashed."""
        path = item_file(items, self.position)
        try:
            return path is None or self.state is None or file_state(path).digest == self.state.digest
        except OSError:
            return False


def contents(items: Items, hashes: FileHashes, pool: Executor) -> Iterator[list[Content]]:
    """Every item once, some at a time: those of known files first, the others as workers hash them.

    While the caller works on one list, the workers hash the next.
    """
    for start in range(0, len(items), _BLOCK):
        positions = range(start, min(start + _BLOCK, len(items)))
        states = [_state(items, position) for position in positions]
        known = _known(states, hashes)
        if known:
            yield [Content(positions[place], found, states[place]) for place, found in known.items()]
        unknown = [place for place in range(len(positions)) if place not in known]
        ahead: list[Future[list[Content]]] = []
        for first in range(0, len(unknown) + _STRETCH, _STRETCH):
            now, part = ahead, unknown[first : first + _STRETCH]
            tasks = [part[low : low + _TASK] for low in range(0, len(part), _TASK)]
            ahead = [
                pool.submit(_hashed, items, [(positions[place], states[place]) for place in task]) for task in tasks
            ]
            if now:
                found = [content for future in now for content in future.result()]
                _remember(found, hashes)
                yield found


def item_file(items: Items, position: int) -> Path | None:
    """The file of an item, None for items that are no files."""
    file = getattr(items, "file", None)
    return None if file is None else file(position)


def fault_of(error: CorruptPicture | OSError) -> str:
    """Why an item cannot be read, in one line. A fault of the machine is raised: no item is to be skipped for it."""
    if isinstance(error, CorruptPicture):
        return error.reason
    if error.errno in _MACHINE:
        raise error
    return error.strerror or " ".join(str(error).split()) or type(error).__name__


def _state(items: Items, position: int) -> FileState | None:
    path = item_file(items, position)
    try:
        return None if path is None else file_state(path)
    except OSError:
        # Reading it will say what is wrong.
        return None


def _known(states: list[FileState | None], hashes: FileHashes) -> dict[int, bytes]:
    """Content hashes by place, of the files that were read before."""
    files = {place: state for place, state in enumerate(states) if state is not None}
    found = hashes.get(list(files.values()))
    return {place: content for place, content in zip(files, found, strict=True) if content is not None}


def _remember(found: list[Content], hashes: FileHashes) -> None:
    files = [(content.state, content.hash) for content in found if content.state is not None and not content.fault]
    # Where nothing can be written, vectors are not kept either, and that is said.
    with contextlib.suppress(OSError):
        hashes.put([state for state, _ in files], [content for _, content in files])


def _hashed(items: Items, wanted: list[tuple[int, FileState | None]]) -> list[Content]:
    found = []
    for position, state in wanted:
        try:
            found.append(Content(position, short_hash(items.content_hash(position)), state))
        except (CorruptPicture, OSError) as error:
            found.append(Content(position, b"", state, fault_of(error)))
    return found
