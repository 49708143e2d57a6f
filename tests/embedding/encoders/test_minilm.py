"""MiniLM against a plain torch network with the same weights, against transformers, and against the shared vectors."""

from __future__ import annotations

import csv

import numpy as np
import pytest
import torch
from safetensors.torch import load_file
from torch.nn import functional as F  # noqa: N812

from laplacianshot.embedding.encoders import open_encoder
from laplacianshot.embedding.encoders.pretrained import MINILM_WEIGHTS

TEXTS = [
    "",
    "a",
    "My card has not arrived yet.",
    "How do I top up by cheque, and what does it cost me?",
    "Ünïcödé, 漢字 and \U0001f600 emoji",
    "line\nbreaks\tand\0zeros",
    "word " * 1000,
    "my card has not arrived yet.",
]


@pytest.fixture(scope="module")
def encoder():
    return open_encoder("minilm-l6", "texts", threads=1)


def plain_forward(tokens: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
    """BERT with a mask and the masked mean, in float64: tokens (B, L) with padding to (B, 384)."""
    w = {name: tensor.double() for name, tensor in load_file(MINILM_WEIGHTS.file()).items()}

    def normalized(x, name):
        return F.layer_norm(x, (384,), w[f"{name}.LayerNorm.weight"], w[f"{name}.LayerNorm.bias"], eps=1e-12)

    def linear(x, name):
        return F.linear(x, w[f"{name}.weight"], w[f"{name}.bias"])

    embedded = w["embeddings.word_embeddings.weight"][tokens]
    embedded = embedded + w["embeddings.position_embeddings.weight"][: tokens.shape[1]]
    x = normalized(embedded + w["embeddings.token_type_embeddings.weight"][0], "embeddings")
    for number in range(6):
        layer = f"encoder.layer.{number}"
        q, k, v = (
            linear(x, f"{layer}.attention.self.{part}").unflatten(-1, (12, 32)).transpose(1, 2)
            for part in ("query", "key", "value")
        )
        mixed = F.scaled_dot_product_attention(q, k, v, attn_mask=mask[:, None, None, :].bool())
        out = linear(mixed.transpose(1, 2).flatten(2), f"{layer}.attention.output.dense")
        x = normalized(x + out, f"{layer}.attention.output")
        inner = F.gelu(linear(x, f"{layer}.intermediate.dense"))
        x = normalized(x + linear(inner, f"{layer}.output.dense"), f"{layer}.output")
    mean = (x * mask[:, :, None]).sum(1) / mask.sum(1, keepdim=True)
    return F.normalize(mean, dim=1)


def test_the_graph_is_the_network_with_padding_and_mask(encoder):
    prepared = [encoder.prepare(text) for text in TEXTS]
    longest = max(map(len, prepared))
    tokens = torch.zeros((len(TEXTS), longest), dtype=torch.long)
    mask = torch.zeros((len(TEXTS), longest), dtype=torch.double)
    for row, numbers in enumerate(prepared):
        tokens[row, : len(numbers)] = torch.from_numpy(numbers)
        mask[row, : len(numbers)] = 1
    np.testing.assert_allclose(encoder.encode(prepared), plain_forward(tokens, mask).numpy(), atol=2e-6)


def test_transformers_gives_the_same_vectors(encoder):
    other = open_encoder(f"hf:{MINILM_WEIGHTS.file().parent}", "texts", threads=1)
    vectors = encoder.encode([encoder.prepare(text) for text in TEXTS[:6]])
    np.testing.assert_allclose(other.encode([other.prepare(text) for text in TEXTS[:6]]), vectors, atol=2e-6)
    assert other.dim == encoder.dim
    assert other.key != encoder.key


def test_vectors_are_near_the_shared_ones_of_the_int8_network(encoder, shared):
    with shared("data/banking77/train.csv").open(encoding="utf-8", newline="") as file:
        texts = [row["text"] for row in csv.DictReader(file)][:40]
    features = np.load(shared("data/banking77/minilm_int8.npz"))["features"][:40].astype(np.float32)
    vectors = encoder.encode([encoder.prepare(text) for text in texts])
    assert (vectors * features).sum(axis=1).min() > 0.998


def test_a_vector_does_not_depend_on_what_it_is_encoded_with(encoder):
    texts = [f"{word} {number}" for word in ("one", "two or three", "a few more words") for number in range(7)]
    prepared = [encoder.prepare(text) for text in texts]
    together = encoder.encode(prepared)
    for i in range(len(prepared)):
        assert encoder.encode(prepared[i : i + 1]).tobytes() == together[i].tobytes()
    assert encoder.encode(prepared[::-1])[::-1].tobytes() == together.tobytes()


def test_vectors_have_length_one_and_capitals_do_not_matter(encoder):
    vectors = encoder.encode([encoder.prepare(text) for text in TEXTS])
    np.testing.assert_allclose(np.linalg.norm(vectors, axis=1), 1, atol=1e-5)
    assert vectors[2].tobytes() == vectors[-1].tobytes()


def test_long_texts_are_cut_and_none_is_padded(encoder):
    assert [len(encoder.prepare(text)) for text in ("", "word", "word " * 1000)] == [2, 3, 256]
    assert len(encoder.prepare("x" * 10_000_000)) <= 256


def test_half_characters_are_no_error(encoder):
    assert encoder.encode([encoder.prepare("half \ud83d of a pair")]).shape == (1, 384)
