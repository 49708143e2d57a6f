from __future__ import annotations

import copy
import math
from itertools import pairwise

import numpy as np
import pytest
import torch

from laplacianshot.training import TrainConfig
from laplacianshot.training.checkpoint import MODEL, MOMENTUM, Checkpoint
from laplacianshot.training.state import TrainState
from laplacianshot.training.trainer import Trainer, World, learning_rate, smoothed_cross_entropy
from tests.training.drawings import Plain, make_plan, same_tensors, tiny

CPU = torch.device("cpu")


@pytest.fixture
def make_trainer(pictures):
    def make(network=None, **settings) -> Trainer:
        torch.manual_seed(0)
        return Trainer(make_plan(tiny(**settings), pictures), World(), CPU, network)

    return make


def batch(seed: int, size: int = 8) -> tuple[torch.Tensor, torch.Tensor]:
    generator = torch.Generator().manual_seed(seed)
    return torch.randn(size, 3, 16, 16, generator=generator), torch.arange(size) % 4


def weights(trainer: Trainer) -> dict[str, torch.Tensor]:
    return {name: tensor.clone() for name, tensor in trainer.network.state_dict().items()}


@pytest.mark.parametrize("nesterov", [False, True])
def test_steps_follow_the_formula_of_sgd(make_trainer, nesterov):
    """v <- mu v + g + w theta; theta <- theta - r v, or - r (g + w theta + mu v) with Nesterov's momentum."""
    torch.manual_seed(1)
    network = Plain().double()
    by_hand = copy.deepcopy(network)
    trainer = make_trainer(network, momentum=0.8, weight_decay=0.01, label_smoothing=0.2, nesterov=nesterov)
    velocity = [torch.zeros_like(parameter) for parameter in by_hand.parameters()]
    for number, rate in enumerate((0.3, 0.2, 0.1)):
        images, labels = batch(number)
        images = images.double()
        trainer.step([(images, labels)], 1, 8, rate)
        loss = smoothed_cross_entropy(by_hand(images)[1], labels, 0.2) / 8
        gradients = torch.autograd.grad(loss, list(by_hand.parameters()))
        with torch.no_grad():
            for parameter, v, g in zip(by_hand.parameters(), velocity, gradients, strict=True):
                decayed = g + 0.01 * parameter
                v.mul_(0.8).add_(decayed)
                parameter.sub_(rate * (decayed + 0.8 * v if nesterov else v))
    for found, wanted in zip(trainer.network.parameters(), by_hand.parameters(), strict=True):
        torch.testing.assert_close(found, wanted, rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("sizes", [(4, 4), (2, 2, 2, 2), (3, 3, 2)])
def test_a_step_in_parts_is_the_step_on_the_whole_batch(make_trainer, sizes):
    torch.manual_seed(1)
    network = Plain().double()
    whole, parts = make_trainer(copy.deepcopy(network)), make_trainer(network)
    for number in range(3):
        images, labels = batch(number)
        images = images.double()
        whole.step([(images, labels)], 1, 8, 0.1)
        cut = list(zip(images.split(sizes), labels.split(sizes), strict=True))
        parts.step(cut, len(cut), 8, 0.1)
    for name, tensor in weights(whole).items():
        torch.testing.assert_close(parts.network.state_dict()[name], tensor, rtol=1e-12, atol=1e-12)
    assert parts.meter.seen == whole.meter.seen == 24


def test_labels_become_the_numbers_of_their_logits(pictures):
    """Logit k is class k of the split, whatever numbers its labels have."""
    plan = make_plan(tiny(base_split="val", validation_split=""), pictures)
    assert plan.classes.tolist() == [4, 5, 6, 7]
    trainer = Trainer(plan, World(), CPU, Plain())
    images = batch(0)[0]
    logits = trainer.network(images)[1]
    trainer.step([(images, 4 + logits.argmax(dim=1))], 1, 8, 0.1)
    trainer.meter.read()
    assert trainer.meter.accuracy == 1.0


def test_the_meter_holds_means_over_pictures(make_trainer):
    network = Plain()
    trainer = make_trainer(copy.deepcopy(network))
    images, labels = batch(0)
    _, logits = network(images)
    trainer.step([(images, labels)], 1, 8, 0.1)
    trainer.meter.read()
    assert trainer.meter.loss == pytest.approx(smoothed_cross_entropy(logits, labels, 0.1).item() / 8)
    assert trainer.meter.accuracy == (logits.argmax(dim=1) == labels).float().mean().item()


def test_the_layout_in_memory_changes_nothing_but_rounding(make_trainer):
    last, first = make_trainer(channels_last=True), make_trainer(channels_last=False)
    for trainer in (last, first):
        trainer.step([batch(0)], 1, 8, 0.01)
    maps = [parameter for parameter in last.network.parameters() if parameter.ndim == 4]
    assert all(parameter.is_contiguous(memory_format=torch.channels_last) for parameter in maps)
    for name, tensor in weights(first).items():
        torch.testing.assert_close(last.network.state_dict()[name], tensor, rtol=1e-3, atol=1e-4)


@pytest.mark.parametrize("precision", ["bfloat16", "float16"])
def test_mixed_precision_keeps_single_precision_weights_near_those_of_single_precision(make_trainer, precision):
    """Gradients come from rounded activations, so a step goes nearly the same way."""
    start, mixed, full = make_trainer(), make_trainer(precision=precision), make_trainer()
    for trainer in (mixed, full):
        trainer.step([batch(0, 32)], 1, 32, 0.01)
    name = "classifier.weight"
    assert mixed.network.state_dict()[name].dtype == torch.float32
    moved = [(trainer.network.state_dict()[name] - weights(start)[name]).flatten() for trainer in (mixed, full)]
    assert torch.cosine_similarity(*moved, dim=0) > 0.98
    assert not torch.equal(*moved)


@pytest.mark.parametrize("precision", ["float32", "float16"])
def test_a_restored_trainer_goes_on_to_the_last_bit(make_trainer, tmp_path, precision):
    settings = {"precision": precision}
    one_piece, before, after = (make_trainer(**settings) for _ in range(3))
    for trainer in (one_piece, before):
        trainer.step([batch(0)], 1, 8, 0.1)
        trainer.step([batch(1)], 1, 8, 0.1)
    before.checkpoint(TrainState(scaler=before.scaler_state)).write(tmp_path / "x.safetensors")
    after.restore(Checkpoint.read(tmp_path / "x.safetensors"))
    for trainer in (one_piece, after):
        trainer.step([batch(2)], 1, 8, 0.1)
        trainer.step([batch(3)], 1, 8, 0.1)
    assert same_tensors(weights(one_piece), weights(after))
    state = TrainState()
    assert same_tensors(one_piece.checkpoint(state).part(MOMENTUM), after.checkpoint(state).part(MOMENTUM))
    assert one_piece.scaler_state == after.scaler_state


def test_a_checkpoint_before_the_first_step_has_no_momentum(make_trainer):
    checkpoint = make_trainer().checkpoint(TrainState())
    assert not checkpoint.part(MOMENTUM)
    assert checkpoint.part(MODEL).keys() == make_trainer().network.state_dict().keys()


@pytest.mark.parametrize("smoothing", [0.0, 0.1, 0.7])
def test_the_loss_is_the_cross_entropy_with_targets_that_share_s_with_all_classes(smoothing):
    rng = np.random.default_rng(0)
    logits, targets = 3 * rng.standard_normal((5, 7)), rng.integers(0, 7, 5)
    log_p = logits - np.log(np.exp(logits).sum(axis=1, keepdims=True))
    wanted = np.full((5, 7), smoothing / 7)
    wanted[np.arange(5), targets] += 1 - smoothing
    found = smoothed_cross_entropy(torch.from_numpy(logits), torch.from_numpy(targets), smoothing)
    assert found.item() == pytest.approx(-(wanted * log_p).sum(), rel=1e-12)


def test_equal_logits_cost_the_logarithm_of_the_number_of_classes():
    found = smoothed_cross_entropy(torch.full((4, 10), 2.0), torch.arange(4), 0.1)
    assert found.item() == pytest.approx(4 * math.log(10))


def test_the_gradient_is_softmax_minus_the_smoothed_targets():
    logits = torch.tensor([[1.0, -2.0, 0.5]], dtype=torch.float64, requires_grad=True)
    smoothed_cross_entropy(logits, torch.tensor([2]), 0.3).backward()
    wanted = torch.softmax(logits.detach(), dim=1) - torch.tensor([[0.1, 0.1, 0.8]], dtype=torch.float64)
    torch.testing.assert_close(logits.grad, wanted)


def test_half_precision_logits_are_summed_in_single_precision():
    logits = torch.randn(300, 10, generator=torch.Generator().manual_seed(0)).bfloat16()
    targets = torch.arange(300) % 10
    found = smoothed_cross_entropy(logits, targets, 0.1)
    assert found.dtype == torch.float32
    assert found.item() == pytest.approx(smoothed_cross_entropy(logits.double(), targets, 0.1).item(), rel=1e-5)


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
