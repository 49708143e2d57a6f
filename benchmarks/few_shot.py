"""Every method on the same tasks of four real feature sets: the tables of docs/results/few-shot.md.

CUB (novel classes), CIFAR-FS (test classes) and BANKING77 (classes split at random) with features of pretrained
networks, and Omniglot (evaluation alphabets) as raw pixels; 5 and 20 classes a task, 1 and 5 labels per class, queries
balanced and Dirichlet(2); 10,000 tasks a cell, 1,000 for methods marked slow. CL2 about the mean of the base classes.
Lambda and k of *paper* and *reference* are tuned on validation classes, for each set and number of labels.

Each finished cell is kept in OUTPUT.json: a run that was stopped goes on where it was. ``--again METHOD`` measures a
method that has changed again in the cells that are kept, on their tasks.

    python benchmarks/few_shot.py --data data --output docs/results/few-shot

With ``--part present`` all classes of a task have labels and only some occur among the queries (few_shot_present.py):

    python benchmarks/few_shot.py --part present --data data --output docs/results/few-shot-present
"""

from __future__ import annotations

import argparse
import json
import shlex
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import few_shot_present
import numpy as np

from laplacianshot import FeatureSet, LaplacianShot, evaluate, tune
from laplacianshot.baselines import AlphaTIM
from laplacianshot.episodes.methods import METHODS, make_method

OURS, NEAREST = "laplacianshot", "simpleshot-cl2"
COMPARED = (
    "laplacianshot",
    "laplacianshot-balanced",
    "laplacianshot-reference",
    "laplacianshot-paper",
    "simpleshot-un",
    "simpleshot-l2",
    "simpleshot-cl2",
    "bd-cspn",
    "can-t",
    "matching-net",
    "ridge",
    "logistic",
    "entropy-tuning",
    "label-propagation",
    "label-spreading",
    "tim",
    "alpha-tim",
    "pt-map",
    "ilpc",
    "bavardage",
)
# Knowing, or assuming, that all classes are equally frequent: on balanced tasks they know what the others do not.
KNOW_BALANCE = (
    "laplacianshot-balanced",
    "tim",
    "pt-map",
    "ilpc",
    "bd-cspn",
    "laplacianshot-reference",
    "laplacianshot-paper",
)
# A tenth of a 20-way cell's time each, and no nearer to an answer with ten times the tasks.
SLOW_AT_20 = ("laplacianshot-paper", "pt-map", "label-propagation", "entropy-tuning")
CELLS = tuple((protocol, way, shot) for protocol in ("balanced", "dirichlet") for way in (5, 20) for shot in (1, 5))


def load(name: str, data: Path) -> tuple[FeatureSet, str, int]:
    """A set with splits base and val, the split that tasks come from, and queries per class."""
    if name == "CUB":
        return FeatureSet.load(data / "cub" / "cub_efficientnet_lite0.npz"), "novel", 15
    if name == "CIFAR-FS":
        return FeatureSet.load(data / "cifar_fs" / "cifarfs_efficientnet_lite0_128px.npz"), "test", 15
    if name == "BANKING77":
        intents = FeatureSet.load(data / "banking77" / "minilm_int8.npz")
        return intents.split_by_class({"base": 0.4, "val": 0.2, "novel": 0.4}, seed=0), "novel", 15
    with np.load(data / "omniglot" / "omniglot28.npz", allow_pickle=False) as arrays:
        pixels = arrays["images"].reshape(len(arrays["labels"]), -1).astype(np.float32) / 255
        labels, novel = arrays["labels"], arrays["evaluation"]
    # One background character in five is for validation.
    split = np.where(novel, "novel", np.where(labels % 5 == 0, "val", "base"))
    # 20 drawings a character: with 15 queries and 5 labels nothing would be left to be imbalanced.
    return FeatureSet(pixels, labels, split), "novel", 10


SETS = {
    "CUB": "EfficientNet-Lite0, 50 novel classes",
    "CIFAR-FS": "EfficientNet-Lite0, 20 test classes",
    "BANKING77": "MiniLM, 31 novel intents",
    "Omniglot": "28 x 28 pixels, 659 novel characters",
}


def tuned(feature_set: FeatureSet, shot: int, query: int) -> dict[str, dict[str, Any]]:
    """Lambda and k of *paper* and *reference* on validation and base classes, 5-way."""
    chosen = {}
    for recipe in ("reference", "paper"):
        found = tune(feature_set, f"laplacianshot-{recipe}", shot=shot, query=query)
        chosen[recipe] = {"lam": found.lam, "n_neighbors": found.n_neighbors}
    return chosen


