"""What does not depend on the labels, computed once: the center of the vectors and the neighbors of each item.

The default recipe takes ``k = round(sqrt(n / C - 1))`` neighbors, so k falls as classes are added: neighbors are
searched for two classes, nearest first, and the graph for C classes uses the first k of them.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from threading import Lock
from typing import Any

import numpy as np
import scipy.sparse as sp

from laplacianshot.inference.affinity import neighbor_affinity, normalize
from laplacianshot.inference.recipes import DefaultConstants
from laplacianshot.inference.transforms import base_mean, transform_features
from laplacianshot.labeling.suggestions import cover_kernel
from laplacianshot.neighbors.knn import knn
from laplacianshot.neighbors.types import Neighbors
from laplacianshot.runtime.types import Floats, Ints

# For more than 20,000 items with very few classes the recipe would take more neighbors.
MAX_NEIGHBORS = 100
# Neighbors for the map and for the first suggestions.
FEW_NEIGHBORS = 15


@dataclass(repr=False)
class GraphCache:
    """m items with their vectors and neighbors.

    Attributes
    ----------
    positions : int array of shape (m,)
        Positions of the items in the source, ascending.
    vectors : array of shape (m, D)
        Vectors before the transform.
    center : array of shape (D,)
        Subtracted from the vectors before they are normalized.
    rows : array of shape (m, D)
        ``transform_features(vectors, "cl2", center)``.
    neighbors : Neighbors
        Neighbors of each item, nearest first; enough for two classes or more.
    """

    positions: Ints
    vectors: Floats
    center: Floats
    rows: Floats
    neighbors: Neighbors
    _graphs: dict[int, sp.csr_array] = field(default_factory=dict)
    _made: dict[str, tuple[sp.csr_array, sp.csr_array]] = field(default_factory=dict)
    _lock: Any = field(default_factory=Lock)
    # One lock each, so that the two do not wait for each other.
    _locks: dict[str, Any] = field(default_factory=lambda: {"normalized": Lock(), "cover": Lock()})

    def __len__(self) -> int:
        return len(self.positions)

    def graph(self, n_neighbors: int) -> sp.csr_array:
        """Return the symmetric affinity of the ``n_neighbors`` nearest neighbors, or of all that were searched."""
        k = min(n_neighbors, self.neighbors.indices.shape[1])
        with self._lock:
            if k not in self._graphs:
                # One for the labels, one for the map.
                for other in [held for held in self._graphs if held != FEW_NEIGHBORS]:
                    del self._graphs[other]
                self._graphs[k] = _affinity(self.neighbors.indices[:, :k], self.rows.dtype)
            return self._graphs[k]

    def class_graph(self, n_classes: int) -> sp.csr_array:
        """Return the graph of the default recipe for ``n_classes`` classes."""
        return self.graph(recipe_neighbors(len(self), n_classes))

    def normalized_graph(self, n_classes: int) -> sp.csr_array:
        """Return the normalized graph, ``D^-1/2 W D^-1/2``."""
        return self._kept("normalized", self.class_graph(n_classes), normalize)

    def cover_kernel(self, n_classes: int) -> sp.csr_array:
        """Return how much each item covers of the others; the queue is chosen by it."""
        return self._kept("cover", self.normalized_graph(n_classes), cover_kernel)

    def _kept(self, what: str, graph: sp.csr_array, make: Callable[[sp.csr_array], sp.csr_array]) -> sp.csr_array:
        """Return what ``make`` derives from a graph, computed once per graph."""
        with self._locks[what]:
            if what not in self._made or self._made[what][0] is not graph:
                self._made[what] = (graph, make(graph))
            return self._made[what][1]


def recipe_neighbors(n: int, n_classes: int) -> int:
    """Return the number of neighbors of the default recipe; it does not depend on the number of labels."""
    return DefaultConstants.for_task(0, n, n_classes).n_neighbors


def build_cache(
    positions: Ints,
    vectors: Floats,
    center: Floats | None = None,
    *,
    progress: Callable[[int, int], object] | None = None,
) -> GraphCache:
    """Center the vectors (m, D) of the items at these positions, and search the neighbors of each.

    Parameters
    ----------
    positions : int array of shape (m,)
    vectors : array of shape (m, D)
        m >= 2, finite.
    center : array of shape (D,), optional
        Default: the mean of the vectors.
    progress : callable, optional
        Called with ``(done, total)`` by the search of large sets.
    """
    chosen = base_mean(vectors) if center is None else center
    rows = transform_features(vectors, "cl2", chosen)
    wanted = min(max(recipe_neighbors(len(rows), 2), FEW_NEIGHBORS), MAX_NEIGHBORS)
    neighbors = knn(rows, wanted, progress=progress)
    return GraphCache(positions, vectors, chosen, rows, neighbors)


def _affinity(indices: Ints, dtype: Any) -> sp.csr_array:
    """Of neighbors (m, k), -1 where an approximate search saw fewer."""
    missing = indices < 0
    own = np.arange(len(indices), dtype=indices.dtype)[:, None]
    nearest = np.where(missing, own, indices)
    W = neighbor_affinity(Neighbors(nearest, np.zeros((len(indices), 0))), dtype=dtype)
    if missing.any():
        W.setdiag(0)
        W.eliminate_zeros()
    return W
