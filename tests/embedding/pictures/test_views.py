from __future__ import annotations

from itertools import combinations, permutations

import numpy as np
import pytest
import torch
from scipy import stats

from laplacianshot.embedding.encoders.preparing import IMAGENET_MEAN, IMAGENET_STD
from laplacianshot.embedding.pictures import EvalView, TrainView
from laplacianshot.embedding.pictures.views import CROP_DRAWS, random_crop, stream
from tests.embedding.pictures import definitions

# Nothing happens to a picture but normalization to [0, 1].
PLAIN = {"scale": None, "flip": 0.0, "jitter": 0.0, "mean": (0, 0, 0), "std": (1, 1, 1)}


def noise(*shape, seed=0):
    return np.random.default_rng(seed).integers(0, 256, shape, dtype=np.uint8)


def seen(view, pictures, indices, **counters):
    """The tensor as an array (B, H, W, C)."""
    return view(pictures, indices, **counters).permute(0, 2, 3, 1).numpy()


def test_views_are_float32_in_channels_last_order(bundle):
    pictures = bundle(noise(5, 20, 30, 3))
    for view in (TrainView(), EvalView()):
        images = view(pictures, [0, 3, 4], seed=0, epoch=0)
        assert images.shape == (3, 3, 84, 84)
        assert images.dtype == torch.float32
        assert images.is_contiguous(memory_format=torch.channels_last)
        assert view(pictures, []).shape == (0, 3, 84, 84)


def test_the_evaluation_view_is_resize_center_crop_and_normalization(bundle):
    images = noise(2, 60, 90, 3)
    found = seen(EvalView(), bundle(images), [1])[0]
    whole = definitions.resize(images[1], 96, 144)[6:90, 30:114]
    # One level of 255, in units of the standard deviation.
    assert np.abs(found - (whole / 255 - IMAGENET_MEAN) / IMAGENET_STD).max() <= 1.01 / 255 / min(IMAGENET_STD)


def test_the_evaluation_view_has_no_chance_in_it(bundle):
    pictures = bundle(noise(3, 20, 30, 3))
    one, two = (EvalView()(pictures, [2, 0], seed=seed, epoch=epoch) for seed, epoch in ((0, 0), (5, 7)))
    assert torch.equal(one, two)
    assert torch.equal(one[1:], EvalView()(pictures, [0]))


@pytest.mark.parametrize(
    "view",
    [TrainView(), TrainView(size=20, channels=1, scale=None, degrees=10, zoom=0.1, shift=0.1), TrainView(jitter=0)],
    ids=["color", "drawing", "no jitter"],
)
def test_a_training_view_depends_on_seed_epoch_and_index_alone(bundle, view):
    pictures = bundle(noise(12, 30, 40, 3))
    together = view(pictures, range(12), seed=3, epoch=4)
    assert torch.equal(view(pictures, range(11, -1, -1), seed=3, epoch=4).flip(0), together)
    for i in (0, 7, 11):
        assert torch.equal(view(pictures, [i], seed=3, epoch=4)[0], together[i])
    assert not torch.equal(view(pictures, range(12), seed=3, epoch=5), together)
    assert not torch.equal(view(pictures, range(12), seed=4, epoch=4), together)


def test_the_same_picture_is_seen_differently_at_another_index(bundle):
    pictures = bundle(np.repeat(noise(1, 30, 40, 3), 2, axis=0))
    first, second = TrainView()(pictures, [0, 1])
    assert not torch.equal(first, second)


def test_half_of_the_pictures_are_flipped(bundle):
    ramp = np.tile(np.arange(0, 160, 8, dtype=np.uint8), (2000, 2, 1))[..., None].repeat(3, axis=3)
    found = seen(TrainView(size=2, **PLAIN | {"flip": 0.5}), bundle(ramp), range(2000))
    flipped = found[:, 0, 0, 0] > found[:, 0, 1, 0]
    # Five standard deviations.
    assert abs(flipped.mean() - 0.5) < 5 * 0.5 / np.sqrt(2000)
    assert not (seen(TrainView(size=2, **PLAIN), bundle(ramp[:50]), range(50))[:, 0, 0, 0] > 0.5).any()
    always = seen(TrainView(size=2, **PLAIN | {"flip": 1.0}), bundle(ramp[:50]), range(50))
    assert (always[:, 0, 0, 0] > always[:, 0, 1, 0]).all()


