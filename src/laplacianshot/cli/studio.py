"""``laplacianshot studio``: label in a browser."""

from __future__ import annotations

import json
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from laplacianshot.cli import options, terminal
from laplacianshot.cli.terminal import CommandError

if TYPE_CHECKING:
    from laplacianshot.labeling.sources import Source
    from laplacianshot.web.access import Gate

STUDIO_EXAMPLES = """\
Examples:
  laplacianshot studio --demo
  laplacianshot studio photos
  laplacianshot studio tickets.csv --text-column message --labels labels.csv
  laplacianshot studio tickets.csv --classes "card lost, refund, change address"
  laplacianshot studio vectors.npy --port 9000 --no-browser
SOURCE is a folder of pictures, a table of texts or a file of vectors, as for laplacianshot label. Every label is \
saved at once in the project folder; the same command continues from there. Ctrl-C ends the studio.
"""

_server_option = partial(typer.Option, rich_help_panel="Server")


def studio(
    *,
    source: Annotated[Path | None, typer.Argument(metavar="SOURCE", help=options.SOURCE_HELP)] = None,
    demo: Annotated[bool, typer.Option("--demo", help="Show scikit-learn's digits; nothing is downloaded.")] = False,
    reading: options.SourceOptions,
    project: Annotated[
        Path | None,
        options.input_option(
            metavar="DIR",
            help="Project folder, where labels are saved (default: a folder in your cache, one per SOURCE).",
        ),
    ] = None,
    host: Annotated[str, _server_option(help="Address to listen on.")] = "127.0.0.1",
    port: Annotated[int, _server_option(min=0, max=65535, help="Port to listen on; 0 for any free one.")] = 8765,
    no_browser: Annotated[bool, _server_option("--no-browser", help="Print the address, open no browser.")] = False,
    classes: options.ClassesOption = None,
    threads: options.ThreadsOption = None,
    as_json: Annotated[bool, _server_option("--json", help="Print the address as one JSON document.")] = False,
) -> int:
    """Label a few items in a browser, and watch the rest being labeled."""
    if demo and source is not None:
        raise CommandError(f"give either --demo or SOURCE ({source}), not both.")
    if not demo and source is None:
        raise CommandError("SOURCE is missing: give a folder, a table or a file of vectors, or use --demo.")
    # Imported here, so that --help does not wait for them.
    from laplacianshot.runtime.extras import require

    require("fastapi", "studio")
    require("uvicorn", "studio")
    from laplacianshot.labeling.sources import open_source
    from laplacianshot.studio.demo import digit_source
    from laplacianshot.studio.server import has_project, open_browser, open_session, serve
    from laplacianshot.web.server import listen

    def ready(gate: Gate) -> None:
        if as_json:
            print(json.dumps({"address": gate.address, "token": gate.token, "items": len(items)}), flush=True)
        else:
            print(f"{len(items):,} {items.kind} in the studio:\n\n  {gate.address}\n\nStop it with Ctrl-C.", flush=True)
        if host not in ("127.0.0.1", "localhost", "::1"):
            terminal.note(
                f"other machines can reach {host}; everyone with the address and its token can change the labels."
            )
        if not no_browser:
            open_browser(gate.address)

    asked = reading.classes_from_folders
    # A project keeps what was decided when it was made.
    if source is not None and not has_project(source, project):
        reading = options.with_folders(source, reading)
    opening = dict(vars(reading)) | {"classes_from_folders": bool(reading.classes_from_folders)}
    labels, encoder = opening.pop("labels"), opening.pop("encoder")
    with terminal.warnings_as_notes():
        if source is None:
            items: Source = digit_source()
        else:
            items = open_source(source, **opening, labels_file=labels is not None)
    session_of = partial(
        open_session,
        items,
        labels=labels,
        encoder=encoder,
        project=project,
        classes=classes,
        threads=threads,
        classes_from_folders=asked,
    )
    with listen(host, port) as listener, session_of(note=terminal.note) as session:
        serve(session, host, listener, opened=ready)
    terminal.note("the studio has ended; all labels are saved, and the same command continues from there.")
    return 0
