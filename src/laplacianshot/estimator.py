"""The estimator: scikit-learn's semi-supervised convention around the three recipes."""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable
from copy import copy
from dataclasses import replace
from numbers import Integral, Real
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, Self, TypeAlias

import numpy as np
import scipy.sparse as sp
from numpy.typing import ArrayLike
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.utils.validation import check_is_fitted, validate_data

from laplacianshot.inference.affinity import check_affinity
from laplacianshot.inference.bound import MAX_LAM, TOLERANCE
from laplacianshot.inference.clues import Answers, hold_prototypes, sample_rows
from laplacianshot.inference.labels import EncodedLabels, encode_labels
from laplacianshot.inference.priors import (
    NOTHING_KNOWN,
    Hints,
    Knowledge,
    checked_names,
    checked_prior,
    checked_shares,
    informed,
    join_classes,
    read_hints,
)
from laplacianshot.inference.recipes import (
    PUBLISHED_LAM,
    PUBLISHED_NEIGHBORS,
    DefaultConstants,
    RecipeName,
)
from laplacianshot.inference.solution import Solution
from laplacianshot.inference.solve import (
    FORMULAS,
    BoundChoices,
    Numerics,
    Task,
    solve_default,
    solve_paper,
    solve_reference,
)
from laplacianshot.inference.transforms import base_mean as mean_before
from laplacianshot.inference.transforms import (
    blended_center,
    choose_transform,
    given_center,
    ordinary_mean,
    standard_columns,
    transform_features,
)
from laplacianshot.runtime.arrays import (
    DTYPES,
    check_length,
    check_size,
    checked_rows,
    in_one_line,
    refuse_complex,
    refuse_masked,
    warn_of_far_rows,
)
from laplacianshot.runtime.limits import SMALL_ROWS, TARGET_RECALL, is_large
from laplacianshot.runtime.progress import Watch
from laplacianshot.runtime.threads import single_threaded_blas
from laplacianshot.runtime.types import CENTERED, Floats, Ints, Labels, Transform, working_dtype

if TYPE_CHECKING:
    from laplacianshot.engine.plan import LargePlan

BaseMean: TypeAlias = ArrayLike | Literal["pooled", "support"] | None
# What fits elsewhere: called with the estimator, rows, class numbers, number of classes, watch and checkpoint.
Engine: TypeAlias = Callable[..., Solution]


class _HiddenParameter:
    """A constructor parameter that is not an attribute.

    scikit-learn takes whatever has an attribute ``transform`` for a transformer. Our parameter of that name is stored
    like any other, and is read through ``get_params``.
    """

    def __set_name__(self, owner: type, name: str) -> None:
        self._name = name

    def __get__(self, instance: object | None, owner: type) -> Any:
        raise AttributeError(f"{self._name!r} is a parameter; read it with get_params()[{self._name!r}].")

    def __set__(self, instance: object, value: Any) -> None:
        instance.__dict__[self._name] = value


