"""``laplacianshot label`` and ``label-shards``: a few labels in, a label for every item out."""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from laplacianshot.cli import options, terminal
from laplacianshot.cli.sort import Sorting, sort_into, undo_hint, undo_option
from laplacianshot.cli.terminal import CommandError, Output

if TYPE_CHECKING:
    from laplacianshot.labeling.result import LabelResult

_SOURCE = (
    "SOURCE is a folder of pictures; a .csv, .jsonl or .parquet table with a column of texts; a .npy, .npz or "
    ".parquet file of vectors; or hf-dataset:NAME@SPLIT, a data set of Hugging Face by name or folder."
)

LABEL_EXAMPLES = f"""\
Examples:
  laplacianshot label photos --labels labels.csv -o all.csv --report page
  laplacianshot label tickets.csv --text-column message --labels labels.csv -o all.csv --suggest 10
  laplacianshot label vectors.npy --labels labels.csv -o all.parquet --reject 0.1
  laplacianshot label photos --labels labels.csv -o all.csv --apply copy sorted
  laplacianshot label photos --labels labels.csv --save birds.lshot
  laplacianshot label tickets.csv --classes "card lost, refund, change address" -o all.csv
{_SOURCE} \
The output has one row per item: id, label, confidence (the probability that the label is right), origin (given, \
predicted or rejected), suggestion (1 for the item to label next, 2 for the one after, ...), the columns of SOURCE, \
and written (label once more: change a label in OUT, give OUT to --labels, and the label counts). \
Vectors of pictures and texts are cached: a second run takes seconds, and an interrupted run continues where it stopped.
"""

SHARDS_EXAMPLES = """\
Examples:
  laplacianshot label-shards vectors/ --labels labels.csv -o labels/
  laplacianshot label-shards "s3://bucket/part-*.parquet" --labels labels.csv -o s3://bucket/labels --address auto
The ids in the file of labels are row numbers, counted from 0 over all files in order of their names. The output \
folder gets one file of labels per shard. An interrupted run continues where it stopped.
"""

_result_option = partial(typer.Option, rich_help_panel="Result")
_method_option = partial(typer.Option, rich_help_panel="Method")


@dataclass(frozen=True)
class _FitOptions:
    """How label and label-shards compute the labels."""

    balanced: Annotated[
        bool, _method_option("--balanced", help="All classes are known to be equally frequent among the items.")
    ] = False
    graph: Annotated[
        Literal["auto", "exact", "cells"],
        _method_option(help="Neighbor search: exact, cells (approximate), or auto (exact up to 50,000 items)."),
    ] = "auto"
    address: options.AddressOption = None
    run_folder: Annotated[
        str | None,
        options.cluster_option(
            metavar="PATH|URL", help="Where finished stages are kept; every node must be able to write there."
        ),
    ] = None
    shards: Annotated[
        int | None, options.cluster_option(min=1, help="Number of parts to cut the rows into (default: one per CPU).")
    ] = None


