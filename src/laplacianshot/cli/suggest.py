"""``laplacianshot suggest``: which items to label first or next."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from laplacianshot.cli import options, terminal
from laplacianshot.cli.terminal import Output

SUGGEST_EXAMPLES = """\
Examples:
  laplacianshot suggest photos -n 20 -o first.csv
  laplacianshot suggest photos --labels first.csv -n 10 -o next.csv
Without labels the suggestions are typical of many other items and unlike one another. With labels they are the items \
that would tell most about the rest. The output has the columns id, label and suggestion (and text): fill in the blank \
labels, and pass the file to --labels. It also holds the labels that were given, so one file is enough.
"""


def suggest(
    *,
    source: options.SourceArgument,
    n: Annotated[int, typer.Option("-n", "--number", min=1, metavar="N", help="Number of items to suggest.")] = 20,
    reading: options.SourceOptions,
    knowledge: options.KnowledgeOptions,
    output: Annotated[
        Path | None,
        options.output_option("--output", "-o", metavar="OUT", help="File to fill in: .csv, .jsonl or .parquet."),
    ] = None,
    threads: options.ThreadsOption = None,
    as_json: options.JsonOption = False,
) -> int:
    """Suggest which items to label first, or next."""
    out = None if output is None else terminal.check_output(output, options.TABLE_ENDINGS)
    # Imported here, so that --help does not wait for numpy.
    from laplacianshot.labeling import label_source
    from laplacianshot.labeling.outputs import write_suggestions
    from laplacianshot.reports.label_summary import SuggestionSummary

    reading = options.with_folders(source, reading, knowledge)
    try:
        with terminal.progress_shown() as watch:
            result = label_source(source, **vars(reading), **vars(knowledge), suggest=n, threads=threads, watch=watch)
    except KeyboardInterrupt:
        return terminal.interrupted("finished work is kept; the same command continues from there.")
    outputs = [] if out is None else [Output(out, lambda: write_suggestions(result, out))]
    return terminal.deliver(SuggestionSummary(result), outputs, as_json=as_json, stages=result.stages)
