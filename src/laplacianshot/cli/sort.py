"""``laplacianshot sort``: copy or link labeled pictures into one folder per class, and undo it."""

from __future__ import annotations

import shlex
from collections.abc import Mapping
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from laplacianshot.cli import options, terminal
from laplacianshot.cli.terminal import CommandError

if TYPE_CHECKING:
    from laplacianshot.labeling.sorting import SortResult
    from laplacianshot.labeling.sources import Source

SORT_EXAMPLES = """\
Examples:
  laplacianshot sort photos --labels all.csv -o sorted
  laplacianshot sort photos --labels all.csv -o sorted --apply link
  laplacianshot sort --undo sorted
FILE is the output of laplacianshot label, or any table with the columns id and label; pictures without a label stay \
where they are. Nothing is moved or overwritten: a picture whose name is taken gets a number.
"""

# Folders, and pictures left alone, that are named; the others are counted.
_MAX_NAMED = 10


class Sorting(StrEnum):
    """How pictures get into class folders."""

    copy = "copy"
    link = "link"


def sort(
    source: Annotated[
        Path | None, typer.Argument(metavar="SOURCE", help="Folder of pictures that were labeled.")
    ] = None,
    labels: Annotated[
        Path | None, typer.Option("--labels", metavar="FILE", help="Table with a label for each picture.")
    ] = None,
    output: Annotated[
        Path | None, typer.Option("--output", "-o", metavar="DIR", help="Where the class folders are made.")
    ] = None,
    apply: Annotated[Sorting, typer.Option(help="Copy the pictures, or make symbolic links.")] = Sorting.copy,
    undo: Annotated[
        Path | None,
        typer.Option(metavar="DIR", help="Remove the copies or links that were made in this folder. Takes no SOURCE."),
    ] = None,
    as_json: options.JsonOption = False,
) -> int:
    """Copy or link labeled pictures into one folder per class."""
    if undo is not None:
        if source is not None or labels is not None or output is not None:
            raise CommandError("--undo takes only the folder of sorted pictures; leave out SOURCE, --labels and -o.")
        return undo_sorting_in(undo, as_json)
    if source is None or labels is None or output is None:
        raise CommandError("give SOURCE, --labels FILE and -o DIR, or --undo DIR.")
    folder = terminal.check_report_folder(output, "--output")
    from laplacianshot.labeling.labels import read_predictions
    from laplacianshot.labeling.sources import open_source

    if not source.is_dir():
        raise CommandError(f"{source} is not a folder of pictures.")
    with terminal.warnings_as_notes():
        pictures = open_source(source, classes_from_folders=False)
        found = read_predictions(labels, pictures)
    done = sort_into(pictures, found, folder, apply)
    if as_json:
        _print_json({"sorted": done.n_done, "present": done.n_present, "folders": done.folders}, done)
    elif done.n_done:
        print(undo_hint(output))
    return 0


def sort_into(source: Source, labels: Mapping[str, str], folder: Path, how: Sorting) -> SortResult:
    """Sort the pictures of a source by their labels, and say what was done."""
    from laplacianshot.labeling.sorting import sort_pictures

    with terminal.progress_shown() as watch:
        done = sort_pictures(source, labels, folder, how.value, progress=watch("Pictures"))
    verb = "copied" if how is Sorting.copy else "linked"
    present = f"; {done.n_present:,} were there already" if done.n_present else ""
    terminal.note(
        f"{done.n_done:,} pictures were {verb} into {folder}{_by_folder(done)}{present}; {source.path} stays as it is."
    )
    _name_skipped(done)
    return done


def undo_hint(folder: Path) -> str:
    """Say how sorting into a folder is undone."""
    return f"Undo it with: {shlex.join(['laplacianshot', 'sort', '--undo', str(folder)])}"


def _by_folder(done: SortResult) -> str:
    """Return how many pictures each folder got, the largest first."""
    shown = sorted(done.folders.items(), key=lambda one: (-one[1], one[0]))
    parts = [f"{name}/ ({n:,})" for name, n in shown[:_MAX_NAMED]]
    if len(shown) > _MAX_NAMED:
        parts.append(f"{len(shown) - _MAX_NAMED:,} more folders")
    return f": {', '.join(parts)}" if parts else ""


def undo_sorting_in(path: Path, as_json: bool) -> int:
    """Undo all sorting into a folder; return the exit code."""
    from laplacianshot.labeling.sorting import undo_sorting

    with terminal.progress_shown() as watch:
        done = undo_sorting(path, progress=watch("Pictures"))
    terminal.note(f"undone: {done.n_done:,} pictures.")
    _name_skipped(done)
    if as_json:
        _print_json({"undone": done.n_done}, done)
    return 0


def _undo_at_once(context: typer.Context, log: Path | None) -> None:
    """Run ``label --undo LOG``, as version 0.1 had it, before the rest of the command line is read."""
    if log is not None:
        raise typer.Exit(undo_sorting_in(log, as_json="--json" in (context.obj or ())))


# Hidden: laplacianshot sort --undo is what --help shows.
undo_option = Annotated[
    Path | None, typer.Option("--undo", metavar="LOG", hidden=True, is_eager=True, callback=_undo_at_once)
]


def _name_skipped(done: SortResult) -> None:
    for fault in done.skipped[:_MAX_NAMED]:
        terminal.note(f"left alone: {fault.id!r}: {fault.reason}")
    if len(done.skipped) > _MAX_NAMED:
        terminal.note(f"and {len(done.skipped) - _MAX_NAMED:,} more were left alone.")


def _print_json(counts: dict[str, Any], done: SortResult) -> None:
    terminal.print_json({**counts, "left": [{"id": fault.id, "reason": fault.reason} for fault in done.skipped]})
