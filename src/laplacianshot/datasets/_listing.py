"""What a layout finds: a name, a class and a split for every picture, and where to read them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

import numpy as np

from laplacianshot.datasets._sources import Files, Source
from laplacianshot.runtime.types import Ints, Labels

# The names by which data sets call the three parts, and ours.
SPLITS = {
    "base": "base",
    "train": "base",
    "val": "val",
    "valid": "val",
    "validation": "val",
    "novel": "novel",
    "test": "novel",
}

# The split of pictures that nothing splits.
UNSPLIT = "all"


class Record(NamedTuple):
    """One picture in a file: its path below the root, its class and its split."""

    path: str
    class_name: str
    split: str


@dataclass(frozen=True, eq=False)
class Listing:
    """Pictures found, not yet checked.

    Attributes
    ----------
    names, split : arrays of strings of shape (n,)
    labels : int array of shape (n,)
    class_names : tuple of str
    source : Source
    """

    names: Labels
    labels: Ints
    class_names: tuple[str, ...]
    split: Labels
    source: Source

    @classmethod
    def of_files(cls, root: Path, records: Iterable[Record], class_names: Iterable[str] | None = None) -> Listing:
        """Files below ``root``; classes are numbered by ``class_names``, or in the order of their names."""
        rows = list(records)
        known = tuple(sorted({row.class_name for row in rows}) if class_names is None else class_names)
        numbers = {name: number for number, name in enumerate(known)}
        paths = [row.path for row in rows]
        return cls(
            names=np.array(paths, dtype=np.str_),
            labels=np.array([numbers[row.class_name] for row in rows], dtype=np.int64),
            class_names=known,
            split=np.array([row.split for row in rows], dtype=np.str_),
            source=Files(root, paths),
        )

    def expect_classes(self, dataset: str, wanted: Mapping[str, int], instead: str) -> Listing:
        """Itself, if each split has the wanted number of classes and no class is in two splits."""
        found = {name: len(np.unique(self.labels[self.split == name])) for name in wanted}
        if found != dict(wanted) or set(self.split.tolist()) != set(wanted):
            listed = ", ".join(f"{number} {name}" for name, number in wanted.items())
            there = ", ".join(f"{number} {name}" for name, number in found.items())
            raise ValueError(f"dataset {dataset!r} has {listed} classes, these files have {there}; {instead}")
        if sum(found.values()) > len(np.unique(self.labels)):
            raise ValueError(f"dataset {dataset!r}: a class occurs in two splits; {instead}")
        return self