def run_cell(
    name: str, feature_set: FeatureSet, split: str, query: int, cell: tuple[str, int, int], settings: Any, tasks: int,
    slow_tasks: int, compared: Sequence[str] = COMPARED,
) -> dict[str, Any]:  # fmt: skip
    """All methods, or those ``compared``, on the tasks of one cell."""
    protocol, way, shot = cell
    fast: dict[str, Any] = {}
    slow: dict[str, Any] = {}
    for method in compared:
        recipe = method.removeprefix("laplacianshot-")
        made = getattr(LaplacianShot, recipe)(**settings[recipe]) if recipe in settings else make_method(method)
        if method == "alpha-tim":
            # The space and the alphas of its paper.
            made = AlphaTIM(space="l2", alpha=2.0 if shot == 1 else 7.0)
        is_slow = METHODS[method].slow or (way >= 20 and method in SLOW_AT_20)
        (slow if is_slow else fast)[method] = made
    task: dict[str, Any] = {"way": way, "shot": shot, "query": query, "protocol": protocol, "split": split}
    start, progress = time.perf_counter(), shown_progress(f"{name} {cell}")
    many = evaluate(feature_set, fast, tasks=tasks, progress=progress, **task)
    few = evaluate(feature_set, slow, tasks=min(tasks, slow_tasks), progress=progress, **task) if slow else ()
    rows = {}
    # The first tasks of a longer run are those of a shorter one: differences are paired on them.
    ours, nearest = many[OURS].accuracies, many[NEAREST].accuracies
    for evaluation in (*many, *few):
        n = evaluation.n_tasks
        gap, gain = evaluation.accuracies - ours[:n], evaluation.accuracies - nearest[:n]
        rows[evaluation.method] = {
            "mean": evaluation.mean,
            "ci95": evaluation.ci95,
            "tasks": n,
            "to_ours": interval(gap),
            "to_nearest": interval(gain),
        }
    return {"seconds": time.perf_counter() - start, "settings": settings, "methods": rows}


def measured_again(cell: dict[str, Any], found: dict[str, Any], methods: Sequence[str]) -> dict[str, Any]:
    """A kept cell with the rows of some methods from a later run on the same tasks."""
    # Less than a hundredth of a point is rounding.
    if any(abs(cell["methods"][name]["mean"] - found["methods"][name]["mean"]) > 1e-4 for name in (OURS, NEAREST)):
        raise SystemExit("the default recipe or the nearest prototype has changed: run all methods.")
    settings = {
        recipe: (found if f"laplacianshot-{recipe}" in methods else cell)["settings"][recipe]
        for recipe in cell["settings"]
    }
    rows = {name: (found if name in methods else cell)["methods"][name] for name in cell["methods"]}
    return {**cell, "settings": settings, "methods": rows}


def shown_progress(what: str) -> Callable[[int, int], None]:
    """Prints the share of tasks that are done, where somebody is watching."""

    def progress(done: int, total: int) -> None:
        if sys.stderr.isatty():
            print(f"\r{what}: {100 * done / total:.0f}%   ", end="", file=sys.stderr, flush=True)

    return progress


def interval(differences: Any) -> tuple[float, float]:
    return float(differences.mean()), float(1.96 * differences.std(ddof=1) / np.sqrt(len(differences)))


def cell_key(name: str, cell: tuple[str, int, int]) -> str:
    protocol, way, shot = cell
    return f"{name}/{protocol}/{way}-way/{shot}-shot"


def column(way: int, shot: int) -> str:
    return f"{way}w {shot}s"


def shown(pair: Any, sign: bool = False) -> str:
    mean, half = 100 * pair[0], 100 * pair[1]
    return f"{mean:+.2f} ± {half:.2f}" if sign else f"{mean:.2f} ± {half:.2f}"


