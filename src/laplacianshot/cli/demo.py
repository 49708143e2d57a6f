"""``laplacianshot demo``: label bundled data and compare with other methods."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from laplacianshot.cli import terminal
from laplacianshot.cli.terminal import CommandError, Output

NEXT = """
Next, on your own data:

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
    from laplacianshot.cli.demo_run import demo_repeats, run_demo, smallest_class
    from laplacianshot.datasets import load_digits
    from laplacianshot.reports.figures import FORMATS

    digits = load_digits()
    smallest = smallest_class(digits)
    if labels_per_class >= smallest:
        raise CommandError(
            f"--labels-per-class {labels_per_class}: the smallest class has {smallest} digits, and one must be left to "
            f"label; give at most {smallest - 1}."
        )
    path = terminal.check_output(output, FORMATS)
    plan = demo_repeats(digits, repeats, labels_per_class)
    with terminal.progress_bar() as bar:
        task = bar.add_task("Getting ready", total=len(plan) + sum(plan.values()))
        result = run_demo(
            digits,
            repeats=repeats,
            labels_per_class=labels_per_class,
            seed=seed,
            picture=path,
            progress=lambda what: bar.update(task, advance=1, description=what),
        )
    return terminal.deliver(result, [Output(path, result.save_figure, hint=NEXT)], as_json=as_json)
