"""Large tasks: a whole set is unlabeled but for 1, 2, 5 or 10 rows per class. The page docs/results/whole-set.md.

Features of pictures and texts, pixels, small tables and generated families, with natural and long-tailed class sizes,
at most 100 classes and 20,000 rows per task (whole_set_tasks.py); LaplacianShot beside seven methods on the same draws
(whole_set_methods.py). Poisson learning is that of the package graphlearning where it is installed (it is not among
the extras: ``pip install graphlearning``), else one re-made from its paper.

    python benchmarks/whole_set.py --data data --output docs/results/whole-set

Each finished draw is kept in OUTPUT.json: a run that was stopped, by Ctrl-C or killed, goes on where it was, and more
draws are added to those that are there. ``--again METHOD`` measures a method that has changed again, on the same draws.
"""

from __future__ import annotations

import argparse
import json
import shlex
import sys
import time
import warnings
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from whole_set_methods import RBF, RBF_ROWS, TABLE_COLUMNS, TITLES, make_methods, poisson_version
from whole_set_page import Found, page, summary
from whole_set_tasks import LABELS, MAX_CLASSES, SIZES, SOURCES, Cell

from laplacianshot.episodes.whole_set import evaluate_whole_set
from laplacianshot.runtime.files import put_file


class Run:
    """Accuracies of every cell, method and draw, kept in a JSON file."""

    def __init__(self, path: Path, data: Path, settings: dict[str, Any]) -> None:
        self._path, self._data, self._settings = path, data, settings
        self._methods = make_methods(settings["poisson"])
        self._cells: dict[str, dict[str, Any]] = {}
        if path.exists():
            kept = json.loads(path.read_text())
            if kept["settings"] != settings:
                raise SystemExit(
                    f"{path} was made with {kept['settings']}, this run has {settings}; choose another --output, or "
                    "remove the file."
                )
            self._cells = kept["cells"]

    def forget(self, methods: Sequence[str], cells: Sequence[Cell]) -> None:
        """Remove what is known of some methods in some cells."""
        for kept in (self._cells[cell.key] for cell in cells if cell.key in self._cells):
            for name in methods:
                kept["accuracies"].pop(name, None)
                kept["seconds"].pop(name, None)
        self._keep()

    def measure(self, cell: Cell, draws: int, what: str) -> None:
        """Run every method on the draws of a cell that it has not seen."""
        for draw in range(draws):
            kept = self._cells.get(cell.key)
            waiting = TITLES if kept is None else [name for name in _run_in(kept) if _drawn(kept, name) <= draw]
            if not waiting:
                continue
            shown(f"{what}: draw {draw + 1} of {draws}")
            X, y = cell.task(self._data, draw=draw, seed=self._settings["seed"], max_rows=self._settings["max_rows"])
            if kept is None:
                kept = {"rows": len(y), "classes": len(np.unique(y)), "accuracies": {}, "seconds": {}}
                waiting = _run_in(kept)
            methods = {name: self._methods[name] for name in waiting}
            labels_seed = 1000 * self._settings["seed"] + draw
            for one in evaluate_whole_set(X, y, methods, per_class=cell.per_class, repeats=1, seed=labels_seed):
                kept["accuracies"].setdefault(one.method, []).append(round(one.mean, 6))
                kept["seconds"][one.method] = round(kept["seconds"].get(one.method, 0.0) + one.seconds, 3)
            self._cells[cell.key] = kept
            self._keep()
        shown("")

    def found(self, cell: Cell, draws: int) -> Found | None:
        """What the first draws of a cell gave; None unless every method has run on all of them."""
        kept = self._cells.get(cell.key)
        if kept is None or any(_drawn(kept, name) < draws for name in _run_in(kept)):
            return None
        accuracies = {name: kept["accuracies"][name][:draws] for name in _run_in(kept)}
        return Found(cell, kept["rows"], kept["classes"], accuracies)

    def _keep(self) -> None:
        text = json.dumps({"settings": self._settings, "cells": self._cells}, indent=1) + "\n"
        put_file(self._path, lambda file: file.write(text.encode()))


def _run_in(kept: dict[str, Any]) -> list[str]:
    """Methods that run in a cell."""
    return [name for name in TITLES if name != RBF or kept["rows"] <= RBF_ROWS]


def _drawn(kept: dict[str, Any], method: str) -> int:
    return len(kept["accuracies"].get(method, ()))


