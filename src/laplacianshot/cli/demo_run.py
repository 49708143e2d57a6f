"""The experiment of ``laplacianshot demo``: label scikit-learn's digits from a few examples with several methods."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from threadpoolctl import threadpool_limits

from laplacianshot.datasets import Digits
from laplacianshot.episodes.methods import make_method
from laplacianshot.episodes.whole_set import Comparison, Repeat, draw_labeled, keep_labels, run_repeats
from laplacianshot.estimator import LaplacianShot
from laplacianshot.inference.recipes import PUBLISHED_LAM, PUBLISHED_NEIGHBORS, DefaultConstants
from laplacianshot.reports.demo import DEFAULT, DemoResult, Example, Method, Trace
from laplacianshot.reports.text import counted
from laplacianshot.runtime.types import Ints

# Numbers of labels per class on the accuracy curve, and the maximum number of random choices for each.
CURVE_LABELS = (1, 2, 5, 10, 20)
CURVE_REPEATS = 10

Progress = Callable[[str], None]


def demo_methods(n_rows: int, n_classes: int, labels_per_class: int) -> tuple[Method, ...]:
    """Return the three recipes and the baselines, with their settings on such a task."""
    n_support = n_classes * labels_per_class
    constants = DefaultConstants.for_task(n_support, n_rows - n_support, n_classes)
    published = f"lam {PUBLISHED_LAM}, n_neighbors {PUBLISHED_NEIGHBORS}"
    recipes = (
        Method(
            DEFAULT,
            "LaplacianShot default",
            f"our advice: lam {constants.lam:.2f}, n_neighbors {constants.n_neighbors}, by the size of the task",
            LaplacianShot(),
        ),
        Method("paper", "LaplacianShot paper", f"as written: {published}, symmetric graph", LaplacianShot.paper()),
        Method(
            "reference",
            "LaplacianShot reference",
            f"authors' code: {published} with the row itself, directed graph",
            LaplacianShot.reference(),
        ),
    )
    return recipes + tuple(Method(name, *_BASELINE_TEXTS[name], make_method(name)) for name in _BASELINE_TEXTS)


_BASELINE_TEXTS: Mapping[str, tuple[str, str]] = {
    "nearest-prototype": (
        "Nearest prototype",
        "centered, L2-normalized rows as above, without the graph",
    ),
    "1-nearest-neighbor": ("1-nearest-neighbor", "scikit-learn, raw pixels"),
    "logistic-regression": ("Logistic regression", "scikit-learn, C 1, pixels on one common scale"),
    "label-spreading-rbf": (
        "LabelSpreading rbf",
        "scikit-learn, raw pixels, alpha 0.99, gamma by the spanning-tree rule",
    ),
    "label-spreading-knn": ("LabelSpreading knn", "scikit-learn, raw pixels, alpha 0.99, 7 neighbors"),
}


def curve_labels(labels_per_class: int, smallest_class: int) -> tuple[int, ...]:
    """Return the numbers of labels per class on the curve, including the demo's own."""
    return tuple(sorted({labels_per_class, *(count for count in CURVE_LABELS if count < smallest_class)}))


def demo_steps(digits: Digits, repeats: int, labels_per_class: int) -> int:
    """Return how many times :func:`run_demo` reports progress."""
    others = len(curve_labels(labels_per_class, digits.smallest_class)) - 1
    return 1 + repeats + others * min(repeats, CURVE_REPEATS) + 1


def run_demo(
    digits: Digits, *, repeats: int = 50, labels_per_class: int = 1, seed: int = 0, progress: Progress = lambda _: None
) -> DemoResult:
    """Run every method on the same random choices of labeled rows.

    Ctrl-C ends the run early. The result then contains the finished repeats and is marked as interrupted.

    Parameters
    ----------
    digits : Digits
    repeats : int
        Number of random choices of the labeled rows.
    labels_per_class : int
    seed : int
    progress : callable
        Called after each step with the name of the next one.

    Returns
    -------
    DemoResult
    """
    if repeats < 1:
        raise ValueError(f"repeats must be at least 1, got {repeats}.")
    if seed < 0:
        raise ValueError(f"seed must be 0 or more, got {seed}.")
    features, labels = digits.features, digits.labels
    first_rows = draw_labeled(labels, labels_per_class, seed=seed)  # checks the number of labels
    methods = demo_methods(len(labels), len(digits.class_names), labels_per_class)
    estimators = {method.name: method.estimator for method in methods}
    done: list[Repeat] = []
    curve: dict[int, Comparison] = {}
    example: Example | None = None
    interrupted = False
    # On a busy machine the threads of BLAS wait for one another, which hurts small fits most: one thread is fair.
    limits = threadpool_limits(1)
    try:
        # Compiles or loads the kernels first, so that no timed fit includes this.
        example = _example(digits, first_rows)
        progress(_choices(labels_per_class))
        for repeat in run_repeats(features, labels, estimators, per_class=labels_per_class, repeats=repeats, seed=seed):
            done.append(repeat)
            progress(_choices(labels_per_class))
        for count in curve_labels(labels_per_class, digits.smallest_class):
            if count == labels_per_class:
                continue
            point = []
            for repeat in run_repeats(
                features, labels, estimators, per_class=count, repeats=min(repeats, CURVE_REPEATS), seed=seed
            ):
                point.append(repeat)
                progress(_choices(count))
            curve[count] = Comparison(count, tuple(point))
    except KeyboardInterrupt:
        interrupted = True
    finally:
        limits.restore_original_limits()
    comparison = Comparison(labels_per_class, tuple(done)) if done else None
    if comparison is not None:
        curve[labels_per_class] = comparison
    return DemoResult(
        methods=methods,
        comparison=comparison,
        curve=tuple(curve[count] for count in sorted(curve)),
        example=example,
        seed=seed,
        repeats=repeats,
        labels_per_class=labels_per_class,
        n_rows=len(labels),
        n_classes=len(digits.class_names),
        interrupted=interrupted,
    )


def _example(digits: Digits, rows: Ints) -> Example:
    given = keep_labels(digits.labels, rows)
    recipes = (LaplacianShot(), LaplacianShot.paper(), LaplacianShot.reference())
    for recipe in recipes:
        recipe.fit(digits.features, given)
    default = recipes[0]
    return Example(
        rows=rows,
        found=default.transduction_,
        confidence=default.label_distributions_.max(axis=1),
        traces=tuple(
            Trace(
                recipe.recipe,
                recipe.objective_,
                recipe.bound_ if recipe.recipe == "paper" else None,
                recipe.converged_,
            )
            for recipe in recipes
        ),
    )


def _choices(labels_per_class: int) -> str:
    return f"{counted(labels_per_class, 'label')} per class"
