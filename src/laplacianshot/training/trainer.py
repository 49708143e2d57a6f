"""The network, its optimizer and where they stand: everything a checkpoint holds, and one step of training."""

from __future__ import annotations

import contextlib
import math
import time
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import torch
from torch import Tensor, nn
from torch.nn.functional import cross_entropy

from laplacianshot.embedding import build_network
from laplacianshot.training.checkpoint import MODEL, MOMENTUM, RANDOM, Checkpoint
from laplacianshot.training.plan import Plan
from laplacianshot.training.state import TrainState
from laplacianshot.training.world import World

if TYPE_CHECKING:
    from laplacianshot.training.config import TrainConfig


class Trainer:
    """Trains one network by SGD; between two steps all of it can be taken down and set up again.

    Parameters
    ----------
    plan : Plan
    world : World
    device : torch.device
    network : nn.Module, optional
        Images (B, C, H, W) to (features, logits); by default a new one of the plan's config.

    Attributes
    ----------
    network : nn.Module
    state : TrainState
        As of the end of the last epoch or the last :meth:`checkpoint`.
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
            This process's share, in as many parts as fit its memory.
        count : int
            How many parts there are.
        n : int
            Pictures of the step, over all processes.
        rate : float
            Learning rate.
        """
        # Gradients of several processes are averaged, where their sum is wanted.
        weight = self._world.size / n
        for number, (images, labels) in enumerate(parts):
            targets = self._logit_of[labels].to(self._device, non_blocking=True)
            with self._alone(number + 1 < count):
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
        """Set everything up as it was; values are copied into tensors of the same layout as in a run of one piece."""
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

    @contextlib.contextmanager
    def _alone(self, wanted: bool) -> Iterator[None]:
        """Without an exchange of gradients, where another part of the same step follows."""
        if wanted and isinstance(self._model, nn.parallel.DistributedDataParallel):
            with self._model.no_sync():
                yield
        else:
            yield


def learning_rate(config: TrainConfig, epoch: int, step: int = 0, steps: int = 1) -> float:
    """Learning rate of one step; epochs and steps count from 0.

    With E epochs, t = epoch + step/steps, w the epochs of warm-up and r the given rate::

        constant    r
        milestones  r gamma^m,  m = number of milestones f with epoch >= floor(f E)
        every       r gamma^floor(epoch / every)
        cosine      r (1 + cos(pi (t - w) / (E - w))) / 2

    all times (t + 1/steps) / w while t < w.

    Parameters
    ----------
    config : TrainConfig
    epoch : int
    step, steps : int
        The step within its epoch, of how many.
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
    """Cross-entropy summed over a batch, with smoothed targets.

    ``sum_b [ -(1 - s) log p_b[t_b] - (s/K) sum_c log p_b[c] ]``, p = softmax(logits): the target keeps 1 - s of its
    weight, and all K classes share s.

    Parameters
    ----------
    logits : Tensor of shape (B, K)
        Of any floating-point type; the loss is computed in float32 at least.
    targets : int Tensor of shape (B,)
    smoothing : float
        s, at least 0 and below 1.

    Returns
    -------
    Tensor of shape ()
    """
    wide = logits if logits.dtype == torch.float64 else logits.float()
    return cross_entropy(wide, targets, label_smoothing=smoothing, reduction="sum")


# Steps whose numbers stay on the device: reading them makes the processor wait for it.
_PENDING = 64


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
        """Pictures a second of training; 0 before the first step."""
        return self.seen / self.seconds if self.seconds > 0 else 0.0
