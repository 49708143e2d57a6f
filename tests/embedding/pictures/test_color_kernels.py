from __future__ import annotations

from itertools import permutations

import numpy as np
import pytest

from laplacianshot.embedding.pictures._color_kernels import BRIGHTNESS, CONTRAST, SATURATION, to_floats
from tests.embedding.pictures import definitions


def noise(*shape, seed=0):
    return np.random.default_rng(seed).integers(0, 256, shape, dtype=np.uint8)


def floats(pictures, steps=(), factors=(), flips=None, mean=None, std=None):
    """``to_floats`` with the same steps for all pictures, as (B, H, W, C)."""
    count, height, width, channels = pictures.shape
    out = np.empty((count, height * width, channels), dtype=np.float32)
    to_floats(
        pictures,
        np.zeros(count, dtype=bool) if flips is None else np.array(flips),
        np.tile(np.array(steps, dtype=np.int64), (count, 1)),
        np.tile(np.array(factors, dtype=np.float32), (count, 1)),
        np.array(mean or [0] * channels, dtype=np.float32),
        np.array(std or [1] * channels, dtype=np.float32),
        out,
    )
    return out.reshape(pictures.shape)


@pytest.mark.parametrize("channels", [1, 3])
def test_without_jitter_bytes_are_normalized(channels):
    pictures = noise(2, 5, 7, channels)
    mean, std = [0.4, 0.5, 0.6][:channels], [0.2, 0.25, 0.3][:channels]
    expected = (pictures / 255 - mean) / std
    np.testing.assert_allclose(floats(pictures, mean=mean, std=std), expected, atol=1e-5)


@pytest.mark.parametrize("channels", [1, 3])
def test_flipped_pictures_are_mirrored_left_to_right(channels):
    pictures = noise(2, 5, 7, channels)
    found = floats(pictures, flips=[False, True])
    np.testing.assert_allclose(found[0], pictures[0] / 255, atol=1e-6)
    np.testing.assert_allclose(found[1], pictures[1][:, ::-1] / 255, atol=1e-6)


@pytest.mark.parametrize("steps", list(permutations((BRIGHTNESS, CONTRAST, SATURATION))))
@pytest.mark.parametrize("channels", [1, 3])
def test_steps_are_taken_in_their_order_by_their_definition(steps, channels):
    pictures = noise(1, 9, 11, channels)
    for factors in ((1.4, 0.6, 1.3), (0.7, 1.4, 1.4), (1.0, 1.0, 1.0), (0.0, 2.0, 0.5)):
        expected = pictures[0] / 255
        for step, factor in zip(steps, factors, strict=True):
            expected = definitions.STEPS[step](expected, factor)
        np.testing.assert_allclose(floats(pictures, steps, factors)[0], expected, atol=2e-6)


def test_brightness_scales_and_is_held_at_white():
    gray = np.array([0, 51, 204], dtype=np.uint8).reshape(1, 1, 3, 1)
    np.testing.assert_allclose(floats(gray, [BRIGHTNESS], [1.4]).ravel(), [0, 0.28, 1], atol=1e-6)


def test_contrast_keeps_the_mean_gray_and_scales_what_differs_from_it():
    picture = noise(1, 6, 6, 3) // 4 + 96
    before, after = picture[0] / 255, floats(picture, [CONTRAST], [0.6])[0]
    mean = definitions.gray(before).mean()
    np.testing.assert_allclose(after - mean, 0.6 * (before - mean), atol=1e-6)
    assert definitions.gray(after).mean() == pytest.approx(mean, abs=1e-4)


def test_contrast_leaves_a_constant_gray_picture_alone():
    constant = np.full((1, 4, 4, 3), 90, dtype=np.uint8)
    # The shares of the colors sum to 0.9999.
    np.testing.assert_allclose(floats(constant, [CONTRAST], [1.4]), 90 / 255, atol=1e-4)


def test_saturation_keeps_the_gray_of_every_pixel_and_scales_its_color():
    picture = noise(1, 6, 6, 3) // 4 + 96
    before, after = picture[0] / 255, floats(picture, [SATURATION], [1.4])[0]
    gray = definitions.gray(before)
    np.testing.assert_allclose(after - gray, 1.4 * (before - gray), atol=1e-6)
    np.testing.assert_allclose(definitions.gray(after), gray, atol=1e-4)


def test_no_saturation_is_a_gray_picture():
    after = floats(noise(1, 6, 6, 3), [SATURATION], [0.0])[0]
    np.testing.assert_allclose(after, np.repeat(after[..., :1], 3, axis=-1), atol=1e-7)


def test_a_picture_does_not_feel_the_others_of_its_batch():
    pictures = noise(3, 8, 8, 3)
    steps, factors = [CONTRAST, SATURATION, BRIGHTNESS], [1.2, 0.8, 1.1]
    together = floats(pictures, steps, factors)
    for b in range(3):
        np.testing.assert_array_equal(floats(pictures[b : b + 1], steps, factors)[0], together[b])
