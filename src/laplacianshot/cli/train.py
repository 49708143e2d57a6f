"""``laplacianshot train``: a network from the base classes of a data set."""

from __future__ import annotations

import os
import shlex
import signal
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager, nullcontext
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from laplacianshot.cli import options, terminal
from laplacianshot.cli.terminal import CommandError, Output

if TYPE_CHECKING:
    from rich.progress import Progress, TaskID

    from laplacianshot.datasets.pictures import Pictures
    from laplacianshot.training import TrainConfig, TrainingInterrupted, TrainStatus

TRAIN_EXAMPLES = """\
Examples:
  laplacianshot train --list
  laplacianshot train cub-conv4 --data data -o runs/cub
  laplacianshot train cub-conv4 --data data -o runs/cub --resume
  laplacianshot train mini-resnet18 --set epochs=10 --set precision=bfloat16 --print-config
  torchrun --nproc-per-node 2 -m laplacianshot train mini-wrn --data mini -o runs/mini
Stopped or killed at any moment, a run continues with --resume and ends with the same network. OUT \
receives best.safetensors and last.safetensors, config.toml with all settings, log.csv and curves.png.
"""

_CURVES = "curves.png"


def train(
    context: typer.Context,
    config: Annotated[
        str | None, typer.Argument(metavar="CONFIG", help="A name from --list, or your own .toml file.")
    ] = None,
    data: Annotated[Path | None, typer.Option(metavar="DIR", help="Folder or file with the pictures.")] = None,
    output: Annotated[Path | None, typer.Option("--output", "-o", metavar="OUT", help="Output folder.")] = None,
    resume: Annotated[bool, typer.Option("--resume", help="Continue the run in OUT, if there is one.")] = False,
    sets: options.SetOption = None,
    on_error: options.OnErrorOption = "raise",
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
    from laplacianshot.training import TrainError, TrainingInterrupted, load_config

    with terminal.input_errors():
        chosen = load_config(config, options.assignments(sets or []))
    if print_config:
        print(chosen.to_toml(), end="")
        return 0
    if data is None or output is None:
        raise CommandError("give --data DIR and -o OUT, or --print-config.")
    folder = terminal.check_report_folder(output, "--output")
    pictures = _pictures(chosen, data, on_error)
    from laplacianshot.episodes.evaluation import validation_score
    from laplacianshot.reports.figures import save_figure
    from laplacianshot.reports.training import TrainingReport, training_curves
    from laplacianshot.training import train as run

    # Of several processes that torchrun has started, only the first one prints.
    prints = os.environ.get("RANK", "0") == "0"
    try:
        with torch_errors(), terminal.progress_bar() if prints else nullcontext() as bar:
            display = None if bar is None else TrainingDisplay(bar)
            result = run(chosen, pictures, folder, score=validation_score, resume=resume, progress=display)
    except TrainingInterrupted as stopped:
        if not prints:
            return terminal.Said(terminal.INTERRUPTED)
        return _interrupted(stopped, chosen, options.command_line(context))
    except TrainError as error:
        hint = " Use --resume to continue it." if not resume and "holds a run already" in str(error) else ""
        raise CommandError(f"{error}{hint}") from error
    except OSError as error:
        raise CommandError(f"--output {folder}: {error.strerror or error}.", terminal.FAILED) from error
    if not prints:
        return 0
    curves = folder / _CURVES
    skipped = tuple((fault.name, fault.reason) for fault in pictures.skipped)
    following = ["laplacianshot", "extract", str(folder), "--data", str(data), "-o", str(folder / "features")]
    report = TrainingReport(chosen, result, skipped, curves, shlex.join(following))
    best = None if result.best_validation is None else result.best_epoch
    drawn = Output(curves, lambda: save_figure(training_curves(result.history, best), curves))
    code = terminal.deliver(report, [drawn], as_json=as_json)
    if not as_json:
        print(f"Trained: {result.best}\n\nNext: {report.next_command}")
    return code


def require_training() -> None:
    """Raise if a package that training needs is missing, before any work."""
    from laplacianshot.runtime.extras import require

    for module in ("torch", "safetensors", "PIL.Image"):
        require(module, "train")


@contextmanager
def torch_errors() -> Iterator[None]:
    """Report errors of torch in one line, such as a device that does not exist or too little memory."""
    try:
        yield
    except RuntimeError as error:
        raise CommandError(f"torch: {str(error).splitlines()[0]}", terminal.FAILED) from error


def _pictures(config: TrainConfig, data: Path, on_error: options.OnError) -> Pictures:
    from laplacianshot.datasets.pictures import DATASETS, open_pictures

    with terminal.input_errors():
        require_training()
        options.known(DATASETS, "data set")(config.dataset)
        pictures = open_pictures(config.dataset, data, on_error=on_error)
    for fault in pictures.skipped:
        terminal.note(f"left out: {fault}")
    return pictures


def _interrupted(stopped: TrainingInterrupted, config: TrainConfig, command: str) -> int:
    from laplacianshot.training import Checkpoint

    state = Checkpoint.read(stopped.checkpoint).state
    again = command if "--resume" in command.split() else f"{command} --resume"
    done = f"{state.epoch} of {config.epochs} epochs and {state.step} steps of the next"
    said = terminal.interrupted(f"{done} are in {stopped.checkpoint}; continue with: {again}")
    return said if stopped.signal == signal.SIGINT else 128 + stopped.signal


class TrainingDisplay:
    """The whole training on a bar, with the numbers of the current epoch, and a line for each finished epoch."""

    def __init__(self, bar: Progress) -> None:
        self._bar = bar
        self._line: TaskID | None = None
        self._printed = 0

    def __call__(self, status: TrainStatus) -> None:
        """Show the status."""
        if self._line is None:
            self._line = self._bar.add_task("", total=None)
        if status.latest is not None and status.latest.epoch != self._printed:
            self._printed = status.latest.epoch
            terminal.print_line(self._bar.console, _epoch_text(status))
        if status.phase == "train":
            done, total = (status.epoch - 1) * status.steps + status.step, status.epochs * status.steps
            self._bar.update(self._line, completed=done, total=total)
        self._bar.update(self._line, description=_status_text(status))

    def end(self) -> None:
        """Remove the bar."""
        if self._line is not None:
            self._bar.remove_task(self._line)
            self._line = None


def _epoch_text(status: TrainStatus) -> str:
    """Describe the epoch that was finished last."""
    record = status.latest
    assert record is not None
    validation = ""
    if record.validation is not None:
        is_best = status.best is not None and status.best.epoch == record.epoch
        validation = f"  validation {100 * record.validation:.2f}%{' (best)' if is_best else ''}"
    return (
        f"epoch {record.epoch:>{len(str(status.epochs))}}/{status.epochs}  loss {record.loss:.3f}  "
        f"accuracy {100 * record.accuracy:.1f}%{validation}  rate {record.learning_rate:.2g}  "
        f"{record.images_per_second:,.0f} images/s  {record.seconds:,.1f} s"
    )


def _status_text(status: TrainStatus) -> str:
    """Describe the current epoch."""
    what = "validation" if status.phase == "validate" else "training"
    # NaN before the first step.
    numbers = "" if status.loss != status.loss else f"  loss {status.loss:.3f}  acc {100 * status.accuracy:.1f}%"
    speed = f"  {status.images_per_second:,.0f} images/s" if status.images_per_second else ""
    return f"epoch {status.epoch}/{status.epochs} {what}{numbers}{speed}"


def print_settings(title: str, settings: Sequence[tuple[str, str, str, int]], datasets: Iterable[str]) -> None:
    """Print names, descriptions, data sets and epochs, and what is expected in the folders of the data sets."""
    from laplacianshot.datasets.pictures import DATASETS
    from laplacianshot.reports.table import Table, row

    rows = tuple(row(name, what, data, str(epochs)) for name, what, data, epochs in settings)
    needed = tuple(row(name, DATASETS[name]) for name in datasets)
    terminal.print_tables(
        Table(title, ("Name", "What", "Data", "Epochs"), rows, words=(1, 2)),
        Table("Data", ("Name", "What is expected in --data DIR"), needed, words=(1,)),
    )


def _list(as_json: bool) -> None:
    from laplacianshot.datasets.pictures import DATASETS
    from laplacianshot.training import config_names, load_config

    found = {name: (about, load_config(name)) for name, about in config_names().items()}
    if as_json:
        entries = [
            {"config": name, "about": about, "dataset": c.dataset, "network": c.network, "epochs": c.epochs}
            for name, (about, c) in found.items()
        ]
        terminal.print_json({"configs": entries, "datasets": dict(DATASETS)})
        return
    print_settings("Configs", [(name, about, c.dataset, c.epochs) for name, (about, c) in found.items()], DATASETS)
