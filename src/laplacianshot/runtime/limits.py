"""Sizes at which the package changes how it works, the accuracy it aims at, and memory budgets: each in one place."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass

from laplacianshot.runtime.errors import LaplacianShotError

# Up to this many rows the numpy definitions run and nothing is compiled: a first fit answers at once.
SMALL_ROWS = 4096
# A task of more rows is large: exact neighbors would take longer than all the rest. So is one of more assignments,
# which take 1 GB per array. Large tasks are solved by laplacianshot.engine.
LARGE_ROWS = 50_000
LARGE_ASSIGNMENTS = 2**28
# Share of the true neighbors that an approximate search must find.
TARGET_RECALL = 0.95


def is_large(n: int, n_query: int, n_classes: int) -> bool:
    """Whether a task of n rows is large."""
    return n > LARGE_ROWS or n_query * n_classes > LARGE_ASSIGNMENTS


_UNITS = {"": 1}
_UNITS |= {letter: 1000**power for power, letter in enumerate("kmgt", start=1)}
_UNITS |= {f"{letter}i": 1024**power for power, letter in enumerate("kmgt", start=1)}


def parse_bytes(memory: int | float | str) -> int:
    """A number of bytes from a number, or from text such as ``"8GB"`` or ``"512 MiB"``.

    >>> parse_bytes("1.5GB"), parse_bytes("512 MiB"), parse_bytes(4096)
    (1500000000, 536870912, 4096)
    """
    if isinstance(memory, str):
        found = re.fullmatch(r"\s*(\d+(?:\.\d+)?)\s*([kmgt]?i?)b?\s*", memory.lower())
        if found is None or found[2] not in _UNITS:
            raise ValueError(f"memory is {memory!r}; give bytes, or text such as '8GB' or '512MiB'.")
        number = float(found[1]) * _UNITS[found[2]]
    else:
        number = float(memory)
    if not 0 < number < float("inf"):
        raise ValueError(f"memory is {memory!r}; give a positive number of bytes, or text such as '8GB'.")
    return int(number)


def written_bytes(count: float) -> str:
    """Bytes for a person to read.

    >>> written_bytes(2_050_000_000), written_bytes(3_200)
    ('2.05 GB', '3.2 kB')
    """
    for power, letter in ((4, "T"), (3, "G"), (2, "M"), (1, "k")):
        if count >= 1000**power:
            return f"{count / 1000**power:.3g} {letter}B"
    return f"{count:.0f} B"


class BudgetError(LaplacianShotError, MemoryError):
    """A budget that cannot be kept: what there is, what is needed, and its largest parts."""

    def __init__(self, budget: int, parts: Mapping[str, float], advice: str = "") -> None:
        self.budget, self.parts, self.advice = budget, dict(parts), advice
        needed = int(sum(parts.values()))
        largest = sorted(parts.items(), key=lambda part: -part[1])[:3]
        held = ", ".join(f"{name} {written_bytes(size)}" for name, size in largest)
        super().__init__(
            f"memory={written_bytes(budget)} cannot be kept: this needs {written_bytes(needed)} ({held})"
            f"{'; ' + advice if advice else ''}."
        )


@dataclass(frozen=True)
class MemoryPlan:
    """What a piece of work will hold at the same time, in bytes by name; the largest of several moments."""

    parts: Mapping[str, float]

    @property
    def total(self) -> int:
        """Bytes in all."""
        return int(sum(self.parts.values()))

    def check(self, budget: int | None, *, advice: str = "") -> None:
        """BudgetError where the plan does not fit, naming its largest parts."""
        if budget is not None and self.total > budget:
            raise BudgetError(budget, self.parts, advice)


def larger(*plans: MemoryPlan) -> MemoryPlan:
    """The plan of the moment that needs most."""
    return max(plans, key=lambda plan: plan.total)
