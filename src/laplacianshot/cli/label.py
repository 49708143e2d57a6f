"""``laplacianshot label``: a source and a few labels in, every label out."""

from __future__ import annotations

import sys
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from laplacianshot.cli import INTERRUPTED, options
from laplacianshot.cli.console import compilation_shown, note, progress_bar, warnings_as_notes, watcher
from laplacianshot.cli.deliver import Output, deliver
from laplacianshot.cli.errors import CommandError
from laplacianshot.cli.files import check_output, check_report_folder
from laplacianshot.cli.label_shards import label_shards_into, shards_named
from laplacianshot.cli.sorting import UNDO_LOG, Sorting, finish_sorting, sort_pictures, undo_sorting

if TYPE_CHECKING:
    from laplacianshot.labeling.result import LabelResult

LABEL_EXAMPLES = """\
Examples:

  laplacianshot label photos --labels labels.csv -o all.csv --report page

  laplacianshot label photos --suggest 20 -o first.csv

  laplacianshot label tickets.csv --text-column message --labels labels.csv -o all.csv --suggest 10

  laplacianshot label vectors.npy --labels labels.csv -o all.parquet --reject 0.1

  laplacianshot label photos --labels labels.csv --apply copy sorted

  laplacianshot label --undo sorted/laplacianshot-undo.jsonl

""" + (
    "SOURCE is a folder of pictures; a .csv, .jsonl or .parquet with a column of texts; or a .npy, .npz or .parquet of "
    "vectors. The output has the columns id, label, confidence, origin (given, predicted or rejected) and suggestion "
    "(the rank among what to label next). Vectors of pictures and texts are kept by content: a second run is instant, "
    "and a run that was stopped goes on where it was."
)

ENDINGS = (".csv", ".jsonl", ".parquet")


class ExportFormat(StrEnum):
    """Other tools' formats."""

    label_studio = "label-studio"


class GraphMethod(StrEnum):
    """Ways to find neighbors."""

    auto = "auto"
    exact = "exact"
    cells = "cells"


_ASK = "What to find"


