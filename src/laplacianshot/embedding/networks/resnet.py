"""ResNet-18 and ResNet-50 (He et al., 2016)."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable

from torch import Tensor, nn

from laplacianshot.embedding.networks.network import Trunk, convolution, convolution_relu


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
