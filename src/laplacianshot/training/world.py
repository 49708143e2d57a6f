"""One process, or several that train together through torch's DistributedDataParallel."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

import torch
from torch import distributed, nn

from laplacianshot.training.errors import ConfigError


@dataclass(frozen=True)
class World:
    """The processes that train one network.

    Attributes
    ----------
    rank : int
        Number of this one.
    size : int
    local_rank : int
        Number of this one on its machine, which is the number of its GPU.
    """

    rank: int = 0
    size: int = 1
    local_rank: int = 0

    @property
    def is_main(self) -> bool:
        """Whether this process writes files, validates and reports."""
        return self.rank == 0

    def device(self, wanted: str) -> torch.device:
        """The device of this process, tried out; with several on CUDA, each has its own."""
        name = wanted
        if name == "auto":
            name = "cuda" if torch.cuda.is_available() else "cpu"
        if name == "cuda":
            name = f"cuda:{self.local_rank}"
        try:
            return torch.empty(0, device=name).device
        except (AssertionError, NotImplementedError, RuntimeError) as error:
            raise ConfigError(f"device = {wanted!r}: {str(error).splitlines()[0]}") from error

    def sums(self, values: list[float]) -> list[float]:
        """Each value summed over all processes, exactly for whole numbers."""
        if self.size == 1:
            return values
        device = torch.device("cuda", self.local_rank) if distributed.get_backend() == "nccl" else "cpu"
        total = torch.tensor(values, dtype=torch.float64, device=device)
        distributed.all_reduce(total)
        return [float(value) for value in total.tolist()]

    def wait(self) -> None:
        """Barrier across processes."""
        if self.size > 1:
            distributed.barrier()

    def wrap(self, network: nn.Module, device: torch.device) -> nn.Module:
        """The network whose gradients are means over all processes."""
        if self.size == 1:
            return network
        ids = [device.index] if device.type == "cuda" else None
        return nn.parallel.DistributedDataParallel(network, device_ids=ids)


def world_of_environment() -> World:
    """What torchrun has put into ``RANK``, ``WORLD_SIZE`` and ``LOCAL_RANK``; one process without."""
    size = int(os.environ.get("WORLD_SIZE", "1"))
    if size == 1:
        return World()
    return World(int(os.environ["RANK"]), size, int(os.environ.get("LOCAL_RANK", "0")))


@contextmanager
def joined(world: World, device: torch.device) -> Iterator[None]:
    """The connection between the processes: NCCL between GPUs, Gloo between processors."""
    if world.size == 1:
        yield
        return
    if device.type == "cuda":
        torch.cuda.set_device(device)
    distributed.init_process_group("nccl" if device.type == "cuda" else "gloo")
    try:
        yield
    finally:
        distributed.destroy_process_group()
