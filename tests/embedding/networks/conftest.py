"""One network of each name, built once: the large ones take their time."""

from __future__ import annotations

import pytest
import torch

from laplacianshot.embedding import NETWORKS, build_network

# Large enough for every network, small enough for two cores.
SIZE = 16


@pytest.fixture(scope="package", autouse=True)
def _one_thread():
    """On a busy machine torch's threads wait for each other: tiny pictures then take many times as long."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


@pytest.fixture(scope="package", params=NETWORKS)
def network(request):
    """A network for five classes of tiny pictures, in evaluation mode, its statistics away from their start."""
    torch.manual_seed(0)
    made = build_network(request.param, 5, image_size=SIZE)
    with torch.no_grad():
        made.train()(torch.randn(8, 3, SIZE, SIZE))
    return made.eval()


@pytest.fixture
def images():
    """Four tiny pictures."""
    return torch.randn(4, 3, SIZE, SIZE, generator=torch.Generator().manual_seed(1))
