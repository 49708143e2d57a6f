"""Each network is the one of its paper: counts, layers, and what its blocks compute."""

from __future__ import annotations

import copy
from math import sqrt

import pytest
import torch
from safetensors.torch import load_file, save_file
from torch import nn
from torch.nn import functional

from benchmarks.networks import summarize
from laplacianshot.embedding import NETWORKS, build_network

STEM_7X7, STEM_3X3 = 3 * 64 * 7 * 7, 3 * 64 * 3 * 3


def head(features, classes):
    return (features + 1) * classes


def built(name, **settings):
    """A network without values, at no cost."""
    with torch.device("meta"):
        return build_network(name, **settings).eval()


@pytest.mark.parametrize(
    ("name", "standard", "stem", "features", "classes"),
    [
        # Trainable parameters of the published network, the change of its stem, and its head, replaced by ours.
        ("resnet18", 11_689_512, STEM_3X3 - STEM_7X7, 512, 1000),
        ("resnet50", 25_557_032, STEM_3X3 - STEM_7X7, 2048, 1000),
        ("mobilenet", 4_231_976, 0, 1024, 1000),
        ("densenet121", 7_978_856, STEM_3X3 - STEM_7X7, 1024, 1000),
        # For CIFAR-10, with the stem that we use too.
        ("wrn28_10", 36_479_194, 0, 640, 10),
        # The four blocks of the few-shot literature have biases, which batch normalization would undo.
        ("conv4", 113_088, -4 * 64, 1600, 0),
    ],
)
@pytest.mark.parametrize("n_classes", [1, 64])
def test_parameters_are_those_of_the_published_network_but_for_stem_and_head(
    name, standard, stem, features, classes, n_classes
):
    expected = standard + stem - head(features, classes) + head(features, n_classes)
    assert summarize(name, n_classes).parameters == expected


@pytest.mark.parametrize(
    ("name", "features", "side"),
    [
        ("resnet18", 512, 11),
        ("resnet50", 2048, 11),
        ("wrn28_10", 640, 21),
        ("mobilenet", 1024, 11),
        ("densenet121", 1024, 10),
        ("conv4", 1600, 5),
    ],
)
def test_features_and_last_map_at_84_pixels(name, features, side):
    it = summarize(name)
    assert (it.feature_dim, it.map_sides) == (features, (side, side))


@pytest.mark.parametrize("name", NETWORKS)
def test_the_first_convolution_is_3x3_and_keeps_every_pixel(name):
    convolutions = [m for m in built(name, in_channels=1).modules() if isinstance(m, nn.Conv2d)]
    first = convolutions[0]
    assert (first.in_channels, first.kernel_size, first.stride) == (1, (3, 3), (1, 1))
    assert not any(c.bias is not None for c in convolutions)


@pytest.mark.parametrize(
    ("name", "sides"),
    [
        ("resnet18", [84, 84, 42, 21, 11]),
        ("resnet50", [84, 84, 42, 21, 11]),
        ("wrn28_10", [84, 84, 42, 21, 21]),
        ("mobilenet", [84, 84, 84, 84, 42, 42, 21, 21, 21, 21, 21, 21, 11, 11]),
        ("densenet121", [84, 84, 42, 42, 21, 21, 10, 10, 10]),
        ("conv4", [42, 21, 10, 5]),
    ],
)
def test_maps_shrink_where_the_docstrings_say(name, sides):
    maps, found = torch.empty(1, 3, 84, 84, device="meta"), []
    for part in built(name).trunk:
        maps = part(maps)
        found.append(maps.shape[2])
    assert found == sides


@pytest.mark.parametrize(
    ("name", "layers"), [("resnet18", 18), ("resnet50", 50), ("densenet121", 121), ("mobilenet", 28), ("conv4", 5)]
)
def test_the_number_in_the_name_counts_layers_with_weights(name, layers):
    weighted = [
        path
        for path, m in built(name).named_modules()
        if isinstance(m, nn.Conv2d | nn.Linear) and "shortcut" not in path
    ]
    assert len(weighted) == layers


def test_the_number_in_the_name_of_the_wide_network_counts_all_convolutions():
    assert sum(isinstance(m, nn.Conv2d) for m in built("wrn28_10").modules()) == 28


@pytest.mark.parametrize(("name", "published"), [("wrn28_10", 5.2), ("resnet18", 0.56)])
def test_the_cost_at_32_pixels_is_the_published_one(name, published):
    # In thousands of millions, as known from CIFAR, where both have these stems.
    assert summarize(name, 10, image_size=32).multiply_adds / 1e9 == pytest.approx(published, rel=0.02)


def test_initial_weights_have_the_variance_of_he_and_normalization_is_the_identity():
    torch.manual_seed(0)
    network = build_network("mobilenet", 5)
    depthwise = network.trunk.separable13[0][0]
    pointwise = network.trunk.separable13[1][0]
    assert depthwise.groups == 1024
    assert float(depthwise.weight.detach().std()) == pytest.approx(sqrt(2 / 9), rel=0.03)
    assert float(pointwise.weight.detach().std()) == pytest.approx(sqrt(2 / 1024), rel=0.03)
    for norm in (m for m in network.modules() if isinstance(m, nn.BatchNorm2d)):
        assert (norm.weight == 1).all()
        assert (norm.bias == 0).all()


