"""EfficientNet-Lite0 against a plain torch network with the same weights, and against the shared vectors."""

from __future__ import annotations

import numpy as np
import onnx
import pytest
import torch
from PIL import Image
from torch.nn import functional as F  # noqa: N812

from laplacianshot.embedding.encoders import open_encoder, pretrained
from laplacianshot.embedding.encoders.preparing import PictureInput
from laplacianshot.embedding.encoders.pretrained import LITE0_WEIGHTS, lite0_bytes, read_torch_file


@pytest.fixture(scope="module")
def encoder():
    return open_encoder("efficientnet-lite0", "pictures", threads=1)


@pytest.fixture(scope="module")
def weights() -> dict[str, torch.Tensor]:
    return torch.load(LITE0_WEIGHTS.file(), weights_only=True)


def plain_forward(weights: dict[str, torch.Tensor], pixels: np.ndarray) -> torch.Tensor:
    """The network as its paper has it, in float64, nothing folded: pixels (B, H, W, 3) to (B, 1280)."""

    def convolved(x, name, norm, stride=1, groups=1):
        kernel = weights[f"{name}.weight"].double()
        size = kernel.shape[-1]
        # TensorFlow's "same": the odd pixel of padding is at the end.
        total = [max((-(-side // stride) - 1) * stride + size - side, 0) for side in x.shape[:1:-1]]
        padding = [part for side in total for part in (side // 2, side - side // 2)]
        x = F.conv2d(F.pad(x, padding), kernel, stride=stride, groups=groups)
        mean, var, scale, shift = (
            weights[f"{norm}.{part}"].double() for part in ("running_mean", "running_var", "weight", "bias")
        )
        return F.batch_norm(x, mean, var, scale, shift, eps=1e-3)

    x = (torch.from_numpy(pixels).double().permute(0, 3, 1, 2) - 127) / 128
    x = F.relu6(convolved(x, "_conv_stem", "_bn0", stride=2))
    repeats_and_strides = [(1, 1), (2, 2), (2, 2), (3, 2), (3, 1), (4, 2), (1, 1)]
    strides = [stride if i == 0 else 1 for repeats, stride in repeats_and_strides for i in range(repeats)]
    for number, stride in enumerate(strides):
        block, y = f"_blocks.{number}", x
        if number > 0:
            y = F.relu6(convolved(y, f"{block}._expand_conv", f"{block}._bn0"))
        y = F.relu6(convolved(y, f"{block}._depthwise_conv", f"{block}._bn1", stride, groups=y.shape[1]))
        y = convolved(y, f"{block}._project_conv", f"{block}._bn2")
        x = x + y if x.shape == y.shape else y
    return F.relu6(convolved(x, "_conv_head", "_bn1")).mean(dim=(2, 3))


@pytest.mark.parametrize("side", [224, 97])
def test_the_graph_is_the_network(encoder, weights, side):
    pixels = np.random.default_rng(0).integers(0, 256, (2, side, side, 3), dtype=np.uint8)
    wanted = plain_forward(weights, pixels).numpy()
    assert wanted.shape == (2, encoder.dim)
    np.testing.assert_allclose(encoder.encode(list(pixels)), wanted, atol=2e-4)


def test_vectors_are_the_shared_ones(encoder, shared):
    features = np.load(shared("data/cifar_fs/cifarfs_efficientnet_lite0_128px.npz"))["features"]
    bundle = np.load(shared("data/cifar_fs/cifarfs_images.npz"))
    rows = np.flatnonzero(bundle["feature_row"] >= 0)[::2000]
    view = PictureInput(resize=128, crop=128)
    found = encoder.encode([view(Image.fromarray(image)) for image in bundle["images"][rows]])
    # They were stored as float16.
    np.testing.assert_allclose(found, features[bundle["feature_row"][rows]], rtol=1e-3, atol=1e-4)


def test_a_vector_does_not_depend_on_what_it_is_encoded_with(encoder, pictures):
    prepared = [encoder.prepare(picture) for picture in pictures]
    together = encoder.encode(prepared)
    assert together.dtype == np.float32
    for i in range(len(prepared)):
        assert encoder.encode(prepared[i : i + 1]).tobytes() == together[i].tobytes()
    assert encoder.encode(prepared[::-1])[::-1].tobytes() == together.tobytes()


def test_the_weights_are_those_that_torch_reads(weights):
    found = read_torch_file(LITE0_WEIGHTS.file(), LITE0_WEIGHTS.sha256)
    assert list(found) == list(weights)
    for name, tensor in weights.items():
        assert found[name].dtype == tensor.numpy().dtype
        np.testing.assert_array_equal(found[name], tensor.numpy())


def test_the_file_is_the_same_every_time():
    first, second = (lite0_bytes(read_torch_file(LITE0_WEIGHTS.file(), LITE0_WEIGHTS.sha256)) for _ in range(2))
    assert first == second
    onnx.checker.check_model(onnx.load_from_string(first), full_check=True)


# --- preparation ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("size", [(300, 400), (401, 257), (64, 64), (17, 90), (1, 1), (3000, 2)])
def test_the_cut_is_that_of_the_whole_resized_picture(size):
    coarse = Image.fromarray(np.random.default_rng(1).integers(0, 256, (9, 9, 3), dtype=np.uint8))
    picture = coarse.resize(size, Image.Resampling.BICUBIC)
    width, height = size
    whole = picture.resize((32 * width // min(size), 32 * height // min(size)), Image.Resampling.BICUBIC)
    left, top = round((whole.width - 24) / 2), round((whole.height - 24) / 2)
    wanted = np.asarray(whole.crop((left, top, left + 24, top + 24))).astype(int)
    found = PictureInput(resize=32, crop=24)(picture)
    assert found.shape == (24, 24, 3)
    assert found.dtype == np.uint8
    assert np.abs(found - wanted).max() <= 1


def test_a_gray_picture_has_three_equal_channels(encoder, pictures):
    gray = next(picture for picture in pictures if picture.mode == "L")
    found = encoder.prepare(gray)
    assert (found == found[:, :, :1]).all()
    np.testing.assert_array_equal(found, encoder.prepare(gray.convert("RGB")))


def test_another_view_and_another_graph_have_another_key(encoder, monkeypatch):
    assert open_encoder("efficientnet-lite0", "pictures").key == encoder.key
    assert len(encoder.key) == 64
    with monkeypatch.context() as patch:
        patch.setattr(pretrained, "_VIEW", PictureInput(resize=224))
        assert open_encoder("efficientnet-lite0", "pictures").key != encoder.key
    monkeypatch.setattr(pretrained, "_GRAPH_VERSION", 0)
    assert open_encoder("efficientnet-lite0", "pictures").key != encoder.key


def test_the_key_is_the_one_of_version_0_2(encoder):
    """Another key would let users encode all their pictures again."""
    assert encoder.key.startswith("a7b929d949b7f1f1")
