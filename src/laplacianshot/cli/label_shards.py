"""``laplacianshot label`` on vectors in shards: labels go to a folder, not through this machine's memory."""

from __future__ import annotations

import re
import sys
from collections.abc import Mapping
from pathlib import Path

from laplacianshot.cli import INTERRUPTED
from laplacianshot.cli.console import progress_bar, warnings_as_notes, watcher
from laplacianshot.cli.errors import CommandError


def shards_named(source: Path) -> str | None:
    """The path or URL of SOURCE if it names shards."""
    # A path has one of the two slashes of a URL.
    name = re.sub(r"^([a-z0-9]+):/+", r"\1://", str(source))
    from laplacianshot.ray.label_shards import is_sharded

    return name if is_sharded(name) else None


def label_shards_into(
    source: str,
    labels: Path | None,
    output: Path | None,
    *,
    refused: Mapping[str, object],
    balanced: bool,
    graph: str,
    address: str | None,
    run_folder: str | None,
    shards: int | None,
    as_json: bool,
) -> int:
    """Label the rows of shards; options that need all of them in memory are refused."""
    from laplacianshot.labeling.errors import LabelingError
    from laplacianshot.ray.label_shards import label_shards
    from laplacianshot.reports.files import json_text

    for name, value in refused.items():
        if value:
            raise CommandError(f"{name} is not there for shards ({source}); give one file of vectors, or leave it out.")
    if labels is None or output is None:
        raise CommandError("shards need --labels FILE with row numbers as ids, and -o FOLDER for labels in shards.")
    out = re.sub(r"^([a-z0-9]+):/+", r"\1://", str(output))
    try:
        with progress_bar() as bar, warnings_as_notes():
            fit = label_shards(
                source,
                labels,
                out,
                balanced=balanced,
                graph=graph,
                address=address,
                run_folder=run_folder,
                shards=shards,
                watch=watcher(bar),
            )
    except KeyboardInterrupt:
        print("interrupted: finished stages are kept; the same command goes on from there.", file=sys.stderr)
        return INTERRUPTED
    except (LabelingError, ModuleNotFoundError) as error:
        raise CommandError(str(error)) from error
    if as_json:
        facts = {
            "rows": fit.job.n,
            "classes": fit.job.n_classes,
            "shards": len(fit.job.shards),
            "rounds": len(fit.objective),
            "converged": fit.converged,
            "graph": {"method": fit.graph.method, "recall": fit.graph.recall},
            "seconds": dict(fit.seconds),
            "output": out,
        }
        print(json_text(facts), end="")
    else:
        print(f"{fit.job.n:,} rows in {len(fit.job.shards)} shards labeled; graph {fit.graph.method}, ", end="")
        print(f"recall {fit.graph.recall:.3f}; {len(fit.objective)} rounds.\nWritten: {out}")
    return 0
