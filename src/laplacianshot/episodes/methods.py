"""Every method by name, ours and what it is compared with: its title, its settings, and how to make one."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any

from sklearn import linear_model
from sklearn.neighbors import KNeighborsClassifier

from laplacianshot.baselines.bavardage import Bavardage
from laplacianshot.baselines.contract import Inductive
from laplacianshot.baselines.ilpc import ILPC
from laplacianshot.baselines.label_spreading import LabelPropagation, PublishedLabelSpreading
from laplacianshot.baselines.linear import EntropyTuning, LogisticRegression, MatchingAttention, RidgeRegression
from laplacianshot.baselines.mdl import EMDirichlet, Paddle
from laplacianshot.baselines.prototype import PTMAP, NearestPrototype, PseudoLabels, RectifiedPrototype
from laplacianshot.baselines.tim import TIM, AlphaTIM
from laplacianshot.estimator import LaplacianShot
from laplacianshot.inference.recipes import PUBLISHED_LAM, PUBLISHED_NEIGHBORS
from laplacianshot.runtime.errors import suggestion

_PUBLISHED = f"lam {PUBLISHED_LAM}, n_neighbors {PUBLISHED_NEIGHBORS}"


@dataclass(frozen=True)
class Method:
    """A method that can be named; ``make`` returns a new :class:`~laplacianshot.baselines.TransductiveClassifier`."""

    title: str  # what a table prints
    settings: str  # what it runs with, in one line
    make: Callable[[], Any] = field(repr=False)

    @property
    def slow(self) -> bool:
        """Whether a task costs so much more than with others that fewer of them are run in our tables."""
        return bool(getattr(self.make(), "slow", False))


METHODS: Mapping[str, Method] = MappingProxyType(
    {
        # The support alone.
        "simpleshot-un": Method("SimpleShot UN", "rows as they are", lambda: NearestPrototype("none")),
        "simpleshot-l2": Method("SimpleShot L2N", "L2-normalized rows", lambda: NearestPrototype("l2")),
        "simpleshot-cl2": Method("SimpleShot CL2N", "centered, L2-normalized rows", NearestPrototype),
        "matching-net": Method("MatchingNet attention", "temperature 1", MatchingAttention),
        "ridge": Method("Ridge regression", "penalty 1, no intercept", RidgeRegression),
        "logistic": Method("Logistic regression", "penalty 1 (C 1), intercept", LogisticRegression),
        # Support and queries together.
        "bd-cspn": Method("BD-CSPN", "temperature 10, squared distances", RectifiedPrototype),
        "can-t": Method("CAN-T pseudo-labels", "2 rounds, 35 of 75 queries added in each", PseudoLabels),
        "label-propagation": Method(
            "Label propagation (TPN)", "alpha 0.99, 20 neighbors, scale by the last of them", LabelPropagation
        ),
        "entropy-tuning": Method("Entropy fine-tuning", "head only, temperature 10, 25 steps", EntropyTuning),
        "tim": Method("TIM", "lam 0.1, alpha 0.1, temperature 15, 150 rounds", TIM),
        "alpha-tim": Method("alpha-TIM", "alpha 2, temperature 15, 60 steps", AlphaTIM),
        "pt-map": Method("PT-MAP", "power transform, lam 10, rate 0.2, 20 rounds", PTMAP),
        "ilpc": Method("iLPC", "power transform, 15 neighbors, alpha 0.8, 3 queries per class and round", ILPC),
        "bavardage": Method("BAVARDAGE", "start temperature 10, shrinkage 0.95, 20 rounds", Bavardage),
        "paddle": Method("PADDLE", "lam N, temperature 20, 20 rounds", Paddle),
        "em-dirichlet": Method("EM-Dirichlet", "lam N, temperature 3 to class means, 20 rounds", EMDirichlet),
        "label-spreading": Method(
            "LabelSpreading",
            "centered, L2-normalized rows; scikit-learn's own alpha 0.2, gamma 20, 30 rounds",
            lambda: PublishedLabelSpreading("rbf", space="cl2", alpha=0.2, gamma=20.0),
        ),
        "label-spreading-rbf": Method(
            "LabelSpreading rbf",
            "rows as they are, alpha 0.99, gamma by the spanning-tree rule, 30 rounds",
            lambda: PublishedLabelSpreading("rbf"),
        ),
        "label-spreading-knn": Method(
            "LabelSpreading knn",
            "rows as they are, alpha 0.99, 7 neighbors, 300 rounds",
            # A round over a sparse graph costs next to nothing, so it may have more of them.
            lambda: PublishedLabelSpreading("knn", max_iter=300),
        ),
        # Classifiers of scikit-learn, for whole data sets.
        "1-nearest-neighbor": Method(
            "1-nearest-neighbor",
            "scikit-learn, rows as they are",
            lambda: Inductive(KNeighborsClassifier(n_neighbors=1)),
        ),
        "logistic-regression": Method(
            "Logistic regression (scikit-learn)",
            "C 1, rows on one common scale",
            lambda: Inductive(linear_model.LogisticRegression(max_iter=1000), scaling="common"),
        ),
        # Ours.
        "laplacianshot": Method("LaplacianShot", "default recipe: constants by the size of the task", LaplacianShot),
        "laplacianshot-balanced": Method(
            "LaplacianShot, balanced",
            "default recipe, given that classes are equally frequent",
            lambda: LaplacianShot(balanced=True),
        ),
        "laplacianshot-paper": Method(
            "LaplacianShot paper", f"as written: {_PUBLISHED}, symmetric graph", LaplacianShot.paper
        ),
        "laplacianshot-reference": Method(
            "LaplacianShot reference",
            f"authors' code: {_PUBLISHED} with the row itself, directed graph",
            LaplacianShot.reference,
        ),
    }
)


# Other names under which a method is found: earlier spellings, and the plain name of a published method.
ALIASES: Mapping[str, str] = MappingProxyType(
    {"nearest-prototype": "simpleshot-cl2", "1-nearest-neighbour": "1-nearest-neighbor"}
)


def find_method(name: str) -> Method:
    """The method of that name or alias; ValueError for an unknown one."""
    name = ALIASES.get(name, name)
    if name not in METHODS:
        raise ValueError(f"there is no method {name!r}; {suggestion(name, METHODS)}")
    return METHODS[name]


def make_method(name: str) -> Any:
    """A new estimator.

    Parameters
    ----------
    name : str
        One of :data:`METHODS` or :data:`ALIASES`.

    Returns
    -------
    TransductiveClassifier

    Examples
    --------
    >>> make_method("simpleshot-cl2")
    NearestPrototype()
    """
    return find_method(name).make()