@torch.no_grad()
def test_conv4_is_its_formula_written_out():
    torch.manual_seed(0)
    network = build_network("conv4", 5, image_size=28)
    images = torch.randn(6, 3, 28, 28)
    network.train()(images)
    weights = network.state_dict()
    x = images
    for i in range(4):
        x = functional.conv2d(x, weights[f"trunk.{i}.0.0.weight"], padding=1)
        mean, variance = (weights[f"trunk.{i}.0.1.running_{part}"].view(1, -1, 1, 1) for part in ("mean", "var"))
        x = functional.max_pool2d(((x - mean) / (variance + 1e-5).sqrt()).clamp(min=0), 2)
    assert torch.allclose(network.eval().embed(images), x.reshape(6, 64), rtol=1e-4, atol=1e-5)


@torch.no_grad()
@pytest.mark.parametrize(("name", "channels"), [("resnet18", 64), ("resnet50", 256)])
def test_a_residual_block_without_its_branch_is_a_relu(name, channels):
    block = build_network(name, 2).eval().trunk.stage1[1]
    for weights in block.branch.parameters():
        weights.zero_()
    x = torch.randn(2, channels, 5, 5)
    assert torch.equal(block(x), x.clamp(min=0))


@torch.no_grad()
def test_a_pre_activation_block_without_its_branch_is_the_identity():
    from laplacianshot.embedding.networks.architectures import _WideBlock

    x = torch.randn(2, 8, 5, 5)
    before = x.clone()
    same = _WideBlock(8, 8, 1).eval()
    same.second[-1].weight.zero_()
    assert torch.equal(same(x), before)
    # Where channels change, the shortcut sees the activated input, and one of the strides skips every other pixel.
    wider = _WideBlock(8, 12, 2).eval()
    wider.second[-1].weight.zero_()
    expected = functional.conv2d(same.activation(x)[:, :, ::2, ::2], wider.shortcut.weight)
    assert torch.allclose(wider(x), expected, atol=1e-6)
    assert torch.equal(x, before)


@torch.no_grad()
def test_a_dense_layer_hands_on_its_input_and_adds_32_channels():
    from laplacianshot.embedding.networks.architectures import _DenseLayer

    x = torch.randn(2, 8, 5, 5)
    before = x.clone()
    found = _DenseLayer(8).eval()(x)
    assert found.shape == (2, 8 + 32, 5, 5)
    assert torch.equal(found[:, :8], before)
    assert found[:, 8:].abs().sum() > 0


@torch.no_grad()
def test_a_depthwise_convolution_keeps_channels_apart():
    depthwise = build_network("mobilenet", 2).trunk.separable1[0].eval()
    x = torch.randn(1, 32, 6, 6)
    moved = x.clone()
    moved[:, 3] += 1
    changed = (depthwise(x) != depthwise(moved)).flatten(2).any(dim=2)[0]
    assert changed.nonzero().flatten().tolist() == [3]


def close(first, second, tolerance=1e-5):
    """Equal but for rounding, on the scale of the values."""
    return torch.allclose(first, second, rtol=0, atol=tolerance * float(first.detach().abs().max()))


@torch.no_grad()
def test_images_become_features_and_logits(network, images):
    features, logits = network(images)
    assert features.shape == (4, network.feature_dim)
    assert logits.shape == (4, network.n_classes) == (4, 5)
    assert features.dtype == logits.dtype == torch.float32
    assert torch.equal(features, network.embed(images))
    assert close(logits, features @ network.classifier.weight.T + network.classifier.bias)


@torch.no_grad()
def test_features_are_those_of_the_last_map_and_not_negative(network, images):
    maps = network.trunk(images)
    features = network.embed(images)
    assert features.min() >= 0
    expected = maps.reshape(4, -1) if network.flatten else maps.sum(dim=(2, 3)) / (maps.shape[2] * maps.shape[3])
    assert close(features, expected)


@torch.no_grad()
def test_pictures_are_told_apart(network, images):
    features = network.embed(images)
    assert torch.pdist(features).min() > 1e-3 * features.norm(dim=1).mean()


@torch.no_grad()
def test_two_passes_agree_bit_for_bit(network, images):
    for first, second in zip(network(images), network(images), strict=True):
        assert torch.equal(first, second)


@torch.no_grad()
def test_a_picture_does_not_see_the_others_of_its_batch(network, images):
    features, logits = network(images)
    others = torch.cat([images[:1], 10 * torch.ones_like(images[1:])])
    for batch in (others, images[:1]):
        alone, scores = network(batch)
        assert close(features[:1], alone[:1])
        assert close(logits[:1], scores[:1])


