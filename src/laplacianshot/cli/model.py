"""``laplacianshot predict`` and ``serve``: a saved model labels new items."""

from __future__ import annotations

import json
import os
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from laplacianshot.cli import options, terminal
from laplacianshot.cli.terminal import CommandError, Output

if TYPE_CHECKING:
    from laplacianshot.labeling.sources import Source
    from laplacianshot.web.access import Gate

PREDICT_EXAMPLES = """\
Examples:
  laplacianshot predict birds.lshot new/ -o new.csv
  laplacianshot predict birds.lshot one.jpg two.jpg
  laplacianshot predict tickets.lshot today.csv --text-column message -o today-labels.csv
MODEL is a file that laplacianshot label --save, or the studio's Export, has written. ITEMS are what the model is for: \
a folder or files of pictures, a table of texts, or a file of vectors. The output has one row per item: id, label, \
confidence (the probability that the label is right) and novelty (from 0 to 1; near 1: unlike anything that the model \
was made from).
"""

SERVE_EXAMPLES = """\
Examples:
  laplacianshot serve birds.lshot
  curl --data-binary @new.jpg http://127.0.0.1:8766/predict/picture
  curl --json '{"texts": ["where is my card?"]}' http://127.0.0.1:8766/predict
  LAPLACIANSHOT_TOKEN=... laplacianshot serve birds.lshot --host 0.0.0.0
Paths: /predict (texts, vectors, or pictures in base64, up to 1,024 per request), /predict/picture (the file as the \
body), /model, /health and /openapi.json. With a token every request but /health needs the header "Authorization: \
Bearer TOKEN". Ctrl-C ends the server.
"""

_server_option = partial(typer.Option, rich_help_panel="Server")

ModelArgument = Annotated[Path, typer.Argument(metavar="MODEL", help="Model file, .lshot.")]
EncoderOption = Annotated[
    str | None,
    options.input_option(
        metavar="NAME", help="Where the encoder is on this machine, such as onnx:FILE; its weights must be the same."
    ),
]
_TOKEN = "LAPLACIANSHOT_TOKEN"


def predict(
    *,
    model: ModelArgument,
    items: Annotated[
        list[Path], typer.Argument(metavar="ITEMS...", help="Folder or files of pictures, table of texts, or vectors.")
    ],
    output: Annotated[
        Path | None,
        options.output_option("--output", "-o", metavar="OUT", help="File for the labels: .csv, .jsonl or .parquet."),
    ] = None,
    text_column: Annotated[
        str | None, options.input_option(metavar="NAME", help="Column of the texts (default: text, or the only one).")
    ] = None,
    id_column: Annotated[
        str | None, options.input_option(metavar="NAME", help="Column of the ids (default: id, or row numbers from 0).")
    ] = None,
    encoder: EncoderOption = None,
    threads: options.ThreadsOption = None,
    no_cache: Annotated[bool, typer.Option("--no-cache", help="Keep no vectors.")] = False,
    as_json: options.JsonOption = False,
) -> int:
    """Label new items with a saved model."""
    out = None if output is None else terminal.check_output(output, options.TABLE_ENDINGS)
    # Imported here, so that --help does not wait for numpy.
    from laplacianshot.labeling.model import LabelModel
    from laplacianshot.labeling.outputs import write_predictions
    from laplacianshot.reports.label_summary import PredictionSummary
    from laplacianshot.runtime.files import user_cache

    loaded = LabelModel.load(model, encoder=encoder, threads=threads)
    with terminal.progress_shown() as watch:
        source = _source(items, loaded.kind, text_column, id_column)
        progress = watch("Vectors")
        cache = None if no_cache or loaded.kind == "vectors" else user_cache()[0] / "vectors"
        result = loaded.label(source, cache=cache, progress=progress)
    if not len(result):
        first = result.skipped[0]
        raise CommandError(f"none of the items can be read; the first: {first.id}: {first.reason}.")
    outputs = [] if out is None else [Output(out, lambda: write_predictions(result, out))]
    return terminal.deliver(PredictionSummary(result), outputs, as_json=as_json)


def _source(items: list[Path], kind: str, text_column: str | None, id_column: str | None) -> Source:
    """Open what is to be predicted: one source, or several files of pictures."""
    from laplacianshot.labeling.sources import open_picture_files, open_source

    if kind == "pictures" and not (len(items) == 1 and items[0].is_dir()):
        return open_picture_files(items)
    if len(items) > 1:
        raise CommandError(f"ITEMS: give one table or file, not {len(items)}; the model is for {kind}.")
    folders = False if kind == "pictures" else None
    return open_source(items[0], text_column=text_column, id_column=id_column, classes_from_folders=folders)


def serve(
    *,
    model: ModelArgument,
    host: Annotated[str, _server_option(help="Address to listen on; 0.0.0.0 for other machines too.")] = "127.0.0.1",
    port: Annotated[int, _server_option(min=0, max=65535, help="Port to listen on; 0 for any free one.")] = 8766,
    token_file: Annotated[
        Path | None,
        _server_option(metavar="FILE", help=f"File with a token that requests need (default: the variable {_TOKEN})."),
    ] = None,
    encoder: EncoderOption = None,
    threads: options.ThreadsOption = None,
    as_json: Annotated[bool, _server_option("--json", help="Print the address as one JSON document.")] = False,
) -> int:
    """Serve a saved model over HTTP: items in, labels with calibrated confidence out."""
    from laplacianshot.runtime.extras import require

    require("fastapi", "studio")
    require("uvicorn", "studio")
    from laplacianshot.labeling.model import LabelModel
    from laplacianshot.web.model_app import read_token, serve_model
    from laplacianshot.web.server import listen

    with terminal.input_errors():
        token = os.environ.get(_TOKEN, "").strip() if token_file is None else read_token(token_file)
    loaded = LabelModel.load(model, encoder=encoder, threads=threads)
    # The first request shall not wait for the network, nor find that it is missing.
    loaded.warm_up()

    def ready(gate: Gate) -> None:
        if as_json:
            print(json.dumps({"address": gate.base, "kind": loaded.kind, "classes": len(loaded.classes)}), flush=True)
        else:
            print(f"{loaded}\n\n  {gate.base}/predict\n\nStop it with Ctrl-C.", flush=True)
        if host not in ("127.0.0.1", "localhost", "::1") and not token:
            terminal.note(f"other machines can reach {host}, and no token is needed; set {_TOKEN} to require one.")

    with listen(host, port) as listener:
        serve_model(loaded, host, listener, token=token, opened=ready)
    return 0
