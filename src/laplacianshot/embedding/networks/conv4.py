"""Conv4, the small network of the few-shot literature."""

from __future__ import annotations

from torch import nn

from laplacianshot.embedding.networks.network import Trunk, convolution_relu


def conv4(in_channels: int) -> Trunk:
    """Four blocks of a 3x3 convolution to 64 channels and a 2x2 maximum; at 84 px maps of 42, 21, 10 and 5.

    Features are the whole last map, as in Chen et al. (2019): 64 x 5 x 5 = 1600 at 84 px, 64 x 1 x 1 = 64 at 28 px. The
    first convolution is 3x3 with stride 1 by nature, and no down-sampling is removed.
    """
    blocks = [nn.Sequential(convolution_relu(inputs, 64, 3), nn.MaxPool2d(2)) for inputs in (in_channels, 64, 64, 64)]
    return Trunk(nn.Sequential(*blocks), channels=64, stride=16, flatten=True)