def write_page(results: dict[str, Any], path: Path, command: str, tasks: int, slow_tasks: int) -> None:
    """The results page: all tables, and what they say of the default recipe."""
    cells = results["cells"]
    lines = [
        "# Every method on the same tasks",
        "",
        "Made by one command, which also says how the sets are split (`python benchmarks/few_shot.py --help`):",
        "",
        "```console",
        f"$ {command}",
        "```",
        "",
        f"Accuracy in %, mean and 95% interval over {tasks:,} tasks ({slow_tasks:,} for those marked †: slow ones).",
        "All methods of a column saw the same tasks, those marked † the first of them. The default recipe chose its",
        "transform: *power* for CUB and CIFAR-FS, whose features are not negative, else CL2. PT-MAP and iLPC have",
        "their power transform, alpha-TIM (alpha 2 at one shot, 7 at five) and SimpleShot L2N L2, SimpleShot UN none;",
        "all others worked on the same CL2 rows, about the mean of the base classes. w: classes per task, s: labels",
        "per class; 15 queries per class (Omniglot 10), or as many in all with class shares from Dirichlet(2). *paper*",
        "and *reference* have lambda and k tuned on validation and base classes; the default recipe has nothing to",
        "tune. What each method is: [methods](../guide/methods.md).",
        "",
    ]
    lines += verdict(cells)
    for name, what in SETS.items():
        lines += ["", f"## {name}", "", f"{what}."]
        settings = {
            f"{shot}-shot": cells[cell_key(name, ("balanced", 5, shot))]["settings"]
            for shot in (1, 5)
            if cell_key(name, ("balanced", 5, shot)) in cells
        }
        tuned_text = "; ".join(
            f"{shots} {recipe} {values['lam']:g}, {values['n_neighbors']}"
            for shots, by_recipe in settings.items()
            for recipe, values in by_recipe.items()
        )
        lines += [f"Lambda and k found on validation and base classes: {tuned_text}."]
        for protocol in ("balanced", "dirichlet"):
            present = [c for c in CELLS if c[0] == protocol and cell_key(name, c) in cells]
            if not present:
                continue
            title = "Balanced queries" if protocol == "balanced" else "Dirichlet(2) queries"
            lines += ["", f"### {name}: {title}", ""]
            lines += ["| | " + " | ".join(column(way, shot) for _, way, shot in present) + " |"]
            lines += ["|---|" + "---|" * len(present)]
            best = {c: max(row["mean"] for row in cells[cell_key(name, c)]["methods"].values()) for c in present}
            for method in COMPARED:
                texts = []
                for c in present:
                    row = cells[cell_key(name, c)]["methods"][method]
                    text = shown((row["mean"], row["ci95"]))
                    text = f"**{text}**" if row["mean"] == best[c] else text
                    texts.append(text + ("" if row["tasks"] >= tasks else " †"))
                title = METHODS[method].title
                lines.append(f"| {f'**{title}**' if method == OURS else title} | " + " | ".join(texts) + " |")
    path.write_text("\n".join(lines) + "\n")


def verdict(cells: dict[str, Any]) -> list[str]:
    """The default recipe against the nearest prototype in every cell, and where another method wins."""
    lines = [
        "## The default recipe against nearest prototype",
        "",
        "Paired difference in points. No cell may be worse by more than its interval.",
        "",
        "| | " + " | ".join(f"{column(way, shot)} {protocol[:3]}." for protocol, way, shot in CELLS) + " |",
        "|---|" + "---|" * len(CELLS),
    ]
    worse = []
    for name in SETS:
        texts = []
        for c in CELLS:
            row = cells.get(cell_key(name, c))
            if row is None:
                texts.append("")
                continue
            mean, half = row["methods"][OURS]["to_nearest"]
            texts.append(f"{100 * mean:+.2f} ± {100 * half:.2f}")
            if mean < -half:
                worse.append(cell_key(name, c))
        lines.append(f"| {name} | " + " | ".join(texts) + " |")
    lines += ["", f"Cells worse by more than the interval: {', '.join(worse) if worse else 'none'}.", ""]
    lines += [
        "## Where another method wins",
        "",
        "Every method with a higher mean than the default recipe, and its paired lead in points; `=`: zero is within",
        "the interval. *Knows* marks methods that know, or assume, that classes are equally frequent.",
        "",
        "| set | tasks | methods ahead of the default recipe |",
        "|---|---|---|",
    ]
    for name in SETS:
        for c in CELLS:
            cell = cells.get(cell_key(name, c))
            if cell is None:
                continue
            ahead = sorted(
                (
                    (row["to_ours"], method)
                    for method, row in cell["methods"].items()
                    if row["to_ours"][0] > 0 and method != OURS
                ),
                reverse=True,
            )
            texts = [
                f"{METHODS[method].title}{' (knows)' if method in KNOW_BALANCE else ''} {shown(gap, sign=True)}"
                f"{' =' if gap[0] <= gap[1] else ''}"
                for gap, method in ahead
            ]
            protocol, way, shot = c
            lines.append(f"| {name} | {column(way, shot)} {protocol} | {'; '.join(texts) or 'none'} |")
    return lines


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--part", choices=("all-methods", "present"), default="all-methods")
    parser.add_argument("--data", type=Path, required=True, help="folder with cub, cifar_fs, banking77 and so on")
    parser.add_argument("--tasks", type=int, help="per cell (default: 10,000; part present: 500)")
    parser.add_argument(
        "--slow-tasks",
        type=int,
        help="for slow methods (default: 1,000); part present: for 1,000 queries (default: 50)",
    )
    parser.add_argument("--sets", nargs="+", choices=list(dict.fromkeys([*SETS, *few_shot_present.SOURCES])))
    parser.add_argument("--output", type=Path, required=True, help="write OUTPUT.json and OUTPUT.md")
    parser.add_argument("--again", nargs="+", choices=COMPARED, default=[], help="methods to measure again")
    parser.add_argument("--page-only", action="store_true", help="write the page from what OUTPUT.json holds")
    options = parser.parse_args()
    present = options.part == "present"
    known = list(few_shot_present.SOURCES if present else SETS)
    unknown = [name for name in options.sets or () if name not in known]
    if unknown:
        parser.error(f"--sets: part {options.part} has no {', '.join(unknown)}; it has {', '.join(known)}")
    if present and options.again:
        parser.error("--again is for part all-methods")
    sets = options.sets or known
    tasks = options.tasks or (500 if present else 10_000)
    slow_tasks = options.slow_tasks or (50 if present else 1000)
    options.output.parent.mkdir(parents=True, exist_ok=True)
    kept = Path(f"{options.output}.json")
    results: dict[str, Any] = {"cells": {}, "tasks": tasks, "slow_tasks": slow_tasks}
    if kept.exists():
        earlier = json.loads(kept.read_text())
        if (earlier["tasks"], earlier["slow_tasks"]) == (tasks, slow_tasks):
            results = earlier
    if present:
        run_present(options, sets, results, kept)
        return
    for name in [] if options.page_only else sets:
        if not options.again and all(cell_key(name, c) in results["cells"] for c in CELLS):
            continue
        feature_set, split, query = load(name, options.data)
        settings = {shot: tuned(feature_set, shot, query) for shot in (1, 5)}
        for cell in CELLS:
            key = cell_key(name, cell)
            if key in results["cells"] and not options.again:
                continue
            compared = (OURS, NEAREST, *options.again) if key in results["cells"] else COMPARED
            found = run_cell(name, feature_set, split, query, cell, settings[cell[2]], tasks, slow_tasks, compared)
            if key in results["cells"]:
                found = measured_again(results["cells"][key], found, options.again)
            results["cells"][key] = found
            keep(results, kept)
            ours, nearest = found["methods"][OURS], found["methods"][NEAREST]
            print(
                f"{key:<36} nearest prototype {100 * nearest['mean']:.2f}, default {100 * ours['mean']:.2f} "
                f"({shown(ours['to_nearest'], sign=True)}), {found['seconds']:.0f} s",
                flush=True,
            )
    command = f"python benchmarks/few_shot.py --data data{chosen_options(options)} --output {options.output.as_posix()}"
    write_page(results, Path(f"{options.output}.md"), command, tasks, slow_tasks)


