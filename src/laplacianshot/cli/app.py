"""The application: its commands, and the one place where errors become exit codes."""

from __future__ import annotations

import contextlib
import errno
import io
import os
import platform
import sys
import time
import traceback
from collections.abc import Callable, Sequence
from typing import Annotated

import typer

from laplacianshot import __version__
from laplacianshot.cli import options
from laplacianshot.cli.demo import DEMO_EXAMPLES, demo
from laplacianshot.cli.evaluate import EVALUATE_EXAMPLES, evaluate
from laplacianshot.cli.extract import EXTRACT_EXAMPLES, extract
from laplacianshot.cli.label import LABEL_EXAMPLES, SHARDS_EXAMPLES, label, label_shards
from laplacianshot.cli.label_studio import BACKEND_EXAMPLES, label_studio_backend
from laplacianshot.cli.model import PREDICT_EXAMPLES, SERVE_EXAMPLES, predict, serve
from laplacianshot.cli.reproduce import REPRODUCE_EXAMPLES, reproduce
from laplacianshot.cli.score import SCORE_EXAMPLES, score
from laplacianshot.cli.sort import SORT_EXAMPLES, sort
from laplacianshot.cli.studio import STUDIO_EXAMPLES, studio
from laplacianshot.cli.suggest import SUGGEST_EXAMPLES, suggest
from laplacianshot.cli.terminal import BAD_INPUT, FAILED, INTERRUPTED, Said, clock
from laplacianshot.cli.train import TRAIN_EXAMPLES, train
from laplacianshot.cli.tune import TUNE_EXAMPLES, tune
from laplacianshot.runtime.errors import LaplacianShotError
from laplacianshot.runtime.files import make_private, put_file, user_cache

_HELP = "Label a few examples, and get labels for all others, with the probability that each is right."
# Panels of --help.
_LABEL, _RESEARCH = "Label your own data", "Train and evaluate"

app = typer.Typer(
    name="laplacianshot",
    help=_HELP,
    no_args_is_help=True,
    add_completion=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)


def _add(panel: str, command: Callable[..., int], epilog: str) -> None:
    # Typer would join lines that no blank line separates.
    add = app.command(rich_help_panel=panel, epilog=epilog.replace("\n", "\n\n"))
    add(options.with_groups(command))


_add(_LABEL, demo, DEMO_EXAMPLES)
_add(_LABEL, label, LABEL_EXAMPLES)
_add(_LABEL, suggest, SUGGEST_EXAMPLES)
_add(_LABEL, score, SCORE_EXAMPLES)
_add(_LABEL, sort, SORT_EXAMPLES)
_add(_LABEL, studio, STUDIO_EXAMPLES)
_add(_LABEL, predict, PREDICT_EXAMPLES)
_add(_LABEL, serve, SERVE_EXAMPLES)
_add(_LABEL, label_studio_backend, BACKEND_EXAMPLES)
_add(_LABEL, label_shards, SHARDS_EXAMPLES)
_add(_RESEARCH, train, TRAIN_EXAMPLES)
_add(_RESEARCH, extract, EXTRACT_EXAMPLES)
_add(_RESEARCH, evaluate, EVALUATE_EXAMPLES)
_add(_RESEARCH, tune, TUNE_EXAMPLES)
_add(_RESEARCH, reproduce, REPRODUCE_EXAMPLES)


def _print_version(requested: bool) -> None:
    if requested:
        typer.echo(f"laplacianshot {__version__}")
        raise typer.Exit


@app.callback()
def _options(
    version: Annotated[
        bool, typer.Option("--version", callback=_print_version, is_eager=True, help="Print the version and exit.")
    ] = False,
) -> None:
    """Options of the program itself."""


# Faults of the machine, not of what was given.
_MACHINE = {errno.ENOSPC, errno.EDQUOT, errno.EIO, errno.EMFILE, errno.ENFILE, errno.ENOMEM, errno.EAGAIN}


