"""What all networks share: the head, the check of their input and the initial weights."""

from __future__ import annotations

from torch import Tensor, nn


class Network(nn.Module):
    """Images (B, C, H, W) to features (B, D) and logits (B, K).

    ``features = pool(trunk(images))``, ``logits = W features + b``.

    Features are what few-shot inference uses; logits are needed in base training alone.

    Parameters
    ----------
    name : str
        As in ``NETWORKS``.
    trunk : nn.Module
        Images to a feature map (B, channels, h, w), with ReLU as its last operation.
    channels : int
        Channels of that map.
    stride : int
        Pixels between neighbours in the map; smaller pictures are refused.
    n_classes, in_channels, image_size : int
        As in :func:`~laplacianshot.embedding.build_network`.
    flatten : bool, default=False
        Keep all positions of the map, which fixes the size of the pictures, instead of their mean.

    Attributes
    ----------
    feature_dim : int
        D: ``channels``, or ``channels * (image_size // stride)**2`` with ``flatten``.
    """

    def __init__(
        self,
        name: str,
        trunk: nn.Module,
        *,
        channels: int,
        stride: int,
        n_classes: int,
        in_channels: int,
        image_size: int,
        flatten: bool = False,
    ) -> None:
        super().__init__()
        if image_size < stride:
            raise ValueError(f"{name} needs image_size of at least {stride}; got {image_size}.")
        self.name = name
        self.stride = stride
        self.n_classes = n_classes
        self.in_channels = in_channels
        self.image_size = image_size
        self.flatten = flatten
        self.feature_dim = channels * (image_size // stride) ** 2 if flatten else channels
        self.trunk = trunk
        self.classifier = nn.Linear(self.feature_dim, n_classes)
        initialise(self)

    def forward(self, images: Tensor) -> tuple[Tensor, Tensor]:
        """Features (B, feature_dim) and logits (B, n_classes) of images (B, in_channels, H, W)."""
        features = self.embed(images)
        return features, self.classifier(features)

    def embed(self, images: Tensor) -> Tensor:
        """Features (B, feature_dim) alone."""
        self._check(images)
        maps: Tensor = self.trunk(images)
        # The mean over positions is written out: the backward pass of adaptive pooling is not deterministic on GPUs.
        return maps.flatten(1) if self.flatten else maps.mean(dim=(2, 3))

    def _check(self, images: Tensor) -> None:
        if images.ndim != 4 or images.shape[1] != self.in_channels:
            raise ValueError(
                f"{self.name} takes images of shape (batch, {self.in_channels}, height, width); "
                f"got {tuple(images.shape)}."
            )
        if not images.is_floating_point():
            raise ValueError(f"{self.name} takes images of a floating-point type; got {images.dtype}.")
        height, width = images.shape[2:]
        if self.flatten and (height, width) != (self.image_size, self.image_size):
            raise ValueError(
                f"this {self.name} takes pictures of {self.image_size} x {self.image_size} pixels; "
                f"got {height} x {width}. Build it with another image_size, or resize them."
            )
        if min(height, width) < self.stride:
            raise ValueError(
                f"{self.name} takes pictures of at least {self.stride} x {self.stride} pixels; got {height} x {width}."
            )


def initialise(network: nn.Module) -> None:
    """He's normal weights for convolutions, the identity for batch normalisation; linear layers keep torch's own.

    A convolution of size s with O output channels in g groups draws from N(0, 2 g / (O s^2)), so that gradients keep
    their variance on the way back through ReLUs.
    """
    for module in network.modules():
        if isinstance(module, nn.Conv2d):
            nn.init.kaiming_normal_(module.weight, mode="fan_out", nonlinearity="relu")
        elif isinstance(module, nn.BatchNorm2d):
            nn.init.ones_(module.weight)
            nn.init.zeros_(module.bias)


def convolution(inputs: int, outputs: int, size: int, *, stride: int = 1, groups: int = 1) -> nn.Conv2d:
    """A convolution that keeps the size of the map at stride 1; without bias, which batch normalisation would undo."""
    return nn.Conv2d(inputs, outputs, size, stride=stride, padding=size // 2, groups=groups, bias=False)
