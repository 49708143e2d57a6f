"""``laplacianshot extract``: the vectors that a trained network gives to the pictures of a data set."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from laplacianshot.cli import options, terminal
from laplacianshot.cli.terminal import CommandError, Output

if TYPE_CHECKING:
    from laplacianshot.datasets.pictures import Pictures
    from laplacianshot.embedding.networks.architectures import Network
    from laplacianshot.training import Checkpoint

EXTRACT_EXAMPLES = """\
Examples:
  laplacianshot extract runs/cub --data cub -o cub-features
  laplacianshot extract runs/cub --dataset cifarfs --data cifar -o far --dtype float16 --export far.npz
The store is a folder that evaluate and tune read in place of a feature file. After an interruption, the same command \
continues where it stopped. A store of other weights, another view or other pictures is refused, never reused.
"""

# Names of the data sets. Written out, so that --help need not wait for what reads them.
LAYOUTS = "folder, csv-splits, mini, tiered, cub, inat, cub84, omniglot28, cifarfs"


def extract(
    checkpoint: Annotated[
        Path, typer.Argument(metavar="CHECKPOINT", help="Trained network: best.safetensors, or the folder of train.")
    ],
    data: Annotated[Path, typer.Option(metavar="DIR", help="Folder or file with the pictures.")],
    output: Annotated[Path, typer.Option("--output", "-o", metavar="STORE", help="Folder of the feature store.")],
    dataset: Annotated[
        str | None, typer.Option(help=f"Layout of the pictures: {LAYOUTS} (default: that of the training).")
    ] = None,
    dtype: Annotated[
        Literal["float32", "float16"], typer.Option(help="Type of the stored numbers: 4 or 2 bytes each.")
    ] = "float32",
    on_error: options.OnErrorOption = "raise",
    overwrite: Annotated[
        bool, typer.Option("--overwrite", help="Replace a store of other weights, another view or other pictures.")
    ] = False,
    batch_size: Annotated[int, typer.Option(min=1, help="Number of pictures per batch.")] = 64,
    workers: Annotated[int, typer.Option(min=0, help="Number of threads that read pictures ahead.")] = 1,
    threads: options.ThreadsOption = None,
    device: Annotated[str, typer.Option(help="Where the network runs: auto, cpu, cuda, cuda:1 or mps.")] = "auto",
    export: Annotated[
        Path | None, options.output_option(metavar="FILE", help="Also write the features to one .npz or .parquet file.")
    ] = None,
    as_json: options.JsonOption = False,
) -> int:
    """Compute the vector of each picture of a data set, with a trained network."""
    folder = terminal.check_report_folder(output, "--output")
    export_path = None if export is None else _checked_export(export)
    # Here, so that --help need not wait for torch.
    from laplacianshot.reports.training import ExtractionReport

    try:
        trained = _checkpoint(checkpoint)
        layout = trained.config.dataset if dataset is None else dataset
        pictures = _pictures(layout, data, on_error)
        network = _on_device(trained, device, threads)

        from laplacianshot.embedding.extraction import extract as extract_pictures
        from laplacianshot.training.plan import eval_view

        with terminal.progress_shown() as watch:
            extraction = extract_pictures(
                network,
                pictures,
                folder,
                view=eval_view(trained.config),
                batch_size=batch_size,
                dtype=dtype,
                on_error=on_error,
                workers=workers,
                overwrite=overwrite,
                progress=watch("Pictures"),
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
    return terminal.deliver(result, outputs, as_json=as_json)


def _interrupted(folder: Path) -> int:
    """Say what is in the store; an interrupt before its first pictures is like any other."""
    from laplacianshot.datasets.feature_store import Manifest, StoreError

    try:
        store = Manifest.read(folder)
    except StoreError:
        raise KeyboardInterrupt from None
    done = f"{store.items:,} of {store.total:,} pictures are done"
    return terminal.interrupted(f"{done}; the same command continues from there.")


def _checked_export(export: Path) -> Path:
    from laplacianshot.datasets.feature_store import EXPORT_FORMATS, check_export

    path = terminal.check_output(export, EXPORT_FORMATS, "--export")
    with terminal.input_errors(f"--export {export}: "):
        check_export(path)
    return path


def _checkpoint(path: Path) -> Checkpoint:
    """Read a checkpoint, or the best one in the folder of a training run."""
    from laplacianshot.training import Checkpoint
    from laplacianshot.training.checkpoint import BEST

    return Checkpoint.read(path / BEST if path.is_dir() else path)


def _pictures(dataset: str, data: Path, on_error: options.OnError) -> Pictures:
    from laplacianshot.datasets.pictures import DATASETS, open_pictures

    with terminal.input_errors(f"--dataset {dataset}: "):
        options.known(DATASETS, "data set")(dataset)
    # Pictures that cannot be decoded are found on the way.
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