def test_the_crop_seen_is_the_crop_drawn_from_the_picture_s_stream(bundle):
    # Red tells the column and green the row, so that the corners of the view give the crop.
    column, row = np.meshgrid(np.arange(200), np.arange(150))
    position = np.stack([column, row, np.zeros_like(row)], axis=-1).astype(np.uint8)
    pictures = bundle(np.repeat(position[None], 40, axis=0))
    found = 255 * seen(TrainView(size=10, **PLAIN | {"scale": (0.08, 1.0)}), pictures, range(40), seed=1, epoch=2)
    for i in range(40):
        crop = random_crop(200, 150, (0.08, 1.0), (3 / 4, 4 / 3), stream(1, 2, i).random(CROP_DRAWS))
        middle = found[i].mean(axis=(0, 1))[:2] + 0.5
        np.testing.assert_allclose(middle, [crop.left + crop.width / 2, crop.top + crop.height / 2], atol=0.6)
        steps = (found[i, 5, 8, 0] - found[i, 5, 1, 0]) / 7, (found[i, 8, 5, 1] - found[i, 1, 5, 1]) / 7
        np.testing.assert_allclose(steps, [crop.width / 10, crop.height / 10], atol=0.35)


@pytest.fixture
def factors(bundle):
    """Brightness, contrast and saturation (n, 3) that a view applies, measured on pictures that tell them apart.

    The factors of a picture depend on its index only, so that other pictures at the same places have the same.
    Greys, not saturated: mean m b, difference d b c. One color: its distance from gray, over gray, is that times c s.
    """

    def measure(view, n, **counters):
        halves = np.full((n, 2, 2, 3), 40, dtype=np.uint8)
        halves[:, 1] = 60
        found = seen(view, bundle(halves), range(n), **counters)
        # The shares of the colors sum to 0.9999, which contrast shows in the fourth place.
        bright = found.mean(axis=(1, 2, 3)) / (50 / 255)
        contrast = (found[:, 1] - found[:, 0]).mean(axis=(1, 2)) / (20 / 255) / bright
        color = np.tile(np.array([60, 55, 50], dtype=np.uint8), (n, 2, 2, 1))
        found = seen(view, bundle(color), range(n), **counters)[:, 0, 0]
        distance = (found[:, 0] - found[:, 2]) / definitions.gray(found)[:, 0]
        before = color[0, 0, 0] / 255
        saturation = distance / ((before[0] - before[2]) / definitions.gray(before)[0]) / contrast
        return np.stack([bright, contrast, saturation], axis=1)

    return measure


def test_each_factor_of_the_jitter_is_uniform_and_on_its_own(factors):
    found = factors(TrainView(size=2, **PLAIN | {"jitter": 0.4}), 1500)
    for k in range(3):
        assert stats.kstest(found[:, k], stats.uniform(0.6, 0.8).cdf).pvalue > 1e-3
    assert np.abs(np.corrcoef(found.T) - np.eye(3)).max() < 0.1


def test_factors_of_a_strong_jitter_are_uniform_from_zero(factors):
    found = factors(TrainView(size=2, **PLAIN | {"jitter": 1.5}), 400)[:, 0]
    assert stats.kstest(found, stats.uniform(0, 2.5).cdf).pvalue > 1e-3


