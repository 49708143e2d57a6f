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

from laplacianshot.cli import options, terminal
from laplacianshot.cli.terminal import CommandError
from laplacianshot.cli.train import TrainingDisplay, print_settings, require_training, torch_errors

if TYPE_CHECKING:
    from rich.progress import Progress

    from laplacianshot.reproduce import Outcome
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
    sets: options.SetOption = None,
    on_error: options.OnErrorOption = "raise",
    list_settings: Annotated[bool, typer.Option("--list", help="List all settings and exit.")] = False,
    as_json: options.JsonOption = False,
) -> int:
    """Train, extract, tune, evaluate and report a published setting."""
    if list_settings:
        _list(as_json)
        return 0
    if setting is None or data is None or output is None:
        raise CommandError("give a SETTING (see --list), --data DIR and -o OUT.")
    try:
        with terminal.input_errors(), torch_errors():
            require_training()
            # Here, so that --help need not wait for torch.
            from laplacianshot.reproduce import load_experiment
            from laplacianshot.reproduce import reproduce as run
            from laplacianshot.reproduce.run import STEPS

            experiment = load_experiment(setting, options.assignments(sets or [])).with_tasks(tasks)
            chosen = STEPS if steps is None else tuple(options.listed(steps, "--steps", options.known(STEPS, "step")))
            folder = terminal.check_report_folder(output, "--output")
            with terminal.progress_bar() as bar:
                outcome = run(
                    experiment,
                    data,
                    folder,
                    _Display(bar),
                    target_data=target_data,
                    steps=chosen,
                    on_error=on_error,
                    command=options.command_line(context),
                )
    except KeyboardInterrupt as stopped:
        terminal.interrupted(
            f"finished work is kept; the same command continues from there: {options.command_line(context)}"
        )
        # Training also stops in good order for SIGTERM.
        return terminal.Said(128 + getattr(stopped, "signal", signal.SIGINT))
    _print(outcome, as_json)
    return 0


class _Display:
    """A bar on a terminal; in a log a line now and then."""

    _LINE_SECONDS = 30.0

    def __init__(self, bar: Progress) -> None:
        self._bar, self._watch, self._training = bar, terminal.watcher(bar), TrainingDisplay(bar)
        self._printed = time.monotonic()

    def note(self, text: str) -> None:
        """Print a line above the bar."""
        terminal.print_line(self._bar.console, text)

    def watch(self, what: str) -> Callable[[int, int], object]:
        """Show the progress of one stage after the other."""
        self._training.end()
        count = self._watch(what)

        def progress(done: int, total: int) -> None:
            count(done, total)
            self._log(f"{what}: {done:,} of {total:,}")

        return progress

    def training(self, status: TrainStatus) -> None:
        """Show the status of the training."""
        self._training(status)
        left = "" if status.seconds_left != status.seconds_left else f", {status.seconds_left / 60:.0f} min left"
        self._log(f"train: epoch {status.epoch} of {status.epochs}, step {status.step} of {status.steps}{left}")

    def _log(self, text: str) -> None:
        """Print a line if there is no bar and the last one is long ago."""
        if self._bar.disable and time.monotonic() - self._printed >= self._LINE_SECONDS:
            self._printed = time.monotonic()
            print(text, file=sys.stderr, flush=True)


def _list(as_json: bool) -> None:
    from laplacianshot.datasets.pictures import DATASETS
    from laplacianshot.reproduce import load_experiment, named_experiments

    found = [load_experiment(name) for name in named_experiments()]
    used = list(dict.fromkeys(name for e in found for name in e.datasets))
    if as_json:
        entries = [
            {"setting": e.name, "title": e.title, "datasets": list(e.datasets), "network": e.config.network}
            | {"epochs": e.config.epochs, "published": e.published}
            for e in found
        ]
        terminal.print_json({"settings": entries, "datasets": {name: DATASETS[name] for name in used}})
        return
    print_settings("Settings", [(e.name, e.title, " and ".join(e.datasets), e.config.epochs) for e in found], used)


def _print(outcome: Outcome, as_json: bool) -> None:
    from laplacianshot.reports.page import PAGE
    from laplacianshot.reports.reproduction import RESULTS, RUN, StepTime, accuracy_table, steps_table

    results = run = None
    if outcome.folder is not None:
        results, run = (json.loads((outcome.folder / name).read_text(encoding="utf-8")) for name in (RESULTS, RUN))
    steps = [StepTime(record.step, record.seconds, record.finished) for record in outcome.steps]
    if as_json:
        document = {"ran": list(outcome.ran), "steps": [vars(step) for step in steps], "results": results, "run": run}
        terminal.print_json(document)
        return
    if results is not None:
        terminal.print_tables(accuracy_table(results))
    terminal.print_tables(steps_table(steps))
    if outcome.folder is not None:
        print(f"\nWritten: {outcome.folder / PAGE}")
