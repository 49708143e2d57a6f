from __future__ import annotations

from itertools import combinations, permutations

import numpy as np
import pytest
import torch
from PIL import Image
from scipy import ndimage, stats

from laplacianshot.embedding.encoders.preparing import IMAGENET_MEAN, IMAGENET_STD, resized_center
from laplacianshot.embedding.pictures import EvalView, TrainView
from laplacianshot.embedding.pictures.views import (
    CROP_DRAWS,
    Crop,
    epoch_order,
    moved,
    random_crop,
    resized_crop,
    stream,
    uniforms,
)
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
        crop = random_crop(200, 150, (0.08, 1.0), stream(1, 2, i).random(CROP_DRAWS))
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


def test_settings_are_filled_in_and_comparable():
    assert TrainView().mean == IMAGENET_MEAN
    assert EvalView(channels=1).std == (1.0,)
    assert TrainView() == TrainView(mean=IMAGENET_MEAN)
    assert TrainView() != TrainView(jitter=0.3)


def color_noise(height, width, seed=0):
    return noise(height, width, 3, seed=seed)


def crops(width, height, count, scale=(0.08, 1.0)):
    draws = np.random.default_rng(0).random((count, CROP_DRAWS))
    return np.array([random_crop(width, height, scale, row) for row in draws])


def test_where_every_size_fits_areas_are_uniform_and_ratios_log_uniform():
    # 0.7 of the area at 4/3 is 0.97 of a side.
    found = crops(2000, 2000, 3000, scale=(0.08, 0.7))
    areas, ratios = found[:, 2] * found[:, 3] / 2000**2, found[:, 2] / found[:, 3]
    assert stats.kstest(areas, stats.uniform(0.08, 0.62).cdf).pvalue > 1e-3
    assert stats.kstest(np.log(ratios), stats.uniform(np.log(3 / 4), 2 * np.log(4 / 3)).cdf).pvalue > 1e-3
    assert abs(np.corrcoef(areas, ratios)[0, 1]) < 0.06


@pytest.mark.parametrize(("width", "height"), [(84, 84), (500, 375), (300, 400)])
def test_sizes_are_those_of_the_first_draw_that_fits(width, height):
    found = crops(width, height, 3000)
    expected = definitions.crop_sizes(np.random.default_rng(1), width, height, 3000)
    for measure in (lambda size: size[:, 0] * size[:, 1], lambda size: size[:, 0] / size[:, 1]):
        assert stats.ks_2samp(measure(found[:, 2:]), measure(expected)).pvalue > 1e-3


def test_a_crop_is_inside_and_every_place_is_as_likely():
    found = crops(9, 7, 4000)
    left, top, width, height = found.T
    assert (left >= 0).all()
    assert (top >= 0).all()
    assert (left + width).max() == 9
    assert (top + height).max() == 7
    narrow = left[width == 5]
    assert stats.chisquare(np.bincount(narrow, minlength=5)).pvalue > 1e-3


@pytest.mark.parametrize(
    ("size", "expected"),
    [((10, 1000), Crop(0, 493, 10, 13)), ((1000, 10), Crop(493, 0, 13, 10)), ((1, 500), Crop(0, 249, 1, 1))],
)
def test_a_picture_too_long_for_any_crop_gives_its_middle(size, expected):
    # Nine tenths of the area of so long a picture never fit.
    draws = np.full(CROP_DRAWS, 0.5)
    assert random_crop(*size, (0.9, 1.0), draws) == expected


def test_a_picture_within_the_ratios_falls_back_to_the_whole():
    assert random_crop(12, 10, (2.0, 2.0), np.zeros(CROP_DRAWS)) == Crop(0, 0, 12, 10)


def test_a_single_pixel_can_be_cropped():
    assert random_crop(1, 1, (0.08, 1.0), np.random.default_rng(0).random(CROP_DRAWS)) == Crop(0, 0, 1, 1)


@pytest.mark.parametrize("crop", [Crop(3, 5, 30, 41), Crop(0, 0, 60, 50), Crop(40, 20, 7, 9), Crop(59, 49, 1, 1)])
@pytest.mark.parametrize("size", [8, 21, 84])
def test_a_crop_is_resized_by_the_antialiased_triangle_filter(crop, size):
    pixels = color_noise(50, 60)
    found = np.asarray(resized_crop(Image.fromarray(pixels), crop, size)).astype(float)
    inside = pixels[crop.top : crop.top + crop.height, crop.left : crop.left + crop.width]
    # Pillow rounds after each of two passes.
    assert np.abs(found - definitions.resize(inside, size, size)).max() <= 1.01


@pytest.mark.parametrize("size", [(84, 84), (500, 375), (100, 333), (96, 97), (32, 32), (1, 5)])
@pytest.mark.parametrize(("shorter", "crop"), [(96, 84), (28, 28)])
def test_the_middle_of_a_picture_resized_at_its_shorter_side(size, shorter, crop):
    width, height = size
    pixels = color_noise(height, width)
    found = np.asarray(resized_center(Image.fromarray(pixels), shorter, crop, "bilinear")).astype(float)
    new_height, new_width = int(shorter * height / min(size)), int(shorter * width / min(size))
    whole = definitions.resize(pixels, new_height, new_width)
    top, left = round((new_height - crop) / 2), round((new_width - crop) / 2)
    assert np.abs(found - whole[top : top + crop, left : left + crop]).max() <= 1.01


