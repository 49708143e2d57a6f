"""Pictures in a folder and the folders below it."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar

from laplacianshot.datasets.decoding import CorruptPicture, decode
from laplacianshot.labeling.errors import LabelingError
from laplacianshot.labeling.result import Skipped
from laplacianshot.labeling.sources.base import Kind, Source, encodable, hash_of
from laplacianshot.labeling.sources.tables import label_of
from laplacianshot.labeling.sources.vectors import vector_files

if TYPE_CHECKING:
    from PIL.Image import Image

ENDINGS = {".jpg", ".jpeg", ".png", ".webp", ".gif", ".bmp", ".tif", ".tiff"}

# A folder of this name holds pictures without a label, whatever their other folders are called.
UNLABELED_FOLDERS = {"unlabeled", "unlabelled", "_unlabeled", "_unlabelled"}
# Folders of a camera or an archive: a year, or a year with month and day.
_DATE = re.compile(r"(19|20)\d\d([-_. ]?\d\d){0,2}")


@dataclass(frozen=True, eq=False, repr=False)
class PictureSource(Source):
    """Pictures below a folder, in the order of their paths; each is read when it is asked for."""

    kind: ClassVar[Kind] = "pictures"

    def file(self, i: int) -> Path:
        """The file of picture i."""
        return self.path / self.ids[i]

    def content_hash(self, i: int) -> bytes:
        """Hash of the file's bytes."""
        try:
            return hash_of(self.file(i).read_bytes(), self.kind)
        except OSError as error:
            raise CorruptPicture(self.ids[i], error.strerror or type(error).__name__) from error

    def load(self, i: int) -> Image:
        """Picture i, decoded now."""
        return decode(self.file(i), self.ids[i])

    def preview(self, i: int) -> Path:
        """The file of picture i."""
        return self.file(i)


def open_pictures(path: Path, *, folders_are_labels: bool | None = None, labels_file: bool = False) -> PictureSource:
    """Find the pictures below a folder.

    Hidden files and folders, and files that do not end as pictures do, are left out. A linked folder is read once,
    and only if it is not below the folder anyway.

    A picture is *loose* if it lies directly in the folder or below one called ``unlabeled`` or ``unlabelled`` (also
    with ``_`` before it, in any case). Every other top folder is a class, and all below it has that label, if

    - ``folders_are_labels`` is true, or
    - it is None, and there is a folder called ``unlabeled`` with pictures, or
    - it is None, there are pictures directly in the folder and two or more folders beside them, not all of them named
      by dates (``2024``, ``2024-11-16``), and no file of labels is given.

    Otherwise folders are only parts of paths.

    Parameters
    ----------
    path : Path
    folders_are_labels : bool, optional
    labels_file : bool
        Whether labels come from a file as well.
    """
    names, skipped = [], []
    for name in sorted(_walk(path)):
        if encodable(name):
            names.append(name)
        else:
            shown = name.encode("utf-8", "surrogateescape").decode("utf-8", "backslashreplace")
            skipped.append(Skipped(shown, "its name is not UTF-8; rename it"))
    if not names and not skipped:
        if vectors := len(vector_files(path)):
            files, one = ("file", "it") if vectors == 1 else ("files", "one of them")
            raise LabelingError(
                f"{path}: there are no pictures and {vectors:,} {files} of vectors; name {one}, or label all with "
                "laplacianshot label --engine ray."
            )
        endings = ", ".join(sorted(ending[1:] for ending in ENDINGS))
        raise LabelingError(f"{path}: there are no pictures in this folder; pictures end in {endings}.")
    tops = [name.partition("/")[0] if "/" in name else None for name in names]
    if folders_are_labels is None:
        marked = any(top is not None and top.lower() in UNLABELED_FOLDERS for top in tops)
        named = {top for top in tops if top is not None}
        classes = len(named) >= 2 and not all(_DATE.fullmatch(top) for top in named)
        folders_are_labels = marked or (None in tops and classes and not labels_file)
    given = [
        None if not folders_are_labels or top is None or top.lower() in UNLABELED_FOLDERS else label_of(top)
        for top in tops
    ]
    return PictureSource(path, tuple(names), tuple(given), tuple(skipped), id_name="paths below the folder")


def _walk(root: Path) -> Iterator[str]:
    """Paths of the pictures below ``root``, with ``/``; links come last, so that no real folder goes by their name."""
    seen: set[str] = set()
    folders, linked = [""], list[str]()
    while folders or linked:
        folder = folders.pop() if folders else linked.pop(0)
        full = os.path.join(root, folder)  # noqa: PTH118 - a Path for each file is slow
        real = os.path.realpath(full)
        if real in seen:
            continue
        seen.add(real)
        for entry in _entries(full, root):
            name = f"{folder}/{entry.name}" if folder else entry.name
            if _is_dir(entry):
                (linked if entry.is_symlink() else folders).append(name)
            # A link that leads nowhere is a picture that cannot be read; a pipe or a device is none.
            elif os.path.splitext(entry.name)[1].lower() in ENDINGS and (entry.is_symlink() or entry.is_file()):  # noqa: PTH122
                yield name
        linked.sort()


def _entries(folder: str, root: Path) -> list[os.DirEntry[str]]:
    try:
        with os.scandir(folder) as entries:
            return [entry for entry in entries if not entry.name.startswith((".", "__MACOSX"))]
    except OSError as error:
        raise LabelingError(
            f"{root}: the folder {folder} cannot be read ({error.strerror}); allow it or move it away."
        ) from error


def _is_dir(entry: os.DirEntry[str]) -> bool:
    try:
        return entry.is_dir()
    except OSError:  # a link to itself
        return False
