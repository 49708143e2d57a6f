"""``laplacianshot label-studio-backend``: predictions inside Label Studio."""

from __future__ import annotations

import json
import os
from functools import partial
from pathlib import Path
from typing import Annotated

import typer

from laplacianshot.cli import options, terminal

BACKEND_EXAMPLES = """\
Examples:
  laplacianshot label-studio-backend birds.lshot
  laplacianshot label-studio-backend my-project --port 9091
  LAPLACIANSHOT_TOKEN=... laplacianshot label-studio-backend birds.lshot --host 0.0.0.0
In a project of Label Studio, under Settings > Model, connect the address that is printed. A model gives predictions; \
a project of the studio (the folder of laplacianshot studio --project) also learns from each annotation. With a token, \
choose Basic authentication there, with any user and the token as the password. Pictures are fetched from Label Studio \
alone: from the address and with the key that it sends, or from --label-studio URL with LABEL_STUDIO_API_KEY.
"""

_server_option = partial(typer.Option, rich_help_panel="Server")
_TOKEN = "LAPLACIANSHOT_TOKEN"


def label_studio_backend(
    *,
    what: Annotated[
        Path, typer.Argument(metavar="MODEL|PROJECT", help="Model file, .lshot, or project folder of the studio.")
    ],
    text_column: Annotated[
        str | None, options.input_option(metavar="NAME", help="Column of the texts, as for the studio (PROJECT).")
    ] = None,
    id_column: Annotated[
        str | None, options.input_option(metavar="NAME", help="Column of the ids, as for the studio (PROJECT).")
    ] = None,
    encoder: Annotated[
        str | None, options.input_option(metavar="NAME", help="Encoder, as for laplacianshot studio or serve.")
    ] = None,
    label_studio: Annotated[
        str,
        options.input_option(
            "--label-studio",
            metavar="URL",
            help="Address of Label Studio, from which pictures are fetched (default: the one it says it has).",
        ),
    ] = "",
    host: Annotated[str, _server_option(help="Address to listen on; 0.0.0.0 for other machines too.")] = "127.0.0.1",
    port: Annotated[int, _server_option(min=0, max=65535, help="Port to listen on; 0 for any free one.")] = 9090,
    threads: options.ThreadsOption = None,
    as_json: Annotated[bool, _server_option("--json", help="Print the address as one JSON document.")] = False,
) -> int:
    """Give predictions to Label Studio, live: a saved model, or a project that learns from annotations."""
    from laplacianshot.runtime.extras import require

    require("fastapi", "studio")
    require("uvicorn", "studio")
    from laplacianshot.studio.label_studio import PasswordGate, Pictures, create_backend, open_predictor
    from laplacianshot.web.server import listen, run_app

    token = os.environ.get(_TOKEN, "").strip()
    key = os.environ.get("LABEL_STUDIO_API_KEY", "") if label_studio else ""
    pictures = Pictures(label_studio, key, fixed=bool(label_studio))
    local = host in ("127.0.0.1", "localhost", "::1")
    opened = open_predictor(
        what,
        pictures,
        text_column=text_column,
        id_column=id_column,
        encoder=encoder,
        threads=threads,
        note=terminal.note,
    )
    with listen(host, port) as listener, opened as predictor:
        gate = PasswordGate(token, host, listener.getsockname()[1], not local)

        def ready() -> None:
            if as_json:
                print(json.dumps({"address": gate.base, "version": predictor.version}), flush=True)
            else:
                print(f"{predictor.version}\n\n  {gate.base}\n\nStop it with Ctrl-C.", flush=True)
            if not local and not token:
                terminal.note(f"other machines can reach {host}, and no token is needed; set {_TOKEN} to require one.")

        run_app(create_backend(predictor, gate, pictures, terminal.note), listener, ready=ready)
    return 0
