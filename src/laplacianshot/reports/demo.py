"""The demo's experiment: digits labeled from a few examples, by our recipes and by what they are compared with."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from threadpoolctl import threadpool_limits

from laplacianshot import __version__
from laplacianshot.baselines import TransductiveClassifier
from laplacianshot.datasets import Digits
from laplacianshot.episodes.methods import make_method
from laplacianshot.episodes.whole_set import Comparison, Repeat, Standing, draw_labeled, keep_labels, run_repeats
from laplacianshot.estimator import LaplacianShot
from laplacianshot.inference.recipes import PUBLISHED_LAM, PUBLISHED_NEIGHBORS, DefaultConstants
from laplacianshot.reports.text import counted, interval_dict, points, side
from laplacianshot.runtime.types import Floats, Ints, Labels

# Labels a class of the accuracy curve, and how many choices of them at most.
CURVE_LABELS = (1, 2, 5, 10, 20)
CURVE_REPEATS = 10

DEFAULT = "default"
NEAREST_PROTOTYPE = "nearest-prototype"

Progress = Callable[[str], None]


@dataclass(frozen=True)
class Method:
    """A line of the demo.

    Attributes
    ----------
    name : str
        Recipe or baseline.
    title : str
        As printed.
    settings : str
        What it was run with, in words.
    estimator : TransductiveClassifier
    """

    name: str
    title: str
    settings: str
    estimator: TransductiveClassifier = field(repr=False)


def demo_methods(n_rows: int, n_classes: int, labels_per_class: int) -> tuple[Method, ...]:
    """The three recipes, then the baselines, with the settings they have on such a task."""
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


@dataclass(frozen=True)
class Trace:
    """How one recipe came down on what it minimizes.

    Attributes
    ----------
    name : str
        Recipe.
    objective : array of shape (n_iter,)
        F, R or E after each update.
    bound : array of shape (n_iter,) or None
        The bound that each update minimized (paper).
    converged : bool
    """

    name: str
    objective: Floats
    bound: Floats | None
    converged: bool


@dataclass(frozen=True, repr=False)
class Example:
    """The default recipe on the first choice of labeled rows.

    Attributes
    ----------
    rows : int array of shape (n_s,)
        The labeled rows.
    found : array of shape (n,)
    confidence : array of shape (n,)
        Largest entry of each row's label distribution.
    traces : tuple of Trace
        All three recipes on this choice.
    """

    rows: Ints
    found: Labels
    confidence: Floats
    traces: tuple[Trace, ...]


@dataclass(frozen=True, repr=False)
class DemoResult:
    """What the demo found.

    Attributes
    ----------
    methods : tuple of Method
    comparison : Comparison or None
        None if it was interrupted before the first choice was done.
    curve : tuple of Comparison
        Accuracy against labels a class, in rising order.
    example : Example or None
        None if interrupted.
    seed, repeats, labels_per_class, n_rows, n_classes : int
        What was asked for.
    interrupted : bool
    """

    methods: tuple[Method, ...]
    comparison: Comparison | None
    curve: tuple[Comparison, ...]
    example: Example | None
    seed: int
    repeats: int
    labels_per_class: int
    n_rows: int
    n_classes: int
    interrupted: bool

    @property
    def n_unlabeled(self) -> int:
        """Rows to be labeled at each repeat."""
        return self.n_rows - self.n_classes * self.labels_per_class

    def method(self, name: str) -> Method:
        """The method of that name."""
        return next(method for method in self.methods if method.name == name)

    def standings(self) -> tuple[Standing, ...]:
        """All methods, best first; none if nothing was finished."""
        return () if self.comparison is None else self.comparison.standings()

    def verdict(self) -> str:
        """Who won, by how much, and where the default stands, in plain words."""
        if self.comparison is None:
            return "Nothing was finished."
        standings = self.standings()
        best, second = standings[:2]
        default = next(standing for standing in standings if standing.name == DEFAULT)
        title = self.method(DEFAULT).title
        over_prototype = self.comparison.difference(DEFAULT, NEAREST_PROTOTYPE)
        prototype = f"{points(over_prototype)} {side(over_prototype.mean)} the nearest prototype"
        if best.name == DEFAULT:
            lead = self.comparison.difference(DEFAULT, second.name)
            return (
                f"{title} is best with {100 * best.accuracy.mean:.1f}%: {points(lead)} ahead of "
                f"{self.method(second.name).title}, {prototype}."
            )
        behind = self.comparison.difference(DEFAULT, best.name)
        place = f"{title} takes place {default.place} of {len(standings)} with {100 * default.accuracy.mean:.1f}%"
        return (
            f"{self.method(best.name).title} is best with {100 * best.accuracy.mean:.1f}%. {place}: "
            f"{points(behind)} behind the best, {prototype}."
        )

    def to_dict(self) -> dict[str, Any]:
        """Everything that is printed, for JSON; an interval of one value is None."""
        return {
            "laplacianshot": __version__,
            "data": {"name": "scikit-learn digits", "rows": self.n_rows, "classes": self.n_classes},
            "seed": self.seed,
            "labels_per_class": self.labels_per_class,
            "unlabeled": self.n_unlabeled,
            "repeats": 0 if self.comparison is None else len(self.comparison.repeats),
            "repeats_asked": self.repeats,
            "interrupted": self.interrupted,
            "methods": [
                {
                    "place": standing.place,
                    "name": standing.name,
                    "title": self.method(standing.name).title,
                    "settings": self.method(standing.name).settings,
                    "accuracy": interval_dict(standing.accuracy),
                    "behind_best": None if standing.behind_best is None else interval_dict(standing.behind_best),
                    "seconds": standing.seconds,
                }
                for standing in self.standings()
            ],
            "curve": [
                {
                    "labels_per_class": point.per_class,
                    "accuracy": {name: interval_dict(point.accuracy(name)) for name in point.names},
                }
                for point in self.curve
            ],
            "verdict": self.verdict(),
        }


def curve_labels(labels_per_class: int, smallest_class: int) -> tuple[int, ...]:
    """Labels a class at which the curve is drawn, the demo's own among them."""
    return tuple(sorted({labels_per_class, *(count for count in CURVE_LABELS if count < smallest_class)}))