def label(
    *,
    context: typer.Context,
    source: options.SourceArgument,
    reading: options.SourceOptions,
    knowledge: options.KnowledgeOptions,
    output: Annotated[
        Path | None,
        _result_option(
            "--output", "-o", metavar="OUT", help="File for the labels of all items: .csv, .jsonl or .parquet."
        ),
    ] = None,
    suggest: Annotated[int, _result_option(min=0, metavar="N", help="Also suggest N items to label next.")] = 0,
    reject: Annotated[
        float,
        _result_option(
            min=0,
            max=1,
            metavar="SHARE",
            help="Leave this share of the unlabeled items, those that fit no class, without a label (0.1: a tenth).",
        ),
    ] = 0.0,
    relabel: Annotated[
        bool,
        _result_option(
            "--relabel", help="Add a column dispute: the label that similar items suggest in place of a given one."
        ),
    ] = False,
    safe_csv: Annotated[
        bool,
        _result_option(
            "--safe-csv", help="In a .csv, put ' before cells that a spreadsheet would run as a formula (= + - @)."
        ),
    ] = False,
    report: Annotated[
        Path | None,
        _result_option(metavar="DIR", help="Write a page with pictures, figures and a map into this folder."),
    ] = None,
    save: Annotated[
        Path | None,
        _result_option(metavar="MODEL", help="Save a model for laplacianshot predict and serve in this file, .lshot."),
    ] = None,
    save_rows: Annotated[
        Literal["core", "all"],
        _result_option(help="What the model keeps: core (a few MB, as accurate) or all fitted rows."),
    ] = "core",
    export: Annotated[
        Literal["label-studio", "cvat", "fiftyone", "hf-dataset"] | None,
        _result_option(help="Also write the items and their labels for this tool, next to OUT."),
    ] = None,
    apply: Annotated[
        tuple[Sorting, Path] | None,
        _result_option(
            metavar="copy|link DIR",
            help="Copy or link the pictures into one folder per class in DIR; see laplacianshot sort.",
        ),
    ] = None,
    undo: undo_option = None,
    fitting: _FitOptions,
    memory: Annotated[
        str | None,
        _method_option(
            metavar="BYTES", help="Memory limit besides the vectors, such as 8GB; fail early if it cannot be met."
        ),
    ] = None,
    threads: options.ThreadsOption = None,
    no_cache: Annotated[bool, typer.Option("--no-cache", help="Keep no vectors and no finished stages.")] = False,
    engine: options.EngineOption = "local",
    as_json: options.JsonOption = False,
) -> int:
    """Label all items of a source from the few that have a label, or from the names of the classes.

    Says how likely each label is to be right, and which items to label next.
    """
    if engine == "ray" and _is_sharded(source):
        _check_shard_options(context, {"source", "labels", "output", "engine", "as_json", *vars(fitting)})
        return label_shards(source=source, labels=reading.labels, output=output, fitting=fitting, as_json=as_json)
    out = None if output is None else terminal.check_output(output, options.TABLE_ENDINGS)
    folder = None if report is None else terminal.check_report_folder(report)
    saved = None if save is None else terminal.check_output(save, (".lshot",), "--save")
    exported = None if export is None else _export_path(export, out, source)
    if apply is not None and not source.is_dir():
        raise CommandError(f"--apply sorts pictures into folders, and {source} is not a folder of pictures.")
    sorted_into = None if apply is None else terminal.check_report_folder(apply[1], "--apply")
    # Imported here, so that --help does not wait for numpy.
    from laplacianshot.labeling import label_source
    from laplacianshot.labeling.outputs import write_rows
    from laplacianshot.reports.label_summary import LabelSummary

    reading = options.with_folders(source, reading, knowledge)
    try:
        with terminal.progress_shown() as watch:
            result = label_source(
                source,
                **vars(reading),
                **vars(knowledge),
                **vars(fitting),
                suggest=suggest,
                reject=reject,
                relabel=relabel,
                memory=memory,
                threads=threads,
                cache=not no_cache,
                engine=engine,
                watch=watch,
            )
    except KeyboardInterrupt:
        if no_cache:
            raise
        return terminal.interrupted("finished work is kept; the same command continues from there.")

    def write_page(folder: Path) -> None:
        from laplacianshot.reports.label_page import write_label_report

        with terminal.progress_shown() as watch:
            write_label_report(result, folder, watch=watch)

    outputs: list[Output] = []
    if out is not None:
        outputs.append(Output(out, lambda: write_rows(result, out, relabel=relabel, safe_csv=safe_csv)))
    if saved is not None:
        outputs.append(_model_of(result, saved, save_rows))
    if export is not None and exported is not None:
        outputs.append(_exported(result, export, exported))
    if folder is not None:
        outputs.append(Output(folder / "index.html", lambda: write_page(folder)))
    if apply is not None and sorted_into is not None:
        how, found = apply[0], dict(zip(result.ids, result.labels, strict=True))
        labeled = {name: label for name, label in found.items() if label}
        assert result.source is not None
        pictures = result.source
        into = partial(sort_into, pictures, labeled, sorted_into, how)
        outputs.append(Output(sorted_into, into, hint=undo_hint(apply[1])))
    if not (outputs or as_json):
        terminal.note("no file is written; add -o OUT.csv for the labels, or --report DIR for a page.")
    return terminal.deliver(LabelSummary(result), outputs, as_json=as_json, stages=result.stages)


