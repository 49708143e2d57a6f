"""Class folders: the name of a folder is the class of the pictures in it."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

from laplacianshot.datasets._listing import SPLITS, UNSPLIT, Listing, Record

DESCRIPTION = (
    "your own pictures in class folders, DATA/CLASS/picture.jpg. If the folders of DATA are called base or train, val, "
    "and novel or test, they are splits: DATA/train/CLASS/picture.jpg. A folder that holds pictures is a class with "
    "all that is below it; a folder of folders is part of the names of its classes."
)

ENDINGS = {".jpg", ".jpeg", ".jpe", ".png", ".bmp", ".gif", ".webp", ".tif", ".tiff", ".ppm", ".pgm"}


def find(data: Path) -> Listing:
    """The pictures of class folders, in the order of their paths."""
    if not data.is_dir():
        raise ValueError(f"{data} is not a folder. folder: {DESCRIPTION}")
    loose, tops = _children(data)
    if loose:
        raise ValueError(
            f"{data}: {loose[0]!r} is in no class folder; put every picture into a folder named after its class."
        )
    found = {top: list(_walk(data / top, top)) for top in tops}
    found = {top: pictures for top, pictures in found.items() if pictures}
    if not found:
        raise ValueError(f"{data}: there are no pictures in its folders. folder: {DESCRIPTION}")
    records = [
        Record(path, name, split)
        for top, pictures in found.items()
        for split in [_split_of(top, list(found))]
        for path, name in (_without_split(pictures, top) if split != UNSPLIT else pictures)
    ]
    return Listing.of_files(data, sorted(records))


def _split_of(top: str, tops: list[str]) -> str:
    """The split that a folder of the root stands for, or ``all`` if the root holds classes."""
    splits = [name for name in tops if name.lower() in SPLITS]
    if len(splits) == len(tops):
        return SPLITS[top.lower()]
    if len(splits) >= 2:
        other = next(name for name in tops if name not in splits)
        raise ValueError(
            f"{', '.join(splits)} look like splits, but {other!r} beside them is none; have either splits or classes."
        )
    return UNSPLIT


def _without_split(pictures: list[tuple[str, str]], top: str) -> Iterator[tuple[str, str]]:
    for path, name in pictures:
        if name == top:
            raise ValueError(f"{path!r} is in no class folder; put the pictures of a split into folders of classes.")
        yield path, name.removeprefix(f"{top}/")


def _walk(
    folder: Path, name: str, above: tuple[str, ...] = (), class_name: str | None = None
) -> Iterator[tuple[str, str]]:
    """(path below the root, class) of each picture; a folder with pictures of its own is a class."""
    real = os.path.realpath(folder)
    # A link to a folder above would never end.
    if real in above:
        return
    files, folders = _children(folder)
    if files and class_name is None:
        class_name = name
    for file in files:
        yield f"{name}/{file}", str(class_name)
    for child in folders:
        yield from _walk(folder / child, f"{name}/{child}", (*above, real), class_name)


def _children(folder: Path) -> tuple[list[str], list[str]]:
    """Names of the pictures and of the folders in a folder, sorted; hidden ones are left out."""
    files, folders = [], []
    with os.scandir(folder) as entries:
        for entry in entries:
            if entry.name.startswith((".", "__MACOSX")):
                continue
            if entry.is_dir():
                folders.append(entry.name)
            # A link that leads nowhere is a picture that cannot be read; a pipe or a device is none.
            elif (entry.is_symlink() or entry.is_file()) and os.path.splitext(entry.name)[1].lower() in ENDINGS:  # noqa: PTH122 - a Path for each file is slow
                files.append(entry.name)
    return sorted(files), sorted(folders)
