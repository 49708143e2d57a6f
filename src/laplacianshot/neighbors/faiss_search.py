"""The indexes of faiss, as alternatives to our own cells. They hold a copy of all rows in float32.

Both are slower here than :mod:`~laplacianshot.neighbors.cells`, which knows that all rows are queries; see
``benchmarks/scale.py graph``.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np

from laplacianshot.neighbors.kmeans import train_centroids
from laplacianshot.neighbors.recall import ExactSample
from laplacianshot.neighbors.rows import Rows
from laplacianshot.neighbors.types import Neighbors
from laplacianshot.runtime.extras import require
from laplacianshot.runtime.threads import available_threads, row_blocks
from laplacianshot.runtime.types import Ints

LINKS = 32
_BUILD_WIDTH = 200
_BLOCK_ROWS = 65536


def search_faiss(
    method: str, rows: Rows, n_neighbors: int, sample: ExactSample, target_recall: float, seed: int
) -> tuple[Neighbors, dict[str, float]]:
    """Neighbors by ``ivf`` (inverted lists) or ``hnsw``, and the parameters that reach the recall on the sample.

    The number of lists searched, or the width of the search, is the least for which the sample's recall, less twice
    its standard error, reaches the target.
    """
    faiss: Any = require("faiss", "scale")
    n, k = len(rows), n_neighbors
    with _threads(faiss, 1 if method == "hnsw" else available_threads()):
        index, name, first, most = _ivf(faiss, rows, seed) if method == "ivf" else _hnsw(faiss, rows, k)
    with _threads(faiss, available_threads()):

        def enough(effort: int) -> bool:
            _set_effort(index, method, effort)
            found = _without_self(index.search(rows.take(sample.rows), k + 1)[1], sample.rows)
            shares = sample.shares_found(rows, found)
            return bool(shares.mean() - 2 * shares.std() / len(shares) ** 0.5 >= target_recall)

        effort = _least(enough, first, most)
        _set_effort(index, method, effort)
        indices = np.empty((n, k), dtype=np.int32 if n < 2**31 else np.int64)
        distances = np.empty((n, k), dtype=np.float32)
        for start, stop in row_blocks(n, _BLOCK_ROWS):
            squares, ids = index.search(rows[start:stop], k + 1)
            kept = _others(ids, np.arange(start, stop))
            indices[start:stop] = ids[kept].reshape(-1, k)
            distances[start:stop] = squares[kept].reshape(-1, k)
    return Neighbors(indices, distances), {name: effort, "seed": seed}


def has_faiss(method: str) -> bool:
    """Whether faiss is there; where it is not, a warning says what to install and what is done instead."""
    try:
        require("faiss", "scale")
    except ModuleNotFoundError as error:
        warnings.warn(f"graph {method!r}: {error}. Neighbors are sought exactly instead.", stacklevel=3)
        return False
    return True


def _least(enough: Callable[[int], bool], first: int, most: int) -> int:
    """The least effort from ``first`` to ``most`` that is enough, to an eighth: doubled, then halved in between."""
    low, high = first, first
    while high < most and not enough(high):
        low, high = high, min(2 * high, most)
    while high - low > max(1, low // 8):
        middle = (low + high) // 2
        low, high = (low, middle) if enough(middle) else (middle, high)
    return high


def _ivf(faiss: Any, rows: Rows, seed: int) -> tuple[Any, str, int, int]:
    centroids = train_centroids(rows, max(1, round(4 * len(rows) ** 0.5)), seed)
    quantizer = faiss.IndexFlatL2(rows.shape[1])
    quantizer.add(centroids)
    index = faiss.IndexIVFFlat(quantizer, rows.shape[1], len(centroids))
    index.is_trained = True
    for start, stop in row_blocks(len(rows), _BLOCK_ROWS):
        index.add(rows[start:stop])
    return index, "probes", 4, len(centroids)


def _hnsw(faiss: Any, rows: Rows, k: int) -> tuple[Any, str, int, int]:
    # Links depend on the order of insertion, so one thread makes them: the same graph each time.
    index = faiss.IndexHNSWFlat(rows.shape[1], LINKS)
    index.hnsw.efConstruction = _BUILD_WIDTH
    for start, stop in row_blocks(len(rows), _BLOCK_ROWS):
        index.add(rows[start:stop])
    return index, "width", 2 * (k + 1), len(rows)


def _set_effort(index: Any, method: str, effort: int) -> None:
    if method == "ivf":
        index.nprobe = effort
    else:
        index.hnsw.efSearch = effort


def _others(ids: Ints, own: Ints) -> Any:
    """Which of the k + 1 that were found (m, k + 1) are others: all but the row itself, or but the last."""
    itself = ids == own[:, None]
    itself[~itself.any(axis=1), -1] = True
    return ~itself


def _without_self(ids: Ints, own: Ints) -> Ints:
    others: Ints = ids[_others(ids, own)].reshape(len(ids), -1)
    return others


@contextmanager
def _threads(faiss: Any, count: int) -> Iterator[None]:
    before = faiss.omp_get_max_threads()
    faiss.omp_set_num_threads(count)
    try:
        yield
    finally:
        faiss.omp_set_num_threads(before)