def run_present(options: argparse.Namespace, sets: list[str], results: dict[str, Any], kept: Path) -> None:
    """The part ``present``: every cell that is not yet kept, then the page."""
    tasks, large_tasks = results["tasks"], results["slow_tasks"]
    for name in [] if options.page_only else sets:
        source = few_shot_present.SOURCES[name]
        waiting = [cell for cell in few_shot_present.cells(source) if cell.key(name) not in results["cells"]]
        feature_set = few_shot_present.load(name, options.data) if waiting else None
        for number, cell in enumerate(waiting, start=1):
            assert feature_set is not None
            count = tasks if cell.queries == few_shot_present.QUERIES[0] else large_tasks
            key, what = cell.key(name), f"{number} of {len(waiting)}"
            found = few_shot_present.run_cell(feature_set, source.split, cell, count, shown_progress(f"{key}, {what}"))
            results["cells"][key] = found
            keep(results, kept)
            texts = [f"{method} {100 * row['mean']:.1f}" for method, row in found["methods"].items()]
            print(f"{key:<58} {', '.join(texts) or 'no more queries'}, {found['seconds']:.1f} s", flush=True)
    start = "python benchmarks/few_shot.py --part present --data data"
    command = f"{start}{chosen_options(options)} --output {options.output.as_posix()}"
    Path(f"{options.output}.md").write_text(few_shot_present.page(results["cells"], command, tasks, large_tasks))


def chosen_options(options: argparse.Namespace) -> str:
    """What the user chose of a run, as words of its command."""
    chosen = {"--tasks": options.tasks, "--slow-tasks": options.slow_tasks}
    given = [f" {option} {value}" for option, value in chosen.items() if value is not None]
    if options.sets:
        given.append(" " + shlex.join(["--sets", *options.sets]))
    return "".join(given)


def keep(results: dict[str, Any], kept: Path) -> None:
    """Write the JSON file, all or nothing."""
    waiting = kept.with_suffix(".part")
    waiting.write_text(json.dumps(results, indent=1) + "\n")
    waiting.replace(kept)


if __name__ == "__main__":
    main()
