"""Pictures with a class and a split for every one: what networks are trained on and features are made from."""

from __future__ import annotations

import hashlib
import os
from collections import Counter
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from functools import cached_property
from os import PathLike
from pathlib import Path
from threading import Lock
from types import MappingProxyType
from typing import TYPE_CHECKING, Literal

import numpy as np
from numpy.typing import ArrayLike

from laplacianshot.datasets.decoding import CorruptPicture, Source
from laplacianshot.datasets.layouts import LAYOUTS
from laplacianshot.runtime.errors import suggestion
from laplacianshot.runtime.threads import available_threads
from laplacianshot.runtime.types import Ints, Labels

if TYPE_CHECKING:
    from PIL.Image import Image

__all__ = ["DATASETS", "CorruptPicture", "Pictures", "open_pictures"]

# Memory for decoded pictures: no more than this, and no more than a quarter of the machine's.
_MAX_BYTES = 4 << 30


def _default_bytes() -> int:
    """Memory for decoded pictures on this machine."""
    try:
        memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    except (AttributeError, OSError, ValueError):
        return _MAX_BYTES // 4
    return min(_MAX_BYTES, memory // 4)


class _KeptPictures:
    """Decoded pictures by number. What no longer fits is not kept; nothing is ever thrown out.

    Each picture is read once per epoch, in another order each time: under a full memory no rule of replacement is
    better than keeping the first ones.
    """

    def __init__(self) -> None:
        self.capacity = _default_bytes()
        self.used = 0
        self._pictures: dict[int, Image] = {}
        self._lock = Lock()

    def get(self, i: int) -> Image | None:
        """Picture i, or None if it is not kept. Callers must not change it."""
        return self._pictures.get(i)

    def offer(self, i: int, picture: Image) -> None:
        """Keep picture i if it fits."""
        # Pillow holds a color pixel in four bytes.
        size = picture.width * picture.height * (1 if picture.mode == "L" else 4)
        with self._lock:
            if i not in self._pictures and self.used + size <= self.capacity:
                self._pictures[i] = picture
                self.used += size


# What each data set is, which files are expected where, and who gives them.
DATASETS: Mapping[str, str] = MappingProxyType({name: layout.description for name, layout in LAYOUTS.items()})


@dataclass(frozen=True, eq=False, repr=False)
class Pictures:
    """Pictures with a class and a split for every one. Read one at a time; nothing is decoded before.

    Made by :func:`open_pictures`.
    """

    names: Labels  # path below the folder, or the bundle's file name with a row number, as cub84.npz#123; (n,) of str
    labels: Ints  # class of each picture, 0 to C - 1, (n,)
    class_names: tuple[str, ...]  # C
    split: Labels  # base, val or novel; all where nothing splits the pictures; (n,) of str
    skipped: tuple[CorruptPicture, ...]  # left out because they cannot be read
    _source: Source
    _numbers: Ints
    _kept: _KeptPictures

    def __post_init__(self) -> None:
        for array in (self.names, self.labels, self.split, self._numbers):
            array.flags.writeable = False

    @property
    def n_classes(self) -> int:
        """Number of classes, C."""
        return len(self.class_names)

    @cached_property
    def splits(self) -> dict[str, int]:
        """Number of pictures of each split, in the order in which the splits first occur."""
        return dict(Counter(self.split.tolist()))

    def read(self, i: int) -> Image:
        """Picture i, decoded now: RGB, or L if it is gray.

        Raises
        ------
        CorruptPicture
            The file was changed since it was checked, or is damaged in a way that only decoding finds.
        """
        return self._source.read(int(self._numbers[i]), str(self.names[i]))

    def decoded(self, i: int) -> Image:
        """Picture i from memory if it was kept there, else decoded and kept if it fits. Not to be changed."""
        if self._source.in_memory:
            return self.read(i)
        number = int(self._numbers[i])
        picture = self._kept.get(number)
        if picture is None:
            picture = self.read(i)
            self._kept.offer(number, picture)
        return picture

    def rows(self, split: str | None = None) -> Ints:
        """Row numbers of a split, ascending; all of them for None."""
        if split is None:
            return np.arange(len(self))
        if split not in self.splits:
            raise ValueError(f"split={split!r} is not in the pictures; their splits are {', '.join(self.splits)}.")
        return np.flatnonzero(self.split == split)

    def select(self, split: str) -> Pictures:
        """The pictures of one split, with the classes that occur there, numbered from 0 in the same order."""
        return self._at(self.rows(split))

    def _at(self, rows: Ints) -> Pictures:
        present, labels = np.unique(self.labels[rows], return_inverse=True)
        return replace(
            self,
            names=self.names[rows],
            labels=labels.astype(np.int64),
            class_names=tuple(self.class_names[c] for c in present),
            split=self.split[rows],
            _numbers=self._numbers[rows],
        )

    def with_split(self, split: ArrayLike) -> Pictures:
        """The same pictures with another split (n,)."""
        given = np.array(split, dtype=np.str_)
        if given.shape != self.labels.shape:
            raise ValueError(f"split must have one name for each of the {len(self)} pictures, got {given.shape}.")
        return replace(self, split=given)

    def content_key(self) -> str:
        """A sha256 that changes with the names, labels, splits or pictures.

        Files are distinguished by size and time of change, pictures of a bundle by the bundle's bytes. Where the files
        lie does not matter.
        """
        digest = hashlib.sha256()
        for words in (self.names.tolist(), list(self.class_names), self.split.tolist()):
            digest.update(f"{len(words)};".encode())
            for word in words:
                # Lengths first, so that ("ab", "c") and ("a", "bc") differ; file names need not be valid Unicode.
                encoded = word.encode("utf-8", "surrogateescape")
                digest.update(f"{len(encoded)}:".encode() + encoded)
        digest.update(self.labels.astype("<i8").tobytes())
        digest.update(self._source.identity(self._numbers))
        return digest.hexdigest()

    def __len__(self) -> int:
        return len(self.labels)

    def __repr__(self) -> str:
        splits = ", ".join(f"{name} {count}" for name, count in self.splits.items())
        left_out = f", {len(self.skipped)} skipped" if self.skipped else ""
        return f"Pictures({len(self)} pictures, {self.n_classes} classes, splits {splits}{left_out})"


def open_pictures(
    dataset: str,
    data: str | PathLike[str],
    *,
    on_error: Literal["skip", "raise"] = "raise",
    check: Literal["quick", "whole"] | None = None,
) -> Pictures:
    """Find the pictures of a data set and check that they can be read.

    Parameters
    ----------
    dataset : str
        A name of :data:`DATASETS`, which says what files each expects.
    data : path
        The folder, or the file of a bundle.
    on_error : {"raise", "skip"}
        Whether an unreadable picture is an error or left out and listed in ``skipped``.
    check : {"quick", "whole"}, optional
        ``quick`` looks at the header and the end of each file; ``whole`` decodes each. By default quick for
        ``on_error="raise"``, where the rest is found at reading, and whole for ``"skip"``, since what is skipped must
        be known before training.

    Raises
    ------
    CorruptPicture
        With ``on_error="raise"``: the first unreadable picture.
    FileNotFoundError, ValueError
        Files of the data set are missing or malformed; the message says what is expected.
    """
    if dataset not in LAYOUTS:
        raise ValueError(f"dataset={dataset!r} is not known; {suggestion(dataset, LAYOUTS)}")
    if on_error not in ("skip", "raise"):
        raise ValueError(f"on_error must be 'skip' or 'raise', got {on_error!r}.")
    if check not in ("quick", "whole", None):
        raise ValueError(f"check must be 'quick' or 'whole', got {check!r}.")
    folder = Path(data)
    if not folder.exists():
        raise FileNotFoundError(f"{data}: file or folder not found. {dataset}: {DATASETS[dataset]}")
    found = LAYOUTS[dataset].find(folder)
    numbers = np.arange(len(found.labels))
    pictures = Pictures(
        found.names, found.labels, found.class_names, found.split, (), found.source, numbers, _KeptPictures()
    )
    whole = check == "whole" or (check is None and on_error == "skip")
    return _readable(pictures, on_error, whole)


def _readable(pictures: Pictures, on_error: str, whole: bool) -> Pictures:
    """The pictures without those that cannot be read."""

    def fault(i: int) -> CorruptPicture | None:
        try:
            pictures._source.check(i, str(pictures.names[i]), whole=whole)
        except CorruptPicture as error:
            if on_error == "raise":
                raise
            return error
        return None

    if pictures._source.in_memory:
        return pictures
    with ThreadPoolExecutor(available_threads()) as pool:
        try:
            faults = list(pool.map(fault, range(len(pictures))))
        except CorruptPicture:
            pool.shutdown(cancel_futures=True)
            raise
    skipped = tuple(error for error in faults if error is not None)
    if not skipped:
        return pictures
    if len(skipped) == len(pictures):
        raise ValueError(f"none of the {len(pictures)} pictures can be read; the first: {skipped[0]}")
    kept = np.flatnonzero([error is None for error in faults])
    return replace(pictures._at(kept), skipped=skipped)