class LaplacianShot(ClassifierMixin, BaseEstimator):  # type: ignore[misc]
    """Label a handful of rows, and the graph labels the rest.

    Parameters
    ----------
    recipe : {"default", "paper", "reference"}
        ``default`` is what we recommend. ``paper`` is the text of the paper and ``reference`` its authors' code; both
        are most easily made with :meth:`paper` and :meth:`reference`.
    transform : {"auto", "cl2", "power", "standard", "l2", "none"}
        Center and L2-normalize the rows (``cl2``), or the square roots of their entries (``power``), bring every column
        to mean 0 and standard deviation 1, only L2-normalize the rows, or leave them. With ``"auto"`` the default
        recipe takes ``standard`` for tables, that is for at most 40 columns or columns of mixed scales, ``none`` or
        ``cl2`` for gray levels and counts, ``power`` for other rows without negative entries, and ``cl2`` for
        everything else. With a base mean it takes ``cl2``, as the other recipes do.
    base_mean : array of shape (D,) or (n_base, D), "pooled", "support" or None
        What ``cl2`` takes away: the mean of the base classes, a base set to take the mean of, or the mean of all rows
        (``"pooled"``) or of the labeled rows (``"support"``) of X. None: the mean of all rows for paper and reference;
        for default between the two, by a first estimate of the class shares
        (:func:`~laplacianshot.inference.transforms.blended_center`). With ``power`` all of these are means of the
        :func:`~laplacianshot.inference.transforms.unit_roots` of rows: a base set is given as it is, a vector as
        ``base_mean(features, "power")`` makes it.
    lam : float, optional
        Weight of the graph. None: the recipe's own (0.7 for paper and reference, by the size of the task for default).
    n_neighbors : int, optional
        Neighbors of a row. None: the recipe's own (3 for paper and reference, by the size of the task for default).
        ``reference`` counts the row itself, as the authors' code does.
    rectify : bool, optional
        Shift the queries and borrow from them for the prototypes, as in the paper's tables. None: True for paper and
        reference; the default recipe has its own way and takes no value.
    balanced : bool
        Default recipe only: the unlabeled rows are known to hold equally many of each class.
    class_shares : array of shape (C,), "equal" or None
        Default recipe only: what is known of the frequencies of the classes among the unlabeled rows, in the order of
        ``classes_``. ``"equal"`` is the same as ``balanced=True``.
    graph : {"auto", "exact", "cells"} or scipy sparse matrix of shape (n, n)
        Nearest neighbors, or affinities >= 0 between the rows of X. The default recipe and the paper take the
        symmetric part ``(W + W^T)/2``; the reference takes it as it is. With ``"auto"`` the default recipe finds the
        neighbors of more than 50,000 rows approximately, and reports how well in ``graph_recall_``; all others are
        exact. ``"cells"`` finds them approximately in a set of any size.
    max_iter : int, optional
        Maximum number of updates. None: the recipe's own.
    tol : float
        Relative change at which updates stop.
    memory : int, float or str, optional
        Maximum number of bytes that ``fit`` may use beyond X, such as ``"8GB"``. MemoryError before the work starts
        where that is too little. None: no limit.
    target_recall : float
        Share of the true neighbors that an approximate graph must have.
    random_state : int
        Seed of the approximate graph, the only thing that is random.

    Attributes
    ----------
    transduction_ : array of shape (n,)
        A label for every row of X; labeled rows keep theirs.
    label_distributions_ : array of shape (n, C)
        Assignment of each row to each class; certainty for labeled rows. A ``csr_array`` of the largest entries where
        there are too many rows and classes to keep all of them.
    classes_ : array of shape (C,)
    prototypes_ : array of shape (C, D)
        In transformed space.
    objective_ : array of shape (n_iter_,)
        What the recipe minimizes, after each update: F (default), R (paper) or E (reference).
    bound_ : array of shape (n_iter_,)
        The bound that each update lowered (paper, reference).
    unary_ : array of shape (N, C)
        Squared distances of the unlabeled rows to the prototypes (paper, reference).
    affinity_ : csr_array
        The graph: over all rows of X (default) or over the unlabeled ones (paper, reference).
    graph_recall_ : float
        Share of the true neighbors that the graph has, measured on a sample of rows; 1 for an exact or given graph.
    graph_report_ : GraphReport
        How neighbors were found (large sets).
    dropped_mass_ : float
        Largest mean mass, over the updates, that a row lost to entries not kept; 0 where all are.
    n_iter_ : int
    converged_ : bool
    lam_ : float
    transform_ : str
        The transform that was used.
    report_ : str
        What was chosen and why, in a few sentences (default recipe).
    center_ : array of shape (D,) or None
    solution_ : Solution
        Everything that the fit found, with the constants, the temperature and the rule for new rows
        (:class:`~laplacianshot.inference.solution.Solution`).
    n_features_in_ : int

    Examples
    --------
    >>> from sklearn.datasets import load_digits
    >>> from laplacianshot import LaplacianShot
    >>> X, digits = load_digits(return_X_y=True)
    >>> y = digits.copy()
    >>> y[50:] = -1  # fifty labels, 1747 rows to label
    >>> clf = LaplacianShot().fit(X, y)
    >>> bool((clf.transduction_ == digits).mean() > 0.85)
    True
    """

    transform = _HiddenParameter()

    classes_: Labels
    transduction_: Labels
    label_distributions_: Any
    prototypes_: Floats
    objective_: Floats
    n_iter_: int
    converged_: bool
    lam_: float
    center_: Floats | None
    graph_recall_: float
    dropped_mass_: float
    transform_: Transform
    report_: str
    solution_: Solution

    def __init__(
        self,
        recipe: RecipeName = "default",
        *,
        transform: Transform | Literal["auto"] = "auto",
        base_mean: BaseMean = None,
        lam: float | None = None,
        n_neighbors: int | None = None,
        rectify: bool | None = None,
        balanced: bool = False,
        class_shares: ArrayLike | Literal["equal"] | None = None,
        graph: Any = "auto",
        max_iter: int | None = None,
        tol: float = TOLERANCE,
        memory: int | float | str | None = None,
        target_recall: float = TARGET_RECALL,
        random_state: int = 0,
    ) -> None:
        self.recipe = recipe
        self.transform = transform
        self.base_mean = base_mean
        self.lam = lam
        self.n_neighbors = n_neighbors
        self.rectify = rectify
        self.balanced = balanced
        self.class_shares = class_shares
        self.graph = graph
        self.max_iter = max_iter
        self.tol = tol
        self.memory = memory
        self.target_recall = target_recall
        self.random_state = random_state

    def get_params(self, deep: bool = True) -> dict[str, Any]:
        """Parameters by name, as given to the constructor."""
        return {name: self.__dict__[name] for name in self._get_param_names()}

    @classmethod
    def paper(
        cls,
        lam: float = PUBLISHED_LAM,
        n_neighbors: int = PUBLISHED_NEIGHBORS,
        *,
        rectify: bool = True,
        **parameters: Any,
    ) -> Self:
        """The paper as written, on a symmetric graph and with steps so short that its objective never rises.

        Other parameters are those of the class: ``transform``, ``base_mean``, ``graph``, ``max_iter`` and ``tol``.
        """
        return cls("paper", lam=lam, n_neighbors=n_neighbors, rectify=rectify, **parameters)

    @classmethod
    def reference(
        cls,
        lam: float = PUBLISHED_LAM,
        n_neighbors: int = PUBLISHED_NEIGHBORS,
        *,
        rectify: bool = True,
        **parameters: Any,
    ) -> Self:
        """What the authors' public code does; ``n_neighbors`` counts the row itself.

        Other parameters are those of the class: ``transform``, ``base_mean``, ``graph``, ``max_iter`` and ``tol``.
        """
        return cls("reference", lam=lam, n_neighbors=n_neighbors, rectify=rectify, **parameters)

    def fit(
        self,
        X: ArrayLike,
        y: ArrayLike,
        *,
        names: ArrayLike | None = None,
        classes: ArrayLike | None = None,
        prior: ArrayLike | None = None,
    ) -> Self:
        """Label every row of ``X`` from the few that have a label, from the names of the classes, or from both.

        Parameters
        ----------
        X : array of shape (n, D)
            Dense numbers: float16, float32, float64 or integers, in memory or memory-mapped.
        y : array of shape (n,)
            A label or, for unlabeled rows, -1 (numbers), None, NaN or "" (strings). With names or a prior there may be
            no label at all.
        names : array of shape (C', D), optional
            Vectors of the class names, from the encoder that made X; several texts of a class are averaged first. Some
            classes may have labels only.
        classes : array of shape (C',), optional
            The label that each row of ``names``, or column of ``prior``, is for. Default: the labels of y, sorted, or
            ``0..C'-1`` if it has none.
        prior : array of shape (n, C'), optional
            Probabilities that another model, or a person, gives each row; NaN in rows without any.

        Returns
        -------
        self
        """
        return fit_large(self, X, y, names=names, classes=classes, prior=prior)

    def fit_predict(self, X: ArrayLike, y: ArrayLike) -> Labels:
        """``fit(X, y).transduction_``: a label for every row of X, (n,)."""
        return self.fit(X, y).transduction_

    @property
    def affinity_(self) -> Any:
        """The graph: over all rows of X (default) or over the unlabeled ones (paper, reference)."""
        if "solution_" not in self.__dict__:
            raise AttributeError("affinity_ is known after fit.")
        if sp.issparse(self.solution_.graph):
            return self.solution_.graph
        # A large fit keeps a smaller form, until this is first asked for.
        self.solution_ = replace(self.solution_, graph=self.solution_.affinity)
        return self.solution_.graph

    def predict_proba(self, X: ArrayLike) -> Floats:
        """Probabilities of each class for rows of X (m, D), which ``fit`` need not have seen: (m, C), rows sum to one.

        For ranking: like ``label_distributions_`` they are not calibrated. Those of ``label(X, y)`` are, for the rows
        of X, and those of its ``model`` for rows that come later (:func:`~laplacianshot.label`).

        A row takes part in one update of the fitted graph: its distances to the prototypes and the assignments of the
        fitted rows nearest to it. Nothing is fitted again.
        """
        check_is_fitted(self)
        refuse_masked(X, "X")
        refuse_complex(X)
        with in_one_line("X"):
            features: Floats = validate_data(self, X, reset=False, dtype=DTYPES)
        check_size(features)
        solution = self.solution_
        with single_threaded_blas():
            rows = transform_features(features, solution.transform, solution.center, scale=solution.scale)
            probabilities: Floats = solution.rule(rows)
        return probabilities

    def predict(self, X: ArrayLike) -> Labels:
        """The most probable class of each row, (m,)."""
        probabilities = self.predict_proba(X)
        labels: Labels = self.classes_[probabilities.argmax(axis=1)]
        return labels

    def score(self, X: ArrayLike, y: ArrayLike, sample_weight: ArrayLike | None = None) -> float:
        """Mean accuracy of ``predict(X)`` over the rows that have a label in y (m,).

        Unlabeled rows (-1, None, NaN or "") are left out with a warning: with them, as in a fold of an ordinary
        splitter, nearly every row would count as wrong. Cross-validate with
        :class:`~laplacianshot.SemiSupervisedKFold`.
        """
        encoded = encode_labels(y)
        labeled = np.flatnonzero(encoded.codes >= 0)
        if len(labeled) < len(encoded.codes):
            warnings.warn(
                f"y has {len(encoded.codes) - len(labeled):,} unlabeled rows of {len(encoded.codes):,}, which are not "
                "scored; for cross-validation use cv=laplacianshot.SemiSupervisedKFold().",
                UserWarning,
                stacklevel=2,
            )
        right = self.predict(X)[labeled] == encoded.classes[encoded.codes[labeled]]
        weights = None if sample_weight is None else np.asarray(sample_weight)[labeled]
        return float(np.average(right, weights=weights))