def label_shards(
    *,
    source: Annotated[
        Path, typer.Argument(metavar="SOURCE", help="Folder, pattern or URL of .npy or .parquet files of vectors.")
    ],
    labels: options.LabelsOption = None,
    output: Annotated[
        Path | None,
        _result_option("--output", "-o", metavar="DIR|URL", help="Folder for the labels, one file per shard."),
    ] = None,
    fitting: _FitOptions,
    as_json: options.JsonOption = False,
) -> int:
    """Label vectors that are too many for one machine, on a Ray cluster.

    The vectors stay where they are; no machine holds all of them.
    """
    from laplacianshot.ray.label_shards import label_shards as label_on_ray

    if labels is None or output is None:
        raise CommandError("shards need --labels FILE with row numbers as ids, and -o FOLDER for labels in shards.")
    out = _url(output)
    try:
        with terminal.progress_shown() as watch:
            fit = label_on_ray(_url(source), labels, out, **vars(fitting), watch=watch)
    except KeyboardInterrupt:
        return terminal.interrupted("finished stages are kept; the same command continues from there.")
    if as_json:
        facts = {
            "rows": fit.job.n,
            "classes": fit.job.n_classes,
            "shards": len(fit.job.shards),
            "rounds": len(fit.objective),
            "converged": fit.converged,
            "graph": {"method": fit.graph.method, "recall": fit.graph.recall},
            "seconds": dict(fit.seconds),
            "output": out,
        }
        terminal.print_json(facts)
    else:
        print(f"{fit.job.n:,} rows in {len(fit.job.shards)} shards labeled; graph {fit.graph.method}, ", end="")
        print(f"recall {fit.graph.recall:.3f}; {len(fit.objective)} iterations.\nWritten: {out}")
    return 0


def _url(path: Path) -> str:
    """Return a path as text, with both slashes of a URL, of which a path keeps one."""
    return re.sub(r"^([a-z0-9]+):/+", r"\1://", str(path))


def _is_sharded(source: Path) -> bool:
    from laplacianshot.ray.label_shards import is_sharded

    return is_sharded(_url(source))


def _check_shard_options(context: typer.Context, supported: set[str]) -> None:
    """Raise for options of ``label`` that need all rows in one memory."""
    for name in context.params:
        given = context.get_parameter_source(name)
        if name not in supported and given is not None and given.name == "COMMANDLINE":
            option = f"--{name.replace('_', '-')}"
            raise CommandError(f"{option} is not supported for shards; give one file of vectors, or leave it out.")


# What an export is written to: behind the name of OUT, and the file that is written last in a folder.
_EXPORTS = {
    "label-studio": (".label-studio.json", ""),
    "cvat": (".cvat.xml", ""),
    "fiftyone": (".fiftyone", "labels.json"),
    "hf-dataset": (".hf-dataset", "README.md"),
}


def _export_path(export: str, out: Path | None, source: Path) -> Path:
    beside = Path(source.name or "labels").absolute() if out is None else out
    ending, last = _EXPORTS[export]
    place = beside.with_name(f"{beside.stem}{ending}")
    if last:
        return terminal.check_report_folder(place, "--export") / last
    return terminal.check_output(place, (place.suffix,), "--export")


def _model_of(result: LabelResult, path: Path, rows: Literal["core", "all"]) -> Output:
    model = result.model
    if model is None:
        raise CommandError("--save: nothing was labeled, so there is no model; give labels with --labels FILE.")
    return Output(
        path, lambda: model.save(path, rows=rows), (), f"Use it: laplacianshot predict {path.name} NEW -o OUT.csv"
    )


def _exported(result: LabelResult, export: str, path: Path) -> Output:
    from laplacianshot.labeling import exports, outputs

    source = result.source
    assert source is not None
    write = {
        "label-studio": outputs.export_label_studio,
        "cvat": exports.export_cvat,
        "fiftyone": exports.export_fiftyone,
        "hf-dataset": exports.export_dataset,
    }[export]
    beside: tuple[Path, ...] = ()
    hint = outputs.how_to_import(source, path) if export == "label-studio" else exports.how_to_use(export, path)
    if export in ("label-studio", "cvat"):
        beside = (path.with_suffix(exports.CVAT_INTERFACE) if export == "cvat" else outputs.interface_of(path),)

    def put() -> None:
        with terminal.input_errors("--export: "):
            write(result, source, path)

    return Output(path, put, beside, hint)
