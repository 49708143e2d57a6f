"""Names of classes as names of folders that every system takes."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable

from laplacianshot.labeling.sources.pictures import UNLABELED_FOLDERS

# Characters that Windows or a path gives another meaning, and those that nobody sees: controls, marks of direction.
_FORBIDDEN = re.compile(r'[/\\:*?"<>|\x00-\x1f\x7f-\x9f\u200b\u200e\u200f\u2028\u2029\u202a-\u202e\u2066-\u2069\ufeff]')

# Names of devices on Windows, with any ending.
_DEVICES = {"con", "prn", "aux", "nul", *(f"{port}{n}" for port in ("com", "lpt") for n in range(10))}

# Bytes of a name: systems take 255; numbers and endings may be put behind it.
_MAX_BYTES = 200


def folder_names(classes: Iterable[str]) -> dict[str, str]:
    """A folder for each class, all different even where case does not count.

    What a system might not take becomes ``_``. Classes that would share a folder, or be taken for hidden or
    unlabeled ones when the folders are read again, get a number.

    >>> folder_names(["cat", "Cat", "a/b", ".."])
    {'cat': 'cat', 'Cat': 'Cat-2', 'a/b': 'a_b', '..': '_'}
    """
    names: dict[str, str] = {}
    used = set(UNLABELED_FOLDERS)
    for label in classes:
        safe = _safe(label)
        name, number = safe, 1
        while name.casefold() in used:
            number += 1
            name = f"{safe}-{number}"
        used.add(name.casefold())
        names[label] = name
    return names


def _safe(label: str) -> str:
    name = _FORBIDDEN.sub("_", label).strip(" ").rstrip(". ")
    if name.startswith((".", "__MACOSX")):
        name = f"_{name[1:]}"
    if not name:
        return "_"
    if name.partition(".")[0].rstrip().casefold() in _DEVICES:
        name = f"{name}_" if "." not in name else f"_{name}"
    if len(name.encode()) > _MAX_BYTES:
        mark = hashlib.blake2b(label.encode(), digest_size=4).hexdigest()
        name = f"{name.encode()[: _MAX_BYTES - 9].decode(errors='ignore').rstrip('. ')}-{mark}"
    return name