def fit_large(
    estimator: LaplacianShot,
    X: ArrayLike,
    y: ArrayLike,
    *,
    watch: Watch | None = None,
    checkpoint: str | PathLike[str] | None = None,
    engine: Engine | None = None,
    names: ArrayLike | None = None,
    classes: ArrayLike | None = None,
    prior: ArrayLike | None = None,
) -> LaplacianShot:
    """``estimator.fit(X, y)`` with progress and a folder for finished stages; small sets need neither.

    Parameters
    ----------
    estimator : LaplacianShot
    X : array of shape (n, D)
        In memory or memory-mapped.
    y : array of shape (n,)
    watch : callable, optional
        Called with the name of each stage ("Neighbors", "Graph", "Updates"), it returns what is called with
        ``(done, total)`` on the way.
    checkpoint : path, optional
        Folder where finished stages of a large set are kept, neighbors and updates, by the content of X and by what
        they depend on. A fit of the same rows takes them from there. The last four of each kind stay.
    engine : callable, optional
        What fits elsewhere, such as :class:`~laplacianshot.ray.RayEngine`.
    names, classes, prior : optional
        As of :meth:`LaplacianShot.fit`.

    Returns
    -------
    LaplacianShot
        The estimator, fitted.
    """
    check_parameters(estimator)
    if y is None:
        raise ValueError(
            "LaplacianShot requires y to be passed, but the target y is None: give a label, or -1, for each row."
        )
    # Checked here and stored at the end: a fit that fails leaves the estimator as it was.
    features = checked_rows(X, estimator)
    refuse_masked(y, "y")
    check_length(features, y)
    encoded, knowledge = _knowledge(estimator, features, y, names, classes, prior)
    n_classes = len(encoded.classes)
    if n_classes < 2:
        raise ValueError(
            f"y has labels of one class only ({encoded.classes[0]}); label at least one row of a second class. "
            "(-1, NaN, None and '' mean unlabeled.)"
        )
    folder = None if checkpoint is None else Path(checkpoint)
    solve = _solve if engine is None else engine
    hints, left_out = hints_of(features, encoded.codes, n_classes, knowledge), []
    if hints is not None:
        knowledge, left_out = hints.worth, hints.left_out()
    chosen, rows, columns = copy(estimator), features, None
    chosen.transform = transform = transform_of(estimator, features, named=knowledge.names is not None)
    if estimator.recipe != "default" or transform == "none":
        warn_of_far_rows(features)
    if transform == "standard" and engine is None:
        # A table is small: its standard columns are made once, and solved as they are.
        columns = standard_columns(features)
        rows = transform_features(features, "standard", columns[0], scale=columns[1])
    if left_out or columns is not None:
        hints = hints_of(rows, encoded.codes, n_classes, knowledge)
    more: Any = {"knowledge": knowledge, "hints": hints} if knowledge.key else {}
    solution = solve(chosen, rows, encoded.codes, n_classes, watch=watch, checkpoint=folder, **more)
    if left_out:
        solution = replace(solution, answers=replace(solution.answers or Answers(), left_out=tuple(left_out)))
    if columns is not None:
        solution = replace(solution, transform="standard", center=columns[0], scale=columns[1])

    with in_one_line("X"):
        validate_data(estimator, X, skip_check_array=True)
    estimator.classes_ = encoded.classes
    estimator.transduction_ = encoded.classes[solution.labels]
    estimator.label_distributions_ = solution.assignments
    estimator.prototypes_ = solution.prototypes
    estimator.objective_ = solution.objective
    estimator.n_iter_ = solution.n_iter
    estimator.converged_ = solution.converged
    estimator.lam_ = solution.lam
    estimator.transform_ = solution.transform
    estimator.center_ = solution.center
    estimator.graph_recall_ = solution.graph_recall
    estimator.dropped_mass_ = solution.dropped_mass
    for name, value in (
        ("bound_", solution.bound),
        ("unary_", solution.unary),
        ("graph_report_", solution.graph_report),
        ("report_", None if solution.answers is None else _report(solution, estimator.get_params()["transform"])),
    ):
        estimator.__dict__.pop(name, None)
        if value is not None:
            setattr(estimator, name, value)
    estimator.solution_ = solution
    return estimator


