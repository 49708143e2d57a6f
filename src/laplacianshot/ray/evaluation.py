"""Few-shot tasks spread over the workers of a cluster."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from typing import Any

from laplacianshot.episodes.evaluation import TaskWork
from laplacianshot.episodes.run import Chunk, TaskRows
from laplacianshot.ray.cluster import connected
from laplacianshot.runtime.threads import row_blocks, single_threaded_blas

# Calls for each CPU: enough to end together, few enough to send the work seldom.
_CALLS_A_CPU = 4
# Rows of the last work, which the next call is probably for.
_placed: dict[str, TaskRows] = {}


def over_workers(
    address: str | None = None,
) -> Callable[[TaskWork, list[Chunk]], AbstractContextManager[Iterator[Any]]]:
    """A way to answer chunks of tasks: on the workers of the cluster at an address, results in order."""

    @contextmanager
    def spread(work: TaskWork, chunks: list[Chunk]) -> Iterator[Iterator[Any]]:
        with connected(address) as cluster:
            shared = cluster.share(work)
            key = str(shared)
            size = -(-len(chunks) // (_CALLS_A_CPU * max(1, cluster.cpus())))
            calls = [(shared, key, chunks[start:stop]) for start, stop in row_blocks(len(chunks), size)]
            yield (answer for part in cluster.stream("Tasks", answer_chunks, calls) for answer in part)

    return spread


def answer_chunks(work: TaskWork, key: str, chunks: list[Chunk]) -> list[Any]:
    """Runs on a worker: every method on the tasks of some chunks."""
    if key not in _placed:
        _placed.clear()
        _placed[key] = work.placed_rows()
    with single_threaded_blas():
        return [work.answers(_placed[key], chunk) for chunk in chunks]
