"""``laplacianshot demo``: label bundled data and compare with other methods."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from laplacianshot.cli.console import progress_bar
from laplacianshot.cli.errors import INTERRUPTED, CommandError
from laplacianshot.cli.output import check_output

if TYPE_CHECKING:
    from rich.console import Console

    from laplacianshot.datasets import Digits
    from laplacianshot.reports.demo import DemoResult

NEXT = """\
from laplacianshot import LaplacianShot

clf = LaplacianShot().fit(X, y)  # X: one vector per row; y: -1 is unlabeled
labels = clf.transduction_  # a label for every row
ranking = clf.label_distributions_.max(axis=1)  # low: look here first\
"""

DEMO_EXAMPLES = """\
Examples:

  laplacianshot demo

  laplacianshot demo --labels-per-class 3 --repeats 10 -o digits.svg
"""


def demo(
    repeats: Annotated[int, typer.Option(min=1, help="Number of repeats, each with other labeled digits.")] = 50,
    labels_per_class: Annotated[int, typer.Option(min=1, help="Labeled digits per class.")] = 1,
    seed: Annotated[int, typer.Option(min=0, help="Random seed for choosing the labeled digits.")] = 0,
    output: Annotated[Path, typer.Option("--output", "-o", help="File for the picture: .png, .svg or .pdf.")] = Path(
        "laplacianshot-demo.png"
    ),
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON document instead of the table.")] = False,
) -> int:
    """Label scikit-learn's digits from one example per class, and compare with other methods.

    Each repeat chooses the labeled digits at random, the same for every method. Nothing is downloaded.
    """
    # Imported here, so that --help and --version do not wait for scikit-learn.
    from rich.console import Console

    from laplacianshot.datasets import load_digits
    from laplacianshot.reports.demo import FORMATS, save_demo_figure

    digits = load_digits()
    if labels_per_class >= digits.smallest_class:
        raise CommandError(
            f"--labels-per-class {labels_per_class}: the smallest class has {digits.smallest_class} digits, and one "
            f"must be left to label; give at most {digits.smallest_class - 1}."
        )
    path = check_output(output, FORMATS)
    result = _run(digits, repeats, labels_per_class, seed)
    console = Console()
    failure = None
    if not result.interrupted:
        # Before the table: the reader of a pipe may close it after a line.
        try:
            save_demo_figure(result, digits, path)
        except OSError as error:
            failure = CommandError(f"--output {output}: could not write the picture ({error.strerror}).", 1)
    if not as_json:
        _print_table(console, result)
    if failure is not None:
        raise failure
    if as_json:
        picture = None if result.interrupted else str(path)
        print(json.dumps(result.to_dict() | {"picture": picture}, indent=2, allow_nan=False))
    elif not result.interrupted:
        _print_end(console, output)
    if result.interrupted:
        finished = 0 if result.comparison is None else len(result.comparison.repeats)
        print(f"interrupted: {finished} of {repeats} repeats finished; no picture was written.", file=sys.stderr)
        return INTERRUPTED
    return 0


def _run(digits: Digits, repeats: int, labels_per_class: int, seed: int) -> DemoResult:
    from laplacianshot.cli.demo_run import demo_steps, run_demo

    with progress_bar() as bar:
        task = bar.add_task("Getting ready", total=demo_steps(digits, repeats, labels_per_class))
        return run_demo(
            digits,
            repeats=repeats,
            labels_per_class=labels_per_class,
            seed=seed,
            progress=lambda what: bar.update(task, advance=1, description=what),
        )


def _print_table(console: Console, result: DemoResult) -> None:
    from rich import box
    from rich.table import Table

    from laplacianshot.reports.demo import DEFAULT
    from laplacianshot.reports.text import counted, percent

    if result.comparison is None:
        return
    finished = len(result.comparison.repeats)
    choices = counted(finished, "random choice")
    if finished < result.repeats:
        choices = f"Partial result, interrupted after {finished} of {result.repeats} random choices"
    console.print(
        f"\nscikit-learn's digits, {counted(result.labels_per_class, 'label')} a class: {result.n_unlabeled:,} digits "
        f"are left to label.\n{choices} of the labels, the same for every method.\n",
        highlight=False,
    )
    table = Table(box=box.SIMPLE_HEAD if console.is_terminal else None, pad_edge=False, padding=(0, 2, 0, 0))
    table.add_column("", justify="right")
    table.add_column("Method", no_wrap=True)
    table.add_column("Accuracy, %", justify="right", no_wrap=True)
    table.add_column("To the best, paired", justify="right", no_wrap=True)
    table.add_column("Seconds", justify="right", no_wrap=True)
    for standing in result.standings():
        table.add_row(
            str(standing.place),
            result.method(standing.name).title,
            percent(standing.accuracy),
            "best" if standing.behind_best is None else percent(standing.behind_best, sign=True),
            f"{standing.seconds:.3f}",
            style="bold" if standing.name == DEFAULT else None,
        )
    console.print(table)
    if not console.is_terminal:
        console.print()
    note = "± is a 95% interval; seconds: median of one fit, BLAS on one thread.\n"
    console.print(note, style="dim", highlight=False)
    settings = Table.grid(padding=(0, 2, 0, 0), pad_edge=False)
    settings.add_column(no_wrap=True)
    settings.add_column()
    for method in result.methods:
        settings.add_row(method.title, method.settings, style="bold" if method.name == DEFAULT else None)
    console.print(settings, highlight=False)
    console.print()
    console.print(result.verdict(), highlight=False)


def _print_end(console: Console, output: Path) -> None:
    from rich.text import Text

    console.print(Text.assemble("\nPicture: ", (str(output), "bold")), soft_wrap=True, highlight=False)
    console.print("\nNext, on your own data:\n", highlight=False)
    for line in NEXT.splitlines():
        console.print(Text(f"    {line}".rstrip()), soft_wrap=True, highlight=False)
