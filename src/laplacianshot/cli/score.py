"""``laplacianshot score``: an output against the truth."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from laplacianshot.cli import options, terminal
from laplacianshot.cli.terminal import CommandError, Output

SCORE_EXAMPLES = """\
Examples:
  laplacianshot score all.csv truth.csv
  laplacianshot score all.csv checked.csv --report page --picture confusion.png
  laplacianshot score all.csv --truth-column topic
TRUTH is a table with the columns id and label; it may be a sample of the items that somebody has checked. Given \
labels and rejected items are counted apart: only predicted labels are scored. \
The interval is Wilson's, for a random sample.
"""

# Endings of --picture: those of reports.figures, which loads more than --help should wait for.
_PICTURES = (".png", ".svg", ".pdf")


def score(
    *,
    context: typer.Context,
    output: Annotated[Path, typer.Argument(metavar="OUT", help="Labels to score: a file of label -o or predict -o.")],
    truth: Annotated[
        Path | None, typer.Argument(metavar="TRUTH", help="True labels: .csv, .tsv, .jsonl or .parquet.")
    ] = None,
    truth_column: Annotated[
        str | None,
        typer.Option(metavar="NAME", help="Column of the true labels in TRUTH (default: label), or in OUT itself."),
    ] = None,
    report: options.ReportOption = None,
    picture: Annotated[
        Path | None,
        options.output_option(metavar="FILE", help="Write the confusion matrix as a picture: .png, .svg or .pdf."),
    ] = None,
    as_json: options.JsonOption = False,
) -> int:
    """Compare labels with the truth: accuracy with its interval, classes, what is mixed up, and confidence."""
    if truth is None and truth_column is None:
        raise CommandError("TRUTH is missing: name a file of true labels, or a column of OUT with --truth-column.")
    folder = None if report is None else terminal.check_report_folder(report)
    drawn = None if picture is None else terminal.check_output(picture, _PICTURES, "--picture")
    # Imported here, so that --help does not wait for numpy.
    from laplacianshot.labeling.scoring import score as score_labels
    from laplacianshot.reports.page import PAGE
    from laplacianshot.reports.score import ScoreReport, write_confusion, write_score

    with terminal.warnings_as_notes():
        found = score_labels(output, truth, truth_column=truth_column)
    against = str(truth) if truth is not None else f"column {truth_column}"
    result = ScoreReport(found, str(output), against, options.command_line(context))
    outputs = []
    if drawn is not None:
        outputs.append(Output(drawn, lambda: write_confusion(found, drawn)))
    if folder is not None:
        outputs.append(Output(folder / PAGE, lambda: write_score(result, folder)))
    return terminal.deliver(result, outputs, as_json=as_json)
