from __future__ import annotations

import copy

import pytest
import torch

from laplacianshot.training.checkpoint import MODEL, MOMENTUM, Checkpoint
from laplacianshot.training.state import TrainState
from laplacianshot.training.trainer import Trainer, World, smoothed_cross_entropy
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
