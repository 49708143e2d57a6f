"""The estimator: scikit-learn's semi-supervised convention around the three recipes."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from numbers import Integral, Real
from pathlib import Path
from typing import Any, ClassVar, Self

from numpy.typing import ArrayLike
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.utils._param_validation import Interval, StrOptions
from sklearn.utils.validation import check_consistent_length, check_is_fitted, validate_data

from laplacianshot._attributes import GraphWhenAsked, HiddenParameter
from laplacianshot.engine.choices import BaseMean, Choices, Engine
from laplacianshot.inference.bound import LARGEST_LAM, TOLERANCE
from laplacianshot.inference.labels import encode_labels
from laplacianshot.inference.recipes import (
    PUBLISHED_LAM,
    PUBLISHED_NEIGHBORS,
    RecipeName,
)
from laplacianshot.inference.transforms import Transform, transform_features
from laplacianshot.runtime.arrays import DTYPES, check_size, checked_rows
from laplacianshot.runtime.limits import TARGET_RECALL
from laplacianshot.runtime.types import Floats, Labels


class LaplacianShot(ClassifierMixin, BaseEstimator):  # type: ignore[misc]
    """Label a handful of rows, and the graph labels the rest.

    Parameters
    ----------
    recipe : {"default", "paper", "reference"}
        ``default`` is what we recommend. ``paper`` is the text of the paper and ``reference`` its authors' code; both
        are most easily made with :meth:`paper` and :meth:`reference`.
    transform : {"cl2", "l2", "none"}
        Center and L2-normalize the rows, only L2-normalize them, or leave them.
    base_mean : array of shape (D,) or (n_base, D), "pooled", "support" or None
        What ``cl2`` takes away: the mean of the base classes, a base set to take the mean of, or the mean of all rows
        (``"pooled"``) or of the labeled rows (``"support"``) of X. None: the mean of all rows for paper and reference;
        for default between the two, by the class shares at first look
        (:func:`~laplacianshot.inference.center.blended_center`).
    lam : float, optional
        Weight of the graph. None: the recipe's own (0.7 for paper and reference, by the size of the task for default).
    n_neighbors : int, optional
        Neighbors of a row. None: the recipe's own (3 for paper and reference, by the size of the task for default).
        ``reference`` counts the row itself, as the authors' code does.
    rectify : bool, optional
        Shift the queries and borrow from them for the prototypes, as in the paper's tables. None: True for paper and
        reference; the default recipe has its own way and takes no value.
    balanced : bool
        Default recipe only: the unlabeled rows are known to hold as many of each class.
    graph : {"auto", "exact", "cells"} or scipy sparse matrix of shape (n, n)
        Nearest neighbors, or affinities >= 0 between the rows of X. The default recipe and the paper take the
        symmetric part ``(W + W^T)/2``; the reference takes it as it is. With ``"auto"`` the default recipe finds the
        neighbors of more than 50,000 rows approximately (:mod:`laplacianshot.engine`), and says how well in
        ``graph_recall_``; all others are exact. ``"cells"`` finds them approximately in a set of any size.
    max_iter : int, optional
        Most updates. None: the recipe's own.
    tol : float
        Relative change at which updates stop.
    memory : int, float or str, optional
        Most bytes that ``fit`` may take beyond X, such as ``"8GB"``. MemoryError before the work starts where that is
        too little. None: no limit.
    target_recall : float
        Share of the true neighbors that an approximate graph shall have.
    random_state : int
        Seed of the approximate graph, the only thing that is drawn.

    Attributes
    ----------
    transduction_ : array of shape (n,)
        A label for every row of X; labeled rows keep theirs.
    label_distributions_ : array of shape (n, C)
        How much each class claims each row; certainty for labeled rows. A ``csr_array`` of the largest entries where
        rows and classes are too many for all of them.
    classes_ : array of shape (C,)
    prototypes_ : array of shape (C, D)
        In transformed space.
    objective_ : array of shape (n_iter_,)
        What the recipe minimizes, after each update: F (default), R (paper) or E (reference).
    bound_ : array of shape (n_iter_,)
        The bound that each update minimized (paper, reference).
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
    center_ : array of shape (D,) or None
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

    transform = HiddenParameter()
    affinity_ = GraphWhenAsked()

    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {
        "recipe": [StrOptions({"default", "paper", "reference"})],
        "transform": [StrOptions({"none", "l2", "cl2"})],
        "base_mean": ["array-like", StrOptions({"pooled", "support"}), None],
        "lam": [Interval(Real, 0, LARGEST_LAM, closed="both"), None],
        "n_neighbors": [Interval(Integral, 1, None, closed="left"), None],
        "rectify": ["boolean", None],
        "balanced": ["boolean"],
        "graph": [StrOptions({"auto", "exact", "cells"}), "sparse matrix"],
        "max_iter": [Interval(Integral, 1, None, closed="left"), None],
        "tol": [Interval(Real, 0, None, closed="left")],
        "memory": [Interval(Real, 0, None, closed="neither"), str, None],
        "target_recall": [Interval(Real, 0, 1, closed="right")],
        "random_state": [Interval(Integral, 0, None, closed="left")],
    }

    def __init__(
        self,
        recipe: RecipeName = "default",
        *,
        transform: Transform = "cl2",
        base_mean: BaseMean = None,
        lam: float | None = None,
        n_neighbors: int | None = None,
        rectify: bool | None = None,
        balanced: bool = False,
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
        """The paper as written, on a graph made symmetric and positive semi-definite so that its proof holds.

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

    def fit(self, X: ArrayLike, y: ArrayLike) -> Self:
        """Label every row of ``X`` from the few that have a label.

        Parameters
        ----------
        X : array of shape (n, D)
            Dense numbers: float16, float32, float64 or integers, in memory or memory-mapped.
        y : array of shape (n,)
            A label or, for unlabeled rows, -1 (numbers), None, NaN or "" (strings).

        Returns
        -------
        self
        """
        return self._fit(X, y)

    def _fit(
        self,
        X: ArrayLike,
        y: ArrayLike,
        *,
        watch: Callable[[str], Callable[[int, int], object]] | None = None,
        checkpoint: Path | None = None,
        engine: Engine | None = None,
    ) -> Self:
        """``fit``, telling ``watch`` of its stages and keeping finished ones in ``checkpoint`` (large sets)."""
        self._validate_params()
        choices = self._choices
        choices.check()
        if y is None:
            raise ValueError(
                "LaplacianShot requires y to be passed, but the target y is None: give a label, or -1, for each row."
            )
        # Checked here and stored at the end: a fit that fails leaves the estimator as it was.
        features = checked_rows(X, self)
        check_consistent_length(features, y)
        encoded = encode_labels(y)
        if len(encoded.classes) < 2:
            raise ValueError(
                f"y has labels of one class only ({encoded.classes[0]}); label at least one row of a second class. "
                "(-1, NaN, None and '' mean unlabeled.)"
            )
        fit = choices.fit if engine is None else partial(engine, choices)
        center, fitted = fit(features, encoded.codes, len(encoded.classes), watch=watch, checkpoint=checkpoint)

        validate_data(self, X, skip_check_array=True)
        self.center_ = center
        self._fitted_transform = self._transform
        self.classes_: Labels = encoded.classes
        self.label_distributions_ = fitted.distributions
        self.transduction_: Labels = self.classes_[fitted.labels]
        self.prototypes_ = fitted.prototypes
        self.objective_ = fitted.objective
        self.n_iter_ = len(fitted.objective)
        self.converged_ = fitted.converged
        self.lam_ = fitted.lam
        self.graph_recall_ = fitted.graph_recall
        self.dropped_mass_ = fitted.dropped_mass
        for name in ("affinity_", "bound_", "unary_", "graph_report_", "_graph"):
            self.__dict__.pop(name, None)
        for name, value in fitted.extras.items():
            setattr(self, name, value)
        self._rule = fitted.rule
        return self

    def predict_proba(self, X: ArrayLike) -> Floats:
        """How much each class claims each row of X (m, D), which ``fit`` need not have seen: (m, C), rows sum to one.

        For ranking: like ``label_distributions_`` they are not calibrated.

        A row takes part in one update of the fitted graph: its distances to the prototypes and the assignments of the
        fitted rows nearest to it. Nothing is fitted again.
        """
        check_is_fitted(self)
        features: Floats = validate_data(self, X, reset=False, dtype=DTYPES)
        check_size(features)
        probabilities: Floats = self._rule(transform_features(features, self._fitted_transform, self.center_))
        return probabilities

    def predict(self, X: ArrayLike) -> Labels:
        """The most probable class of each row, (m,)."""
        probabilities = self.predict_proba(X)
        labels: Labels = self.classes_[probabilities.argmax(axis=1)]
        return labels

    @property
    def _transform(self) -> Transform:
        chosen: Transform = self.__dict__["transform"]
        return chosen

    @property
    def _choices(self) -> Choices:
        return Choices(**self.get_params())
