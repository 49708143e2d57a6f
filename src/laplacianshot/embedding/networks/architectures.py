"""The networks of the paper: each up to its last map of features, and what all of them share."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass
from math import sqrt

import torch
from torch import Tensor, nn


@dataclass(frozen=True)
class Trunk:
    """All of a network before its head: images (B, C, H, W) to a map (B, channels, h, w) of the last ReLU's output."""

    layers: nn.Module
    channels: int
    stride: int  # pixels from one position of the map to the next; smaller pictures are refused
    flatten: bool = False  # each position is a feature, which fixes the size of pictures; else means over positions


class Network(nn.Module):
    """Images (B, C, H, W) to features (B, D) and logits (B, K).

    ``features = pool(trunk(images))``, ``logits = W features + b``. Few-shot inference uses the features; the logits
    serve base training alone.

    Parameters are those of :func:`~laplacianshot.embedding.build_network`. ``feature_dim`` is D: the channels of the
    map, times its positions where they are kept apart.
    """

    def __init__(self, name: str, trunk: Trunk, *, n_classes: int, in_channels: int, image_size: int) -> None:
        super().__init__()
        if image_size < trunk.stride:
            raise ValueError(f"image_size must be at least {trunk.stride} for {name}; got {image_size}.")
        self.name, self.n_classes, self.in_channels, self.image_size = name, n_classes, in_channels, image_size
        self.stride, self.flatten = trunk.stride, trunk.flatten
        self.feature_dim = trunk.channels * ((image_size // trunk.stride) ** 2 if trunk.flatten else 1)
        self.trunk = trunk.layers
        self.classifier = nn.Linear(self.feature_dim, n_classes)
        _initialize(self)

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
            fewest = f"{self.stride} x {self.stride}"
            raise ValueError(f"images must have at least {fewest} pixels for {self.name}; got {height} x {width}.")


def _initialize(network: nn.Module) -> None:
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


def _convolution(inputs: int, outputs: int, size: int, *, stride: int = 1, groups: int = 1) -> nn.Conv2d:
    """A convolution that at stride 1 keeps the size of the map; no bias, as batch normalization would undo it."""
    return nn.Conv2d(inputs, outputs, size, stride=stride, padding=size // 2, groups=groups, bias=False)


def _normalized(inputs: int, outputs: int, size: int, *, stride: int = 1, groups: int = 1) -> nn.Sequential:
    """Convolution, batch normalization."""
    return nn.Sequential(_convolution(inputs, outputs, size, stride=stride, groups=groups), nn.BatchNorm2d(outputs))


def _convolution_relu(inputs: int, outputs: int, size: int, *, stride: int = 1, groups: int = 1) -> nn.Sequential:
    """Convolution, batch normalization, ReLU."""
    return nn.Sequential(*_normalized(inputs, outputs, size, stride=stride, groups=groups), nn.ReLU(inplace=True))


def _activation(channels: int) -> nn.Sequential:
    """Batch normalization, ReLU."""
    return nn.Sequential(nn.BatchNorm2d(channels), nn.ReLU(inplace=True))


def _relu_convolution(inputs: int, outputs: int, size: int) -> nn.Sequential:
    """Batch normalization, ReLU, convolution: the order of pre-activation networks."""
    return nn.Sequential(*_activation(inputs), _convolution(inputs, outputs, size))


def conv4(in_channels: int) -> Trunk:
    """Four blocks of a 3x3 convolution to 64 channels and a 2x2 maximum; at 84 px maps of 42, 21, 10 and 5.

    Features are the whole last map, as in Chen et al. (2019): 64 x 5 x 5 = 1600 at 84 px, 64 x 1 x 1 = 64 at 28 px. The
    first convolution is 3x3 with stride 1 by nature, and no down-sampling is removed.
    """
    blocks = [nn.Sequential(_convolution_relu(inputs, 64, 3), nn.MaxPool2d(2)) for inputs in (in_channels, 64, 64, 64)]
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


def _basic(inputs: int, width: int, stride: int) -> tuple[nn.Module, int]:
    """Two 3x3 convolutions, and the channels that come out."""
    branch = nn.Sequential(_convolution_relu(inputs, width, 3, stride=stride), _normalized(width, width, 3))
    return _Residual(branch, inputs, width, stride), width


def _bottleneck(inputs: int, width: int, stride: int) -> tuple[nn.Module, int]:
    """1x1, 3x3 and 1x1 convolutions, the last to four times the width; the stride is that of the 3x3 one."""
    branch = nn.Sequential(
        _convolution_relu(inputs, width, 1),
        _convolution_relu(width, width, 3, stride=stride),
        _normalized(width, 4 * width, 1),
    )
    return _Residual(branch, inputs, 4 * width, stride), 4 * width


def _resnet(in_channels: int, block: Callable[[int, int, int], tuple[nn.Module, int]], depths: list[int]) -> Trunk:
    """Stem and four stages of 64, 128, 256 and 512 channels; the last three halve the map.

    Of the five down-samplings of the ImageNet network the first two, in the stem, are removed: its 7x7 convolution with
    stride 2 becomes a 3x3 one with stride 1, and there is no maximum pooling. Maps at 84 px: 84, 42, 21, 11.
    """
    parts: OrderedDict[str, nn.Module] = OrderedDict(stem=_convolution_relu(in_channels, 64, 3))
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
        self.activation = _activation(inputs)
        self.first = _convolution(inputs, outputs, 3, stride=stride)
        self.second = _relu_convolution(outputs, outputs, 3)
        self.shortcut = _convolution(inputs, outputs, 1, stride=stride) if inputs != outputs else None

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
    parts: OrderedDict[str, nn.Module] = OrderedDict(stem=_convolution(in_channels, 16, 3))
    channels = 16
    for stage, (width, stride) in enumerate([(160, 1), (320, 2), (640, 2)], start=1):
        blocks = [_WideBlock(channels, width, stride), *(_WideBlock(width, width, 1) for _ in range(3))]
        parts[f"stage{stage}"] = nn.Sequential(*blocks)
        channels = width
    parts["activation"] = _activation(channels)
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
    parts: OrderedDict[str, nn.Module] = OrderedDict(stem=_convolution_relu(in_channels, 32, 3))
    channels = 32
    for i, (width, stride) in enumerate(_SEPARABLE, start=1):
        depthwise = _convolution_relu(channels, channels, 3, stride=stride, groups=channels)
        parts[f"separable{i}"] = nn.Sequential(depthwise, _convolution_relu(channels, width, 1))
        channels = width
    return Trunk(nn.Sequential(parts), channels=channels, stride=8)


_GROWTH = 32


class _DenseLayer(nn.Module):
    """``[x, new(x)]``: 32 new channels by a 1x1 convolution to 128 and a 3x3 one, each after activation."""

    def __init__(self, inputs: int) -> None:
        super().__init__()
        self.new = nn.Sequential(_relu_convolution(inputs, 4 * _GROWTH, 1), _relu_convolution(4 * _GROWTH, _GROWTH, 3))

    def forward(self, x: Tensor) -> Tensor:
        return torch.cat([x, self.new(x)], dim=1)


def densenet121(in_channels: int) -> Trunk:
    """Stem of 64 channels and dense blocks of 6, 12, 24 and 16 layers; 1024 features.

    Between two blocks a transition halves the channels by a 1x1 convolution and the map by 2x2 means. Of the five
    down-samplings of the ImageNet network the first two, in the stem, are removed: its 7x7 convolution with stride 2
    becomes a 3x3 one with stride 1, and there is no maximum pooling. Maps at 84 px: 84, 42, 21, 10.
    """
    parts: OrderedDict[str, nn.Module] = OrderedDict(stem=_convolution_relu(in_channels, 64, 3))
    channels = 64
    for stage, depth in enumerate([6, 12, 24, 16], start=1):
        if stage > 1:
            parts[f"transition{stage - 1}"] = nn.Sequential(
                _relu_convolution(channels, channels // 2, 1), nn.AvgPool2d(2)
            )
            channels //= 2
        parts[f"block{stage}"] = nn.Sequential(*(_DenseLayer(channels + _GROWTH * i) for i in range(depth)))
        channels += _GROWTH * depth
    parts["activation"] = _activation(channels)
    return Trunk(nn.Sequential(parts), channels=channels, stride=8)
