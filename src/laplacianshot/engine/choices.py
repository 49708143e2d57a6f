"""What a user chose of the three recipes, and how a task is solved by it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

import numpy as np
import scipy.sparse as sp
from numpy.typing import ArrayLike

from laplacianshot.engine.solve import Fitted, Solution, Task, solve_default, solve_paper, solve_reference
from laplacianshot.inference.affinity import check_affinity
from laplacianshot.inference.center import blended_center, given_center
from laplacianshot.inference.recipes import (
    PUBLISHED_LAM,
    PUBLISHED_NEIGHBORS,
    DefaultConstants,
    RecipeName,
)
from laplacianshot.inference.transforms import Transform, transform_features, working_dtype
from laplacianshot.inference.transforms import base_mean as mean_of_rows
from laplacianshot.runtime.limits import LARGE_ASSIGNMENTS, LARGE_ROWS
from laplacianshot.runtime.types import Floats, Ints

if TYPE_CHECKING:
    from laplacianshot.engine.plan import LargePlan

BaseMean: TypeAlias = ArrayLike | Literal["pooled", "support"] | None
# What fits in place of Choices.fit, elsewhere: called with the choices and the arguments of that.
Engine: TypeAlias = Callable[..., tuple[Floats | None, Fitted]]


@dataclass(frozen=True)
class Choices:
    """The parameters of :class:`~laplacianshot.LaplacianShot`, under their names there."""

    recipe: RecipeName
    transform: Transform
    base_mean: BaseMean
    lam: float | None
    n_neighbors: int | None
    rectify: bool | None
    balanced: bool
    graph: Any
    max_iter: int | None
    tol: float
    memory: int | float | str | None
    target_recall: float
    random_state: int

    @property
    def graph_name(self) -> str:
        """The way to find neighbors, or ``given``."""
        return self.graph if isinstance(self.graph, str) else "given"

    def check(self) -> None:
        """Refuse parameters that belong to another recipe: they would silently do nothing."""
        if self.recipe == "default" and self.rectify is not None:
            raise ValueError(
                f"rectify={self.rectify!r} belongs to recipe='paper' and 'reference'; leave it None with 'default'."
            )
        if self.recipe != "default" and self.balanced:
            raise ValueError(f"balanced=True belongs to recipe='default'; leave it False with recipe={self.recipe!r}.")
        if self.recipe != "default" and self.graph_name == "cells":
            raise ValueError(f"graph={self.graph!r} belongs to recipe='default'; {self.recipe!r} needs an exact graph.")
        if self.transform != "cl2" and self.base_mean is not None:
            raise ValueError(f"base_mean belongs to transform='cl2'; leave it None with transform={self.transform!r}.")

    def center(self, features: Floats, codes: Ints, n_classes: int) -> Floats | None:
        """What ``cl2`` takes from the features (n, D), of which some have codes (n,) from 0 on: (D,)."""
        if self.transform != "cl2":
            return None
        if self.base_mean is None and self.recipe == "default":
            return blended_center(features, codes, n_classes, balanced=self.balanced)
        if self.base_mean is None or isinstance(self.base_mean, str):
            return mean_of_rows(features[codes >= 0] if self.base_mean == "support" else features)
        return given_center(self.base_mean, features.shape[1])

    def fit(
        self,
        features: Floats,
        codes: Ints,
        n_classes: int,
        *,
        watch: Callable[[str], Callable[[int, int], object]] | None = None,
        checkpoint: Path | None = None,
    ) -> tuple[Floats | None, Fitted]:
        """The center (D,) and the solution for features (n, D) of classes ``0..C-1``, -1 for unlabeled ones.

        A large task tells ``watch`` of its stages and keeps finished ones in ``checkpoint``.
        """
        plan = self._large_plan(features.shape, codes, n_classes, working_dtype(features).itemsize)
        center = self.center(features, codes, n_classes)
        if plan is None:
            return center, self._solve(features, center, codes, n_classes).of_all_rows(codes)
        from laplacianshot.engine.large import LargeTask, solve_large

        constants = self.constants(codes, n_classes)
        task = LargeTask(features, codes, n_classes, self.transform, center, constants, plan)
        return center, solve_large(task, tol=self.tol, watch=watch, checkpoint=checkpoint)

    def _solve(self, features: Floats, center: Floats | None, codes: Ints, n_classes: int) -> Solution:
        labeled, unlabeled = np.flatnonzero(codes >= 0), np.flatnonzero(codes < 0)
        order = np.concatenate([labeled, unlabeled])
        nodes = transform_features(features, self.transform, center, rows=order)
        graph = None
        if sp.issparse(self.graph):
            graph = check_affinity(self.graph, len(features), dtype=nodes.dtype)[order][:, order]
        task = Task(nodes, codes[labeled], n_classes, graph)
        limits: dict[str, Any] = {"max_iter": self.max_iter, "tol": self.tol}
        if self.recipe == "default":
            origin = np.zeros(nodes.shape[1], nodes.dtype) if self.transform == "cl2" else task.support.mean(axis=0)
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

    def constants(self, codes: Ints, n_classes: int) -> DefaultConstants:
        """Those of the default recipe for this task, with the user's choices."""
        n_query = int(np.count_nonzero(codes < 0))
        constants = DefaultConstants.for_task(len(codes) - n_query, n_query, n_classes, balanced=self.balanced)
        return constants.with_choices(lam=self.lam, n_neighbors=self.n_neighbors, max_rounds=self.max_iter)

    def _large_plan(self, shape: tuple[int, int], codes: Ints, n_classes: int, itemsize: int) -> LargePlan | None:
        """How a task that is too large for the plain way is solved, None for others; MemoryError if none fits."""
        n, n_query = len(codes), int(np.count_nonzero(codes < 0))
        asked = self.graph_name == "cells"
        can_be_large = self.recipe == "default" and (asked or self.graph_name == "auto")
        large = can_be_large and (asked or n > LARGE_ROWS or n_query * n_classes > LARGE_ASSIGNMENTS)
        if self.memory is None and not large:
            return None
        # Here, as small tasks need none of it.
        from laplacianshot.engine.plan import GraphChoice, plan_fit

        method: Any = self.graph if isinstance(self.graph, str) else "exact"
        k = self.constants(codes, n_classes).n_neighbors if self.recipe == "default" else PUBLISHED_NEIGHBORS
        return plan_fit(
            (n, n_query, n_classes, shape[1], k),
            GraphChoice(method, self.target_recall, self.random_state),
            can_be_large=can_be_large,
            memory=self.memory,
            itemsize=itemsize,
        )
