"""Attacks with a seed: the same cases in each run, 500, 200 and 300 of them in `make test`, ten times that in all."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

# No case may take longer, compiling included.
MAX_SECONDS = 20


@contextmanager
def in_time(case: object) -> Iterator[None]:
    """Fail a case that hangs."""

    def hung(*_: object) -> None:
        raise AssertionError(f"{case} hung")

    before = signal.signal(signal.SIGALRM, hung)
    signal.alarm(MAX_SECONDS)
    try:
        yield
    finally:
        signal.alarm(0)
        signal.signal(signal.SIGALRM, before)


def blocks(quick: int, per_block: int) -> list[object]:
    """Seeds of blocks of cases: those of `make test`, then, marked slow, up to ten times as many."""
    n = -(-quick // per_block)
    return [pytest.param(seed, marks=[] if seed < n else pytest.mark.slow) for seed in range(10 * n)]
