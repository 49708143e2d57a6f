"""A network in numbers, found without computing with it."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch.utils.flop_counter import FlopCounterMode

from laplacianshot.embedding.networks.registry import NETWORKS, build_network


@dataclass(frozen=True)
class Summary:
    """What a network costs and gives.

    Attributes
    ----------
    name : str
    feature_dim : int
    parameters : int
        Weights that are trained, those of the classifier among them.
    map_sides : tuple of int
        Height and width of the last feature map.
    multiply_adds : int
        Products of convolutions and of the classifier for one picture, forwards.
    """

    name: str
    feature_dim: int
    parameters: int
    map_sides: tuple[int, int]
    multiply_adds: int


def summarize(name: str, n_classes: int = 64, *, in_channels: int = 3, image_size: int = 84) -> Summary:
    """Build a network on torch's meta device, where tensors have shapes but no values.

    Parameters
    ----------
    name, n_classes, in_channels, image_size
        As in :func:`~laplacianshot.embedding.build_network`.

    Returns
    -------
    Summary

    Examples
    --------
    >>> summarize("conv4", n_classes=10).parameters
    128842
    """
    with torch.device("meta"), torch.no_grad():
        network = build_network(name, n_classes, in_channels=in_channels, image_size=image_size).eval()
        images = torch.empty(1, in_channels, image_size, image_size)
        height, width = network.trunk(images).shape[2:]
        with FlopCounterMode(display=False) as counter:
            network(images)
    return Summary(
        name=name,
        feature_dim=network.feature_dim,
        parameters=sum(weights.numel() for weights in network.parameters()),
        map_sides=(height, width),
        multiply_adds=counter.get_total_flops() // 2,
    )


def table(n_classes: int = 64, *, image_size: int = 84) -> str:
    """All networks as a Markdown table."""
    lines = ["| name | features | parameters | last map | multiply-adds |", "|---|---:|---:|---:|---:|"]
    for name in NETWORKS:
        it = summarize(name, n_classes, image_size=image_size)
        sides = " x ".join(map(str, it.map_sides))
        lines.append(f"| `{name}` | {it.feature_dim} | {it.parameters:,} | {sides} | {it.multiply_adds / 1e9:.2f} G |")
    return "\n".join(lines)
