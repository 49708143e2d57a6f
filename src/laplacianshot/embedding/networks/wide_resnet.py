"""WRN-28-10, the wide residual network (Zagoruyko and Komodakis, 2016)."""

from __future__ import annotations

from collections import OrderedDict

from torch import Tensor, nn

from laplacianshot.embedding.networks.network import Trunk, convolution, relu_convolution


class _Block(nn.Module):
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
        blocks = [_Block(channels, width, stride), *(_Block(width, width, 1) for _ in range(3))]
        parts[f"stage{stage}"] = nn.Sequential(*blocks)
        channels = width
    parts["activation"] = nn.Sequential(nn.BatchNorm2d(channels), nn.ReLU(inplace=True))
    return Trunk(nn.Sequential(parts), channels=channels, stride=4)
