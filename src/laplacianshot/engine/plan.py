"""Whether a task is large, and how it is solved within a memory budget: decided before the work starts."""

from __future__ import annotations

import warnings
from dataclasses import dataclass

import numpy as np

from laplacianshot.engine.rounds import MAX_BLOCKS, VISIT_ROWS
from laplacianshot.inference.spreading import MAX_LISTED
from laplacianshot.inference.transforms import WIDE_TABLE_COLUMNS, Rows
from laplacianshot.neighbors.knn import Method, chosen_method, in_memory_plan, memory_plan
from laplacianshot.runtime.limits import LARGE_ASSIGNMENTS, TARGET_RECALL, MemoryPlan, is_large, larger, parse_bytes
from laplacianshot.runtime.threads import available_threads
from laplacianshot.runtime.types import Floats

# The number of entries kept of a row: the smallest of ENTRIES that loses at most this share of the first assignments,
# which are the broadest.
MAX_LOST = 0.01
ENTRIES = (16, 32, 64, 128, 256)
# Queries that the temperature is chosen from, and entries of their unary terms.
_SAMPLE_ROWS = 65536
_SAMPLE_ENTRIES = 2**22
_SORTED_ROWS = 2048
# Shares up to which labels are spread along the whole graph.
_MAX_SPREAD = 2**24


@dataclass(frozen=True)
class GraphChoice:
    """How neighbors are searched: arguments of :func:`~laplacianshot.neighbors.knn.knn`."""

    method: Method = "auto"
    target_recall: float = TARGET_RECALL
    seed: int = 0