def _knowledge(
    estimator: LaplacianShot,
    features: Floats,
    y: ArrayLike,
    names: ArrayLike | None,
    classes: ArrayLike | None,
    prior: ArrayLike | None,
) -> tuple[EncodedLabels, Knowledge]:
    """Labels as class numbers, and what else a user knows, checked."""
    encoded = encode_labels(y, need_labels=names is None and prior is None)
    if names is None and prior is None:
        if classes is not None:
            raise ValueError("classes says what the rows of names or the columns of prior are for; give one of them.")
    elif estimator.recipe != "default":
        raise ValueError(f"names and prior belong to recipe='default', got recipe={estimator.recipe!r}.")
    T = P = None
    if names is not None:
        vectors = checked_names(names, features.shape[1])
        encoded, places = join_classes(encoded, classes, len(vectors), "names")
        T = np.zeros((len(encoded.classes), features.shape[1]))
        T[places] = vectors
    if prior is not None:
        given = checked_prior(prior, len(features))
        joined, places = join_classes(encoded, classes, given.shape[1], "prior")
        if len(joined.classes) > given.shape[1]:
            unknown = sorted({*joined.classes.tolist()} - {*joined.classes[places].tolist()})
            raise ValueError(f"prior has no column for the class {unknown[0]!r}; give a probability of every class.")
        encoded, P = joined, np.empty_like(given)
        P[:, places] = given
        if not encoded.codes.size or (encoded.codes.max() < 0 and T is None and np.isnan(P).all()):
            raise ValueError("y has no label and prior is NaN everywhere; label a row, or give a row of prior.")
    shares = None
    if estimator.class_shares is not None and not isinstance(estimator.class_shares, str):
        shares = checked_shares(estimator.class_shares, len(encoded.classes))
    return encoded, Knowledge(T, P, shares)