def test_the_three_steps_come_in_every_order_equally_often(factors, bundle):
    n = 1500
    jitter = PLAIN | {"jitter": 0.9}
    measured = factors(TrainView(size=2, **jitter), n)
    # Strong colors are cut off at 0 and 1, at other places for each order.
    strong = np.where(noise(1, 6, 6, 3) > 128, 255, noise(1, 6, 6, 3, seed=1) // 3).astype(np.uint8)
    found = seen(TrainView(size=6, **jitter), bundle(np.repeat(strong, n, axis=0)), range(n))
    taken = []
    for i in range(n):
        expected = []
        for order in permutations(range(3)):
            picture = strong[0] / 255
            for step in order:
                picture = definitions.STEPS[step](picture, measured[i, step])
            expected.append(picture)
        gaps = [np.abs(found[i] - picture).max() for picture in expected]
        assert min(gaps) < 5e-3
        # Whether all six differ depends on the factors alone, so it does not favor an order.
        if min(np.abs(a - b).max() for a, b in combinations(expected, 2)) > 0.02:
            taken.append(int(np.argmin(gaps)))
    assert len(taken) > 100
    assert stats.chisquare(np.bincount(taken, minlength=6)).pvalue > 1e-3


def test_gray_pictures_are_seen_in_color_and_colors_in_gray(bundle):
    gray = noise(2, 10, 10)
    found = seen(EvalView(resize=10, crop=10, mean=(0, 0, 0), std=(1, 1, 1)), bundle(gray), [0, 1])
    np.testing.assert_allclose(found, np.repeat(gray[..., None] / 255, 3, axis=3), atol=1e-6)
    color = noise(2, 10, 10, 3)
    found = seen(EvalView(resize=10, crop=10, channels=1), bundle(color), [0, 1])
    assert np.abs(found - definitions.gray(color / 255)).max() < 1.01 / 255


def test_a_drawing_is_moved_within_its_bounds(bundle):
    # A dot in the middle of black: where it goes tells shift, its size zoom.
    dot = np.zeros((300, 41, 41), dtype=np.uint8)
    dot[:, 18:23, 18:23] = 200
    view = TrainView(size=41, channels=1, scale=None, flip=0, jitter=0, degrees=10, zoom=0.2, shift=0.1)
    found = seen(view, bundle(dot), range(300))[..., 0].astype(float)
    mass = found.sum(axis=(1, 2))
    across = (found.sum(axis=1) * np.arange(41)).sum(axis=1) / mass - 20
    down = (found.sum(axis=2) * np.arange(41)).sum(axis=1) / mass - 20
    for shift in (across, down):
        assert np.abs(shift).max() <= 0.1 * 41 + 0.2
        assert stats.kstest(shift, stats.uniform(-4.1, 8.2).cdf).pvalue > 1e-3
    zoom = np.sqrt(mass / mass.mean())
    assert zoom.min() > 1 / 1.3
    assert zoom.max() < 1.3
    assert zoom.max() / zoom.min() > 1.3


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"size": 0}, "size must be at least 1"),
        ({"scale": (0.5, 0.2)}, "scale must be two numbers above 0, the smaller first"),
        ({"ratio": (0, 1)}, "ratio must be two numbers above 0"),
        ({"flip": 1.5}, "flip must be a probability"),
        ({"jitter": -1}, "jitter must be a finite number of at least 0"),
        ({"shift": float("nan")}, "shift must be a finite number of at least 0"),
        ({"channels": 4}, "channels must be 3 .* or 1"),
        ({"mean": (0.5,)}, "mean must be 3 numbers"),
        ({"std": (1, 0, 1)}, "std must be 3 numbers"),
    ],
)
def test_views_refuse_what_cannot_be(settings, message):
    with pytest.raises(ValueError, match=message):
        TrainView(**settings)


def test_a_crop_larger_than_the_picture_is_refused():
    with pytest.raises(ValueError, match="crop=84 must not be larger than resize=80"):
        EvalView(resize=80)


def test_a_seed_that_is_no_integer_is_refused(bundle):
    with pytest.raises(ValueError, match="epoch must be an integer"):
        TrainView()(bundle(noise(2, 5, 5, 3)), [0], seed=0, epoch=-1)


def test_settings_are_filled_in_and_comparable():
    assert TrainView().mean == IMAGENET_MEAN
    assert EvalView(channels=1).std == (1.0,)
    assert TrainView() == TrainView(mean=IMAGENET_MEAN)
    assert TrainView() != TrainView(jitter=0.3)
