"""What all networks share: the head, the check of their input and the initial weights."""

from __future__ import annotations

from dataclasses import dataclass
from math import sqrt

from torch import Tensor, nn


@dataclass(frozen=True)
class Trunk:
    """All of a network before its head.

    Attributes
    ----------
    layers : nn.Module
        Images (B, C, H, W) to a map (B, channels, h, w) of what the last ReLU let through.
    channels : int
        Channels of the map.
    stride : int
        Pixels from one position of the map to the next; smaller pictures are refused.
    flatten : bool, default=False
        Every position of the map is a feature, which fixes the size of the pictures. Otherwise features are means over
        positions.
    """

    layers: nn.Module
    channels: int
    stride: int
    flatten: bool = False


class Network(nn.Module):
    """Images (B, C, H, W) to features (B, D) and logits (B, K).

    ``features = pool(trunk(images))``, ``logits = W features + b``. Few-shot inference uses the features; the logits
    serve base training alone.

    Parameters
    ----------
    name : str
        As in ``NETWORKS``.
    trunk : Trunk
        What comes before the head.
    n_classes, in_channels, image_size : int
        As in :func:`~laplacianshot.embedding.build_network`.

    Attributes
    ----------
    feature_dim : int
        D: the channels of the map, times its positions where they are kept apart.
    """

    def __init__(self, name: str, trunk: Trunk, *, n_classes: int, in_channels: int, image_size: int) -> None:
        super().__init__()
        if image_size < trunk.stride:
            raise ValueError(f"image_size must be at least {trunk.stride} for {name}; got {image_size}.")
        self.name = name
        self.n_classes = n_classes
        self.in_channels = in_channels
        self.image_size = image_size
        self.stride = trunk.stride
        self.flatten = trunk.flatten
        self.feature_dim = trunk.channels * ((image_size // trunk.stride) ** 2 if trunk.flatten else 1)
        self.trunk = trunk.layers
        self.classifier = nn.Linear(self.feature_dim, n_classes)
        initialize(self)

    def forward(self, images: Tensor) -> tuple[Tensor, Tensor]:
        """Features (B, feature_dim) and logits (B, n_classes) of images (B, in_channels, H, W)."""
        features = self.embed(images)
        return features, self.classifier(features)

    def embed(self, images: Tensor) -> Tensor:
        """Features (B, feature_dim) alone."""
        self._check(images)
        maps: Tensor = self.trunk(images)
        # A plain mean: on GPUs the backward pass of adaptive pooling is not deterministic.
        return maps.flatten(1) if self.flatten else maps.mean(dim=(2, 3))

    def _check(self, images: Tensor) -> None:
        if images.ndim != 4 or images.shape[1] != self.in_channels:
            expected = f"(batch, {self.in_channels}, height, width)"
            raise ValueError(f"images must have shape {expected} for this {self.name}; got {tuple(images.shape)}.")
        if not images.is_floating_point():
            raise ValueError(f"images must be of a floating-point type; got {images.dtype}.")
        height, width = images.shape[2:]
        if self.flatten and (height, width) != (self.image_size, self.image_size):
            raise ValueError(
                f"images must have {self.image_size} x {self.image_size} pixels for this {self.name}; "
                f"got {height} x {width}: resize them, or build it with another image_size."
            )
        if min(height, width) < self.stride:
            least = f"{self.stride} x {self.stride}"
            raise ValueError(f"images must have at least {least} pixels for {self.name}; got {height} x {width}.")


def initialize(network: nn.Module) -> None:
    """He's normal weights for convolutions, the identity for batch normalization; linear layers keep torch's own.

    A convolution of size s to O channels in g groups draws from N(0, 2 g / (O s^2)), so that gradients keep their
    variance on the way back through ReLUs.
    """
    for module in network.modules():
        if isinstance(module, nn.Conv2d):
            # Written out, because torch's Kaiming rule forgets the groups.
            receivers = module.out_channels // module.groups * module.kernel_size[0] * module.kernel_size[1]
            nn.init.normal_(module.weight, std=sqrt(2 / receivers))
        elif isinstance(module, nn.BatchNorm2d):
            nn.init.ones_(module.weight)
            nn.init.zeros_(module.bias)


def convolution(inputs: int, outputs: int, size: int, *, stride: int = 1, groups: int = 1) -> nn.Conv2d:
    """A convolution that at stride 1 keeps the size of the map; no bias, as batch normalization would undo it."""
    return nn.Conv2d(inputs, outputs, size, stride=stride, padding=size // 2, groups=groups, bias=False)


def convolution_relu(inputs: int, outputs: int, size: int, *, stride: int = 1, groups: int = 1) -> nn.Sequential:
    """Convolution, batch normalization, ReLU."""
    return nn.Sequential(
        convolution(inputs, outputs, size, stride=stride, groups=groups),
        nn.BatchNorm2d(outputs),
        nn.ReLU(inplace=True),
    )


def relu_convolution(inputs: int, outputs: int, size: int, *, stride: int = 1) -> nn.Sequential:
    """Batch normalization, ReLU, convolution: the order of pre-activation networks."""
    return nn.Sequential(
        nn.BatchNorm2d(inputs), nn.ReLU(inplace=True), convolution(inputs, outputs, size, stride=stride)
    )
