from __future__ import annotations

import numpy as np
import pytest
from PIL import Image
from scipy import ndimage, stats

from laplacianshot.embedding.encoders.preparing import resized_center
from laplacianshot.embedding.pictures.views import CROP_DRAWS, Crop, moved, random_crop, resized_crop
from tests.embedding.pictures import definitions

RATIO = (3 / 4, 4 / 3)


def noise(height, width, seed=0):
    return np.random.default_rng(seed).integers(0, 256, (height, width, 3), dtype=np.uint8)


def crops(width, height, count, scale=(0.08, 1.0), ratio=RATIO):
    draws = np.random.default_rng(0).random((count, CROP_DRAWS))
    return np.array([random_crop(width, height, scale, ratio, row) for row in draws])


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
    assert random_crop(*size, (0.9, 1.0), RATIO, draws) == expected


def test_a_picture_within_the_ratios_falls_back_to_the_whole():
    assert random_crop(12, 10, (2.0, 2.0), RATIO, np.zeros(CROP_DRAWS)) == Crop(0, 0, 12, 10)


def test_a_single_pixel_can_be_cropped():
    assert random_crop(1, 1, (0.08, 1.0), RATIO, np.random.default_rng(0).random(CROP_DRAWS)) == Crop(0, 0, 1, 1)


@pytest.mark.parametrize("crop", [Crop(3, 5, 30, 41), Crop(0, 0, 60, 50), Crop(40, 20, 7, 9), Crop(59, 49, 1, 1)])
@pytest.mark.parametrize("size", [8, 21, 84])
def test_a_crop_is_resized_by_the_antialiased_triangle_filter(crop, size):
    pixels = noise(50, 60)
    found = np.asarray(resized_crop(Image.fromarray(pixels), crop, size)).astype(float)
    inside = pixels[crop.top : crop.top + crop.height, crop.left : crop.left + crop.width]
    # Pillow rounds after each of two passes.
    assert np.abs(found - definitions.resize(inside, size, size)).max() <= 1.01


@pytest.mark.parametrize("size", [(84, 84), (500, 375), (100, 333), (96, 97), (32, 32), (1, 5)])
@pytest.mark.parametrize(("shorter", "crop"), [(96, 84), (28, 28)])
def test_the_middle_of_a_picture_resized_at_its_shorter_side(size, shorter, crop):
    width, height = size
    pixels = noise(height, width)
    found = np.asarray(resized_center(Image.fromarray(pixels), shorter, crop, "bilinear")).astype(float)
    new_height, new_width = int(shorter * height / min(size)), int(shorter * width / min(size))
    whole = definitions.resize(pixels, new_height, new_width)
    top, left = round((new_height - crop) / 2), round((new_width - crop) / 2)
    assert np.abs(found - whole[top : top + crop, left : left + crop]).max() <= 1.01


def test_a_shift_by_whole_pixels_moves_the_pixels_and_lets_black_in():
    pixels = noise(10, 20)
    found = np.asarray(moved(Image.fromarray(pixels), 0, 1, 3 / 20, -2 / 10))
    expected = np.zeros_like(pixels)
    expected[:-2, 3:] = pixels[2:, :-3]
    np.testing.assert_array_equal(found, expected)


def test_a_quarter_turn_turns_the_pixels():
    pixels = noise(9, 9)
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
