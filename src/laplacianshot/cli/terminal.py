"""What commands print and write: notes, progress, tables, files and errors."""

from __future__ import annotations

import os
import sys
import tempfile
import threading
import time
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

from laplacianshot.runtime.errors import LaplacianShotError
from laplacianshot.runtime.files import output_place

if TYPE_CHECKING:
    from rich.console import Console
    from rich.progress import Progress
    from rich.table import Table as RichTable

    from laplacianshot.labeling.result import Stage
    from laplacianshot.reports.table import Table
    from laplacianshot.runtime.progress import Watch

# Exit codes.
FAILED, BAD_INPUT, INTERRUPTED = 1, 2, 130

_COMPILING = " (compiling for this machine, once)"
# Seconds until the first line of progress outside a terminal, and between two lines.
FIRST_LINE, LINE_EVERY = 2.0, 5.0
_STYLES = {"good": "green", "bad": "red", "quiet": "dim", "": ""}


class CommandError(LaplacianShotError):
    """One line for the user, and the exit code."""

    def __init__(self, message: str, exit_code: int = BAD_INPUT) -> None:
        super().__init__(" ".join(message.split()))
        self.exit_code = exit_code


class Clock:
    """Where the time of a command goes: the seconds of its parts, one after the other."""

    def __init__(self) -> None:
        self._parts: dict[str, float] = {}
        self.restart()

    def restart(self) -> None:
        """Begin again, with no parts."""
        self._begun = time.perf_counter()
        self._parts.clear()

    def begin_work(self) -> None:
        """Count the time until now as that of the start: reading the program, and questions."""
        self._parts.setdefault("Start", time.perf_counter() - self._begun)

    def add(self, parts: Mapping[str, float]) -> None:
        """Add the seconds of further parts, by name."""
        for name, seconds in parts.items():
            self._parts[name] = self._parts.get(name, 0.0) + seconds

    @contextmanager
    def part(self, name: str) -> Iterator[None]:
        """Time a part of the command."""
        start = time.perf_counter()
        try:
            yield
        finally:
            self.add({name: time.perf_counter() - start})

    def seconds(self) -> dict[str, float]:
        """Return the seconds of each part, of what is left (Other), and of all (Total)."""
        total = time.perf_counter() - self._begun
        return {**self._parts, "Other": max(0.0, total - sum(self._parts.values())), "Total": total}

    def __str__(self) -> str:
        *parts, (_, total) = self.seconds().items()
        shown = ", ".join(f"{name} {seconds:.1f}" for name, seconds in parts if name != "Other" or seconds >= 0.05)
        return f"Time: {total:.1f} s ({shown})."


# Of this process. It begins with the import of this module, as nearly everything else is imported later.
clock = Clock()


@contextmanager
def input_errors(where: str = "") -> Iterator[None]:
    """Raise what bad input causes as CommandError; ``where`` comes before the message."""
    try:
        yield
    except (ValueError, ModuleNotFoundError) as error:
        raise CommandError(f"{where}{error}") from error
    except OSError as error:
        # Messages of our own come without a number.
        place = f"{error.filename}: " if error.filename else ""
        raise CommandError(where + (str(error) if error.errno is None else f"{place}{error.strerror}.")) from error


def note(text: str) -> None:
    """Print a note to the user on standard error."""
    print(f"note: {text}", file=sys.stderr)


def can_ask() -> bool:
    """Whether a person at a terminal can be asked."""
    return sys.stdin is not None and sys.stdin.isatty() and sys.stderr.isatty()


def ask(question: str, *, default: bool) -> bool:
    """Ask on standard error until the answer is yes or no; an empty line is the default."""
    while True:
        print(f"{question} [{'Y/n' if default else 'y/N'}] ", end="", file=sys.stderr, flush=True)
        answer = sys.stdin.readline()
        if not answer:
            raise CommandError("interrupted: there was no answer.", INTERRUPTED)
        if answer.strip().lower() in ("y", "yes", "n", "no", ""):
            return answer.strip().lower().startswith("y") or (default and not answer.strip())