def label(
    source: options.SourceArgument = None,
    labels: options.LabelsOption = None,
    text_column: options.TextColumnOption = None,
    id_column: options.IdColumnOption = None,
    label_column: options.LabelColumnOption = None,
    folders_are_labels: options.FoldersOption = None,
    encoder: options.EncoderOption = None,
    suggest: Annotated[
        int, typer.Option(min=0, help="Name so many items that a person should label next.", rich_help_panel=_ASK)
    ] = 0,
    reject: Annotated[
        float,
        typer.Option(
            min=0, max=1, help="Leave this share, which fits the classes least, unlabeled.", rich_help_panel=_ASK
        ),
    ] = 0.0,
    relabel: Annotated[
        bool, typer.Option("--relabel", help="Flag given labels that the graph disputes.", rich_help_panel=_ASK)
    ] = False,
    balanced: Annotated[
        bool, typer.Option("--balanced", help="All classes are known to be equally frequent.", rich_help_panel=_ASK)
    ] = False,
    output: Annotated[
        Path | None,
        typer.Option(
            "--output",
            "-o",
            metavar="OUT",
            help="Every label: .csv, .jsonl or .parquet.",
            rich_help_panel=options.OUTPUT,
        ),
    ] = None,
    report: Annotated[
        Path | None,
        typer.Option(metavar="DIR", help="A page to look at, in this folder.", rich_help_panel=options.OUTPUT),
    ] = None,
    export: Annotated[
        ExportFormat | None,
        typer.Option(help="Also write tasks with predictions, beside the output.", rich_help_panel=options.OUTPUT),
    ] = None,
    apply: Annotated[
        tuple[Sorting, Path] | None,
        typer.Option(
            metavar="copy|move|link DIR",
            help="Sort the pictures into class folders in DIR; nothing is ever overwritten.",
            rich_help_panel=options.OUTPUT,
        ),
    ] = None,
    undo: Annotated[
        Path | None,
        typer.Option(metavar="LOG", help="Take back what --apply did; alone.", rich_help_panel=options.OUTPUT),
    ] = None,
    graph: Annotated[
        GraphMethod,
        typer.Option(help="Neighbor search method (auto: exact up to 50,000 items).", rich_help_panel=_ASK),
    ] = GraphMethod.auto,
    memory: Annotated[
        str | None,
        typer.Option(
            metavar="BYTES", help="Keep to this much besides the vectors, such as 8GB, or refuse.", rich_help_panel=_ASK
        ),
    ] = None,
    engine: options.EngineOption = options.EngineName.local,
    address: options.AddressOption = None,
    run_folder: Annotated[
        str | None,
        typer.Option(
            metavar="PATH|URL", help="Every node writes finished stages here.", rich_help_panel=options.CLUSTER
        ),
    ] = None,
    shards: Annotated[
        int | None, typer.Option(min=1, help="Parts of the rows; one a CPU.", rich_help_panel=options.CLUSTER)
    ] = None,
    no_cache: Annotated[bool, typer.Option("--no-cache", help="Keep no vectors and no finished stages.")] = False,
    threads: options.ThreadsOption = None,
    as_json: options.JsonOption = False,
) -> int:
    """Label a handful of items; the graph labels the rest, and says how sure it is and what to label next."""
    if undo is not None:
        return undo_sorting(undo, as_json)
    if source is None:
        raise CommandError("SOURCE is missing: name a folder of pictures, a table of texts or a file of vectors.")
    if engine is options.EngineName.ray and (named := shards_named(source)) is not None:
        refused: dict[str, object] = {
            "--suggest": suggest,
            "--reject": reject,
            "--relabel": relabel,
            "--report": report,
            "--apply": apply,
        }
        refused |= {"--export": export, "--encoder": encoder, "--text-column": text_column, "--memory": memory}
        return label_shards_into(
            named,
            labels,
            output,
            refused=refused,
            balanced=balanced,
            graph=graph.value,
            address=address,
            run_folder=run_folder,
            shards=shards,
            as_json=as_json,
        )
    out = None if output is None else check_output(output, ENDINGS)
    folder = None if report is None else check_report_folder(report)
    tasks = None if export is None else _export_path(out, source)
    sorted_into = None if apply is None else check_report_folder(apply[1], "--apply")
    # Here, so that --help need not wait for numpy.
    from laplacianshot.embedding.encoders import EncoderError
    from laplacianshot.labeling import label_source
    from laplacianshot.labeling.errors import LabelingError
    from laplacianshot.reports.labeling.summary import LabelSummary

    try:
        if sorted_into is not None:
            finish_sorting(source, sorted_into)
        with progress_bar() as bar, compilation_shown(bar), warnings_as_notes():
            result = label_source(
                source,
                labels,
                encoder=encoder,
                text_column=text_column,
                id_column=id_column,
                label_column=label_column,
                folders_are_labels=folders_are_labels,
                balanced=balanced,
                suggest=suggest,
                reject=reject,
                relabel=relabel,
                graph=graph.value,
                memory=memory,
                threads=threads,
                cache=not no_cache,
                engine=engine.value,
                address=address,
                run_folder=run_folder,
                shards=shards,
                watch=watcher(bar),
            )
    except KeyboardInterrupt:
        if no_cache:
            raise
        print("interrupted: what was finished is kept; the same command goes on from there.", file=sys.stderr)
        return INTERRUPTED
    except (LabelingError, EncoderError, MemoryError, ModuleNotFoundError) as error:
        raise CommandError(str(error)) from error
    outputs: list[Output] = []
    if out is not None:
        outputs.append(Output(out, lambda: _write_rows(result, out, relabel)))
    if tasks is not None:
        outputs.append(_tasks_of(result, tasks))
    if folder is not None:
        outputs.append(Output(folder / "index.html", lambda: _write_page(result, folder)))
    if sorted_into is not None and apply is not None:
        outputs.append(Output(sorted_into / UNDO_LOG, lambda: sort_pictures(result, sorted_into, apply[0])))
    if not (outputs or as_json):
        note("nothing is written; name a file with -o OUT.csv, or a folder for a page with --report DIR.")
    return deliver(LabelSummary(result), outputs, as_json=as_json)


def _export_path(out: Path | None, source: Path) -> Path:
    beside = Path(source.name or "labels").absolute() if out is None else out
    return check_output(beside.with_name(f"{beside.stem}.label-studio.json"), (".json",), "--export")


def _write_rows(result: LabelResult, path: Path, relabel: bool) -> None:
    from laplacianshot.labeling.outputs import write_rows

    write_rows(result, path, relabel=relabel)


def _tasks_of(result: LabelResult, path: Path) -> Output:
    from laplacianshot.labeling.errors import LabelingError
    from laplacianshot.labeling.outputs import export_label_studio, how_to_import, interface_of

    source = result.source
    assert source is not None

    def write() -> None:
        try:
            export_label_studio(result, source, path)
        except LabelingError as error:
            raise CommandError(f"--export: {error}") from error

    return Output(path, write, (interface_of(path),), how_to_import(source, path))


def _write_page(result: LabelResult, folder: Path) -> None:
    from laplacianshot.reports.labeling import write_label_report

    with progress_bar() as bar:
        write_label_report(result, folder, watch=watcher(bar))
