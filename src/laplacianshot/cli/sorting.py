"""``laplacianshot label --apply`` and ``--undo``: pictures into class folders, and back."""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING

from laplacianshot.cli.console import note, progress_bar, watcher
from laplacianshot.cli.errors import CommandError

if TYPE_CHECKING:
    from laplacianshot.labeling.outputs import Applied
    from laplacianshot.labeling.result import LabelResult

UNDO_LOG = "laplacianshot-undo.jsonl"


class Sorting(StrEnum):
    """How pictures come into class folders."""

    copy = "copy"
    move = "move"
    link = "link"


def finish_sorting(source: Path, folder: Path) -> None:
    """Before anything is read: pictures that a killed ``--apply move`` has half moved are no longer where they were."""
    from laplacianshot.labeling.errors import LabelingError
    from laplacianshot.labeling.outputs import finish, unfinished

    if not source.is_dir():
        raise LabelingError(f"--apply sorts pictures into folders, and {source} is no folder of pictures.")
    if unfinished(folder / UNDO_LOG):
        with progress_bar() as bar:
            done = finish(folder / UNDO_LOG, progress=watcher(bar)("Pictures"))
        _tell(f"an earlier run was ended half-way; {done.n_done:,} pictures that it had left were sorted", done)


def sort_pictures(result: LabelResult, folder: Path, how: Sorting) -> None:
    """``--apply``: pictures into class folders, copied, moved or linked."""
    from laplacianshot.labeling.errors import LabelingError
    from laplacianshot.labeling.outputs import apply_labels

    assert result.source is not None
    try:
        with progress_bar() as bar:
            done = apply_labels(
                result, result.source, folder, how.value, folder / UNDO_LOG, progress=watcher(bar)("Pictures")
            )
    except LabelingError as error:
        raise CommandError(str(error)) from error
    _tell(f"{done.n_done:,} pictures were sorted into {folder}", done)


def undo_sorting(log: Path, as_json: bool) -> int:
    """``--undo``: take back what a log says; the exit code."""
    from laplacianshot.labeling.errors import LabelingError
    from laplacianshot.labeling.outputs import undo
    from laplacianshot.reports.files import json_text

    try:
        with progress_bar() as bar:
            done = undo(log, progress=watcher(bar)("Pictures"))
    except LabelingError as error:
        raise CommandError(str(error)) from error
    _tell(f"{done.n_done:,} pictures are as they were before", done)
    if as_json:
        left = [{"id": fault.id, "reason": fault.reason} for fault in done.left]
        print(json_text({"undone": done.n_done, "left": left}), end="")
    return 0


def _tell(what: str, done: Applied) -> None:
    """What was done to pictures, on standard error: the result comes on standard output."""
    there = f", {done.n_there:,} were there already" if done.n_there else ""
    note(f"{what}{there}.")
    for fault in done.left[:10]:
        note(f"left alone: {fault.id!r}: {fault.reason}")
    if len(done.left) > 10:
        note(f"and {len(done.left) - 10:,} more were left alone.")
