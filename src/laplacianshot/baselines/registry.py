"""Every method by name: what tables print of it, and how to make one."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any

from sklearn import linear_model
from sklearn.neighbors import KNeighborsClassifier

from laplacianshot.baselines.attention import MatchingAttention
from laplacianshot.baselines.entropy import EntropyTuning
from laplacianshot.baselines.inductive import Inductive
from laplacianshot.baselines.label_spreading import PublishedLabelSpreading
from laplacianshot.baselines.linear import LogisticRegression, RidgeRegression
from laplacianshot.baselines.propagation import LabelPropagation
from laplacianshot.baselines.prototype import NearestPrototype, RectifiedPrototype
from laplacianshot.baselines.pseudo_labels import PseudoLabels
from laplacianshot.baselines.pt_map import PTMAP
from laplacianshot.baselines.tim import TIM, AlphaTIM
from laplacianshot.estimator import LaplacianShot
from laplacianshot.inference.recipes import PUBLISHED_LAM, PUBLISHED_NEIGHBORS

_PUBLISHED = f"lam {PUBLISHED_LAM}, n_neighbors {PUBLISHED_NEIGHBORS}"


@dataclass(frozen=True)
class Entry:
    """A method that can be named.

    Attributes
    ----------
    title : str
        What a table prints.
    settings : str
        What it runs with, in one line.
    make : callable
        Returns a new estimator under the contract of
        :class:`~laplacianshot.baselines.contract.TransductiveClassifier`.
    """

    title: str
    settings: str
    make: Callable[[], Any] = field(repr=False)

    @property
    def slow(self) -> bool:
        """Whether a task costs so much more than with others that fewer of them are run in our tables."""
        return bool(getattr(self.make(), "slow", False))


BASELINES: Mapping[str, Entry] = MappingProxyType(
    {
        # The support alone.
        "nearest-prototype": Entry("Nearest prototype", "centered, L2-normalized rows", NearestPrototype),
        "simpleshot-un": Entry("SimpleShot UN", "rows as they are", lambda: NearestPrototype("none")),
        "simpleshot-l2": Entry("SimpleShot L2N", "L2-normalized rows", lambda: NearestPrototype("l2")),
        "simpleshot-cl2": Entry("SimpleShot CL2N", "centered, L2-normalized rows", NearestPrototype),
        "matching-net": Entry("MatchingNet attention", "temperature 1", MatchingAttention),
        "ridge": Entry("Ridge regression", "penalty 1, no intercept", RidgeRegression),
        "logistic": Entry("Logistic regression", "penalty 1 (C 1), intercept", LogisticRegression),
        # Support and queries together.
        "bd-cspn": Entry("BD-CSPN", "temperature 10, squared distances", RectifiedPrototype),
        "can-t": Entry("CAN-T pseudo-labels", "2 rounds, 35 of 75 queries added in each", PseudoLabels),
        "label-propagation": Entry(
            "Label propagation (TPN)", "alpha 0.99, 20 neighbors, scale by the last of them", LabelPropagation
        ),
        "entropy-tuning": Entry("Entropy fine-tuning", "head only, temperature 10, 25 steps", EntropyTuning),
        "tim": Entry("TIM", "lam 0.1, alpha 0.1, temperature 15, 150 rounds", TIM),
        "alpha-tim": Entry("alpha-TIM", "alpha 2, temperature 15, 60 steps", AlphaTIM),
        "pt-map": Entry("PT-MAP", "power transform, lam 10, rate 0.2, 20 rounds", PTMAP),
        "label-spreading": Entry(
            "LabelSpreading",
            "centered, L2-normalized rows; scikit-learn's own alpha 0.2, gamma 20, 30 rounds",
            lambda: PublishedLabelSpreading("rbf", space="cl2", alpha=0.2, gamma=20.0),
        ),
        "label-spreading-rbf": Entry(
            "LabelSpreading rbf",
            "rows as they are, alpha 0.99, gamma by the spanning-tree rule, 30 rounds",
            lambda: PublishedLabelSpreading("rbf"),
        ),
        "label-spreading-knn": Entry(
            "LabelSpreading knn",
            "rows as they are, alpha 0.99, 7 neighbors, 300 rounds",
            # A round over a sparse graph costs next to nothing, so it may have more of them.
            lambda: PublishedLabelSpreading("knn", max_iter=300),
        ),
        # scikit-learn's classifiers, for whole data sets.
        "1-nearest-neighbour": Entry(
            "1-nearest-neighbour",
            "scikit-learn, rows as they are",
            lambda: Inductive(KNeighborsClassifier(n_neighbors=1)),
        ),
        "logistic-regression": Entry(
            "Logistic regression (scikit-learn)",
            "C 1, rows on one common scale",
            lambda: Inductive(linear_model.LogisticRegression(max_iter=1000), scaling="common"),
        ),
        # Ours.
        "laplacianshot": Entry("LaplacianShot", "default recipe: constants by the size of the task", LaplacianShot),
        "laplacianshot-balanced": Entry(
            "LaplacianShot, balanced",
            "default recipe, told that classes are equally frequent",
            lambda: LaplacianShot(balanced=True),
        ),
        "laplacianshot-paper": Entry(
            "LaplacianShot paper", f"as written: {_PUBLISHED}, symmetric graph", LaplacianShot.paper
        ),
        "laplacianshot-reference": Entry(
            "LaplacianShot reference",
            f"authors' code: {_PUBLISHED} with the row itself, directed graph",
            LaplacianShot.reference,
        ),
    }
)


def baseline(name: str) -> Any:
    """A new estimator of that name.

    Parameters
    ----------
    name : str
        One of :data:`BASELINES`.

    Returns
    -------
    TransductiveClassifier

    Examples
    --------
    >>> baseline("nearest-prototype")
    NearestPrototype()
    """
    if name not in BASELINES:
        raise ValueError(f"there is no baseline {name!r}; choose one of: {', '.join(BASELINES)}.")
    return BASELINES[name].make()
