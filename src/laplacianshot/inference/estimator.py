"""The estimator: scikit-learn's semi-supervised convention around the three recipes."""

from __future__ import annotations

from dataclasses import replace
from numbers import Integral, Real
from typing import Any, ClassVar, Literal, Self, TypeAlias

import numpy as np
import scipy.sparse as sp
from numpy.typing import ArrayLike
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.utils._param_validation import Interval, StrOptions
from sklearn.utils.validation import check_array, check_consistent_length, check_is_fitted, validate_data

from laplacianshot.inference._types import Floats, Ints, Labels
from laplacianshot.inference.affinity import check_affinity
from laplacianshot.inference.bound import LARGEST_LAM, TOLERANCE
from laplacianshot.inference.center import blended_center
from laplacianshot.inference.labels import encode_labels
from laplacianshot.inference.recipes import PUBLISHED_LAM, PUBLISHED_NEIGHBORS, RecipeName
from laplacianshot.inference.solve import Solution, Task, solve_default, solve_paper, solve_reference
from laplacianshot.inference.transforms import Transform, transform_features, working_dtype
from laplacianshot.inference.transforms import base_mean as mean_of_rows

BaseMean: TypeAlias = ArrayLike | Literal["pooled", "support"] | None


_DTYPES = [np.float64, np.float32, np.float16]


