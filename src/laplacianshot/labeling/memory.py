"""What labeling holds besides the fit, so that a memory budget is kept or refused before the work starts."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from laplacianshot.engine.plan import ENTRIES
from laplacianshot.inference.recipes import LARGE_ASSIGNMENTS
from laplacianshot.labeling.suggestions import MOST_PAIRS
from laplacianshot.runtime.budget import BudgetError, MemoryPlan, parse_bytes

# Bytes of a row: its id, label, origin and evidence, and its line of the output.
_OF_A_ROW = 700.0


@contextmanager
def within_memory(
    memory: float | str | None, n: int, n_classes: int, n_neighbors: int, *, suggestions: bool
) -> Iterator[int | None]:
    """Bytes of a budget that the fit of n rows may take; BudgetError where that, or what follows, does not fit.

    After the fit there are assignments and probabilities, of C classes or of the largest entries, and edges three
    times: of the fit, in the order of the rows, and as they conduct. Suggestions look at pairs of edges.
    """
    if memory is None:
        yield None
        return
    budget = parse_bytes(memory)
    entries = 8.0 * n_classes if n * n_classes <= LARGE_ASSIGNMENTS else 2 * 12.0 * ENTRIES[-1]
    rows = {"rows of the result": _OF_A_ROW * n}
    after = {"probabilities": n * entries, "graph": 36.0 * n * n_neighbors, **rows}
    if suggestions:
        after["suggestions"] = 12.0 * min(MOST_PAIRS, n * (2 * n_neighbors) ** 2)
    MemoryPlan(after).check(budget)
    try:
        yield max(1, budget - int(_OF_A_ROW * n))
    except BudgetError as error:
        # What the fit may take is not what was asked for.
        raise BudgetError(budget, {**error.parts, **rows}) from None
