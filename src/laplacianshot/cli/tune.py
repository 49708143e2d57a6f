"""``laplacianshot tune``: the best lambda and number of neighbors on classes that are not tested."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Literal

import typer

from laplacianshot.cli import options, terminal
from laplacianshot.cli.terminal import CommandError, Output

if TYPE_CHECKING:
    from laplacianshot.datasets.feature_set import FeatureSet

TUNE_EXAMPLES = f"""\
Examples:
  laplacianshot tune cub.npz --shot 1,5
  laplacianshot tune cub.npz --recipe paper --lams 0.1,0.5,1,2 --neighbors 3,5,10,20 --report out
Classes for tuning (split val) must not be those that are tested. Neighbors are chosen on the split base where there \
is one.
{options.FEATURE_FILES}
"""

_Recipe = Literal["reference", "paper", "default"]


def tune(
    *,
    context: typer.Context,
    features: options.FeaturesArgument,
    recipe: Annotated[_Recipe, typer.Option(help="Which recipe to tune.")] = "reference",
    shots: options.ShotOption = "1,5",
    tasks: Annotated[int, options.task_option(min=1, help="Number of tasks per setting and split.")] = 500,
    lams: Annotated[str | None, typer.Option(help="Values of lambda to try (default: the paper's eight).")] = None,
    neighbors: Annotated[str | None, typer.Option(help="Numbers of neighbors to try (default: 3,5,10).")] = None,
    split: Annotated[str | None, typer.Option(help="Split to choose lambda on (default: val).")] = None,
    neighbor_split: Annotated[
        str | None, typer.Option(help="Split to choose the neighbors on (default: base or --split).")
    ] = None,
    test_split: Annotated[
        str | None, typer.Option(help="Split to report but not tune on (default: novel, test or none).")
    ] = None,
    task: options.TaskOptions,
    threads: options.ThreadsOption = None,
    as_json: options.JsonOption = False,
    report: options.ReportOption = None,
) -> int:
    """Choose lambda and the number of neighbors on validation classes; all values see the same tasks."""
    folder = None if report is None else terminal.check_report_folder(report)
    # Here, so that --help need not wait for scikit-learn.
    from laplacianshot.episodes.plans import TuningPlan
    from laplacianshot.episodes.tuning import LAMS, NEIGHBORS, NO_SPLITS
    from laplacianshot.reports.page import PAGE
    from laplacianshot.reports.tuning import TuningReport, write_tuning

    feature_set = options.load_features(features)
    lam_split = _tuning_split(feature_set, split)
    settings = options.settings(task, shots, tasks, lam_split)
    if any(setting.is_inat for setting in settings):
        raise CommandError("--protocol inat: has one large task and no classes to tune on; choose another.")
    plan = TuningPlan(
        feature_set,
        "laplacianshot" if recipe == "default" else f"laplacianshot-{recipe}",
        settings,
        lams=LAMS if lams is None else tuple(options.listed(lams, "--lams", options.weight)),
        neighbors=NEIGHBORS if neighbors is None else tuple(options.listed(neighbors, "--neighbors", options.positive)),
        neighbor_split=options.choose_split(feature_set, neighbor_split, ("base",), "--neighbor-split") or lam_split,
        test_split=options.choose_split(feature_set, test_split, ("novel", "test"), "--test-split"),
        base_mean=options.load_base_mean(task.base_mean, feature_set.dim),
        threads=threads,
    )
    with terminal.input_errors():
        plan.check()
    if lam_split is None:
        terminal.note(NO_SPLITS.format("file"))
    with terminal.progress_shown() as watch:
        run = plan.run(watch=watch)
    result = TuningReport(**vars(run), file=str(features), command=options.command_line(context))
    outputs = [] if folder is None else [Output(folder / PAGE, lambda: write_tuning(result, folder))]
    return terminal.deliver(result, outputs, as_json=as_json)


def _tuning_split(feature_set: FeatureSet, requested: str | None) -> str | None:
    """Return the requested split, or val; None (all rows) only if the file has no splits."""
    found = options.choose_split(feature_set, requested, ("val",), "--split")
    if found is None and feature_set.splits:
        raise CommandError(f"--split: the file has no split val; name one of {', '.join(feature_set.splits)}.")
    return found
