"""The network, its optimizer and where they stand: everything a checkpoint holds, and one step of training."""

from __future__ import annotations

import contextlib
import math
import os
import time
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import torch
from torch import Tensor, distributed, nn
from torch.nn.functional import cross_entropy

from laplacianshot.embedding import build_network
from laplacianshot.training.checkpoint import MODEL, MOMENTUM, RANDOM, Checkpoint
from laplacianshot.training.plan import Plan
from laplacianshot.training.state import ConfigError, TrainState

if TYPE_CHECKING:
    from laplacianshot.training.config import TrainConfig

# Steps whose numbers stay on the device: reading them makes the processor wait for it.
_PENDING = 64


@dataclass(frozen=True)
class World:
    """The processes that train one network, through torch's DistributedDataParallel if there are several."""

    rank: int = 0  # number of this one
    size: int = 1
    local_rank: int = 0  # number of this one on its machine, which is the number of its GPU

    @property
    def is_main(self) -> bool:
        """Whether this process writes files, validates and reports."""
        return self.rank == 0

    def device(self, setting: str) -> torch.device:
        """The device of this process, tried out; with several on CUDA, each has its own."""
        name = setting
        if name == "auto":
            name = "cuda" if torch.cuda.is_available() else "cpu"
        if name == "cuda":
            name = f"cuda:{self.local_rank}"
        try:
            return torch.empty(0, device=name).device
        except (AssertionError, NotImplementedError, RuntimeError) as error:
            raise ConfigError(f"device = {setting!r}: {str(error).splitlines()[0]}") from error

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
    """The world that torchrun describes by ``RANK``, ``WORLD_SIZE`` and ``LOCAL_RANK``; else one process."""
    size = int(os.environ.get("WORLD_SIZE", "1"))
    if size == 1:
        return World()
    return World(int(os.environ["RANK"]), size, int(os.environ.get("LOCAL_RANK", "0")))


@contextlib.contextmanager
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


class Trainer:
    """Trains one network by SGD; between two steps all of it can be saved and restored.

    ``network`` maps images (B, C, H, W) to (features, logits); by default it is a new one of the plan's config.
    ``state`` is as of the end of the last epoch or the last :meth:`checkpoint`.
    """

    def __init__(self, plan: Plan, world: World, device: torch.device, network: nn.Module | None = None) -> None:
        config = plan.config
        self._plan, self._world, self._device = plan, world, device
        self._layout = torch.channels_last if config.channels_last else torch.contiguous_format
        if network is None:
            network = build_network(
                config.network, len(plan.classes), in_channels=config.channels, image_size=config.image_size
            )
        self.network: nn.Module = network.to(device, memory_format=self._layout)  # type: ignore[call-overload]
        self.network.train()
        self._model = world.wrap(self.network, device)
        self._optimizer = torch.optim.SGD(
            self.network.parameters(),
            lr=config.learning_rate,
            momentum=config.momentum,
            weight_decay=config.weight_decay,
            nesterov=config.nesterov,
        )
        self._half = None if config.precision == "float32" else getattr(torch, config.precision)
        # float16 alone needs its gradients scaled into range.
        self._scaler = torch.amp.GradScaler(device.type, enabled=config.precision == "float16")
        self._logit_of = torch.zeros(int(plan.classes[-1]) + 1, dtype=torch.int64)
        self._logit_of[torch.from_numpy(plan.classes)] = torch.arange(len(plan.classes))
        self.meter = Meter()
        self.state = TrainState()

    def to_device(self, images: Tensor) -> Tensor:
        """Images in the network's layout on its device."""
        return images.to(self._device, memory_format=self._layout, non_blocking=True)

    def step(self, parts: Iterable[tuple[Tensor, Tensor]], count: int, n: int, rate: float) -> None:
        """One step of SGD on the mean loss over a batch.

        Gradients are summed over the parts and the processes, so they are those of the whole batch at once (but for
        batch normalization, which sees a part at a time).

        Parameters
        ----------
        parts : iterable of (images (b, C, H, W), labels (b,))
            This process's share, in parts that fit its memory.
        count : int
            Number of parts.
        n : int
            Pictures of the step, over all processes.
        rate : float
            Learning rate.
        """
        # Gradients of several processes are averaged, where their sum is needed.
        weight = self._world.size / n
        for number, (images, labels) in enumerate(parts):
            targets = self._logit_of[labels].to(self._device, non_blocking=True)
            with self._exchange(is_last=number + 1 == count):
                with self._mixed_precision():
                    _, logits = self._model(self.to_device(images))
                loss = smoothed_cross_entropy(logits, targets, self._plan.config.label_smoothing)
                self._scaler.scale(loss * weight).backward()  # type: ignore[no-untyped-call]
            self.meter.add(loss, logits, targets)
        for group in self._optimizer.param_groups:
            group["lr"] = rate
        self._scaler.step(self._optimizer)
        self._scaler.update()
        self._optimizer.zero_grad(set_to_none=True)

    def rate(self, epoch: int, step: int) -> float:
        """Learning rate of a step."""
        return learning_rate(self._plan.config, epoch, step, self._plan.steps(self._world.size))

    def checkpoint(self, state: TrainState) -> Checkpoint:
        """Everything as it is now."""
        tensors = {MODEL + name: tensor for name, tensor in self.network.state_dict().items()}
        for name, parameter in self.network.named_parameters():
            momentum = self._optimizer.state[parameter].get("momentum_buffer")
            if momentum is not None:
                tensors[MOMENTUM + name] = momentum
        tensors[RANDOM + "cpu"] = torch.get_rng_state()
        if self._device.type == "cuda":
            tensors[RANDOM + "cuda"] = torch.cuda.get_rng_state(self._device)
        return Checkpoint(self._plan.config, self._plan.class_names, self._plan.data_key, state, tensors)

    @property
    def scaler_state(self) -> dict[str, float]:
        """Of the scaling of gradients; empty but for float16."""
        return dict(self._scaler.state_dict())

    def restore(self, checkpoint: Checkpoint) -> None:
        """Restore everything; values are copied into tensors of the same layout as in an uninterrupted run."""
        self.network.load_state_dict(checkpoint.part(MODEL))
        momentum = checkpoint.part(MOMENTUM)
        for name, parameter in self.network.named_parameters():
            if name in momentum:
                buffer = torch.empty_like(parameter, requires_grad=False)
                buffer.copy_(momentum[name])
                self._optimizer.state[parameter]["momentum_buffer"] = buffer
        random = checkpoint.part(RANDOM)
        torch.set_rng_state(random["cpu"])
        if self._device.type == "cuda" and "cuda" in random:
            torch.cuda.set_rng_state(random["cuda"], self._device)
        state = checkpoint.state
        if state.scaler:
            self._scaler.load_state_dict(state.scaler)
        self.state = state
        # The sums are those of all processes; the first one goes on with them.
        mine = self._world.is_main
        self.meter = Meter(
            state.loss_sum if mine else 0.0,
            state.correct if mine else 0,
            state.seen if mine else 0,
            state.train_seconds,
        )

    def _mixed_precision(self) -> contextlib.AbstractContextManager[object]:
        if self._half is None:
            return contextlib.nullcontext()
        return torch.autocast(self._device.type, dtype=self._half)

    def _exchange(self, *, is_last: bool) -> contextlib.AbstractContextManager[object]:
        """Processes exchange gradients with the last part of a step alone."""
        if is_last or not isinstance(self._model, nn.parallel.DistributedDataParallel):
            return contextlib.nullcontext()
        return self._model.no_sync()


