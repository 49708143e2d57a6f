"""ONNX files of the user's own."""

from __future__ import annotations

import json
import shutil

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper
from PIL import Image
from tokenizers import Tokenizer
from tokenizers.models import WordLevel
from tokenizers.pre_tokenizers import Whitespace

from laplacianshot import label_source
from laplacianshot.embedding.encoders import EncoderError, open_encoder, open_text_side
from laplacianshot.embedding.encoders.preparing import Normalizing, PictureInput
from laplacianshot.embedding.encoders.pretrained import MINILM_WEIGHTS


def save(path, kind, shape, nodes, *, outputs=("out",), inputs=None):
    """A file whose nodes go from ``x`` to the outputs."""
    values = [helper.make_tensor_value_info("x", kind, shape)] if inputs is None else inputs
    graph = helper.make_graph(
        nodes, "made-up", values, [helper.make_tensor_value_info(name, TensorProto.FLOAT, None) for name in outputs]
    )
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), path)
    return f"onnx:{path}"


def mean_colors(channels_last=False):
    axes = [1, 2] if channels_last else [2, 3]
    return [helper.make_node("ReduceMean", ["x"], ["out"], axes=axes, keepdims=0)]


def test_a_network_of_planes_gets_normalized_pictures(tmp_path, pictures):
    encoder = open_encoder(save(tmp_path / "a.onnx", TensorProto.FLOAT, ["n", 3, 32, 32], mean_colors()), "pictures")
    assert (encoder.kind, encoder.dim) == ("pictures", 3)
    pixels = [PictureInput(resize=37, crop=32)(picture) for picture in pictures]
    wanted = (np.stack(pixels) / 255 - [0.485, 0.456, 0.406]) / [0.229, 0.224, 0.225]
    found = encoder.encode([encoder.prepare(picture) for picture in pictures])
    np.testing.assert_allclose(found, wanted.mean(axis=(1, 2)), atol=1e-5)


def test_a_network_whose_channels_come_last_gets_them_so(tmp_path, pictures):
    first = open_encoder(save(tmp_path / "a.onnx", TensorProto.FLOAT, ["n", 3, 32, 32], mean_colors()), "pictures")
    last = open_encoder(
        save(tmp_path / "b.onnx", TensorProto.FLOAT, ["n", 32, 32, 3], mean_colors(channels_last=True)), "pictures"
    )
    prepared = [first.prepare(picture) for picture in pictures]
    np.testing.assert_allclose(last.encode(prepared), first.encode(prepared), atol=1e-6)


def test_a_network_of_bytes_gets_bytes(tmp_path, pictures):
    cast = [helper.make_node("Cast", ["x"], ["y"], to=TensorProto.FLOAT)]
    mean = [helper.make_node("ReduceMean", ["y"], ["out"], axes=[1, 2], keepdims=0)]
    name = save(tmp_path / "a.onnx", TensorProto.UINT8, ["n", "h", "w", 3], cast + mean)
    encoder = open_encoder(name, "pictures")
    prepared = [encoder.prepare(picture) for picture in pictures]
    assert prepared[0].shape == (224, 224, 3)
    np.testing.assert_allclose(encoder.encode(prepared), np.stack(prepared).mean(axis=(1, 2)), rtol=1e-5)


def test_the_size_of_batches_may_be_fixed(tmp_path, pictures):
    free = open_encoder(save(tmp_path / "a.onnx", TensorProto.FLOAT, ["n", 3, 32, 32], mean_colors()), "pictures")
    fixed = open_encoder(save(tmp_path / "b.onnx", TensorProto.FLOAT, [2, 3, 32, 32], mean_colors()), "pictures")
    prepared = [free.prepare(picture) for picture in pictures]
    for count in (1, 2, 5):
        np.testing.assert_allclose(fixed.encode(prepared[:count]), free.encode(prepared[:count]), atol=1e-6)


def test_maps_and_tokens_are_averaged_and_vectors_preferred(tmp_path, pictures):
    keep = [helper.make_node("Identity", ["x"], ["map"])]
    wanted = open_encoder(save(tmp_path / "a.onnx", TensorProto.FLOAT, ["n", 3, 8, 8], mean_colors()), "pictures")
    prepared = [wanted.prepare(picture) for picture in pictures]
    name = save(tmp_path / "b.onnx", TensorProto.FLOAT, ["n", 3, 8, 8], keep, outputs=["map"])
    np.testing.assert_allclose(open_encoder(name, "pictures").encode(prepared), wanted.encode(prepared), atol=1e-6)
    name = save(tmp_path / "c.onnx", TensorProto.FLOAT, ["n", 3, 8, 8], keep + mean_colors(), outputs=["map", "out"])
    np.testing.assert_allclose(open_encoder(name, "pictures").encode(prepared), wanted.encode(prepared), atol=1e-6)


