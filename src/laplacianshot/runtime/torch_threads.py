"""Threads of torch."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from laplacianshot.runtime.threads import available_threads


@contextmanager
def torch_threads(number: int | None) -> Iterator[None]:
    """Let torch compute on a number of threads (all cores for 0 or None), and restore the number afterwards."""
    import torch

    before = torch.get_num_threads()
    torch.set_num_threads(number or available_threads())
    try:
        yield
    finally:
        torch.set_num_threads(before)
