"""The application: its commands, and the one place where errors become exit codes."""

from __future__ import annotations

import contextlib
import io
import os
import sys
from collections.abc import Sequence
from typing import Annotated

import typer

from laplacianshot import __version__
from laplacianshot.cli import BAD_INPUT, INTERRUPTED
from laplacianshot.cli.demo import demo
from laplacianshot.cli.errors import CommandError
from laplacianshot.cli.evaluate import EVALUATE_EXAMPLES, evaluate
from laplacianshot.cli.extract import EXTRACT_EXAMPLES, extract
from laplacianshot.cli.label import LABEL_EXAMPLES, label
from laplacianshot.cli.reproduce import REPRODUCE_EXAMPLES, reproduce
from laplacianshot.cli.studio import STUDIO_EXAMPLES, studio
from laplacianshot.cli.train import TRAIN_EXAMPLES, train
from laplacianshot.cli.tune import TUNE_EXAMPLES, tune

app = typer.Typer(
    name="laplacianshot",
    help="Label a handful of examples, and the graph labels the rest.",
    no_args_is_help=True,
    add_completion=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)
app.command()(demo)
app.command(epilog=LABEL_EXAMPLES)(label)
app.command(epilog=STUDIO_EXAMPLES)(studio)
app.command(epilog=TRAIN_EXAMPLES)(train)
app.command(epilog=EXTRACT_EXAMPLES)(extract)
app.command(epilog=EVALUATE_EXAMPLES)(evaluate)
app.command(epilog=TUNE_EXAMPLES)(tune)
app.command(epilog=REPRODUCE_EXAMPLES)(reproduce)


def _print_version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"laplacianshot {__version__}")
        raise typer.Exit


@app.callback()
def _options(
    version: Annotated[
        bool, typer.Option("--version", callback=_print_version, is_eager=True, help="Print the version and leave.")
    ] = False,
) -> None:
    """Label a handful of examples, and the graph labels the rest."""


def run(arguments: Sequence[str] | None = None) -> int:
    """Run the command line and give its exit code; every error is one line on stderr.

    Parameters
    ----------
    arguments : sequence of str, optional
        Those of the process if not given.

    Returns
    -------
    int
        0, 2 for bad input, 130 after Ctrl-C, 1 for what else can fail.
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
    except CommandError as error:
        return _fail(str(error), error.exit_code)
    except (KeyboardInterrupt, typer.Abort):
        return _fail("interrupted.", INTERRUPTED)
    except BrokenPipeError:
        # The reader (head, less) has left: nothing more can be said, not even by the interpreter at its exit.
        with contextlib.suppress(OSError):
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 1
    except Exception as error:
        # typer's usage errors come from its own copy of click or from click, by version; both know their message.
        message = getattr(error, "format_message", None)
        if message is None:
            raise
        # Of a wrong choice typer's message begins with the kind of error that pydantic saw.
        text = " ".join(message().split()).replace(": Value error, ", ": ", 1)
        # No command at all: typer has printed the help already.
        return _fail(text, BAD_INPUT) if text else BAD_INPUT


def _fail(message: str, code: int) -> int:
    print(f"error: {message}", file=sys.stderr)
    return code