def learning_rate(config: TrainConfig, epoch: int, step: int = 0, steps: int = 1) -> float:
    """Learning rate of one step; epochs and steps count from 0.

    With E epochs, t = epoch + step/steps, w the epochs of warm-up and r the given rate::

        constant    r
        milestones  r gamma^m,  m = number of milestones f with epoch >= floor(f E)
        every       r gamma^floor(epoch / every)
        cosine      r (1 + cos(pi (t - w) / (E - w))) / 2

    all times (t + 1/steps) / w while t < w.
    """
    time = epoch + step / steps
    if config.schedule == "milestones":
        factor = config.gamma ** sum(epoch >= math.floor(at * config.epochs) for at in config.milestones)
    elif config.schedule == "every":
        factor = config.gamma ** (epoch // config.every)
    elif config.schedule == "cosine":
        share = (time - config.warmup_epochs) / (config.epochs - config.warmup_epochs)
        factor = (1 + math.cos(math.pi * max(0.0, share))) / 2
    else:
        factor = 1.0
    if time < config.warmup_epochs:
        factor *= (time + 1 / steps) / config.warmup_epochs
    return config.learning_rate * factor


def smoothed_cross_entropy(logits: Tensor, targets: Tensor, smoothing: float) -> Tensor:
    """Cross-entropy of logits (B, K) summed over a batch, with smoothed targets (B,), in float32 at least.

    ``sum_b [ -(1 - s) log p_b[t_b] - (s/K) sum_c log p_b[c] ]``, p = softmax(logits): the target keeps 1 - s of its
    weight, and all K classes share s.
    """
    wide = logits if logits.dtype == torch.float64 else logits.float()
    return cross_entropy(wide, targets, label_smoothing=smoothing, reduction="sum")


@dataclass
class Meter:
    """Sums over the pictures of an epoch so far.

    Numbers are read from the device late but added in order, in float64: the sums do not depend on when they are read.
    """

    loss_sum: float = 0.0
    correct: int = 0
    seen: int = 0
    seconds: float = 0.0
    _pending: list[tuple[Tensor, Tensor]] = field(default_factory=list)
    _started: float = field(default_factory=time.perf_counter)

    def add(self, loss_sum: Tensor, logits: Tensor, targets: Tensor) -> None:
        """Take in a part of a step: its summed loss (), logits (B, K) and targets (B,)."""
        correct = (logits.detach().argmax(dim=1) == targets).sum()
        self._pending.append((loss_sum.detach(), correct))
        self.seen += len(targets)
        if len(self._pending) >= _PENDING:
            self.read()

    def read(self) -> None:
        """Bring the sums and the time up to date."""
        for loss_sum, correct in self._pending:
            self.loss_sum += float(loss_sum)
            self.correct += int(correct)
        self._pending.clear()
        now = time.perf_counter()
        self.seconds += now - self._started
        self._started = now

    @property
    def loss(self) -> float:
        """Mean over the pictures so far; NaN without any."""
        return self.loss_sum / self.seen if self.seen else float("nan")

    @property
    def accuracy(self) -> float:
        """Share of pictures whose largest logit is their class."""
        return self.correct / self.seen if self.seen else float("nan")

    @property
    def images_per_second(self) -> float:
        """Pictures per second of training; 0 before the first step."""
        return self.seen / self.seconds if self.seconds > 0 else 0.0