# Share of the classes that must seem to be absent for the report to say so.
_MENTIONED = 0.05


def _report(solution: Solution, asked: str) -> str:
    """What was chosen for a task and why, in a few sentences; ``asked`` is the transform that the user named."""
    answers = solution.answers or Answers()
    spaces = {
        "standard": "every column brought to mean 0 and standard deviation 1",
        "cl2": "rows centered and brought to length 1",
        "power": "square roots of the entries, rows centered and brought to length 1",
        "l2": "rows brought to length 1",
        "none": "rows as they are",
    }
    looks = {
        "standard": "a table",
        "none": "gray levels or counts",
        "power": "vectors of an encoder without negative entries",
    }
    reason = f"the rows look like {looks.get(solution.transform, 'vectors of an encoder')}"
    if asked != "auto":
        reason = "as you asked"
    lines = [f"Transform {solution.transform}: {spaces[solution.transform]} ({reason})."]
    hints = answers.hints
    source = "the labels" if answers.spread or hints is None or hints.n_labels else "what is known of the classes"
    start = "from labels spread along the graph" if answers.spread else f"from {source}"
    lines.append(f"Classes: prototypes that move, starting {start}, and the graph.")
    if answers.held_back:
        moving, linear, along, unmoved, alone = answers.hits
        helped = answers.lead > 0 and answers.shares[2] > 0
        head_start = f" (with a head start of {answers.lead:.0f}, as rows lie in dense groups)" if helped else ""
        counts = "{:.0%}, {:.0%}, {:.0%}, {:.0%} and {:.0%}".format(*answers.shares)
        lines.append(
            f"{answers.held_back} labels were held back in turn: prototypes that move found {moving} of them, a linear "
            f"classifier {linear}, labels along the graph {along}{head_start}; without the graph, prototypes of the "
            f"labels found {unmoved} and the classifier {alone}. They therefore count {counts}, and the graph has "
            f"{answers.graph_trust:.0%} of its weight."
        )
    elif answers.spread:
        prototypes, classifier, graph = (f"{share:.0%}" for share in answers.shares[:3])
        apart = f", and labels that reach a row along the graph {graph}, as rows lie in dense groups"
        lines.append(
            f"No class has a second label, so none could be held back. Prototypes count {prototypes}, a linear "
            f"classifier {classifier}{apart if answers.lead > 0 else ''}."
        )
    elif hints is not None and hints.some_unlabeled:
        if hints.n_labels:
            lines.append("Some classes have no label, so nothing else was asked of the labels.")
    else:
        lines.append("There are too few unlabeled rows per class to hold labels back.")
    lines += answers.of_knowledge()
    if getattr(solution.clues, "shares", None) is not None:
        lines.append("The class shares are drawn to those that you gave.")
    if solution.constants.mu > 0:
        share = f"{solution.clues.weight:.0%}"
        lines.append(f"A linear classifier of all rows, fitted in each round, stands for {share} of the prototypes.")
    if math.isinf(solution.constants.gamma):
        lines.append("Classes count as equally frequent among the unlabeled rows.")
    if answers.prototypes_held:
        lines.append("Prototypes that move fell to a few classes, so they were held where the labels are.")
    if answers.absent >= _MENTIONED:
        lines.append(f"About {answers.absent:.0%} of the classes seem to be absent among the unlabeled rows.")
    if answers.accuracy is not None:
        low, high = answers.accuracy.interval
        estimate = f"{answers.accuracy.estimate:.0%} (95% interval {low:.0%} to {high:.0%})"
        lines.append(f"Estimated accuracy, from held-back labels: {estimate}.")
    lines.append("Assignments are for ranking; laplacianshot.label(X, y) gives calibrated probabilities.")
    return "\n".join(lines)