def run(arguments: Sequence[str] | None = None) -> int:
    """Run the command line and return its exit code; every error is one line on stderr.

    The code is 0, 2 for bad input, 130 after Ctrl-C, or 1 for other failures. The default arguments are those of the
    process. This is the one boundary of all commands: what is ours to explain is explained here, and anything else is
    a bug, which is written to a file to report.
    """
    _open_closed_streams()
    # A terminal that lacks a character gets a question mark, not a traceback.
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="replace")
    try:
        given = sys.argv[1:] if arguments is None else list(arguments)
        if arguments is not None:
            # From Python, where the process is older than the command.
            clock.restart()
        code = app(args=given, standalone_mode=False, obj=given)
        sys.stdout.flush()
        if code == INTERRUPTED and not isinstance(code, Said):
            # Ctrl-C outside of a command, of which typer says nothing.
            return _fail("interrupted.", INTERRUPTED)
        return int(code) if isinstance(code, int) else 0
    except BaseException as error:
        return _explain(error)


def _explain(error: BaseException) -> int:
    """Print what an error means, in one line, and return the exit code."""
    # typer's usage errors come from click or, in newer versions, from its own copy; both have this method.
    usage = getattr(error, "format_message", None)
    match error:
        case SystemExit():
            raise error
        case LaplacianShotError():
            return _fail(str(error), getattr(error, "exit_code", BAD_INPUT))
        case KeyboardInterrupt() | typer.Abort():
            return _fail("interrupted.", INTERRUPTED)
        case MemoryError():
            return _fail(f"out of memory{f' ({error})' if str(error) else ''}.", FAILED)
        case ImportError() if "failed to map segment" in str(error) or "allocate memory" in str(error):
            return _fail("out of memory, before a library could be loaded; raise the limit.", FAILED)
        case BrokenPipeError():
            # The reader (head, less) is gone.
            _drop_output()
            return FAILED
        case OSError(errno=int()):
            _drop_output()
            place = f"{os.fsdecode(error.filename)!r}: " if isinstance(error.filename, str | bytes) else ""
            return _fail(f"{place}{error.strerror}.", FAILED if error.errno in _MACHINE else BAD_INPUT)
        case RuntimeError() if "start new thread" in str(error):
            return _fail("the system allows no further thread; end other programs or raise the limit.", FAILED)
        case _ if usage is not None:
            # For a wrong choice typer's message begins with the kind of error.
            text = " ".join(usage().split()).replace(": Value error, ", ": ", 1)
            # No command at all: typer has printed the help already.
            return _fail(text, BAD_INPUT) if text else BAD_INPUT
    return _fail(
        f"this is a bug in laplacianshot {__version__} ({type(error).__name__}: {error}); please open an issue in its "
        f"repository and attach {_write_log(error)}.",
        FAILED,
    )


def _open_closed_streams() -> None:
    """Let standard streams that the caller has closed lead nowhere: no file of ours may get their numbers."""
    while (handle := os.open(os.devnull, os.O_RDWR)) <= 2:
        pass
    os.close(handle)
    sys.stdout = sys.stdout or open(1, "w", closefd=False)  # noqa: SIM115 - as long as the process
    sys.stderr = sys.stderr or open(2, "w", closefd=False)  # noqa: SIM115


def _drop_output() -> None:
    """Drop what standard output cannot take: nothing more can be printed, not even by the interpreter at its exit."""
    try:
        sys.stdout.flush()
    except (OSError, ValueError):
        with contextlib.suppress(OSError, ValueError):
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def _write_log(error: BaseException) -> str:
    """Write the traceback of a bug to a file; return its place, or the traceback's end where that is not possible."""
    facts = f"laplacianshot {__version__}, Python {platform.python_version()}, {platform.platform()}\n{sys.argv!r}\n\n"
    text = facts + "".join(traceback.format_exception(error))
    try:
        folder = user_cache()[0] / "bugs"
        make_private(folder)
        path = folder / f"{time.strftime('%Y%m%d-%H%M%S')}-{os.getpid()}.log"
        put_file(path, lambda file: file.write(text.encode("utf-8", "backslashreplace")), private=True)
        return str(path)
    except OSError:
        return f"this: {text.splitlines()[-2].strip()}"


def _fail(message: str, code: int) -> int:
    with contextlib.suppress(OSError):  # a full disk behind standard error
        print(f"error: {' '.join(message.split())}", file=sys.stderr)
    return code
