"""Conv4, the small network of the few-shot literature."""

from __future__ import annotations

from torch import nn

from laplacianshot.embedding.networks.network import Network, convolution

_CHANNELS = 64


def conv4(n_classes: int, *, in_channels: int, image_size: int) -> Network:
    """Four blocks of 3x3 convolution, batch normalisation, ReLU and 2x2 maximum; features are the whole last map.

    Chen et al. (2019) flatten the map as well: 64 x 5 x 5 = 1600 features at 84 pixels, 64 x 1 x 1 = 64 at 28.
    Down-sampling is left as it is, the first convolution being 3x3 with stride 1 already.
    """
    blocks: list[nn.Module] = []
    for inputs in (in_channels, _CHANNELS, _CHANNELS, _CHANNELS):
        layers = convolution(inputs, _CHANNELS, 3), nn.BatchNorm2d(_CHANNELS), nn.ReLU(inplace=True), nn.MaxPool2d(2)
        blocks.append(nn.Sequential(*layers))
    return Network(
        "conv4",
        nn.Sequential(*blocks),
        channels=_CHANNELS,
        stride=16,
        n_classes=n_classes,
        in_channels=in_channels,
        image_size=image_size,
        flatten=True,
    )
