from __future__ import annotations

import numpy as np
import pytest
import torch

from laplacianshot import FeatureSet
from laplacianshot.episodes import validation_score
from laplacianshot.episodes.tasks import draw_tasks
from laplacianshot.training.epochs import features_of
from tests.training.drawings import Plain, tiny


def test_the_accuracy_is_that_of_nearest_normalized_prototypes_counted_by_hand():
    rng = np.random.default_rng(0)
    labels = np.repeat(np.arange(6), 10)
    features = rng.standard_normal((6, 5))[labels] + rng.standard_normal((60, 5))
    config = tiny(validation_tasks=12, validation_way=4, validation_shot=2, validation_query=5, validation_seed=3)
    tasks = draw_tasks(FeatureSet(features, labels), way=4, shot=2, query=5, tasks=12, seed=3)
    unit = features / np.linalg.norm(features, axis=1, keepdims=True)
    accuracies = []
    for t in range(12):
        task = tasks[t]
        prototypes = [unit[task.support[task.support_labels == c]].mean(axis=0) for c in range(4)]
        found = [np.argmin([np.sum((unit[q] - m) ** 2) for m in prototypes]) for q in task.query]
        accuracies.append(np.mean(found == task.query_labels))
    result = validation_score(features, labels, config)
    np.testing.assert_allclose(result.accuracies, accuracies)
    assert result.mean == pytest.approx(np.mean(accuracies))


def test_features_are_those_of_evaluation_mode_in_order_and_the_mode_is_restored():
    network = torch.nn.Sequential(torch.nn.BatchNorm2d(3), Plain())
    images = torch.randn(7, 3, 16, 16, generator=torch.Generator().manual_seed(0)) * 3 + 1
    buffers = {name: tensor.clone() for name, tensor in network.named_buffers()}
    calls = []
    found = features_of(network, images.split(3), lambda: calls.append(1))
    assert network.training
    assert len(calls) == 3
    assert all(torch.equal(tensor, buffers[name]) for name, tensor in network.named_buffers())
    with torch.inference_mode():
        wanted = network.eval()(images)[0]
    np.testing.assert_allclose(found, wanted.numpy(), rtol=1e-5, atol=1e-6)


def test_the_mode_is_restored_after_an_error():
    network = Plain()
    with pytest.raises(RuntimeError):
        features_of(network, [torch.zeros(1, 5, 16, 16)])
    assert network.training
