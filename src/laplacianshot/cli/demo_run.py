"""The experiment of ``laplacianshot demo``: label scikit-learn's digits from a few examples with several methods."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
from threadpoolctl import threadpool_limits

from laplacianshot.baselines import TransductiveClassifier
from laplacianshot.datasets.feature_set import FeatureSet
from laplacianshot.episodes.methods import make_method
from laplacianshot.episodes.results import Evaluations
from laplacianshot.episodes.whole_set import draw_labeled, evaluate_whole_set, keep_labels
from laplacianshot.estimator import LaplacianShot
from laplacianshot.inference.recipes import PUBLISHED_LAM, PUBLISHED_NEIGHBORS, DefaultConstants
from laplacianshot.reports.demo import DEFAULT, DemoMethod, DemoResult
from laplacianshot.reports.table import counted

# Numbers of labels per class on the accuracy curve, and the maximum number of random choices for each.
CURVE_LABELS = (1, 2, 5, 10, 20)
CURVE_REPEATS = 10

_PUBLISHED = f"lam {PUBLISHED_LAM}, n_neighbors {PUBLISHED_NEIGHBORS}"
_METHODS = {
    "paper": DemoMethod("LaplacianShot paper", f"as written: {_PUBLISHED}, symmetric graph"),
    "reference": DemoMethod(
        "LaplacianShot reference", f"authors' code: {_PUBLISHED} with the row itself, directed graph"
    ),
    "nearest-prototype": DemoMethod("Nearest prototype", "centered, L2-normalized rows as above, without the graph"),
    "1-nearest-neighbor": DemoMethod("1-nearest-neighbor", "scikit-learn, raw pixels"),
    "logistic-regression": DemoMethod("Logistic regression", "scikit-learn, C 1, pixels on one common scale"),
    "label-spreading-rbf": DemoMethod(
        "LabelSpreading rbf", "scikit-learn, raw pixels, alpha 0.99, gamma by the spanning-tree rule"
    ),
    "label-spreading-knn": DemoMethod("LabelSpreading knn", "scikit-learn, raw pixels, alpha 0.99, 7 neighbors"),
}


def demo_methods(n_rows: int, n_classes: int, labels_per_class: int) -> dict[str, DemoMethod]:
    """Return the three recipes and the baselines, with their settings on such a task."""
    n_support = n_classes * labels_per_class
    constants = DefaultConstants.for_task(n_support, n_rows - n_support, n_classes)
    settings = f"our advice: lam {constants.lam:.2f}, n_neighbors {constants.n_neighbors}, by the size of the task"
    return {DEFAULT: DemoMethod("LaplacianShot default", settings), **_METHODS}


def smallest_class(digits: FeatureSet) -> int:
    """Number of digits of the rarest class."""
    return int(np.bincount(digits.codes).min())


def demo_repeats(digits: FeatureSet, repeats: int, labels_per_class: int) -> dict[int, int]:
    """Return the number of random choices for each number of labels per class, the requested one first."""
    others = [count for count in CURVE_LABELS if count < smallest_class(digits) and count != labels_per_class]
    return {labels_per_class: repeats} | dict.fromkeys(others, min(repeats, CURVE_REPEATS))


def run_demo(
    digits: FeatureSet,
    *,
    repeats: int = 50,
    labels_per_class: int = 1,
    seed: int = 0,
    picture: Path = Path("laplacianshot-demo.png"),
    progress: Callable[[str], object] = lambda _: None,
) -> DemoResult:
    """Run every method on the same random choices of labeled digits; each choice is a repeat.

    Ctrl-C ends the run early. The result then contains the finished repeats and is marked as interrupted. ``picture``
    is the file for the figure, which is not drawn here. ``progress`` is called with what is running, once before the
    first repeat of each number of labels and after each one.
    """
    if repeats < 1:
        raise ValueError(f"repeats must be at least 1, got {repeats}.")
    if seed < 0:
        raise ValueError(f"seed must be 0 or more, got {seed}.")
    # Checks the number of labels, too.
    given = keep_labels(digits.labels, draw_labeled(digits.labels, labels_per_class, seed=seed))
    recipes = (LaplacianShot(), LaplacianShot.paper(), LaplacianShot.reference())
    methods = demo_methods(digits.n_rows, digits.n_classes, labels_per_class)
    estimators: dict[str, TransductiveClassifier] = {recipe.recipe: recipe for recipe in recipes}
    estimators |= {name: make_method(name) for name in methods if name not in estimators}
    curve: dict[int, Evaluations] = {}
    interrupted = False
    # On a busy machine the threads of BLAS wait for one another, which hurts small fits most: one thread is fair.
    with threadpool_limits(1):
        try:
            # Compiles or loads the kernels first, so that no timed fit includes this.
            for recipe in recipes:
                recipe.fit(digits.features, given)
            for count, its_repeats in demo_repeats(digits, repeats, labels_per_class).items():
                what = f"{counted(count, 'label')} per class"
                progress(what)
                curve[count] = evaluate_whole_set(
                    digits.features,
                    digits.labels,
                    estimators,
                    per_class=count,
                    repeats=its_repeats,
                    seed=seed,
                    done=lambda what=what: progress(what),  # type: ignore[misc]
                )
                interrupted = curve[count].interrupted
                if interrupted:
                    break
        except KeyboardInterrupt:
            interrupted = True
    return DemoResult(
        methods=methods,
        curve=dict(sorted(curve.items())),
        recipes=recipes,
        digits=digits,
        seed=seed,
        repeats=repeats,
        labels_per_class=labels_per_class,
        interrupted=interrupted,
        picture=picture,
    )