def test_a_description_beside_the_file_is_followed(tmp_path, pictures):
    name = save(tmp_path / "a.onnx", TensorProto.FLOAT, ["n", 3, 32, 32], mean_colors())
    plain = open_encoder(name, "pictures")
    told = {"size": {"shortest_edge": 40}, "image_mean": [0.5] * 3, "image_std": [0.25] * 3, "resample": 2}
    (tmp_path / "preprocessor_config.json").write_text(json.dumps(told))
    encoder = open_encoder(name, "pictures")
    pixels = [PictureInput(40, 32, "bilinear")(picture) for picture in pictures]
    np.testing.assert_array_equal([encoder.prepare(picture) for picture in pictures], pixels)
    wanted = Normalizing((0.5,) * 3, (0.25,) * 3)(pixels).mean(axis=(2, 3))
    np.testing.assert_allclose(encoder.encode(pixels), wanted, atol=1e-5)
    assert encoder.key != plain.key
    (tmp_path / "preprocessor_config.json").write_text("[")
    with pytest.raises(EncoderError, match=r"preprocessor_config\.json cannot be understood"):
        open_encoder(name, "pictures")


def test_texts_are_read_with_the_tokenizer_beside_the_file(tmp_path, cache):
    wanted = open_encoder(None, "texts", threads=1)
    shutil.copy(wanted.file, tmp_path / "model.onnx")
    with pytest.raises(EncoderError, match=r"no tokenizer\.json beside it"):
        open_encoder(f"onnx:{tmp_path / 'model.onnx'}", "texts")
    shutil.copy(MINILM_WEIGHTS.file().parent / "tokenizer.json", tmp_path)
    encoder = open_encoder(f"onnx:{tmp_path / 'model.onnx'}", "texts", threads=1)
    texts = ["one", "two words", "and three of them", "one"]
    found = encoder.encode([encoder.prepare(text) for text in texts])
    np.testing.assert_array_equal(found, wanted.encode([wanted.prepare(text) for text in texts]))
    assert encoder.dim == 384
    (tmp_path / "tokenizer.json").write_text("{}")
    with pytest.raises(EncoderError, match="cannot be read as a tokenizer"):
        open_encoder(f"onnx:{tmp_path / 'model.onnx'}", "texts")


def test_masks_and_types_are_given_to_networks_that_want_them(tmp_path):
    names = ["input_ids", "attention_mask", "token_type_ids"]
    inputs = [helper.make_tensor_value_info(name, TensorProto.INT64, ["n", "l"]) for name in names]
    nodes = [helper.make_node("Cast", [name], [f"{name}f"], to=TensorProto.FLOAT) for name in names]
    nodes += [helper.make_node("ReduceMean", [f"{name}f"], [f"{name}m"], axes=[1], keepdims=1) for name in names]
    nodes += [helper.make_node("Concat", [f"{name}m" for name in names], ["out"], axis=1)]
    name = save(tmp_path / "a.onnx", None, None, nodes, inputs=inputs)
    shutil.copy(MINILM_WEIGHTS.file().parent / "tokenizer.json", tmp_path)
    encoder = open_encoder(name, "texts")
    found = encoder.encode([encoder.prepare(text) for text in ("one", "and two")])
    np.testing.assert_array_equal(found[:, 1:], [[1, 0], [1, 0]])


@pytest.mark.parametrize(
    ("shape", "said"),
    [
        (["n", 3], r"takes x tensor\(float\) \['n', 3\]; it must take one input of pictures"),
        (["n", 3, 32, 48], "takes pictures of 32 x 48 pixels; only squares"),
    ],
)
def test_a_network_that_does_not_take_pictures_is_refused(tmp_path, shape, said):
    nodes = [helper.make_node("Identity", ["x"], ["out"])]
    with pytest.raises(EncoderError, match=said):
        open_encoder(save(tmp_path / "a.onnx", TensorProto.FLOAT, shape, nodes), "pictures")


