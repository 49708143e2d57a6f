"""``laplacianshot extract``: the vectors that a trained network gives to the pictures of a data set."""

from __future__ import annotations

import sys
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from laplacianshot.cli import options
from laplacianshot.cli.console import progress_bar, watcher
from laplacianshot.cli.errors import INTERRUPTED, CommandError
from laplacianshot.cli.output import Output, check_output, check_report_folder, deliver

if TYPE_CHECKING:
    from laplacianshot.datasets.pictures import Pictures
    from laplacianshot.embedding.networks.architectures import Network
    from laplacianshot.training import Checkpoint

EXTRACT_EXAMPLES = """\
Examples:

  laplacianshot extract runs/cub --data cub -o cub-features

  laplacianshot extract runs/cub --dataset cifarfs --data cifar -o far --dtype float16 --export far.npz

""" + (
    "The store is a folder that evaluate and tune read in place of a feature file. Stopped at any moment, the same "
    "command goes on where it was. A store made with other weights, another view or other pictures is refused, never "
    "reused."
)

# Names of the data sets. Written out, so that --help need not wait for what reads them.
LAYOUTS = "folder, csv-splits, mini, tiered, cub, inat, cub84, omniglot28, cifarfs"


class Dtype(StrEnum):
    """How a number is stored."""

    float32 = "float32"
    float16 = "float16"


class OnError(StrEnum):
    """What becomes of pictures that cannot be read."""

    stop = "raise"
    skip = "skip"


def extract(
    checkpoint: Annotated[
        Path, typer.Argument(metavar="CHECKPOINT", help="What train wrote: best.safetensors, or its folder.")
    ],
    data: Annotated[Path, typer.Option(metavar="DIR", help="Where the pictures are.")],
    output: Annotated[Path, typer.Option("--output", "-o", metavar="STORE", help="Folder of the feature store.")],
    dataset: Annotated[
        str | None, typer.Option(help=f"Layout of the pictures: {LAYOUTS}. Without: that of the training.")
    ] = None,
    dtype: Annotated[Dtype, typer.Option(help="Numbers of 4 or of 2 bytes.")] = Dtype.float32,
    on_error: Annotated[
        OnError, typer.Option(help="A picture that cannot be read stops the command, or is left out and listed.")
    ] = OnError.stop,
    overwrite: Annotated[
        bool, typer.Option("--overwrite", help="Replace a store that was made from something else.")
    ] = False,
    batch_size: Annotated[int, typer.Option(min=1, help="Pictures that the network takes at once.")] = 64,
    workers: Annotated[int, typer.Option(min=0, help="Threads that read pictures ahead.")] = 1,
    threads: options.ThreadsOption = None,
    device: Annotated[str, typer.Option(help="auto, cpu, cuda, cuda:1, mps.")] = "auto",
    export: Annotated[
        Path | None,
        typer.Option(help="Also write one file of it: .npz or .parquet.", rich_help_panel=options.OUTPUT),
    ] = None,
    as_json: options.JsonOption = False,
) -> int:
    """Turn every picture of a data set into a vector, with a network that train has made."""
    folder = check_report_folder(output, "--output")
    export_path = None if export is None else _checked_export(export)
    # Here, so that --help need not wait for torch.
    from laplacianshot.reports.extraction import ExtractionReport

    try:
        trained = _checkpoint(checkpoint)
        layout = trained.config.dataset if dataset is None else dataset
        skip: Literal["skip", "raise"] = "skip" if on_error == OnError.skip else "raise"
        pictures = _pictures(layout, data, skip)
        network = _on_device(trained, device, threads)

        from laplacianshot.embedding import extract as extract_pictures
        from laplacianshot.training.plan import eval_view

        with progress_bar() as bar:
            extraction = extract_pictures(
                network,
                pictures,
                folder,
                view=eval_view(trained.config),
                batch_size=batch_size,
                dtype=str(dtype),
                on_error=skip,
                workers=workers,
                overwrite=overwrite,
                progress=watcher(bar)("Pictures"),
            )
    except KeyboardInterrupt:
        return _interrupted(folder)
    except (ValueError, ModuleNotFoundError, FileNotFoundError) as error:
        raise CommandError(str(error)) from error
    except OSError as error:
        raise CommandError(f"--output {output}: {error.strerror}.", 1) from error
    result = ExtractionReport(extraction, pictures, trained.config.network, layout, export)
    outputs: list[Output] = []
    if export_path is not None:
        outputs.append(Output(export_path, lambda: extraction.store.export(export_path)))
    return deliver(result, outputs, as_json=as_json)


def _interrupted(folder: Path) -> int:
    """Say what is in the store; with nothing in it, an interrupt is like any other."""
    from laplacianshot.datasets.feature_store import Manifest, StoreError

    try:
        there = Manifest.read(folder)
    except StoreError:
        raise KeyboardInterrupt from None
    done = f"{there.items:,} of {there.total:,} pictures are done"
    print(f"interrupted: {done}; the same command goes on from there.", file=sys.stderr)
    return INTERRUPTED


def _checked_export(export: Path) -> Path:
    from laplacianshot.datasets.feature_store import EXPORT_FORMATS, check_export

    path = check_output(export, EXPORT_FORMATS, "--export")
    try:
        check_export(path)
    except ModuleNotFoundError as error:
        raise CommandError(f"--export {export}: {error}") from error
    return path


def _checkpoint(path: Path) -> Checkpoint:
    """The checkpoint, or the best one of a training run's folder."""
    from laplacianshot.training import Checkpoint
    from laplacianshot.training.checkpoint import BEST

    return Checkpoint.read(path / BEST if path.is_dir() else path)


def _pictures(dataset: str, data: Path, on_error: Literal["skip", "raise"]) -> Pictures:
    from laplacianshot.datasets.pictures import DATASETS, open_pictures

    try:
        options.known(DATASETS, "data set")(dataset)
    except ValueError as error:
        raise CommandError(f"--dataset {dataset}: {error}") from error
    # What only decoding would find is found on the way.
    return open_pictures(dataset, data, on_error=on_error, check="quick")


def _on_device(trained: Checkpoint, device: str, threads: int | None) -> Network:
    import torch

    from laplacianshot.runtime.threads import available_threads

    torch.set_num_threads(threads or available_threads())
    chosen = device if device != "auto" else "cuda" if torch.cuda.is_available() else "cpu"
    network = trained.network()
    try:
        return network.to(chosen)
    except (RuntimeError, AssertionError) as error:
        raise CommandError(f"--device {device}: {str(error).splitlines()[0]}") from error
