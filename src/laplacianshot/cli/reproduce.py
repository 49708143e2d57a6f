"""``laplacianshot reproduce``: a published setting from its pictures to its tables, in one command."""

from __future__ import annotations

import json
import signal
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from laplacianshot.cli import options
from laplacianshot.cli.console import output_console, print_table, progress_bar, watcher
from laplacianshot.cli.errors import CommandError
from laplacianshot.cli.extract import OnError
from laplacianshot.cli.output import check_report_folder
from laplacianshot.reports.text import json_text

if TYPE_CHECKING:
    from rich.progress import Progress

    from laplacianshot.reproduce import Experiment, Outcome
    from laplacianshot.training import TrainStatus

REPRODUCE_EXAMPLES = """\
Examples:

  laplacianshot reproduce --list

  laplacianshot reproduce omniglot --data data -o runs/omniglot

  laplacianshot reproduce cub-conv4 --data data -o runs/cub --steps train,extract

  laplacianshot reproduce cub-conv4-to-cifarfs --data data -o runs/cub

Stopped or killed, the same command continues where it stopped. A step runs again only if its inputs have changed.
"""


def reproduce(
    context: typer.Context,
    setting: Annotated[
        str | None, typer.Argument(metavar="SETTING", help="A name from --list, or your own .toml file.")
    ] = None,
    data: Annotated[
        Path | None, typer.Option(help="Folder of the pictures; --list says what each setting needs.")
    ] = None,
    output: Annotated[Path | None, typer.Option("-o", "--output", help="Output folder, one per network.")] = None,
    target_data: Annotated[
        Path | None, typer.Option(help="Folder of the test pictures of a cross-domain setting (default: --data).")
    ] = None,
    tasks: Annotated[
        int | None, typer.Option(min=2, help="Number of test tasks per setting (default: 10,000).")
    ] = None,
    steps: Annotated[
        str | None, typer.Option(help="Run only these steps: train, extract, tune, evaluate, report.")
    ] = None,
    sets: Annotated[
        list[str] | None,
        typer.Option("--set", metavar="NAME=VALUE", help="Override a value of the training config; may be repeated."),
    ] = None,
    on_error: Annotated[
        OnError, typer.Option(help="What to do with a picture that cannot be read: stop, or skip and list it.")
    ] = OnError.stop,
    list_settings: Annotated[bool, typer.Option("--list", help="List all settings and exit.")] = False,
    as_json: options.JsonOption = False,
) -> int:
    """Train, extract, tune, evaluate and report a published setting."""
    if list_settings:
        _list(as_json)
        return 0
    if setting is None or data is None or output is None:
        raise CommandError("give a SETTING (see --list), --data DIR and -o OUT.")
    from laplacianshot.runtime.extras import require

    # Here, so that --help need not wait for torch.
    try:
        for module in ("torch", "safetensors", "PIL.Image"):
            require(module, "train")
        from laplacianshot.reproduce import reproduce as run
        from laplacianshot.reproduce.run import STEPS

        experiment = _experiment(setting, tasks, sets or [])
        wanted = STEPS if steps is None else tuple(options.listed(steps, "--steps", options.known(STEPS, "step")))
        folder = check_report_folder(output, "--output")
        with progress_bar() as bar:
            outcome = run(
                experiment,
                data,
                folder,
                _Display(bar),
                target_data=target_data,
                steps=wanted,
                on_error="skip" if on_error == OnError.skip else "raise",
                command=options.command_line(context),
            )
    except KeyboardInterrupt as stopped:
        again = options.command_line(context)
        print(f"interrupted: what was done is kept; the same command goes on from there: {again}", file=sys.stderr)
        # Training also stops in good order for SIGTERM.
        return 128 + getattr(stopped, "signal", signal.SIGINT)
    except (ModuleNotFoundError, ValueError) as error:
        raise CommandError(str(error)) from error
    except OSError as error:
        raise CommandError(_os_message(error)) from error
    except RuntimeError as error:
        # Such as a device that is not there, or memory that does not suffice.
        raise CommandError(f"torch: {str(error).splitlines()[0]}", 1) from error
    _print(outcome, as_json)
    return 0