def check_parameters(estimator: LaplacianShot) -> None:
    """ValueError for a parameter that is out of range, or that belongs to another recipe and would do nothing."""
    p = estimator.get_params()

    def boolean(value: Any) -> bool:
        return isinstance(value, bool | np.bool_)

    def number(value: Any) -> bool:
        return isinstance(value, Real) and not boolean(value)

    def integer(value: Any, least: int) -> bool:
        return isinstance(value, Integral) and not boolean(value) and int(value) >= least

    def named(value: Any, *names: str) -> bool:
        return isinstance(value, str) and value in names

    lam, base_mean, memory = p["lam"], p["base_mean"], p["memory"]
    like_array = isinstance(base_mean, list | tuple) or hasattr(base_mean, "__array__")
    rules = {
        "recipe": (named(p["recipe"], "default", "paper", "reference"), "'default', 'paper' or 'reference'"),
        "transform": (
            named(p["transform"], "auto", "none", "l2", "cl2", "power", "standard"),
            "'auto', 'cl2', 'power', 'standard', 'l2' or 'none'",
        ),
        "base_mean": (
            base_mean is None
            or named(base_mean, "pooled", "support")
            or (like_array and not isinstance(base_mean, str)),
            "an array, 'pooled', 'support' or None",
        ),
        "lam": (lam is None or (number(lam) and 0 <= lam <= MAX_LAM), f"a number from 0 to {MAX_LAM:g}, or None"),
        "n_neighbors": (p["n_neighbors"] is None or integer(p["n_neighbors"], 1), "an integer of at least 1, or None"),
        "rectify": (p["rectify"] is None or boolean(p["rectify"]), "True, False or None"),
        "balanced": (boolean(p["balanced"]), "True or False"),
        "class_shares": (
            p["class_shares"] is None
            or named(p["class_shares"], "equal")
            or isinstance(p["class_shares"], list | tuple)
            or hasattr(p["class_shares"], "__array__"),
            "an array with a share per class, 'equal' or None",
        ),
        "graph": (
            named(p["graph"], "auto", "exact", "cells") or sp.issparse(p["graph"]),
            "'auto', 'exact', 'cells' or a scipy sparse matrix",
        ),
        "max_iter": (p["max_iter"] is None or integer(p["max_iter"], 1), "an integer of at least 1, or None"),
        "tol": (number(p["tol"]) and p["tol"] >= 0, "a number of at least 0"),
        "memory": (
            memory is None or isinstance(memory, str) or (number(memory) and memory > 0),
            "a number of bytes above 0, a string such as '8GB', or None",
        ),
        "target_recall": (
            number(p["target_recall"]) and 0 < p["target_recall"] <= 1,
            "a number above 0 and of at most 1",
        ),
        "random_state": (integer(p["random_state"], 0), "an integer of at least 0"),
    }
    for name, (right, expected) in rules.items():
        if not right:
            got = " ".join(f"{p[name]!r:.200}".split())
            raise ValueError(f"The {name!r} parameter of LaplacianShot must be {expected}. Got {got} instead.")
    if p["recipe"] == "default" and p["rectify"] is not None:
        raise ValueError(
            f"rectify={p['rectify']!r} belongs to recipe='paper' and 'reference'; leave it None with 'default'."
        )
    if p["recipe"] != "default" and p["balanced"]:
        raise ValueError(f"balanced=True belongs to recipe='default'; leave it False with recipe={p['recipe']!r}.")
    if p["recipe"] != "default" and p["class_shares"] is not None:
        raise ValueError(f"class_shares belongs to recipe='default'; leave it None with recipe={p['recipe']!r}.")
    if p["balanced"] and p["class_shares"] is not None and not named(p["class_shares"], "equal"):
        raise ValueError("balanced=True says that class_shares are equal; leave one of them out.")
    if p["recipe"] != "default" and named(p["graph"], "cells"):
        raise ValueError(f"graph='cells' belongs to recipe='default'; {p['recipe']!r} needs an exact graph.")
    if p["transform"] not in ("auto", *CENTERED) and base_mean is not None:
        raise ValueError(
            f"base_mean belongs to transform='cl2' and 'power'; leave it None with transform={p['transform']!r}."
        )