@pytest.mark.parametrize("content", [b"", b"no network", bytes(1000)])
def test_a_file_that_is_no_network_is_refused_in_one_line(tmp_path, content):
    (tmp_path / "a.onnx").write_bytes(content)
    with pytest.raises(EncoderError, match="cannot be run by onnxruntime") as refused:
        open_encoder(f"onnx:{tmp_path / 'a.onnx'}", "pictures")
    assert "\n" not in str(refused.value)


def test_another_file_has_another_key(tmp_path):
    first = open_encoder(save(tmp_path / "a.onnx", TensorProto.FLOAT, ["n", 3, 32, 32], mean_colors()), "pictures")
    other = open_encoder(save(tmp_path / "a.onnx", TensorProto.FLOAT, ["n", 3, 16, 16], mean_colors()), "pictures")
    assert first.key != other.key


COLORS = {"red": (220, 30, 30), "green": (30, 200, 40), "blue": (30, 40, 210)}


@pytest.fixture
def pair(tmp_path):
    """Two networks that put pictures and words of colors into one space: pictures to their mean color, words to it."""
    save(tmp_path / "image.onnx", TensorProto.FLOAT, ["n", 3, 32, 32], mean_colors())
    words = ["[UNK]", *COLORS]
    table = numpy_helper.from_array(np.vstack([np.zeros(3), np.eye(3) - 0.3]).astype(np.float32), "table")
    nodes = [
        helper.make_node("Gather", ["table", "input_ids"], ["words"]),
        helper.make_node("ReduceSum", ["words", "axis"], ["out"], keepdims=0),
    ]
    axis = numpy_helper.from_array(np.array([1]), "axis")
    graph = helper.make_graph(
        nodes,
        "words",
        [helper.make_tensor_value_info("input_ids", TensorProto.INT64, ["n", "length"])],
        [helper.make_tensor_value_info("out", TensorProto.FLOAT, None)],
        [table, axis],
    )
    onnx.save(
        helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), tmp_path / "text.onnx"
    )
    tokenizer = Tokenizer(WordLevel({word: i for i, word in enumerate(words)}, unk_token="[UNK]"))
    tokenizer.pre_tokenizer = Whitespace()
    tokenizer.save(str(tmp_path / "words.json"))
    return f"onnx:{tmp_path / 'image.onnx'},{tmp_path / 'text.onnx'},{tmp_path / 'words.json'}"


def test_a_pair_of_networks_reads_pictures_and_words(pair, pictures):
    images, words = open_encoder(pair, "pictures"), open_text_side(pair, "pictures")
    assert (images.name, images.dim, words.dim, words.kind) == (pair, 3, 3, "texts")
    vectors = words.encode([words.prepare(text) for text in ("red", "a photo of a blue car")])
    np.testing.assert_allclose(vectors, [[0.7, -0.3, -0.3], [-0.3, -0.3, 0.7]], atol=1e-6)
    np.testing.assert_allclose(
        open_encoder(pair, "texts").encode([words.prepare("green")]), [[-0.3, 0.7, -0.3]], atol=1e-6
    )


def test_pictures_are_labeled_from_the_names_of_their_classes(pair, tmp_path):
    rng = np.random.default_rng(0)
    folder = tmp_path / "photos"
    folder.mkdir()
    for name, color in COLORS.items():
        for i in range(8):
            pixels = np.clip(np.array(color) + rng.normal(0, 20, 3) + rng.normal(0, 30, (40, 40, 3)), 0, 255)
            Image.fromarray(pixels.astype(np.uint8)).save(folder / f"{name}-{i}.png")
    result = label_source(folder, classes=["red", "green", "blue"], encoder=pair, cache=False)
    assert all(item.startswith(label) for item, label in zip(result.ids, result.labels, strict=True))


@pytest.mark.parametrize("encoder", [None, "onnx:a.onnx", "timm:x", "checkpoint:x"])
def test_an_encoder_without_a_text_side_is_refused_before_any_picture_is_read(encoder):
    with pytest.raises(EncoderError, match=r"has no text side.*clip:NAME.*TOKENIZER\.json have one"):
        open_text_side(encoder, "pictures")


def test_a_pair_has_three_files_that_exist(tmp_path, pair):
    with pytest.raises(EncoderError, match=r"a pair is written onnx:IMAGE\.onnx,TEXT\.onnx,TOKENIZER\.json"):
        open_encoder("onnx:a.onnx,b.onnx", "pictures")
    with pytest.raises(EncoderError, match="there is no file"):
        open_encoder(pair.replace("text.onnx", "nowhere.onnx"), "pictures")