def test_a_shift_by_whole_pixels_moves_the_pixels_and_lets_black_in():
    pixels = color_noise(10, 20)
    found = np.asarray(moved(Image.fromarray(pixels), 0, 1, 3 / 20, -2 / 10))
    expected = np.zeros_like(pixels)
    expected[:-2, 3:] = pixels[2:, :-3]
    np.testing.assert_array_equal(found, expected)


def test_a_quarter_turn_turns_the_pixels():
    pixels = color_noise(9, 9)
    found = np.asarray(moved(Image.fromarray(pixels), 90, 1, 0, 0)).astype(int)
    # Pillow cuts off what is not whole, and the cosine is not quite 0.
    assert np.abs(found - np.rot90(pixels)).max() <= 1


def test_a_turn_with_zoom_and_shift_is_the_affine_map():
    smooth = ndimage.gaussian_filter(np.random.default_rng(0).random((40, 40)), 3)
    pixels = np.uint8(255 * (smooth - smooth.min()) / np.ptp(smooth))
    degrees, zoom, right, down = 20, 1.2, 0.05, -0.1
    found = np.asarray(moved(Image.fromarray(pixels), degrees, zoom, right, down)).astype(float)
    angle = np.radians(degrees)
    # In (row, column): the pixel seen at a place of the result.
    turn = np.array([[np.cos(angle), np.sin(angle)], [-np.sin(angle), np.cos(angle)]]) / zoom
    center = np.array([19.5, 19.5])
    offset = center - turn @ (center + np.array([down * 40, right * 40]))
    expected = ndimage.affine_transform(pixels.astype(float), turn, offset, order=1)
    # Away from the border, where Pillow and scipy let black in differently.
    seen = ndimage.affine_transform(np.ones((40, 40)), turn, offset, order=1) == 1
    assert seen.mean() > 0.5
    assert np.abs(found - expected)[seen].max() <= 1.01


def test_a_stream_depends_on_seed_epoch_and_index_alone():
    first = stream(1, 2, 3).random(5)
    np.testing.assert_array_equal(stream(1, 2, 3).random(5), first)
    for other in ((0, 2, 3), (1, 0, 3), (1, 2, 0), (2, 1, 3)):
        assert not np.intersect1d(stream(*other).random(5), first).size


def test_the_numbers_of_a_batch_are_those_of_its_pictures():
    batch = uniforms(5, 6, np.array([7, 1, 7]), 4)
    np.testing.assert_array_equal(batch, [stream(5, 6, i).random(4) for i in (7, 1, 7)])
    assert uniforms(5, 6, np.array([], dtype=np.int64), 4).shape == (0, 4)


def test_numbers_are_uniform_and_those_of_neighbors_unrelated():
    numbers = uniforms(0, 0, np.arange(4000), 2)
    assert stats.kstest(numbers[:, 0], "uniform").pvalue > 1e-3
    for a, b in ((numbers[:-1, 0], numbers[1:, 0]), (numbers[:, 0], numbers[:, 1])):
        assert abs(np.corrcoef(a, b)[0, 1]) < 0.06


def philox(counter, key):
    """Philox 4x64 with ten rounds (Salmon et al., 2011), in whole numbers."""
    for number in range(10):
        high, low = divmod(0xD2E7470EE14C6C93 * counter[0], 2**64)
        high_2, low_2 = divmod(0xCA5A826395121157 * counter[2], 2**64)
        bumps = (number * 0x9E3779B97F4A7C15, number * 0xBB67AE8584CAA73B)
        first, second = ((word + bump) % 2**64 for word, bump in zip(key, bumps, strict=True))
        counter = (high_2 ^ counter[1] ^ first, low_2, high ^ counter[3] ^ second, low)
    return list(counter)


@pytest.mark.parametrize(("seed", "epoch", "index"), [(0, 0, 0), (2**64 - 1, 89, 2**63 + 5)])
def test_the_bits_are_those_of_philox_keyed_by_seed_and_epoch(seed, epoch, index):
    # numpy counts before it computes, so the first block has counter 1.
    expected = philox((1, 0, 0, index), (seed, epoch)) + philox((2, 0, 0, index), (seed, epoch))
    assert stream(seed, epoch, index).bit_generator.random_raw(8).tolist() == expected


def test_an_order_is_a_permutation_of_seed_and_epoch():
    order = epoch_order(0, 0, 50)
    assert sorted(order.tolist()) == list(range(50))
    np.testing.assert_array_equal(epoch_order(0, 0, 50), order)
    assert (epoch_order(0, 1, 50) != order).any()
    assert (epoch_order(1, 0, 50) != order).any()
    assert epoch_order(0, 0, 0).shape == (0,)


def test_the_order_has_a_stream_of_its_own():
    """A run that another version began goes on in the same order; no picture shares the stream."""
    for seed, epoch in ((0, 0), (3, 7)):
        wanted = np.argsort(stream(seed, epoch, 2**64 - 1).random(50), kind="stable")
        np.testing.assert_array_equal(epoch_order(seed, epoch, 50), wanted)


def test_every_place_is_as_likely_for_the_first_picture():
    places = [int(np.flatnonzero(epoch_order(0, epoch, 5) == 0)[0]) for epoch in range(1000)]
    assert stats.chisquare(np.bincount(places, minlength=5)).pvalue > 1e-3


def test_the_largest_seed_and_numpy_integers_serve():
    assert stream(2**64 - 1, np.int64(3), 0).random() < 1
