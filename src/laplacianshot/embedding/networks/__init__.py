"""Networks by name: pictures in, features and class scores out.

This package and its list of names import without torch; building a network needs the extra ``train``.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import TYPE_CHECKING

from laplacianshot.runtime.errors import suggestion
from laplacianshot.runtime.extras import require

if TYPE_CHECKING:
    from laplacianshot.embedding.networks.architectures import Network

# Each name is that of a function of architectures.py.
NETWORKS: Mapping[str, str] = MappingProxyType(
    {
        "resnet18": "ResNet-18: four stages of two basic blocks",
        "resnet50": "ResNet-50: four stages of 3, 4, 6 and 3 bottleneck blocks",
        "wrn28_10": "WRN-28-10: three stages of four pre-activation blocks, ten times as wide",
        "mobilenet": "MobileNet (the first): 13 depthwise separable convolutions",
        "densenet121": "DenseNet-121: four dense blocks of 6, 12, 24 and 16 layers, growth rate 32",
        "conv4": "Conv4: four blocks of one convolution with 64 channels, as in few-shot papers",
    }
)


def build_network(name: str, n_classes: int = 64, *, in_channels: int = 3, image_size: int = 84) -> Network:
    """A network with new weights.

    They are drawn from torch's global generator: ``torch.manual_seed`` before this call fixes them.

    Parameters
    ----------
    name : str
        One of :data:`NETWORKS`.
    n_classes : int, default=64
        Number of base classes, at least 1.
    in_channels : int, default=3
        Channels of a picture: 3 for color, 1 for gray.
    image_size : int, default=84
        Side of the pictures in pixels. Only ``"conv4"`` depends on it: it keeps every position of its last map, so its
        ``feature_dim`` is 1600 at 84 and 64 at 28. The others average over positions and take larger and smaller
        pictures too.

    Returns
    -------
    Network
        Images (B, in_channels, H, W) to features (B, feature_dim) and logits (B, n_classes).
    """
    if name not in NETWORKS:
        raise ValueError(f"there is no network {name!r}; {suggestion(name, NETWORKS)}")
    for argument, value in (("n_classes", n_classes), ("in_channels", in_channels), ("image_size", image_size)):
        if value < 1:
            raise ValueError(f"{argument} must be at least 1; got {value}.")
    require("torch", "train")
    from laplacianshot.embedding.networks import architectures

    trunk = getattr(architectures, name)(in_channels)
    return architectures.Network(name, trunk, n_classes=n_classes, in_channels=in_channels, image_size=image_size)
