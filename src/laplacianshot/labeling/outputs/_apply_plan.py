"""What has to be done to sort pictures into class folders."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path

from laplacianshot.labeling.errors import LabelingError
from laplacianshot.labeling.outputs._apply_log import Session, Step
from laplacianshot.labeling.outputs._placing import FreeNames, How, is_placed, numbered
from laplacianshot.labeling.outputs.folder_names import folder_names
from laplacianshot.labeling.result import LabelResult, Skipped
from laplacianshot.labeling.sources.base import Source


def make_plan(
    result: LabelResult, source: Source, root: Path, how: How, earlier: Mapping[Path, Path]
) -> tuple[Session, int, list[Skipped]]:
    """What is to be done, how many pictures are where they belong, and which cannot be found.

    ``earlier`` says where earlier runs have put pictures.
    """
    names = folder_names(result.classes)
    base = Path(os.path.abspath(source.path))  # noqa: PTH100 - resolve would write down where links lead today
    used = sorted({names[label] for label in result.labels if label})
    session = Session(how, folders=missing_folders([root / name for name in used]))
    n_there, left, free = 0, list[Skipped](), FreeNames()
    for name, label in zip(result.ids, result.labels, strict=True):
        if not label:
            continue
        picture, folder = base / name, root / names[label]
        before = earlier.get(picture)
        if before is not None and is_placed(how, picture, before) and (how == "move" or before.parent == folder):
            n_there += 1
            continue
        try:
            status = picture.lstat()
        except OSError as error:
            left.append(Skipped(name, error.strerror or type(error).__name__))
            continue
        if _is_there(how, picture, folder):
            n_there += 1
            continue
        path = free.choose(folder, picture.name)
        link = os.readlink(picture) if picture.is_symlink() else None  # noqa: PTH115 - its text, not a path
        session.steps.append(Step(name, picture, path, status.st_size, status.st_mtime_ns, link))
    return session, n_there, left


def check_folders(result: LabelResult, source: Source, root: Path, how: How) -> None:
    """Raise for class folders that cannot be made or would be found again as pictures of the source."""
    if root.exists() and not root.is_dir():
        raise LabelingError(f"{root} is a file; name a folder to sort the pictures into.")
    own = Path(os.path.realpath(source.path))
    for name in folder_names(result.classes).values():
        if how != "move" and Path(os.path.realpath(root / name)).is_relative_to(own):
            raise LabelingError(
                f"{root} is among the pictures of {source.path}, where the next run would find every picture twice; "
                "choose a folder elsewhere, or move."
            )
        if os.path.lexists(root / name) and not (root / name).is_dir():
            raise LabelingError(f"{root / name} is a file, and a class needs a folder of this name; rename it.")


def missing_folders(folders: list[Path]) -> list[Path]:
    """Folders that have to be made, outer ones first."""
    missing: dict[Path, None] = {}
    for folder in folders:
        for path in (*reversed(folder.parents), folder):
            if not path.exists():
                missing[path] = None
    return list(missing)


def _is_there(how: How, picture: Path, folder: Path) -> bool:
    """Whether a picture is in its class folder already, under its own name or with a number."""
    if how == "move":
        return os.path.realpath(picture.parent) == os.path.realpath(folder)
    number = 1
    while os.path.lexists(path := folder / numbered(picture.name, number)):
        if is_placed(how, picture, path):
            return True
        number += 1
    return False
