"""How a set in shards is labeled."""

from __future__ import annotations

from dataclasses import asdict, dataclass, field, replace
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from laplacianshot.engine.plan import GraphChoice
from laplacianshot.inference.recipes import LARGE_ROWS, TOLERANCE, DefaultConstants
from laplacianshot.inference.transforms import Transform


@dataclass(frozen=True)
class RayOptions:
    """How a set is labeled; names as in :class:`~laplacianshot.LaplacianShot`.

    Attributes
    ----------
    transform : {"cl2", "l2", "none"}
    base_mean : array of shape (D,), optional
    balanced : bool
    lam, n_neighbors, max_iter : optional
    tol : float
    choice : GraphChoice
        How neighbors are sought: ``auto``, ``exact`` or ``cells``.
    order : bool, optional
        Put rows into shards where their neighbors are, at first; None: more than 50,000 rows. Labels do not depend on
        it, but for ties between neighbors and for what an approximate search misses.
    """

    transform: Transform = "cl2"
    base_mean: ArrayLike | None = None
    balanced: bool = False
    lam: float | None = None
    n_neighbors: int | None = None
    max_iter: int | None = None
    tol: float = TOLERANCE
    choice: GraphChoice = field(default_factory=GraphChoice)
    order: bool | None = None

    def settings(self) -> dict[str, Any]:
        """What a result depends on, as plain values."""
        plain = {
            name: getattr(self, name) for name in ("transform", "balanced", "lam", "n_neighbors", "max_iter", "tol")
        }
        mean = None if self.base_mean is None else np.asarray(self.base_mean, dtype=np.float64).tolist()
        return {**plain, "base_mean": mean, "graph": asdict(self.choice), "order": self.order}

    def is_ordered(self, n: int, shards: int) -> bool:
        """Whether so many rows in so many shards are put in order."""
        return shards > 1 and (n > LARGE_ROWS if self.order is None else self.order)

    def constants(self, n_support: int, n_query: int, n_classes: int) -> DefaultConstants:
        """Those of the default recipe for a task of this size."""
        constants = DefaultConstants.for_task(n_support, n_query, n_classes, balanced=self.balanced)
        chosen = constants.with_choices(lam=self.lam, n_neighbors=self.n_neighbors, max_rounds=self.max_iter)
        return replace(chosen, n_neighbors=min(chosen.n_neighbors, n_support + n_query - 1))
