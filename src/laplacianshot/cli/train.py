"""``laplacianshot train``: a network from the base classes of a data set."""

from __future__ import annotations

import os
import shlex
import signal
import sys
from contextlib import nullcontext
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from laplacianshot.cli import options
from laplacianshot.cli.console import note, output_console, print_table
from laplacianshot.cli.errors import INTERRUPTED, CommandError
from laplacianshot.cli.extract import OnError
from laplacianshot.cli.output import Output, check_report_folder, deliver

if TYPE_CHECKING:
    from rich.progress import Progress

    from laplacianshot.datasets.pictures import Pictures
    from laplacianshot.training import EpochRecord, TrainConfig, TrainingInterrupted, TrainStatus

TRAIN_EXAMPLES = """\
Examples:

  laplacianshot train --list

  laplacianshot train cub-conv4 --data data -o runs/cub

  laplacianshot train cub-conv4 --data data -o runs/cub --resume

  laplacianshot train mini-resnet18 --set epochs=10 --set precision=bfloat16 --print-config

  torchrun --nproc-per-node 2 -m laplacianshot train mini-wrn --data mini -o runs/mini

Stopped or killed at any moment, a run continues with --resume and ends with the same network. OUT
receives best.safetensors and last.safetensors, config.toml with all settings, log.csv and curves.png.
"""

CURVES = "curves.png"


def train(
    context: typer.Context,
    config: Annotated[
        str | None, typer.Argument(metavar="CONFIG", help="A name from --list, or your own .toml file.")
    ] = None,
    data: Annotated[Path | None, typer.Option(metavar="DIR", help="Folder or file with the pictures.")] = None,
    output: Annotated[Path | None, typer.Option("--output", "-o", metavar="OUT", help="Output folder.")] = None,
    resume: Annotated[bool, typer.Option("--resume", help="Continue the run in OUT, if there is one.")] = False,
    sets: Annotated[
        list[str] | None,
        typer.Option("--set", metavar="NAME=VALUE", help="Override a value of the config; may be repeated."),
    ] = None,
    on_error: Annotated[
        OnError, typer.Option(help="What to do with a picture that cannot be read: stop, or skip and list it.")
    ] = OnError.stop,
    print_config: Annotated[
        bool, typer.Option("--print-config", help="Print the config with all defaults and exit.")
    ] = False,
    list_configs: Annotated[bool, typer.Option("--list", help="List all configs and exit.")] = False,
    as_json: options.JsonOption = False,
) -> int:
    """Train a network on the base classes of a data set."""
    if list_configs:
        _list(as_json)
        return 0
    if config is None:
        raise CommandError("give a CONFIG: a name from --list, or a .toml file.")
    # Here, so that --help need not wait.
    from laplacianshot.training import TrainError, load_config

    try:
        wanted = load_config(config, options.assignments(sets or []))
    except TrainError as error:
        raise CommandError(str(error)) from error
    if print_config:
        print(wanted.to_toml(), end="")
        return 0
    if data is None or output is None:
        raise CommandError("give --data DIR and -o OUT, or --print-config.")
    folder = check_report_folder(output, "--output")
    pictures = _pictures(wanted, data, on_error)
    return _run(wanted, pictures, folder, resume, as_json, options.command_line(context), data)


def _run(
    config: TrainConfig, pictures: Pictures, folder: Path, resume: bool, as_json: bool, command: str, data: Path
) -> int:
    from laplacianshot.episodes.evaluation import validation_score
    from laplacianshot.reports.figures import save_figure
    from laplacianshot.reports.training import TrainingReport, training_curves
    from laplacianshot.training import TrainError, TrainingInterrupted
    from laplacianshot.training import train as run

    # Of several processes that torchrun has started, the first one speaks.
    speaks = os.environ.get("RANK", "0") == "0"
    display = _Display() if speaks else None
    try:
        with display or nullcontext():
            result = run(config, pictures, folder, score=validation_score, resume=resume, progress=display)
    except TrainingInterrupted as stopped:
        return _interrupted(stopped, config, command) if speaks else INTERRUPTED
    except TrainError as error:
        hint = " Use --resume to continue it." if not resume and "holds a run already" in str(error) else ""
        raise CommandError(f"{error}{hint}") from error
    except OSError as error:
        raise CommandError(f"--output {folder}: {error.strerror or error}.", 1) from error
    except RuntimeError as error:
        # Such as a device that is not there, or memory that does not suffice.
        raise CommandError(f"torch: {str(error).splitlines()[0]}", 1) from error
    if not speaks:
        return 0
    curves = folder / CURVES
    skipped = tuple((fault.name, fault.reason) for fault in pictures.skipped)
    following = ["laplacianshot", "extract", str(folder), "--data", str(data), "-o", str(folder / "features")]
    report = TrainingReport(config, result, skipped, curves, shlex.join(following))
    best = None if result.best_validation is None else result.best_epoch
    drawn = Output(curves, lambda: save_figure(training_curves(result.history, best), curves))
    code = deliver(report, [drawn], as_json=as_json)
    if not as_json:
        print(f"Trained: {result.best}\n\nNext: {report.next_command}")
    return code


