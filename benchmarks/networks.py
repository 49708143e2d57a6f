"""The table of docs/guide/networks.md: what each network costs and gives, found without computing with it.

python benchmarks/networks.py
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch.utils.flop_counter import FlopCounterMode

from laplacianshot.embedding import NETWORKS, build_network


@dataclass(frozen=True)
class Summary:
    """A network in numbers."""

    name: str
    feature_dim: int
    parameters: int  # weights that are trained, those of the classifier among them
    map_sides: tuple[int, int]
    multiply_adds: int  # products of convolutions and of the classifier for one picture, forwards


def summarize(name: str, n_classes: int = 64, *, image_size: int = 84) -> Summary:
    """Build a network on torch's meta device, where tensors have shapes but no values."""
    with torch.device("meta"), torch.no_grad():
        network = build_network(name, n_classes, image_size=image_size).eval()
        images = torch.empty(1, 3, image_size, image_size)
        height, width = network.trunk(images).shape[2:]
        with FlopCounterMode(display=False) as counter:
            network(images)
    parameters = sum(weights.numel() for weights in network.parameters())
    return Summary(name, network.feature_dim, parameters, (height, width), counter.get_total_flops() // 2)


def table() -> str:
    """All networks as a Markdown table."""
    lines = ["| name | features | parameters | last map | multiply-adds |", "|---|---:|---:|---:|---:|"]
    for it in map(summarize, NETWORKS):
        sides = " x ".join(map(str, it.map_sides))
        cost = f"{it.multiply_adds / 1e9:.2f} G"
        lines.append(f"| `{it.name}` | {it.feature_dim} | {it.parameters:,} | {sides} | {cost} |")
    return "\n".join(lines)


if __name__ == "__main__":
    print(table())
