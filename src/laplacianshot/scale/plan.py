"""Whether a task is large, and how it is solved within a memory budget: decided before the work starts."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from laplacianshot.inference._threads import available_threads
from laplacianshot.inference._types import Floats
from laplacianshot.inference.recipes import LARGE_ASSIGNMENTS, LARGE_ROWS
from laplacianshot.scale.budget import MemoryPlan, larger, parse_bytes
from laplacianshot.scale.neighbors import TARGET_RECALL, memory_plan
from laplacianshot.scale.rounds import MOST_BLOCKS, VISIT_ROWS

# Entries kept of a row: as many as lose this much of the first assignments, which are the broadest, or the last number.
LOST_AT_FIRST = 0.01
ENTRIES = (16, 32, 64)
# Queries that the temperature is chosen from, and entries of their unary terms.
_LOOK_ROWS = 65536
_LOOK_ENTRIES = 2**22
_SORTED_ROWS = 2048


@dataclass(frozen=True)
class LargePlan:
    """How a large task is solved.

    Attributes
    ----------
    dense : bool
        Whether all entries of an assignment are kept, or the largest ones.
    memory : int, optional
        Most bytes that the fit takes beyond X.
    reduce : int, optional
        Dimensions of the neighbour search.
    target_recall : float
    seed : int
    """

    dense: bool = True
    memory: int | None = None
    reduce: int | None = None
    target_recall: float = TARGET_RECALL
    seed: int = 0

    def entries(self, first: Floats) -> int:
        """How many entries of a row to keep, from first assignments (m, C) of some rows."""
        some = first[:: -(-len(first) // _SORTED_ROWS)].copy()
        some.sort(axis=1)
        lost = 1 - some.mean(axis=0, dtype=np.float64)[::-1].cumsum()
        for count in ENTRIES:
            if count >= first.shape[1] or lost[count - 1] <= LOST_AT_FIRST:
                return min(count, int(first.shape[1]))
        return ENTRIES[-1]


def first_look(n_query: int, n_classes: int) -> int:
    """How many queries the temperature is chosen from."""
    return min(n_query, _LOOK_ROWS, max(4096, _LOOK_ENTRIES // n_classes))


def plan_fit(
    size: tuple[int, int, int, int, int],
    *,
    can_be_large: bool,
    memory: int | float | str | None,
    reduce: int | None,
    itemsize: int,
) -> LargePlan | None:
    """How a task of ``size`` (rows, queries, classes, features, neighbours) is solved; None: as a small one.

    Small ones have an exact graph and dense assignments. MemoryError where no way keeps the budget.
    """
    n, n_query, n_classes, _, _ = size
    budget = None if memory is None else parse_bytes(memory)
    can_be_large = can_be_large and n_query >= 2
    if not (can_be_large and (n > LARGE_ROWS or n_query * n_classes > LARGE_ASSIGNMENTS)):
        needed = small_plan(*size, itemsize)
        if not can_be_large:
            needed.check(budget, advice="only the default recipe with graph='auto' needs less")
        if budget is None or needed.total <= budget:
            return None
    return large_plan(*size, memory=budget, reduce=reduce)


def small_plan(n: int, n_query: int, n_classes: int, width: int, k: int, itemsize: int) -> MemoryPlan:
    """What a small task holds at most: rows in working precision, exact search, dense assignments."""
    rows = float(n * width * itemsize)
    search = {**memory_plan("exact", n, width, k).parts, "transformed rows": rows}
    graph = n * k * (2 * (itemsize + 4.0) * 2 + 16)
    solve = {
        "transformed rows": rows,
        "graph": graph,
        "assignments": 7.0 * itemsize * n_query * n_classes,
        "sums": 2.0 * itemsize * MOST_BLOCKS * n_classes * (width + VISIT_ROWS),
    }
    return larger(MemoryPlan(search), MemoryPlan(solve))


def large_plan(
    n: int, n_query: int, n_classes: int, width: int, k: int, *, memory: int | None = None, reduce: int | None = None
) -> LargePlan:
    """How a large task is solved; MemoryError where no way keeps the budget."""
    ways = [True, False] if n_query * n_classes <= LARGE_ASSIGNMENTS else [False]
    for dense in ways:
        needed = _needed(n, n_query, n_classes, width, k, dense, reduce)
        if memory is None or needed.total <= memory or dense is ways[-1]:
            needed.check(memory, advice="a smaller n_neighbors needs less")
            return LargePlan(dense, memory, reduce)
    raise AssertionError("one way is always the last")


def _needed(n: int, n_query: int, n_classes: int, width: int, k: int, dense: bool, reduce: int | None) -> MemoryPlan:
    threads = available_threads()
    always = {"order": 40.0 * n, "reduced rows": 0.0 if reduce is None else 4.0 * n * reduce}
    method = "exact" if n <= LARGE_ROWS else "cells"
    search = {**memory_plan(method, n, reduce or width, k).parts, **always}
    # At worst no two rows are neighbours of one another: 2 k edges a row, of 8 bytes.
    edges = {"graph": 16.0 * n * k, **always}
    build = {"neighbours": 8.0 * n * k, **edges}
    top = ENTRIES[-1]
    rounds = {
        "assignments": 12.0 * n_query * n_classes if dense else (20.0 + 12.0) * n_query * min(top, n_classes),
        "sums": 4.0 * MOST_BLOCKS * n_classes * width + 4.0 * threads * VISIT_ROWS * (2 * n_classes + 2 * width),
        **edges,
    }
    look = {"first look": 4.0 * first_look(n_query, n_classes) * (width + 4 * n_classes), **edges}
    return larger(*map(MemoryPlan, (search, build, look, rounds)))
