"""The end of a command: files, then tables or JSON, then the exit code."""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

from laplacianshot.cli import INTERRUPTED
from laplacianshot.cli.console import output_console, print_table
from laplacianshot.cli.errors import CommandError
from laplacianshot.reports.files import json_text

if TYPE_CHECKING:
    from laplacianshot.reports.table import Table


class Output(NamedTuple):
    """A file and what writes it; other files that this writes as well, and what to do with them all, in one line."""

    path: Path
    write: Callable[[], None]
    beside: tuple[Path, ...] = ()
    hint: str = ""


class Result(Protocol):
    """What a command found."""

    @property
    def interrupted(self) -> bool:
        """Whether it was stopped before its end."""

    def tables(self) -> Sequence[Table]:
        """To be printed."""

    def to_dict(self) -> dict[str, Any]:
        """The same for JSON."""


def deliver(result: Result, outputs: Sequence[Output], *, as_json: bool) -> int:
    """Write the files, unless the run was interrupted, print the result and give the exit code.

    Files come first: whoever reads the tables through a pipe may leave after a line. One that cannot be written costs
    the file, not the tables.
    """
    failure = None if result.interrupted else _write(outputs)
    if as_json:
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


def _write(outputs: Sequence[Output]) -> CommandError | None:
    for output in outputs:
        try:
            output.path.parent.mkdir(exist_ok=True)
            output.write()
        except CommandError as error:
            return error
        except OSError as error:
            return CommandError(f"could not write {output.path} ({error.strerror}).", 1)
    return None
