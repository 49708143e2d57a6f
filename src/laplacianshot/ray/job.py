"""A run on Ray: its options, what every worker knows of it, and the rows of its shards."""

from __future__ import annotations

from dataclasses import asdict, dataclass, field, replace
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from laplacianshot.engine.plan import GraphChoice
from laplacianshot.inference.recipes import TOLERANCE, DefaultConstants
from laplacianshot.neighbors.rows import Rows
from laplacianshot.ray.shards import Shard
from laplacianshot.runtime.keyed_folder import KeyedFolder
from laplacianshot.runtime.limits import LARGE_ROWS
from laplacianshot.runtime.types import Floats, Ints, Transform

# Folder of a run inside a folder of labels: readers of Parquet skip names that begin with an underscore.
RUN_FOLDER = "_run"
# Transformed shards that a worker keeps in memory: its own and the one it searches.
MAX_KEPT_SHARDS = 2
_rows: dict[tuple[str, Shard], Rows] = {}


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
        Neighbor search: ``auto``, ``exact`` or ``cells``.
    order : bool, optional
        Move rows into the shards of their neighbors first (default: for more than 50,000 rows). Labels do not depend on
        it, except for ties between neighbors and for what an approximate search misses.
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
        """Everything that a result depends on, as plain values."""
        plain = {
            name: getattr(self, name) for name in ("transform", "balanced", "lam", "n_neighbors", "max_iter", "tol")
        }
        mean = None if self.base_mean is None else np.asarray(self.base_mean, dtype=np.float64).tolist()
        return {**plain, "base_mean": mean, "graph": asdict(self.choice), "order": self.order}

    def is_ordered(self, n: int, shards: int) -> bool:
        """Whether ``n`` rows in this number of shards are put in order."""
        return shards > 1 and (n > LARGE_ROWS if self.order is None else self.order)

    def constants(self, n_support: int, n_query: int, n_classes: int) -> DefaultConstants:
        """Constants of the default recipe for a task of this size."""
        constants = DefaultConstants.for_task(n_support, n_query, n_classes, balanced=self.balanced)
        chosen = constants.with_choices(lam=self.lam, n_neighbors=self.n_neighbors, max_rounds=self.max_iter)
        return replace(chosen, n_neighbors=min(chosen.n_neighbors, n_support + n_query - 1))


@dataclass(frozen=True, repr=False)
class Job:
    """A set in shards with its few labels.

    Attributes
    ----------
    folder : KeyedFolder
        Holds finished stages.
    shards : tuple of Shard
    support : int array of shape (n_s,)
        Rows that have a label, ascending.
    labels : int array of shape (n_s,)
        Their classes in ``0..C-1``.
    n_classes : int
    transform : {"none", "l2", "cl2"}
    center : array of shape (D,), for ``cl2``
    shift : array of shape (D,), optional
        Mean of the transformed rows, which is taken from them where they are not of length one.
    ordered : bool
        Whether rows were put where their neighbors are (:mod:`laplacianshot.ray.order`).
    """

    folder: KeyedFolder
    shards: tuple[Shard, ...]
    support: Ints
    labels: Ints
    n_classes: int
    transform: Transform = "cl2"
    center: Floats | None = None
    shift: Floats | None = None
    ordered: bool = False

    @property
    def n(self) -> int:
        """Number of rows."""
        return self.shards[-1].first + len(self.shards[-1])

    @property
    def firsts(self) -> Ints:
        """First row of each shard, and n: (S + 1,)."""
        return np.array([*(shard.first for shard in self.shards), self.n])

    def rows(self, number: int) -> Rows:
        """Transformed rows of a shard, near zero."""
        key = (self.folder.url, self.shards[number])
        if key not in _rows:
            while len(_rows) >= MAX_KEPT_SHARDS:
                del _rows[next(iter(_rows))]
            formed = Rows.transformed(self.shards[number].read(), self.transform, self.center)
            if self.shift is not None:
                formed = replace(formed, origin=formed.origin + self.shift)
            _rows[key] = formed
        return _rows[key]

    def originals(self, number: int) -> Ints:
        """Row numbers of a shard before the rows were put in order."""
        shard = self.shards[number]
        if not self.ordered:
            return np.arange(shard.first, shard.first + len(shard))
        rows: Ints = self.folder.arrays(originals_name(shard.path))["rows"]
        return rows

    def given(self, number: int) -> tuple[Ints, Ints]:
        """Positions in a shard of its labeled rows, and their classes."""
        shard = self.shards[number]
        start, stop = np.searchsorted(self.support, [shard.first, shard.first + len(shard)])
        return self.support[start:stop] - shard.first, self.labels[start:stop]

    def queries(self, number: int) -> Ints:
        """Positions in a shard of its unlabeled rows, ascending."""
        free = np.ones(len(self.shards[number]), dtype=bool)
        free[self.given(number)[0]] = False
        return np.flatnonzero(free)

    def classes(self, rows: Ints) -> Ints:
        """Classes of rows of the whole set, -1 where they have no label."""
        at = np.minimum(np.searchsorted(self.support, rows), len(self.support) - 1)
        return np.where(self.support[at] == rows, self.labels[at], -1)

    def query_rows(self, numbers: range) -> Ints:
        """Rows of the whole set that are the queries of these numbers among all queries."""
        # The q-th query comes after as many labeled rows as have at most q queries before them.
        before = self.support - np.arange(len(self.support))
        queries = np.array(numbers)
        rows: Ints = queries + np.searchsorted(before, queries, side="right")
        return rows

    def is_support(self, rows: Ints) -> Any:
        """Which rows of the whole set have a label."""
        return self.classes(rows) >= 0

    def split(self, rows: Ints) -> list[slice]:
        """Where the ascending ``rows`` of the whole set lie in each shard."""
        bounds = np.searchsorted(rows, self.firsts)
        return [slice(a, b) for a, b in pairwise(bounds.tolist())]


def originals_name(path: str) -> str:
    """The file that says where the rows of an ordered shard were."""
    return path.rsplit("/", 1)[-1].replace("ordered", "rows").replace(".npy", ".npz")