def _pictures(config: TrainConfig, data: Path, on_error: OnError) -> Pictures:
    from laplacianshot.datasets.pictures import DATASETS, CorruptPicture, open_pictures
    from laplacianshot.runtime.extras import require

    try:
        # A missing package is an error now, not after the pictures have been looked through.
        for module in ("torch", "safetensors", "PIL.Image"):
            require(module, "train")
        options.known(DATASETS, "data set")(config.dataset)
        pictures = open_pictures(config.dataset, data, on_error="skip" if on_error == OnError.skip else "raise")
    except (ValueError, FileNotFoundError, ModuleNotFoundError, CorruptPicture) as error:
        raise CommandError(str(error)) from error
    except OSError as error:
        raise CommandError(f"--data {data}: cannot be read ({error.strerror}).") from error
    for fault in pictures.skipped:
        note(f"left out: {fault}")
    return pictures


def _interrupted(stopped: TrainingInterrupted, config: TrainConfig, command: str) -> int:
    from laplacianshot.training import Checkpoint

    state = Checkpoint.read(stopped.checkpoint).state
    again = command if "--resume" in command.split() else f"{command} --resume"
    done = f"{state.epoch} of {config.epochs} epochs and {state.step} steps of the next"
    print(f"interrupted: {done} are in {stopped.checkpoint}; continue with: {again}", file=sys.stderr)
    return INTERRUPTED if stopped.signal == signal.SIGINT else 128 + stopped.signal


class _Display:
    """A line for each epoch, and below them a bar for the one at work."""

    def __init__(self) -> None:
        self._bar = _bar()
        self._line = self._bar.add_task("", total=None, numbers="")
        self._told = 0

    def __enter__(self) -> _Display:
        self._bar.start()
        return self

    def __exit__(self, *error: object) -> None:
        self._bar.stop()

    def __call__(self, status: TrainStatus) -> None:
        if status.latest is not None and status.latest.epoch != self._told:
            self._told = status.latest.epoch
            self._bar.console.print(_epoch_text(status.latest, status), highlight=False, markup=False, soft_wrap=True)
        what = "validation" if status.phase == "validate" else "training"
        self._bar.update(
            self._line,
            description=f"epoch {status.epoch}/{status.epochs} {what}",
            completed=status.step,
            total=status.steps,
            numbers=_numbers(status),
        )


def _bar() -> Progress:
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn

    console = Console(stderr=True)
    columns: Any = (
        TextColumn("{task.description}"),
        BarColumn(bar_width=None),
        MofNCompleteColumn(),
        TextColumn("{task.fields[numbers]}"),
    )
    return Progress(*columns, console=console, transient=True, disable=not console.is_terminal)


def _epoch_text(record: EpochRecord, status: TrainStatus) -> str:
    validation = ""
    if record.validation is not None:
        is_best = status.best is not None and status.best.epoch == record.epoch
        validation = f"  validation {100 * record.validation:.2f}%{' (best)' if is_best else ''}"
    return (
        f"epoch {record.epoch:>{len(str(status.epochs))}}/{status.epochs}  loss {record.loss:.3f}  "
        f"accuracy {100 * record.accuracy:.1f}%{validation}  rate {record.learning_rate:.2g}  "
        f"{record.images_per_second:,.0f} images/s  {record.seconds:,.1f} s"
    )


def _numbers(status: TrainStatus) -> str:
    parts = [] if status.loss != status.loss else [f"loss {status.loss:.3f}", f"acc {100 * status.accuracy:.1f}%"]
    if status.images_per_second:
        parts.append(f"{status.images_per_second:,.0f} images/s")
    if status.seconds_left == status.seconds_left:
        left = round(status.seconds_left)
        parts.append(f"{left // 3600}:{left // 60 % 60:02}:{left % 60:02} left")
    return "  ".join(parts)


def _list(as_json: bool) -> None:
    from laplacianshot.datasets.pictures import DATASETS
    from laplacianshot.reports.table import Table, row
    from laplacianshot.reports.text import json_text
    from laplacianshot.training import config_names, load_config

    found = {name: (about, load_config(name)) for name, about in config_names().items()}
    if as_json:
        entries = [
            {"config": name, "about": about, "dataset": c.dataset, "network": c.network, "epochs": c.epochs}
            for name, (about, c) in found.items()
        ]
        print(json_text({"configs": entries, "datasets": dict(DATASETS)}), end="")
        return
    console = output_console()
    rows = [row(name, about, c.dataset, str(c.epochs)) for name, (about, c) in found.items()]
    print_table(console, Table("Configs", ("Name", "What", "Data", "Epochs"), tuple(rows), words=(1, 2)))
    needed = tuple(row(name, DATASETS[name]) for name in DATASETS)
    print_table(console, Table("Data", ("Name", "What is expected in --data DIR"), needed, words=(1,)))