def test_gradients_reach_every_parameter(network, images):
    trained = copy.deepcopy(network).train()
    _, logits = trained(images)
    torch.nn.functional.cross_entropy(logits, torch.arange(4)).backward()
    silent = [
        name for name, weights in trained.named_parameters() if weights.grad is None or not weights.grad.abs().sum() > 0
    ]
    assert not silent
    assert all(torch.isfinite(weights.grad).all() for weights in trained.parameters())


@torch.no_grad()
def test_channels_last_changes_no_output_and_is_kept_to_the_end(network, images):
    expected = network(images)
    turned = copy.deepcopy(network).to(memory_format=torch.channels_last)
    pictures = images.to(memory_format=torch.channels_last)
    for wanted, found in zip(expected, turned(pictures), strict=True):
        assert close(wanted, found)
    # Maps of one position have both formats at once, so twice as many pixels are needed to see which one comes out.
    maps = turned.trunk(torch.cat([torch.cat([pictures, pictures], dim=3)] * 2, dim=2))
    assert maps.shape[2] > 1
    assert not maps.is_contiguous()
    assert maps.is_contiguous(memory_format=torch.channels_last)


@torch.no_grad()
def test_bfloat16_stays_near_single_precision(network, images):
    features, logits = network(images)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        rough, scores = network(images)
    assert scores.dtype == torch.bfloat16
    assert close(features, rough.float(), 0.1)
    assert close(logits, scores.float(), 0.1)


@torch.no_grad()
def test_weights_survive_a_file(network, images, tmp_path):
    save_file(network.state_dict(), tmp_path / "weights.safetensors")
    torch.manual_seed(99)
    other = build_network(network.name, 5, image_size=network.image_size).eval()
    assert not torch.equal(network(images)[1], other(images)[1])
    other.load_state_dict(load_file(tmp_path / "weights.safetensors"))
    for first, second in zip(network(images), other(images), strict=True):
        assert torch.equal(first, second)


@pytest.mark.parametrize("name", ["conv4", "mobilenet"])
def test_weights_follow_the_seed(name):
    def weights(seed):
        torch.manual_seed(seed)
        return torch.cat([w.flatten() for w in build_network(name, 5).parameters()])

    assert torch.equal(weights(3), weights(3))
    assert not torch.equal(weights(3), weights(4))


@torch.no_grad()
@pytest.mark.parametrize("name", [name for name in NETWORKS if name != "conv4"])
def test_a_network_that_averages_takes_pictures_of_any_size(name):
    network = build_network(name, 2, in_channels=1).eval()
    for height, width in ((network.stride, network.stride), (9, 13)):
        features, logits = network(torch.randn(1, 1, height, width))
        assert features.shape == (1, network.feature_dim)
        assert torch.isfinite(logits).all()


@torch.no_grad()
@pytest.mark.parametrize(("size", "features"), [(84, 1600), (28, 64), (32, 256), (16, 64), (31, 64)])
def test_conv4_has_a_feature_for_every_position_of_its_last_map(size, features):
    network = build_network("conv4", 7, in_channels=1, image_size=size).eval()
    found, logits = network(torch.randn(2, 1, size, size))
    assert network.feature_dim == features
    assert found.shape == (2, features)
    assert logits.shape == (2, 7)


def test_an_unknown_name_lists_the_names():
    with pytest.raises(ValueError, match=r"no network 'vgg'; there are resnet18, .*, conv4\."):
        build_network("vgg")


@pytest.mark.parametrize(
    ("argument", "settings"),
    [
        ("n_classes", {"n_classes": 0}),
        ("n_classes", {"n_classes": -3}),
        ("in_channels", {"in_channels": 0}),
        ("image_size", {"image_size": 0}),
        ("image_size", {"image_size": 15}),
    ],
)
def test_a_setting_out_of_range_is_named(argument, settings):
    with pytest.raises(ValueError, match=f"{argument} must be at least"):
        build_network("conv4", **settings)


@pytest.mark.parametrize("shape", [(2, 1, 16, 16), (2, 4, 16, 16), (3, 16, 16), (2, 16, 16, 3), (16,)])
def test_images_of_another_shape_are_refused(network, shape):
    with pytest.raises(ValueError, match=r"images must have shape \(batch, 3, height, width\)"):
        network(torch.zeros(shape))


def test_images_of_whole_numbers_are_refused(network):
    with pytest.raises(ValueError, match=r"floating-point type; got torch\.uint8"):
        network(torch.zeros(2, 3, 16, 16, dtype=torch.uint8))


def test_pictures_that_are_too_small_are_refused(network):
    side = network.stride - 1
    with pytest.raises(ValueError, match=rf"images must have .* got {side} x 16"):
        network(torch.zeros(2, 3, side, 16))


def test_conv4_refuses_pictures_of_another_size():
    network = build_network("conv4", image_size=28)
    with pytest.raises(ValueError, match=r"28 x 28 pixels for this conv4; got 84 x 84: .*image_size"):
        network(torch.zeros(2, 3, 84, 84))
