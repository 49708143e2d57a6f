"""What every network promises: its outputs, and what they do and do not depend on."""

from __future__ import annotations

import copy

import pytest
import torch
from safetensors.torch import load_file, save_file

from laplacianshot.embedding import NETWORKS, build_network


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
    with pytest.raises(ValueError, match=r"no network 'resnet19'; choose one of: resnet18, .*, conv4\."):
        build_network("resnet19")


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
