"""What commands print: tables to standard output, progress and notes to standard error."""

from __future__ import annotations

import sys
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from rich.console import Console
    from rich.progress import Progress
    from rich.table import Table as RichTable

    from laplacianshot.reports.table import Table

_COMPILING = " (compiling for this machine, once)"
_STYLES = {"good": "green", "bad": "red", "quiet": "dim", "": ""}


def note(text: str) -> None:
    """Print a note to the user on standard error."""
    print(f"note: {text}", file=sys.stderr)


@contextmanager
def warnings_as_notes() -> Iterator[None]:
    """Print warnings of the package as notes, each once."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always", UserWarning)
        yield
    for text in dict.fromkeys(str(warning.message) for warning in caught):
        note(text)


def progress_bar() -> Progress:
    """Return a bar with the stage, done/total and the time left; it shows nothing outside a terminal."""
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

    console = Console(stderr=True)
    columns = (
        TextColumn("{task.description}"),
        BarColumn(bar_width=None),
        MofNCompleteColumn(),
        TimeRemainingColumn(compact=True),
    )
    return Progress(*columns, console=console, transient=True, disable=not console.is_terminal)


def watcher(bar: Progress) -> Callable[[str], Callable[[int, int], object]]:
    """Return a :data:`~laplacianshot.runtime.progress.Watch` that shows one stage after the other on the bar."""
    line = bar.add_task("", total=None)

    def watch(what: str) -> Callable[[int, int], object]:
        nonlocal line
        # A new line: the total of the last stage would stay.
        bar.remove_task(line)
        now = line = bar.add_task(what, total=None)
        return lambda done, total: bar.update(now, completed=done, total=total)

    return watch


@contextmanager
def compilation_shown(bar: Progress) -> Iterator[None]:
    """Say on the bar when kernels are compiled, which takes a while, once per machine."""
    from laplacianshot.runtime.compilation import on_compile

    def tell() -> None:
        for line in bar.tasks:
            if not line.description.endswith(_COMPILING):
                bar.update(line.id, description=f"{line.description}{_COMPILING}")

    with on_compile(tell):
        yield


def output_console() -> Console:
    """Return a console for standard output; outside a terminal lines may be long."""
    from rich.console import Console

    console = Console()
    return console if console.is_terminal else Console(width=200)


def print_table(console: Console, table: Table) -> None:
    """Print a table with its title and notes; columns that can be spared are left out on a narrow screen."""
    from rich.text import Text

    console.print()
    console.print(Text(table.title, style="bold"))
    if table.rows:
        spared = 0
        lines = _rich_table(console, table)
        endless = console.options.update(max_width=10_000)
        while spared < table.spare and console.measure(lines, options=endless).maximum > console.width:
            spared += 1
            lines = _rich_table(console, table, len(table.head) - spared)
        console.print(lines)
    for text in table.notes:
        console.print(Text(text, style="dim"))


def _rich_table(console: Console, table: Table, columns: int | None = None) -> RichTable:
    from rich import box
    from rich.table import Table as RichTable
    from rich.text import Text

    style = box.SIMPLE_HEAD if console.is_terminal else None
    gap = 1 if console.is_terminal else 2
    lines = RichTable(box=style, show_edge=False, pad_edge=False, padding=(0, gap, 0, 0), header_style="dim")
    for column, text in enumerate(table.head[:columns]):
        is_number = table.is_number(column)
        lines.add_column(text, justify="right" if is_number else "left", no_wrap=is_number or column == 0)
    for entry in table.rows:
        cells = [Text(cell.text, style=_STYLES[cell.tone]) for cell in entry.cells[:columns]]
        lines.add_row(*cells, style="bold" if entry.bold else None)
    return lines
