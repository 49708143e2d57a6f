"""Baselines by name."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType

from sklearn.linear_model import LogisticRegression
from sklearn.neighbors import KNeighborsClassifier

from laplacianshot.baselines.contract import Baseline
from laplacianshot.baselines.inductive import Inductive
from laplacianshot.baselines.label_spreading import PublishedLabelSpreading
from laplacianshot.baselines.prototype import NearestPrototype

BASELINES: Mapping[str, Callable[[], Baseline]] = MappingProxyType(
    {
        "nearest-prototype": NearestPrototype,
        "1-nearest-neighbour": lambda: Inductive(KNeighborsClassifier(n_neighbors=1)),
        "logistic-regression": lambda: Inductive(LogisticRegression(max_iter=1000), scaling="common"),
        "label-spreading-rbf": lambda: PublishedLabelSpreading("rbf"),
        # A round over a sparse graph costs next to nothing, so it may have more of them.
        "label-spreading-knn": lambda: PublishedLabelSpreading("knn", max_iter=300),
    }
)


def baseline(name: str) -> Baseline:
    """A new baseline of that name.

    Parameters
    ----------
    name : str
        One of :data:`BASELINES`.

    Returns
    -------
    Baseline

    Examples
    --------
    >>> baseline("nearest-prototype")
    NearestPrototype()
    """
    if name not in BASELINES:
        raise ValueError(f"there is no baseline {name!r}; choose one of: {', '.join(BASELINES)}.")
    return BASELINES[name]()
