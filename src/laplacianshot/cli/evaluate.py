"""``laplacianshot evaluate``: every method on the same few-shot tasks."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from laplacianshot.cli import options, terminal
from laplacianshot.cli.terminal import CommandError, Output

if TYPE_CHECKING:
    from laplacianshot.datasets.feature_set import FeatureSet
    from laplacianshot.episodes.plans import EvaluationPlan
    from laplacianshot.reports.evaluation import EvaluationReport

_DEFAULT_METHODS = (
    "laplacianshot,laplacianshot-paper,laplacianshot-reference,simpleshot-cl2,bd-cspn,label-propagation,logistic"
)
EVALUATE_EXAMPLES = f"""\
Examples:
  laplacianshot evaluate cub.npz --shot 1,5
  laplacianshot evaluate cub.npz --methods all --way 5,20 --protocol balanced,dirichlet
  laplacianshot evaluate cub.npz --way 20 --protocol present --present 1,5,20 --total-queries 75
  laplacianshot evaluate cub.npz --ablation --convergence --timing --lam 0.5 --report out
{options.FEATURE_FILES}
"""

_recipe_option = partial(typer.Option, rich_help_panel="Recipes paper and reference")
_more_option = partial(typer.Option, rich_help_panel="Also show")


def evaluate(
    *,
    context: typer.Context,
    features: options.FeaturesArgument,
    methods: Annotated[
        str | None,
        typer.Option(
            help="Names separated by commas; all; fast (all but the slow ones); or help, to list the methods "
            "(default: our three recipes and four fast baselines)."
        ),
    ] = None,
    shots: options.ShotOption = "1",
    tasks: Annotated[int, options.task_option(min=1, help="Number of tasks per setting.")] = 10_000,
    slow_tasks: Annotated[int, options.task_option(min=1, help="Number of tasks for slow methods.")] = 1000,
    split: Annotated[
        str | None, options.task_option(help="Split to draw tasks from (default: novel, test or all rows).")
    ] = None,
    task: options.TaskOptions,
    lam: Annotated[float | None, _recipe_option(min=0, help="Weight of the graph.")] = None,
    neighbors: Annotated[int | None, _recipe_option(min=1, help="Number of neighbors.")] = None,
    rectify: Annotated[
        bool | None, _recipe_option("--rectify/--no-rectify", help="Rectify the prototypes with the queries.")
    ] = None,
    engine: options.EngineOption = "local",
    address: options.AddressOption = None,
    threads: options.ThreadsOption = None,
    ablation: Annotated[bool, _more_option("--ablation", help="Add the paper's ablation table.")] = False,
    convergence: Annotated[bool, _more_option("--convergence", help="Add the objective after each update.")] = False,
    timing: Annotated[bool, _more_option("--timing", help="Time each method on its own.")] = False,
    published: Annotated[
        str | None,
        _more_option(metavar="DATA/NETWORK", help="Show published figures for this data set and network next to ours."),
    ] = None,
    as_json: options.JsonOption = False,
    csv: Annotated[
        Path | None, options.output_option("--csv", help="Also write one CSV row per method and setting.")
    ] = None,
    report: options.ReportOption = None,
) -> int:
    """Compare methods over thousands of few-shot tasks; every method sees the same tasks."""
    if methods == "help":
        _list_methods()
        return 0
    csv_path = None if csv is None else terminal.check_output(csv, (".csv",), "--csv")
    folder = None if report is None else terminal.check_report_folder(report)
    # Here, so that --help need not wait for scikit-learn.
    from laplacianshot.episodes.plans import EvaluationPlan
    from laplacianshot.reports.evaluation import EvaluationReport

    feature_set = options.load_features(features)
    constants = {"lam": lam, "n_neighbors": neighbors, "rectify": rectify}
    constants = {key: value for key, value in constants.items() if value is not None}
    chosen_split = options.choose_split(feature_set, split, ("novel", "test"), "--split")
    settings = options.settings(task, shots, tasks, chosen_split)
    plan = EvaluationPlan(
        feature_set,
        _methods(_DEFAULT_METHODS if methods is None else methods, constants, needed=not (ablation or convergence)),
        settings,
        base_mean=options.load_base_mean(task.base_mean, feature_set.dim),
        slow_tasks=slow_tasks,
        threads=threads,
        ablation=ablation,
        convergence=convergence,
        timing=timing,
        constants=constants,
        engine=engine,
        address=address,
    )
    with terminal.input_errors():
        plan.check()
    _check_published(published, plan)
    if split is None:
        terminal.note(_which_rows(chosen_split, feature_set))
    if convergence and any(setting.is_inat for setting in settings):
        terminal.note("--convergence skips protocol inat: its one large task keeps no objective.")
    with terminal.progress_shown() as watch, options.cluster(engine, address):
        run = plan.run(str(features), watch=watch)
    result = EvaluationReport(**vars(run), published=published, command=options.command_line(context))
    return terminal.deliver(result, _outputs(result, csv_path, folder), as_json=as_json)


def _methods(text: str, constants: dict[str, Any], *, needed: bool) -> dict[str, Any]:
    """Return estimators by name; the given constants are set in the recipes paper and reference."""
    from laplacianshot.episodes.methods import ALIASES, METHODS, make_method

    if text == "all":
        names = list(METHODS)
    elif text == "fast":
        names = [name for name, entry in METHODS.items() if not entry.slow]
    else:
        names = options.listed(text, "--methods", options.known({**METHODS, **ALIASES}, "method"))
    chosen = {name: make_method(name) for name in names}
    tunable = [name for name in names if name in ("laplacianshot-paper", "laplacianshot-reference")]
    if constants and needed and not tunable:
        raise CommandError(
            "--lam, --neighbors and --rectify are for laplacianshot-paper and laplacianshot-reference; "
            "--methods has neither."
        )
    for name in tunable:
        chosen[name].set_params(**constants)
    return chosen


def _list_methods() -> None:
    from laplacianshot.episodes.methods import METHODS
    from laplacianshot.reports.table import Table, row

    rows = [row(name, entry.title, "slow" if entry.slow else "fast", entry.settings) for name, entry in METHODS.items()]
    terminal.print_tables(Table("Methods", ("Name", "Method", "", "Settings"), tuple(rows), words=(1, 2, 3)))


def _check_published(key: str | None, plan: EvaluationPlan) -> None:
    """Raise if the features cannot be of that data set and network."""
    from laplacianshot.reports.published import load_published

    if key is None:
        return
    published = load_published()
    if key not in published.keys:
        raise CommandError(f"--published {key}: choose from {', '.join(published.keys)}.")
    facts = plan.features("")
    mismatch = published.mismatch(key, facts.split_classes, facts.dimension)
    if mismatch is not None:
        raise CommandError(f"--published {key}: these features are not of {published.title(key)}: {mismatch}.")


def _which_rows(split: str | None, feature_set: FeatureSet) -> str:
    if split is not None:
        return f"tasks are drawn from split {split}."
    why = "it has neither novel nor test among its splits" if feature_set.splits else "it has no splits"
    return f"tasks are drawn from all rows of the file: {why}."


def _outputs(result: EvaluationReport, csv_path: Path | None, folder: Path | None) -> list[Output]:
    from laplacianshot.reports.evaluation import csv_text
    from laplacianshot.reports.evaluation_page import write_evaluation
    from laplacianshot.reports.page import PAGE
    from laplacianshot.reports.table import write_text

    outputs: list[Output] = []
    if csv_path is not None:
        outputs.append(Output(csv_path, lambda: write_text(csv_path, csv_text(result))))
    if folder is not None:
        outputs.append(Output(folder / PAGE, lambda: write_evaluation(result, folder)))
    return outputs
