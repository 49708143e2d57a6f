from __future__ import annotations

import math
from itertools import pairwise

import pytest

from laplacianshot.training import TrainConfig
from laplacianshot.training.trainer import learning_rate


def rates(config: TrainConfig) -> list[float]:
    return [learning_rate(config, epoch) for epoch in range(config.epochs)]


def test_milestones_cut_the_rate_to_a_tenth_at_half_and_three_quarters():
    found = rates(TrainConfig(epochs=90))
    assert found == pytest.approx([0.1] * 45 + [0.01] * 22 + [0.001] * 23)


def test_every_thirty_epochs_the_rate_is_a_tenth():
    found = rates(TrainConfig(epochs=90, schedule="every"))
    assert found == pytest.approx([0.1] * 30 + [0.01] * 30 + [0.001] * 30)


def test_a_constant_rate_stays():
    assert set(rates(TrainConfig(epochs=7, schedule="constant"))) == {0.1}


def test_cosine_falls_from_the_rate_by_half_to_almost_nothing_at_every_step():
    config = TrainConfig(epochs=10, schedule="cosine")
    steps = [learning_rate(config, epoch, step, 4) for epoch in range(10) for step in range(4)]
    assert steps[0] == 0.1
    assert steps[20] == pytest.approx(0.05)
    assert steps[-1] == pytest.approx(0.05 * (1 + math.cos(math.pi * 39 / 40)))
    assert all(after < before for before, after in pairwise(steps))


@pytest.mark.parametrize("schedule", ["constant", "cosine", "milestones"])
def test_warm_up_is_a_line_that_meets_the_schedule_at_its_end(schedule):
    config = TrainConfig(epochs=10, schedule=schedule, warmup_epochs=2)
    first = [learning_rate(config, epoch, step, 4) for epoch in range(2) for step in range(4)]
    assert first == pytest.approx([0.1 * (k + 1) / 8 for k in range(8)])
    assert learning_rate(config, 2, 0, 4) == pytest.approx(0.1)


def test_cosine_after_a_warm_up_takes_the_rest_of_the_run():
    config = TrainConfig(epochs=10, schedule="cosine", warmup_epochs=2)
    assert learning_rate(config, 6, 0, 4) == pytest.approx(0.05)
