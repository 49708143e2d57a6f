"""Loss, accuracy and speed of an epoch while it runs."""

from __future__ import annotations

import time
from dataclasses import dataclass, field

from torch import Tensor

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