def transform_of(
    estimator: LaplacianShot, features: Floats, lowest: float | None = None, *, named: bool = False
) -> Transform:
    """The transform that the estimator uses for rows (n, D).

    ``lowest`` as in :func:`choose_transform`; ``named``: they share a space with vectors of names.
    """
    given: Transform | Literal["auto"] = estimator.get_params()["transform"]
    if named and given in ("standard", "power"):
        raise ValueError("names are compared by direction; use transform='auto', 'cl2', 'l2' or 'none' with them.")
    if given != "auto":
        return given
    if named:
        return "cl2"
    if estimator.recipe != "default" or estimator.base_mean is not None:
        return "cl2"
    return choose_transform(features, lowest)


def is_balanced(estimator: LaplacianShot) -> bool:
    """Whether the user says that classes are equally frequent."""
    return bool(estimator.balanced) or isinstance(estimator.class_shares, str)


def center_of(
    estimator: LaplacianShot, features: Floats, codes: Ints, n_classes: int, hints: Hints | None = None
) -> Floats | None:
    """The center (D,) that ``cl2`` or ``power`` takes from features (n, D).

    Class numbers (n,) are -1 for unlabeled rows.
    """
    base_mean, transform = estimator.base_mean, estimator.get_params()["transform"]
    if transform not in CENTERED:
        return None
    if base_mean is None and estimator.recipe == "default":
        labeled = np.flatnonzero(codes >= 0)
        if hints is None or len(np.unique(codes[labeled])) == n_classes:
            return blended_center(features, codes, n_classes, balanced=is_balanced(estimator), transform=transform)
        pooled = mean_before(features, transform) if transform == "power" else ordinary_mean(features)
        if is_balanced(estimator):
            return pooled
        return hints.center(pooled, features[_sampled(codes)], features[labeled], codes[labeled], transform)
    if base_mean is None or isinstance(base_mean, str):
        return mean_before(features[codes >= 0] if base_mean == "support" else features, transform)
    return given_center(base_mean, features.shape[1], transform)


def constants_of(estimator: LaplacianShot, codes: Ints, n_classes: int) -> DefaultConstants:
    """The constants of the default recipe for rows with these class numbers (n,), with the user's choices."""
    n_query = int(np.count_nonzero(codes < 0))
    return constants_for(estimator, len(codes) - n_query, n_query, n_classes)


def constants_for(estimator: LaplacianShot, n_support: int, n_query: int, n_classes: int) -> DefaultConstants:
    """The constants of the default recipe for a task of this size, with the user's choices."""
    constants = DefaultConstants.for_task(n_support, n_query, n_classes, balanced=is_balanced(estimator))
    if estimator.class_shares is not None and not isinstance(estimator.class_shares, str):
        constants = constants.with_known_shares()
    return constants.with_choices(lam=estimator.lam, n_neighbors=estimator.n_neighbors, max_rounds=estimator.max_iter)


def _solve(
    estimator: LaplacianShot,
    features: Floats,
    codes: Ints,
    n_classes: int,
    *,
    watch: Watch | None = None,
    checkpoint: Path | None = None,
    knowledge: Knowledge = NOTHING_KNOWN,
    hints: Hints | None = None,
) -> Solution:
    """Solve a task by formulas, in memory by the engine, or block by block, as its size demands.

    Columns that shall have one scale have it already.
    """
    plan = _large_plan(estimator, features, codes, n_classes)
    given: Transform = estimator.get_params()["transform"]
    table = given == "standard"
    transform: Transform = "none" if table else given
    with single_threaded_blas():
        center = center_of(estimator, features, codes, n_classes, hints)
        known = (knowledge, hints)
        if plan is None and len(features) <= SMALL_ROWS:
            return _solve_in_memory(estimator, features, transform, center, codes, n_classes, table, FORMULAS, *known)
    # Here and below, as small tasks shall not wait for numba.
    if plan is None:
        from laplacianshot.engine.small import NUMERICS

        return _solve_in_memory(estimator, features, transform, center, codes, n_classes, table, NUMERICS, *known)
    from laplacianshot.engine.large import LargeTask, solve_large

    constants = constants_of(estimator, codes, n_classes)
    task = LargeTask(features, codes, n_classes, transform, center, constants, plan, table, *known)
    return solve_large(task, tol=estimator.tol, watch=watch, checkpoint=checkpoint)


