"""DenseNet-121 (Huang et al., 2017)."""

from __future__ import annotations

from collections import OrderedDict

import torch
from torch import Tensor, nn

from laplacianshot.embedding.networks.network import Trunk, convolution_relu, relu_convolution

_GROWTH = 32


class _DenseLayer(nn.Module):
    """``[x, new(x)]``: 32 new channels by a 1x1 convolution to 128 and a 3x3 one, each after activation."""

    def __init__(self, inputs: int) -> None:
        super().__init__()
        self.new = nn.Sequential(relu_convolution(inputs, 4 * _GROWTH, 1), relu_convolution(4 * _GROWTH, _GROWTH, 3))

    def forward(self, x: Tensor) -> Tensor:
        return torch.cat([x, self.new(x)], dim=1)


def densenet121(in_channels: int) -> Trunk:
    """Stem of 64 channels and dense blocks of 6, 12, 24 and 16 layers; 1024 features.

    Between two blocks a transition halves the channels by a 1x1 convolution and the map by 2x2 means. Of the five
    down-samplings of the ImageNet network the first two, in the stem, are removed: its 7x7 convolution with stride 2
    becomes a 3x3 one with stride 1, and there is no maximum pooling. Maps at 84 px: 84, 42, 21, 10.
    """
    parts: OrderedDict[str, nn.Module] = OrderedDict(stem=convolution_relu(in_channels, 64, 3))
    channels = 64
    for stage, depth in enumerate([6, 12, 24, 16], start=1):
        if stage > 1:
            parts[f"transition{stage - 1}"] = nn.Sequential(
                relu_convolution(channels, channels // 2, 1), nn.AvgPool2d(2)
            )
            channels //= 2
        parts[f"block{stage}"] = nn.Sequential(*(_DenseLayer(channels + _GROWTH * i) for i in range(depth)))
        channels += _GROWTH * depth
    parts["activation"] = nn.Sequential(nn.BatchNorm2d(channels), nn.ReLU(inplace=True))
    return Trunk(nn.Sequential(parts), channels=channels, stride=8)