class _HiddenParameter:
    """A constructor parameter that is no attribute.

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
    transform : {"cl2", "l2", "none"}
        Centre and L2-normalise the rows, only L2-normalise them, or leave them.
    base_mean : array of shape (D,) or (n_base, D), "pooled", "support" or None
        What ``cl2`` takes away: the mean of the base classes, a base set to take the mean of, or the mean of all rows
        (``"pooled"``) or of the labelled rows (``"support"``) of X. None: the mean of all rows for paper and reference;
        for default between the two, by the class shares at first look
        (:func:`~laplacianshot.inference.center.blended_center`).
    lam : float, optional
        Weight of the graph. None: the recipe's own (0.7 for paper and reference, by the size of the task for default).
    n_neighbors : int, optional
        Neighbours of a row. None: the recipe's own (3 for paper and reference, by the size of the task for default).
        ``reference`` counts the row itself, as the authors' code does.
    rectify : bool, optional
        Shift the queries and borrow from them for the prototypes, as in the paper's tables. None: True for paper and
        reference; the default recipe has its own way and takes no value.
    balanced : bool
        Default recipe only: the unlabelled rows are known to hold as many of each class.
    graph : "auto" or scipy sparse matrix of shape (n, n)
        Exact nearest neighbours, or affinities >= 0 between the rows of X. The default recipe and the paper take the
        symmetric part ``(W + W^T)/2``; the reference takes it as it is.
    max_iter : int, optional
        Most updates. None: the recipe's own.
    tol : float
        Relative change at which updates stop.

    Attributes
    ----------
    transduction_ : array of shape (n,)
        A label for every row of X; labelled rows keep theirs.
    label_distributions_ : array of shape (n, C)
        How much each class claims each row; certainty for labelled rows.
    classes_ : array of shape (C,)
    prototypes_ : array of shape (C, D)
        In transformed space.
    objective_ : array of shape (n_iter_,)
        What the recipe minimises, after each update: F (default), R (paper) or E (reference).
    bound_ : array of shape (n_iter_,)
        The bound that each update minimised (paper, reference).
    unary_ : array of shape (N, C)
        Squared distances of the unlabelled rows to the prototypes (paper, reference).
    affinity_ : csr_array
        The graph: over all rows of X (default) or over the unlabelled ones (paper, reference).
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

    transform = _HiddenParameter()

    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {
        "recipe": [StrOptions({"default", "paper", "reference"})],
        "transform": [StrOptions({"none", "l2", "cl2"})],
        "base_mean": ["array-like", StrOptions({"pooled", "support"}), None],
        "lam": [Interval(Real, 0, LARGEST_LAM, closed="both"), None],
        "n_neighbors": [Interval(Integral, 1, None, closed="left"), None],
        "rectify": ["boolean", None],
        "balanced": ["boolean"],
        "graph": [StrOptions({"auto"}), "sparse matrix"],
        "max_iter": [Interval(Integral, 1, None, closed="left"), None],
        "tol": [Interval(Real, 0, None, closed="left")],
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
            A label or, for unlabelled rows, -1 (numbers), None, NaN or "" (strings).

        Returns
        -------
        self
        """
        self._validate_params()
        self._check_choices()
        if y is None:
            raise ValueError(
                "LaplacianShot requires y to be passed, but the target y is None: give a label, or -1, for each row."
            )
        # Checked here and stored at the end: a fit that fails leaves the estimator as it was.
        features: Floats = check_array(X, dtype=_DTYPES, estimator=self, input_name="X")
        _check_size(features)
        check_consistent_length(features, y)
        encoded = encode_labels(y)
        if len(encoded.classes) < 2:
            raise ValueError(
                f"y has labels of one class only ({encoded.classes[0]}); label at least one row of a second class. "
                "(-1, NaN, None and '' mean unlabelled.)"
            )
        labelled = np.flatnonzero(encoded.codes >= 0)
        unlabelled = np.flatnonzero(encoded.codes < 0)
        center = self._center(features, encoded.codes, len(encoded.classes))
        solution = self._solve(features, center, encoded.codes, labelled, unlabelled, len(encoded.classes))

        validate_data(self, X, skip_check_array=True)
        self.center_ = center
        self._fitted_transform = self._transform
        self.classes_: Labels = encoded.classes
        self.label_distributions_: Floats = np.zeros((len(features), len(self.classes_)), solution.assignments.dtype)
        self.label_distributions_[labelled, encoded.codes[labelled]] = 1
        self.label_distributions_[unlabelled] = solution.assignments
        self.transduction_: Labels = self.classes_[self.label_distributions_.argmax(axis=1)]
        self.prototypes_ = solution.prototypes
        self.objective_ = solution.objective
        self.n_iter_ = len(solution.objective)
        self.converged_ = solution.converged
        self.lam_ = solution.lam
        self.affinity_ = solution.affinity
        for name, value in (("bound_", solution.bound), ("unary_", solution.unary)):
            self.__dict__.pop(name, None)
            if value is not None:
                setattr(self, name, value)
        self._rule = solution.rule
        return self

    def predict_proba(self, X: ArrayLike) -> Floats:
        """How much each class claims each row of X (m, D), which ``fit`` need not have seen: (m, C), rows sum to one.

        For ranking: like ``label_distributions_`` they are not calibrated.

        A row takes part in one update of the fitted graph: its distances to the prototypes and the assignments of the
        fitted rows nearest to it. Nothing is fitted again.
        """
        check_is_fitted(self)
        features: Floats = validate_data(self, X, reset=False, dtype=_DTYPES)
        _check_size(features)
        return self._rule(transform_features(features, self._fitted_transform, self.center_))

    def predict(self, X: ArrayLike) -> Labels:
        """The most probable class of each row, (m,)."""
        probabilities = self.predict_proba(X)
        labels: Labels = self.classes_[probabilities.argmax(axis=1)]
        return labels

    @property
    def _transform(self) -> Transform:
        chosen: Transform = self.__dict__["transform"]
        return chosen

    def _check_choices(self) -> None:
        """Refuse parameters that belong to another recipe: they would silently do nothing."""
        if self.recipe == "default" and self.rectify is not None:
            raise ValueError(
                f"rectify={self.rectify!r} belongs to recipe='paper' and 'reference'; leave it None with 'default'."
            )
        if self.recipe != "default" and self.balanced:
            raise ValueError(f"balanced=True belongs to recipe='default'; leave it False with recipe={self.recipe!r}.")
        if self._transform != "cl2" and self.base_mean is not None:
            raise ValueError(f"base_mean belongs to transform='cl2'; leave it None with transform={self._transform!r}.")

    def _center(self, features: Floats, codes: Ints, n_classes: int) -> Floats | None:
        if self._transform != "cl2":
            return None
        if self.base_mean is None and self.recipe == "default":
            return blended_center(features, codes, n_classes, balanced=self.balanced)
        if self.base_mean is None or isinstance(self.base_mean, str):
            return mean_of_rows(features[codes >= 0] if self.base_mean == "support" else features)
        return given_center(self.base_mean, features.shape[1])

    def _solve(
        self,
        features: Floats,
        center: Floats | None,
        codes: Ints,
        labelled: Ints,
        unlabelled: Ints,
        n_classes: int,
    ) -> Solution:
        order = np.concatenate([labelled, unlabelled])
        nodes = transform_features(features, self._transform, center, rows=order)
        graph = None
        if sp.issparse(self.graph):
            graph = check_affinity(self.graph, len(features), dtype=nodes.dtype)[order][:, order]
        task = Task(nodes, codes[labelled], n_classes, graph)
        limits: dict[str, Any] = {"max_iter": self.max_iter, "tol": self.tol}
        if self.recipe == "default":
            origin = np.zeros(nodes.shape[1], nodes.dtype) if self._transform == "cl2" else task.support.mean(axis=0)
            solution = solve_default(
                task, origin, lam=self.lam, n_neighbors=self.n_neighbors, balanced=self.balanced, **limits
            )
            back = np.argsort(order)
            return replace(solution, affinity=sp.csr_array(solution.affinity[back][:, back]))
        solve = solve_paper if self.recipe == "paper" else solve_reference
        return solve(
            task,
            lam=PUBLISHED_LAM if self.lam is None else self.lam,
            n_neighbors=PUBLISHED_NEIGHBORS if self.n_neighbors is None else self.n_neighbors,
            rectify=True if self.rectify is None else self.rectify,
            **limits,
        )


def given_center(base_mean: ArrayLike, n_features: int) -> Floats:
    """A base mean, or the mean of a base set, as (D,) float64, or an error that says what is wrong with it."""
    try:
        center = np.asarray(base_mean)
    except ValueError as error:
        raise ValueError(f"base_mean must be an array of shape (D,) or (n_base, D): {error}") from None
    if center.dtype.kind not in "fiu":
        raise TypeError(f"base_mean must hold numbers, got dtype {center.dtype}.")
    shape = center.shape
    if center.ndim == 2 and len(center) > 0:
        center = mean_of_rows(center)
    if center.shape != (n_features,):
        raise ValueError(
            f"base_mean has shape {shape}, expected ({n_features},), or (n_base, {n_features}) for a base set: a value "
            "for each feature of X."
        )
    if not np.all(np.isfinite(center)):
        raise ValueError("base_mean has NaN or infinite entries.")
    return center.astype(np.float64)


def _check_size(features: Floats) -> None:
    """Refuse entries whose squares are no numbers any more."""
    largest = max(float(features.max()), -float(features.min()))
    if largest > float(np.finfo(working_dtype(features)).max) ** 0.5 / 1e3:
        raise ValueError(f"X has entries as large as {largest:.3g}, whose squares overflow; divide X by a constant.")
