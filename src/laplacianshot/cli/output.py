"""The output of commands: checked before the work, written and printed after it."""

from __future__ import annotations

import os
import sys
import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

from laplacianshot.cli.console import output_console, print_table
from laplacianshot.cli.errors import FAILED, INTERRUPTED, CommandError
from laplacianshot.runtime.errors import LaplacianShotError

if TYPE_CHECKING:
    from laplacianshot.reports.table import Table


class Output(NamedTuple):
    """A file or folder, the function that writes it, other files it writes, and one line on how to use them."""

    path: Path
    write: Callable[[], object]
    beside: tuple[Path, ...] = ()
    hint: str = ""


class Result(Protocol):
    """The result of a command."""

    @property
    def interrupted(self) -> bool:
        """Whether the command was stopped before its end."""

    def tables(self) -> Sequence[Table]:
        """Return the tables to print."""

    def to_dict(self) -> dict[str, Any]:
        """Return the document that ``--json`` prints."""


def check_output(path: Path, endings: Sequence[str], option: str = "--output") -> Path:
    """Return the absolute path of a file that can be written; raise CommandError if it cannot."""
    if path.suffix.lower() not in endings:
        raise CommandError(f"{option} {path}: the name must end in {', '.join(endings)}.")
    full = path.absolute()
    if full.is_dir():
        raise CommandError(f"{option} {path}: this is a folder; name a file in it.")
    if full.exists() and not os.access(full, os.W_OK):
        raise CommandError(f"{option} {path}: the file exists and cannot be written; choose another name.")
    _check_folder(full.parent, path, option)
    return full


def check_report_folder(path: Path, option: str = "--report") -> Path:
    """Return the absolute path of a folder that exists or can be made; raise CommandError if it cannot."""
    full = path.absolute()
    if full.exists() and not full.is_dir():
        raise CommandError(f"{option} {path}: this is a file; name a folder.")
    _check_folder(full if full.is_dir() else full.parent, path, option)
    return full


def _check_folder(folder: Path, path: Path, option: str) -> None:
    """Make a file in the folder and remove it again: permissions do not tell about a read-only disk."""
    if not folder.is_dir():
        raise CommandError(f"{option} {path}: there is no folder {folder}; make it first.")
    try:
        with tempfile.NamedTemporaryFile(dir=folder, prefix=".laplacianshot-"):
            pass
    except OSError as error:
        raise CommandError(f"{option} {path}: cannot write there ({error.strerror}); choose another folder.") from error


def deliver(result: Result, outputs: Sequence[Output], *, as_json: bool) -> int:
    """Write the files, unless the run was interrupted; print the result; return the exit code.

    Files come first, as the reader of a pipe may close it after a line. If one cannot be written, the result is
    printed all the same.
    """
    failure = None if result.interrupted else _write(outputs)
    if as_json:
        # Imported here, as it brings numpy and more, for which --help does not wait.
        from laplacianshot.reports.text import json_text

        print(json_text(result.to_dict()), end="")
    else:
        console = output_console()
        for table in result.tables():
            print_table(console, table)
        for output in [] if failure or result.interrupted else outputs:
            written = [f"\nWritten: {path}" for path in (output.path, *output.beside)]
            for line in [*written, output.hint] if output.hint else written:
                console.print(line, soft_wrap=True, highlight=False, markup=False)
    if failure is not None:
        raise failure
    if not result.interrupted:
        return 0
    print(f"interrupted: this is what was finished.{' No file was written.' if outputs else ''}", file=sys.stderr)
    return INTERRUPTED


def _write(outputs: Sequence[Output]) -> LaplacianShotError | None:
    for output in outputs:
        try:
            output.path.parent.mkdir(exist_ok=True)
            output.write()
        except LaplacianShotError as error:
            return error
        except OSError as error:
            return CommandError(f"could not write {output.path} ({error.strerror}).", FAILED)
    return None