def _experiment(setting: str, tasks: int | None, sets: list[str]) -> Experiment:
    from laplacianshot.reproduce import load_experiment

    return load_experiment(setting, options.assignments(sets)).with_tasks(tasks)


def _os_message(error: OSError) -> str:
    # Messages of our own come without a number.
    if error.errno is None:
        return str(error)
    where = f"{error.filename}: " if error.filename else ""
    return f"{where}{error.strerror}."


class _Display:
    """A bar on a terminal; in a log a line now and then."""

    _LINE_SECONDS = 30.0

    def __init__(self, bar: Progress) -> None:
        self._bar = bar
        self._watch = watcher(bar)
        self._count: Callable[[int, int], object] = lambda done, total: None
        self._training = ""
        self._epoch = 0
        self._told = time.monotonic()

    def note(self, text: str) -> None:
        """A line above the bar."""
        self._bar.console.print(text, highlight=False, markup=False, soft_wrap=True)

    def watch(self, what: str) -> Callable[[int, int], object]:
        """Counts one thing after the other."""
        count = self._watch(what)

        def progress(done: int, total: int) -> None:
            count(done, total)
            self._line(f"{what}: {done:,} of {total:,}")

        return progress

    def training(self, status: TrainStatus) -> None:
        """The epoch at work, with what is known of it."""
        best = "" if status.best is None else f", best validation {100 * status.best.validation:.2f}%"
        text = f"train: epoch {status.epoch} of {status.epochs}, loss {status.loss:.3f}{best}"
        if self._training != text:
            self._training, self._count = text, self._watch(text)
        self._count(status.step, status.steps)
        left = "" if status.seconds_left != status.seconds_left else f", {status.seconds_left / 60:.0f} min left"
        self._line(f"{text}, {status.images_per_second:,.0f} images/s{left}", status.epoch != self._epoch)
        self._epoch = status.epoch

    def _line(self, text: str, now: bool = False) -> None:
        """A line for a log that no bar can be drawn in."""
        if self._bar.disable and (now or time.monotonic() - self._told >= self._LINE_SECONDS):
            self._told = time.monotonic()
            print(text, file=sys.stderr, flush=True)


def _list(as_json: bool) -> None:
    from laplacianshot.datasets.pictures import DATASETS
    from laplacianshot.reports.table import Table, row
    from laplacianshot.reproduce import load_experiment, named_experiments

    found = [load_experiment(name) for name in named_experiments()]
    if as_json:
        entries = [
            {"setting": e.name, "title": e.title, "datasets": list(e.datasets), "network": e.config.network}
            | {"epochs": e.config.epochs, "published": e.published}
            for e in found
        ]
        needed = {name: DATASETS[name] for e in found for name in e.datasets}
        print(json_text({"settings": entries, "datasets": needed}), end="")
        return
    rows = [row(e.name, e.title, " and ".join(e.datasets), str(e.config.epochs)) for e in found]
    console = output_console()
    print_table(console, Table("Settings", ("Name", "What", "Data", "Epochs"), tuple(rows), words=(1, 2)))
    used = dict.fromkeys(name for e in found for name in e.datasets)
    print_table(
        console, Table("Data", ("Name", "What is expected"), tuple(row(n, DATASETS[n]) for n in used), words=(1,))
    )


def _print(outcome: Outcome, as_json: bool) -> None:
    from laplacianshot.reports.page import PAGE
    from laplacianshot.reports.reproduction import RESULTS, RUN, StepTime, accuracy_table, steps_table

    results = run = None
    if outcome.folder is not None:
        results, run = (json.loads((outcome.folder / name).read_text(encoding="utf-8")) for name in (RESULTS, RUN))
    steps = [StepTime(record.step, record.seconds, record.finished) for record in outcome.steps]
    if as_json:
        document = {"ran": list(outcome.ran), "steps": [vars(step) for step in steps], "results": results, "run": run}
        print(json_text(document), end="")
        return
    console = output_console()
    if results is not None:
        print_table(console, accuracy_table(results))
    print_table(console, steps_table(steps))
    if outcome.folder is not None:
        console.print(f"\nWritten: {outcome.folder / PAGE}", soft_wrap=True, highlight=False, markup=False)
