"""What centered transforms take away from the rows of every task, and which of them a recipe takes by itself."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

from laplacianshot.datasets.feature_set import FeatureSet
from laplacianshot.inference.transforms import base_mean as mean_of_rows
from laplacianshot.inference.transforms import choose_centered, given_center
from laplacianshot.runtime.types import CENTERED, Floats, Transform


@dataclass(frozen=True, repr=False, eq=False)
class Centers:
    """The centers of the tasks of a set; ``base_mean`` as in :func:`~laplacianshot.evaluate`."""

    feature_set: FeatureSet
    base_mean: Any = None

    def of(self, space: str) -> Floats | None:
        """The vector (D,) that a space takes away in every task; None: nothing but what each task has."""
        if space not in CENTERED:
            return None
        return self._power if space == "power" else self._cl2

    @cached_property
    def auto(self) -> Transform:
        """The transform of a default recipe that chooses its own.

        Feature sets are made by an encoder, so it is a centered one, few columns or many: ``power`` where the estimator
        takes it for all rows of the set, else ``cl2``. A vector, as base mean, is the mean of features: ``cl2``.
        """
        return "cl2" if self._is_vector else choose_centered(self.feature_set.features)

    @cached_property
    def _cl2(self) -> Floats | None:
        return center_for(self.feature_set, self.base_mean)

    @cached_property
    def _power(self) -> Floats | None:
        return None if self._is_vector else center_for(self.feature_set, self.base_mean, "power")

    @property
    def _is_vector(self) -> bool:
        return not (self.base_mean is None or isinstance(self.base_mean, str | FeatureSet))


def center_for(feature_set: FeatureSet, base_mean: Any, transform: Transform = "cl2") -> Floats | None:
    """The vector (D,) that a transform takes away from the rows of every task, or None."""
    if isinstance(base_mean, FeatureSet):
        mean = base_mean.base_mean(transform=transform)
        mean = mean_of_rows(base_mean.features, transform) if mean is None else mean
        return given_center(mean, feature_set.dim, transform)
    if isinstance(base_mean, str):
        if base_mean != "task":
            raise ValueError(f"base_mean must be a vector, a FeatureSet, 'task' or None, got {base_mean!r}.")
        return None
    if base_mean is None:
        return feature_set.base_mean(transform=transform)
    return given_center(base_mean, feature_set.dim, transform)