@dataclass(frozen=True)
class LargePlan:
    """How a large task is solved."""

    dense: bool = True  # whether all entries of an assignment are kept, or the largest ones
    memory: int | None = None  # maximum number of bytes that the fit takes beyond X
    graph: GraphChoice = GraphChoice()
    max_entries: int = ENTRIES[-1]  # entries of an assignment that there is room for
    along: bool = True  # whether labels may be spread along the whole graph

    def entries(self, first: Floats) -> int:
        """How many entries of a row to keep, from first assignments (m, C) of some rows.

        The smallest number that loses at most MAX_LOST of them on average; if there is not enough room for it, as many
        as fit, with a warning.
        """
        some = first[:: -(-len(first) // _SORTED_ROWS)].copy()
        some.sort(axis=1)
        lost = 1 - some.mean(axis=0, dtype=np.float64)[::-1].cumsum()
        room = min(self.max_entries, first.shape[1])
        for count in (*(count for count in ENTRIES if count < room), room):
            if count == first.shape[1] or lost[count - 1] <= MAX_LOST:
                return int(count)
        warnings.warn(
            f"the {room} largest entries of an assignment, all that there is room for, leave out "
            f"{lost[room - 1]:.1%} of it at first; more memory would keep more.",
            stacklevel=2,
        )
        return int(room)


def sample_size(n_query: int, n_classes: int) -> int:
    """How many queries the temperature is chosen from."""
    return min(n_query, _SAMPLE_ROWS, max(4096, _SAMPLE_ENTRIES // n_classes))


def sampled_queries(queries: Rows, n_classes: int) -> Rows:
    """Those of the queries (N,) that the temperature is chosen from: evenly spaced, the same for any graph."""
    return queries[:: -(-len(queries) // sample_size(len(queries), n_classes))]


def plan_fit(
    size: tuple[int, int, int, int, int],
    graph: GraphChoice,
    *,
    can_be_large: bool,
    memory: int | float | str | None,
    itemsize: int,
) -> LargePlan | None:
    """How a task of ``size`` (rows, queries, classes, features, neighbors) is solved; None: as a small one.

    Small ones have an exact graph and dense assignments. MemoryError where no way keeps the budget.
    """
    n, n_query, n_classes, _, _ = size
    budget = None if memory is None else parse_bytes(memory)
    can_be_large = can_be_large and n_query >= 2
    must_be = graph.method == "cells" or is_large(n, n_query, n_classes)
    if not (can_be_large and must_be):
        needed = small_plan(*size, itemsize)
        if not can_be_large:
            needed.check(budget, advice="only the default recipe with graph='auto' needs less")
        if budget is None or needed.total <= budget:
            return None
    return large_plan(*size, memory=budget, graph=graph)


def small_plan(n: int, n_query: int, n_classes: int, width: int, k: int, itemsize: int) -> MemoryPlan:
    """What a small task holds at most: rows in working precision, exact search, dense assignments."""
    rows = float(n * width * itemsize)
    search = {**in_memory_plan(n, width, k).parts, "transformed rows": rows}
    graph = n * k * (2 * (itemsize + 4.0) * 2 + 16)
    solve = {
        "transformed rows": rows,
        "graph": graph,
        "assignments": 7.0 * itemsize * n_query * n_classes,
        "sums": 2.0 * itemsize * MAX_BLOCKS * n_classes * (width + VISIT_ROWS),
    }
    spread = {"transformed rows": rows, "graph": graph, "spread labels": _spread_bytes(n, k, n_classes)}
    return larger(MemoryPlan(search), MemoryPlan(solve), MemoryPlan(spread))


def large_plan(
    n: int, n_query: int, n_classes: int, width: int, k: int, *, graph: GraphChoice, memory: int | None = None
) -> LargePlan:
    """How a large task is solved, with the largest number of entries that fits; MemoryError if none does."""
    can_be_dense = n_query * n_classes <= LARGE_ASSIGNMENTS
    ways = [count for count in reversed(ENTRIES) if count < n_classes] or [n_classes]
    ways = [n_classes, *ways] if can_be_dense else ways
    for entries in ways:
        needed = _needed(n, n_query, n_classes, width, k, entries, graph)
        if memory is None or needed.total <= memory:
            break
    else:
        needed.check(memory, advice="a smaller n_neighbors needs less")
    dense = entries == n_classes and can_be_dense
    spread = needed.total + _spread_bytes(n, k, n_classes)
    along = n * n_classes <= _MAX_SPREAD and (memory is None or spread <= memory)
    return LargePlan(dense, memory, graph, ENTRIES[-1] if dense else entries, along)


def _spread_bytes(n: int, k: int, n_classes: int) -> float:
    """What it takes to spread labels along the graph: short edges, a tree of them, and seven arrays of shares."""
    return 60.0 * n * min(2 * k, 2 * MAX_LISTED) + 56.0 * n * n_classes


def _needed(n: int, n_query: int, n_classes: int, width: int, k: int, entries: int, graph: GraphChoice) -> MemoryPlan:
    """The moment that holds most; ``entries`` of an assignment are kept, or all C of them."""
    threads = available_threads()
    always = {"order": 40.0 * n}
    if width <= WIDE_TABLE_COLUMNS:
        # Standard columns, and what it takes to make them.
        always["table"] = 8.0 * n * width
    method = chosen_method(graph.method, n, graph.target_recall)
    search = {**memory_plan(method, n, width, k).parts, **always}
    # At worst no two rows are neighbors of one another: 2 k edges a row, of 8 bytes.
    edges = {"graph": 16.0 * n * k, **always}
    build = {"neighbors": 12.0 * n * k, **edges}
    rounds = {
        "assignments": (12.0 if entries == n_classes else 20.0 + 12.0) * n * entries + 12.0 * n,
        "sums": 4.0 * MAX_BLOCKS * n_classes * width + 4.0 * threads * VISIT_ROWS * (2 * n_classes + 2 * width),
        **edges,
    }
    sample = {"sample": 4.0 * sample_size(n_query, n_classes) * (width + 4 * n_classes), **edges}
    return larger(*map(MemoryPlan, (search, build, sample, rounds)))
