"""MobileNet, the first version (Howard et al., 2017)."""

from __future__ import annotations

from collections import OrderedDict

from torch import nn

from laplacianshot.embedding.networks.network import Trunk, convolution_relu

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