def demo_steps(digits: Digits, repeats: int, labels_per_class: int) -> int:
    """How many times :func:`run_demo` reports progress."""
    others = len(curve_labels(labels_per_class, digits.smallest_class)) - 1
    return 1 + repeats + others * min(repeats, CURVE_REPEATS) + 1


def run_demo(
    digits: Digits, *, repeats: int = 50, labels_per_class: int = 1, seed: int = 0, progress: Progress = lambda _: None
) -> DemoResult:
    """Run every method on the same random choices of labeled rows.

    Ctrl-C ends the run early: the result then holds the repeats that were finished, and says so.

    Parameters
    ----------
    digits : Digits
    repeats : int
        Random choices of the labeled rows.
    labels_per_class : int
    seed : int
    progress : callable
        Called after each step with the name of what comes next.

    Returns
    -------
    DemoResult
    """
    if repeats < 1:
        raise ValueError(f"repeats must be at least 1, got {repeats}.")
    if seed < 0:
        raise ValueError(f"seed must be 0 or more, got {seed}.")
    features, labels = digits.features, digits.labels
    first_rows = draw_labeled(labels, labels_per_class, seed=seed)  # refuses a bad number of labels
    methods = demo_methods(len(labels), len(digits.class_names), labels_per_class)
    estimators = {method.name: method.estimator for method in methods}
    done: list[Repeat] = []
    curve: dict[int, Comparison] = {}
    example: Example | None = None
    interrupted = False
    # On a busy machine the threads of BLAS wait for one another, and the smallest fits suffer most: one each is fair.
    limits = threadpool_limits(1)
    try:
        # Compiles or loads the kernels, so that no fit is timed with that.
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
    return f"{counted(labels_per_class, 'label')} a class"