@contextmanager
def warnings_as_notes() -> Iterator[None]:
    """Print warnings of the package as notes, each once."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always", UserWarning)
        yield
    for text in dict.fromkeys(str(warning.message) for warning in caught):
        note(text)


@contextmanager
def progress_bar() -> Iterator[Progress]:
    """Show a bar with the stage, done/total and the time left; outside a terminal a line every few seconds."""
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

    console = Console(stderr=True)
    columns = (
        TextColumn("{task.description}"),
        BarColumn(bar_width=None),
        MofNCompleteColumn(),
        TimeRemainingColumn(compact=True),
    )
    bar = Progress(*columns, console=console, transient=True, disable=not console.is_terminal)
    with bar, _progress_lines(bar) if bar.disable else nullcontext():
        yield bar


@contextmanager
def _progress_lines(bar: Progress) -> Iterator[None]:
    """Print where the work is on standard error every few seconds, also while a stage reports nothing."""
    start, over = time.perf_counter(), threading.Event()

    def tell() -> None:
        wait = FIRST_LINE
        while not over.wait(wait):
            wait = LINE_EVERY
            for task in bar.tasks:
                done = f" {int(task.completed):,} of {int(task.total):,}" if task.total else ""
                _print_progress(f"{task.description or 'Starting'}:{done} after {time.perf_counter() - start:.0f} s")

    thread = threading.Thread(target=tell, name="progress", daemon=True)
    thread.start()
    try:
        yield
    finally:
        over.set()
        thread.join()


def _print_progress(text: str) -> None:
    # The reader of standard error may be gone; the work goes on.
    with suppress(OSError, ValueError):
        print(text, file=sys.stderr, flush=True)


def watcher(bar: Progress) -> Watch:
    """Return a watch that shows one stage after the other on the bar."""
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
    """Say on the bar, or outside a terminal in a line, that kernels are about to be compiled, once per machine."""
    from laplacianshot.runtime.compilation import on_compile

    said = False

    def tell() -> None:
        nonlocal said
        if bar.disable and not said:
            _print_progress("Compiling for this machine, which is needed once and takes up to a minute")
        said = True
        for line in bar.tasks:
            if not line.description.endswith(_COMPILING):
                bar.update(line.id, description=f"{line.description}{_COMPILING}")

    with on_compile(tell):
        yield


@contextmanager
def progress_shown() -> Iterator[Watch]:
    """Show one stage after the other on a bar, with compilation, and print warnings as notes."""
    clock.begin_work()
    with progress_bar() as bar, compilation_shown(bar), warnings_as_notes():
        yield watcher(bar)


class Said(int):
    """An exit code whose reason was printed already."""


def interrupted(what: str) -> int:
    """Say what an interrupt has left; return the exit code."""
    print(f"interrupted: {what}", file=sys.stderr)
    return Said(INTERRUPTED)


def output_console() -> Console:
    """Return a console for standard output; outside a terminal lines may be long."""
    from rich.console import Console

    console = Console()
    return console if console.is_terminal else Console(width=200)


def print_line(console: Console, text: str) -> None:
    """Print a line as it is, however long."""
    console.print(text, soft_wrap=True, highlight=False, markup=False)


def print_tables(*tables: Table) -> None:
    """Print tables on standard output."""
    console = output_console()
    for table in tables:
        print_table(console, table)


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
    try:
        place = output_place(full)
    except IsADirectoryError:
        raise CommandError(f"{option} {path}: this is a folder; name a file in it.") from None
    except OSError as error:
        raise CommandError(f"{option} {path}: {error.strerror}; choose another name.") from error
    if full.exists() and not os.access(full, os.W_OK):
        raise CommandError(f"{option} {path}: the file exists and cannot be written; choose another name.")
    _check_folder(place.parent, path, option)
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


def deliver(result: Result, outputs: Sequence[Output], *, as_json: bool, stages: Sequence[Stage] = ()) -> int:
    """Write the files, unless the run was interrupted; print the result; return the exit code.

    With ``stages`` of the work also say where the time went.

    Files come first, as the reader of a pipe may close it after a line. If one cannot be written, the result is
    printed all the same.
    """
    clock.add({stage.name: stage.seconds for stage in stages})
    failure = None if result.interrupted else _write(outputs)
    if as_json:
        document = result.to_dict()
        print_json(document | {"seconds": clock.seconds()} if stages else document)
    else:
        console = output_console()
        print_tables(*result.tables())
        for output in [] if failure or result.interrupted else outputs:
            written = [f"\nWritten: {path}" for path in (output.path, *output.beside)]
            for line in [*written, output.hint] if output.hint else written:
                print_line(console, line)
        if stages:
            print_line(console, f"\n{clock}")
    if failure is not None:
        raise failure
    if not result.interrupted:
        return 0
    return interrupted(f"this is what was finished.{' No file was written.' if outputs else ''}")


def print_json(document: Any) -> None:
    """Print one JSON document."""
    # Imported here, as it brings numpy and more, for which --help does not wait.
    from laplacianshot.reports.table import json_text

    print(json_text(document), end="")


def _write(outputs: Sequence[Output]) -> LaplacianShotError | None:
    for output in outputs:
        try:
            output.path.parent.mkdir(exist_ok=True)
            # The page of a report is called by its folder.
            with clock.part(f"{output.path.parent.name}/" if output.path.suffix == ".html" else output.path.name):
                output.write()
        except LaplacianShotError as error:
            return error
        except OSError as error:
            return CommandError(f"could not write {output.path} ({error.strerror}).", FAILED)
    return None
