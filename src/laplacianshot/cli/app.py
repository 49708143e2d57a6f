"""The application: its commands, and the one place where errors become exit codes."""

from __future__ import annotations

import contextlib
import io
import os
import sys
from collections.abc import Callable, Sequence
from typing import Annotated

import typer

from laplacianshot import __version__
from laplacianshot.cli import options
from laplacianshot.cli.demo import DEMO_EXAMPLES, demo
from laplacianshot.cli.evaluate import EVALUATE_EXAMPLES, evaluate
from laplacianshot.cli.extract import EXTRACT_EXAMPLES, extract
from laplacianshot.cli.label import LABEL_EXAMPLES, SHARDS_EXAMPLES, label, label_shards
from laplacianshot.cli.reproduce import REPRODUCE_EXAMPLES, reproduce
from laplacianshot.cli.sort import SORT_EXAMPLES, sort
from laplacianshot.cli.studio import STUDIO_EXAMPLES, studio
from laplacianshot.cli.suggest import SUGGEST_EXAMPLES, suggest
from laplacianshot.cli.terminal import BAD_INPUT, FAILED, INTERRUPTED
from laplacianshot.cli.train import TRAIN_EXAMPLES, train
from laplacianshot.cli.tune import TUNE_EXAMPLES, tune
from laplacianshot.runtime.errors import LaplacianShotError

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
_add(_LABEL, sort, SORT_EXAMPLES)
_add(_LABEL, studio, STUDIO_EXAMPLES)
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


def run(arguments: Sequence[str] | None = None) -> int:
    """Run the command line and return its exit code; every error is one line on stderr.

    The code is 0, 2 for bad input, 130 after Ctrl-C, or 1 for other failures. The default arguments are those of the
    process.
    """
    # A terminal that lacks a character gets a question mark, not a traceback.
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="replace")
    try:
        given = sys.argv[1:] if arguments is None else list(arguments)
        code = app(args=given, standalone_mode=False, obj=given)
        sys.stdout.flush()
        return code if isinstance(code, int) else 0
    except LaplacianShotError as error:
        return _fail(str(error), getattr(error, "exit_code", BAD_INPUT))
    except MemoryError as error:
        return _fail(str(error) or "out of memory.", FAILED)
    except (KeyboardInterrupt, typer.Abort):
        return _fail("interrupted.", INTERRUPTED)
    except BrokenPipeError:
        # The reader (head, less) is gone: nothing more can be printed, not even by the interpreter at its exit.
        with contextlib.suppress(OSError):
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return FAILED
    except Exception as error:
        # typer's usage errors come from click or, in newer versions, from its own copy; both have this method.
        message = getattr(error, "format_message", None)
        if message is None:
            raise
        # For a wrong choice typer's message begins with the kind of error.
        text = " ".join(message().split()).replace(": Value error, ", ": ", 1)
        # No command at all: typer has printed the help already.
        return _fail(text, BAD_INPUT) if text else BAD_INPUT


def _fail(message: str, code: int) -> int:
    print(f"error: {' '.join(message.split())}", file=sys.stderr)
    return code
