"""Threads of torch."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from laplacianshot.runtime.threads import available_threads


@contextmanager
def torch_threads(wanted: int | None) -> Iterator[None]:
    """So many threads for torch, all cores for 0 or None; afterwards as many as before."""
    import torch

    before = torch.get_num_threads()
    torch.set_num_threads(wanted or available_threads())
    try:
        yield
    finally:
        torch.set_num_threads(before)