def _sampled(codes: Ints) -> Ints:
    """The queries that questions are asked of: rows of X."""
    queries = np.flatnonzero(codes < 0)
    return queries[sample_rows(len(queries))]


def hints_of(features: Floats, codes: Ints, n_classes: int, knowledge: Knowledge) -> Hints | None:
    """What names and a prior say of rows (n, D) with class numbers (n,), -1 for unlabeled ones; None without either."""
    if not knowledge.of_rows:
        return None
    labeled, sampled = np.flatnonzero(codes >= 0), _sampled(codes)
    with single_threaded_blas():
        return read_hints(knowledge, features[sampled], sampled, features[labeled], labeled, codes[labeled], n_classes)


def _solve_in_memory(
    estimator: LaplacianShot,
    features: Floats,
    transform: Transform,
    center: Floats | None,
    codes: Ints,
    n_classes: int,
    table: bool,
    numerics: Numerics,
    knowledge: Knowledge = NOTHING_KNOWN,
    hints: Hints | None = None,
) -> Solution:
    """Solve a task whose rows are in memory together."""
    labeled, queries = np.flatnonzero(codes >= 0), np.flatnonzero(codes < 0)
    order = np.concatenate([labeled, queries])
    nodes = numerics.transform_features(features, transform, center, rows=order)
    graph = None
    if sp.issparse(estimator.graph):
        graph = check_affinity(estimator.graph, len(features), dtype=nodes.dtype)[order][:, order]
    task = Task(nodes, codes[labeled], n_classes, graph)
    if estimator.recipe == "default":
        base = task.support if len(labeled) else task.query
        origin = np.zeros(nodes.shape[1], nodes.dtype) if transform in CENTERED else base.mean(axis=0)
        constants = constants_of(estimator, codes, n_classes)
        sample = task.query[sample_rows(len(queries))]
        with single_threaded_blas():
            constants, clues, answers = informed(
                task.support, task.labels, sample, origin, len(queries), n_classes, constants,
                knowledge=knowledge, hints=hints, transform=transform, center=center, table=table,
            )  # fmt: skip
        known = None if answers.hints is None else answers.hints.row_logits(queries)
        how: Any = {"tol": estimator.tol, "table": table, "numerics": numerics, "known": known}
        solution = solve_default(task, origin, constants, clues=clues, **how)
        if len(queries) and answers.collapsed(solution.assignments.mean(axis=0, dtype=np.float64)):
            answers = replace(answers, prototypes_held=True)
            constants, clues = hold_prototypes(constants, clues)
            solution = solve_default(task, origin, constants, clues=clues, **how)
        back = np.argsort(order)
        solution = replace(solution, answers=answers, graph=sp.csr_array(solution.graph[back][:, back]))
    else:
        choices = BoundChoices(
            lam=PUBLISHED_LAM if estimator.lam is None else estimator.lam,
            n_neighbors=PUBLISHED_NEIGHBORS if estimator.n_neighbors is None else estimator.n_neighbors,
            rectify=True if estimator.rectify is None else estimator.rectify,
            max_iter=estimator.max_iter,
            tol=estimator.tol,
        )
        solution = (solve_paper if estimator.recipe == "paper" else solve_reference)(task, choices, numerics)
    return replace(solution.of_all_rows(codes), transform=transform, center=center)


def _large_plan(estimator: LaplacianShot, features: Floats, codes: Ints, n_classes: int) -> LargePlan | None:
    """How a task that is too large for memory is solved, None for others; MemoryError if no way fits the budget."""
    n, n_query = len(codes), int(np.count_nonzero(codes < 0))
    method: Any = estimator.graph if isinstance(estimator.graph, str) else "exact"
    can_be_large = estimator.recipe == "default" and method in ("auto", "cells")
    large = can_be_large and (method == "cells" or is_large(n, n_query, n_classes))
    if estimator.memory is None and not large:
        return None
    from laplacianshot.engine.plan import GraphChoice, plan_fit

    k = constants_of(estimator, codes, n_classes).n_neighbors if estimator.recipe == "default" else PUBLISHED_NEIGHBORS
    return plan_fit(
        (n, n_query, n_classes, features.shape[1], k),
        GraphChoice(method, target_recall=estimator.target_recall, seed=estimator.random_state),
        can_be_large=can_be_large,
        memory=estimator.memory,
        itemsize=working_dtype(features).itemsize,
    )
