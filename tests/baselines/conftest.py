"""Made-up tasks with explicit features beside their inner products."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest

from laplacianshot.baselines import TaskBatch


@dataclass(frozen=True)
class Tasks:
    """B tasks of one shape: rows (B, n, D), the support first, labels (B, n_s), and the batch made of them."""

    rows: Any
    labels: Any
    n_classes: int

    @property
    def batch(self) -> TaskBatch:
        gram = self.rows @ np.swapaxes(self.rows, 1, 2)
        gram.flags.writeable = False  # methods share it
        return TaskBatch(gram, self.labels, self.n_classes)

    @property
    def support(self) -> Any:
        return self.rows[:, : self.labels.shape[1]]

    @property
    def query(self) -> Any:
        return self.rows[:, self.labels.shape[1] :]

    @property
    def targets(self) -> Any:
        """What ``fit`` takes as y, (B, n)."""
        return np.concatenate([self.labels, np.full(self.query.shape[:2], -1)], axis=1)

    def one_hot(self, task: int) -> Any:
        return np.eye(self.n_classes)[self.labels[task]]


@pytest.fixture
def make_tasks() -> Callable[..., Tasks]:
    """``make_tasks(shots, n_query)``: clustered rows, ``shots[c]`` labels of class c, in random order."""

    def make(
        shots: tuple[int, ...],
        n_query: int,
        *,
        dim: int = 8,
        n_tasks: int = 4,
        spread: float = 0.7,
        seed: int = 0,
        dtype: Any = np.float64,
    ) -> Tasks:
        rng = np.random.default_rng(seed)
        given = np.repeat(np.arange(len(shots)), shots)
        labels = np.array([rng.permutation(given) for _ in range(n_tasks)])
        truth = np.concatenate([labels, rng.integers(len(shots), size=(n_tasks, n_query))], axis=1)
        centers = rng.standard_normal((n_tasks, len(shots), dim))
        rows = np.take_along_axis(centers, truth[:, :, None], axis=1) + spread * rng.standard_normal(
            (*truth.shape, dim)
        )
        return Tasks(rows.astype(dtype), labels, len(shots))

    return make


@pytest.fixture(
    params=[
        ((1, 1), 3, 3),
        ((1, 1, 1, 1, 1), 30, 16),
        ((3, 3, 3), 12, 2),
        ((4, 1, 2), 17, 6),
        ((2, 5, 1, 3, 1, 2), 40, 64),
    ],
    ids=[
        "two classes, three queries",
        "five way, one shot",
        "three shots in a plane",
        "unequal shots",
        "more features",
    ],
)
def tasks(request: pytest.FixtureRequest, make_tasks: Callable[..., Tasks]) -> Tasks:
    """Four tasks of each of several shapes."""
    shots, n_query, dim = request.param
    return make_tasks(shots, n_query, dim=dim)