def shown(text: str) -> None:
    """Progress, where somebody is watching."""
    if sys.stderr.isatty():
        print(f"\r{text:<79}\r", end="", file=sys.stderr, flush=True)


def arguments() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        description=(__doc__ or "").splitlines()[0],
        epilog=f"Classes without more rows than labels are left out, and of more than {MAX_CLASSES} classes "
        f"(Omniglot, CUB) each draw takes {MAX_CLASSES} at random. LaplacianShot sees rows as they come; the others "
        "see centered L2-normalized rows, or standardized columns where there are at most "
        f"{TABLE_COLUMNS}. LabelSpreading rbf is left out above {RBF_ROWS:,} rows. A finished draw is kept: run the "
        "same command again to go on.",
    )
    parser.add_argument("--data", type=Path, required=True, help="the data folder (docs/results/data.md)")
    parser.add_argument(
        "--half",
        choices=("choose", "confirm", "all"),
        default="all",
        help="sets that the default recipe was chosen on, sets that confirm it, or all (default)",
    )
    parser.add_argument("--sets", nargs="+", choices=SOURCES, help="only these sets of the half")
    parser.add_argument("--draws", type=int, default=20, help="draws per cell (default: 20)")
    parser.add_argument(
        "--max-rows", type=int, default=20_000, help="maximum number of rows per task (default: 20,000)"
    )
    parser.add_argument("--seed", type=int, default=0, help="random seed for drawing tasks (default: 0)")
    parser.add_argument("--again", nargs="+", choices=TITLES, default=[], help="methods to measure again")
    parser.add_argument("--page-only", action="store_true", help="write the page from what OUTPUT.json holds")
    parser.add_argument("--output", type=Path, required=True, help="write OUTPUT.json and OUTPUT.md")
    return parser


def main() -> None:
    parser = arguments()
    options = parser.parse_args()
    if options.draws < 2:
        parser.error("--draws: an interval needs at least 2")
    names = [
        name
        for name, source in SOURCES.items()
        if options.half in ("all", source.half) and name in (options.sets or SOURCES)
    ]
    if not names:
        parser.error(f"--sets: the half {options.half} has none of these")
    cells = [Cell(name, sizes, per_class) for name in names for sizes in SIZES for per_class in LABELS]
    poisson = poisson_version()
    if poisson == "re-made":
        print("graphlearning is not installed: Poisson learning is re-made from its paper", flush=True)
    options.output.parent.mkdir(parents=True, exist_ok=True)
    settings = {"seed": options.seed, "max_rows": options.max_rows, "poisson": poisson}
    run = Run(Path(f"{options.output}.json"), options.data, settings)
    if options.again and not options.page_only:
        run.forget(options.again, cells)
    # Right for one label per class, and no reason to say so in each draw.
    warnings.filterwarnings("ignore", message="The number of unique classes is greater than 50%")
    try:
        for number, cell in enumerate([] if options.page_only else cells, start=1):
            start, what = time.perf_counter(), f"{number} of {len(cells)}"
            run.measure(cell, options.draws, f"{what}, {cell.key}")
            if found := run.found(cell, options.draws):
                print(f"{what}: {found.line}, {time.perf_counter() - start:.1f} s", flush=True)
    except KeyboardInterrupt:
        raise SystemExit("\nstopped; finished draws are kept: the same command goes on, without --again") from None
    finished = [found for cell in cells if (found := run.found(cell, options.draws))]
    if not finished:
        raise SystemExit(f"{options.output}.json holds no finished cell of these sets")
    print("\n".join(summary(finished)))
    text = page(finished, command(options), draws=options.draws, max_rows=options.max_rows, poisson=poisson)
    Path(f"{options.output}.md").write_text(text)


def command(options: argparse.Namespace) -> str:
    """The command that makes the page, with what differs from the defaults."""
    parts = ["python", "benchmarks/whole_set.py", "--data", "data"]
    for name, usual in (("half", "all"), ("draws", 20), ("max_rows", 20_000), ("seed", 0)):
        if getattr(options, name) != usual:
            parts += [f"--{name.replace('_', '-')}", str(getattr(options, name))]
    if options.sets:
        parts += ["--sets", *options.sets]
    return shlex.join([*parts, "--output", options.output.as_posix()])


if __name__ == "__main__":
    main()
