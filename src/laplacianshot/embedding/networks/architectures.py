"""The networks of the paper, each up to its last map of features."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable

import torch
from torch import Tensor, nn

from laplacianshot.embedding.networks.network import Trunk, convolution, convolution_relu, relu_convolution


def conv4(in_channels: int) -> Trunk:
    """Four blocks of a 3x3 convolution to 64 channels and a 2x2 maximum; at 84 px maps of 42, 21, 10 and 5.

    Features are the whole last map, as in Chen et al. (2019): 64 x 5 x 5 = 1600 at 84 px, 64 x 1 x 1 = 64 at 28 px. The
    first convolution is 3x3 with stride 1 by nature, and no down-sampling is removed.
    """
    blocks = [nn.Sequential(convolution_relu(inputs, 64, 3), nn.MaxPool2d(2)) for inputs in (in_channels, 64, 64, 64)]
    return Trunk(nn.Sequential(*blocks), channels=64, stride=16, flatten=True)


class _Residual(nn.Module):
    """``relu(branch(x) + shortcut(x))``; the shortcut is the identity unless the shape changes."""

    def __init__(self, branch: nn.Module, inputs: int, outputs: int, stride: int) -> None:
        super().__init__()
        self.branch = branch
        self.shortcut: nn.Module = nn.Identity()
        if stride != 1 or inputs != outputs:
            self.shortcut = _normalized(inputs, outputs, 1, stride=stride)
        self.relu = nn.ReLU(inplace=True)

    def forward(self, x: Tensor) -> Tensor:
        result: Tensor = self.relu(self.branch(x) + self.shortcut(x))
        return result


def _normalized(inputs: int, outputs: int, size: int, *, stride: int = 1) -> nn.Sequential:
    return nn.Sequential(convolution(inputs, outputs, size, stride=stride), nn.BatchNorm2d(outputs))


def _basic(inputs: int, width: int, stride: int) -> tuple[nn.Module, int]:
    """Two 3x3 convolutions, and the channels that come out."""
    branch = nn.Sequential(convolution_relu(inputs, width, 3, stride=stride), _normalized(width, width, 3))
    return _Residual(branch, inputs, width, stride), width


def _bottleneck(inputs: int, width: int, stride: int) -> tuple[nn.Module, int]:
    """1x1, 3x3 and 1x1 convolutions, the last to four times the width; the stride is that of the 3x3 one."""
    branch = nn.Sequential(
        convolution_relu(inputs, width, 1),
        convolution_relu(width, width, 3, stride=stride),
        _normalized(width, 4 * width, 1),
    )
    return _Residual(branch, inputs, 4 * width, stride), 4 * width


def _resnet(in_channels: int, block: Callable[[int, int, int], tuple[nn.Module, int]], depths: list[int]) -> Trunk:
    """Stem and four stages of 64, 128, 256 and 512 channels; the last three halve the map.

    Of the five down-samplings of the ImageNet network the first two, in the stem, are removed: its 7x7 convolution with
    stride 2 becomes a 3x3 one with stride 1, and there is no maximum pooling. Maps at 84 px: 84, 42, 21, 11.
    """
    parts: OrderedDict[str, nn.Module] = OrderedDict(stem=convolution_relu(in_channels, 64, 3))
    channels = 64
    for stage, depth in enumerate(depths):
        blocks = []
        for i in range(depth):
            made, channels = block(channels, 64 * 2**stage, 2 if stage > 0 and i == 0 else 1)
            blocks.append(made)
        parts[f"stage{stage + 1}"] = nn.Sequential(*blocks)
    return Trunk(nn.Sequential(parts), channels=channels, stride=8)


def resnet18(in_channels: int) -> Trunk:
    """Eight basic blocks; 512 features."""
    return _resnet(in_channels, _basic, [2, 2, 2, 2])


def resnet50(in_channels: int) -> Trunk:
    """Sixteen bottleneck blocks; 2048 features.

    The paper says that every network has 512 features. A bottleneck widens the last stage four times, so that 2048 come
    out, in the authors' code too.
    """
    return _resnet(in_channels, _bottleneck, [3, 4, 6, 3])


class _WideBlock(nn.Module):
    """Pre-activation: with ``a = relu(norm(x))``, ``shortcut + conv(relu(norm(conv(a))))``.

    The shortcut is ``x``, or a 1x1 convolution of ``a`` where the number of channels changes.
    """

    def __init__(self, inputs: int, outputs: int, stride: int) -> None:
        super().__init__()
        self.activation = nn.Sequential(nn.BatchNorm2d(inputs), nn.ReLU(inplace=True))
        self.first = convolution(inputs, outputs, 3, stride=stride)
        self.second = relu_convolution(outputs, outputs, 3)
        self.shortcut = convolution(inputs, outputs, 1, stride=stride) if inputs != outputs else None

    def forward(self, x: Tensor) -> Tensor:
        a = self.activation(x)
        result: Tensor = self.second(self.first(a)) + (x if self.shortcut is None else self.shortcut(a))
        return result


def wrn28_10(in_channels: int) -> Trunk:
    """Stem of 16 channels, three stages of four blocks with 160, 320 and 640, and a last activation; 640 features.

    28 counts the stem, two convolutions in each of twelve blocks, and three shortcuts. The network was made for small
    pictures: its stem is 3x3 with stride 1 by nature, and its only two down-samplings stay. Maps at 84 px: 84, 42, 21.
    There is no dropout.
    """
    parts: OrderedDict[str, nn.Module] = OrderedDict(stem=convolution(in_channels, 16, 3))
    channels = 16
    for stage, (width, stride) in enumerate([(160, 1), (320, 2), (640, 2)], start=1):
        blocks = [_WideBlock(channels, width, stride), *(_WideBlock(width, width, 1) for _ in range(3))]
        parts[f"stage{stage}"] = nn.Sequential(*blocks)
        channels = width
    parts["activation"] = nn.Sequential(nn.BatchNorm2d(channels), nn.ReLU(inplace=True))
    return Trunk(nn.Sequential(parts), channels=channels, stride=4)


# Channels and stride of the 13 separable convolutions.
_SEPARABLE = [
    (64, 1),
    (128, 1),  # stride 2 in the ImageNet network
    (128, 1),
    (256, 2),
    (256, 1),
    (512, 2),
    *[(512, 1)] * 5,
    (1024, 2),
    (1024, 1),
]


def mobilenet(in_channels: int) -> Trunk:
    """Stem of 32 channels and 13 depthwise separable convolutions; 1024 features.

    Of the five down-samplings of the ImageNet network the first two, in the stem and in the second separable
    convolution, have stride 1 here. Maps at 84 px: 84, 42, 21, 11.
    """
    parts: OrderedDict[str, nn.Module] = OrderedDict(stem=convolution_relu(in_channels, 32, 3))
    channels = 32
    for i, (width, stride) in enumerate(_SEPARABLE, start=1):
        depthwise = convolution_relu(channels, channels, 3, stride=stride, groups=channels)
        parts[f"separable{i}"] = nn.Sequential(depthwise, convolution_relu(channels, width, 1))
        channels = width
    return Trunk(nn.Sequential(parts), channels=channels, stride=8)


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
