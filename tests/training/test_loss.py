from __future__ import annotations

import math

import numpy as np
import pytest
import torch

from laplacianshot.training.trainer import smoothed_cross_entropy


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
