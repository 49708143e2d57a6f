"""Colors of classes, measured: told apart, seen on the paper, and steady."""

from __future__ import annotations

from itertools import combinations, pairwise

import numpy as np
import pytest

from laplacianshot.ui.colors import class_color, oklch_hex

THEMES = [("light", "#ffffff"), ("dark", "#14181d")]
# What is left of red, green and blue without red or without green receptors (Viénot, Brettel and Mollon, 1999).
LMS = np.array([[17.8824, 43.5161, 4.11935], [3.45565, 27.1554, 3.86714], [0.0299566, 0.184309, 1.46709]])
BLIND = {
    "full": np.eye(3),
    "no red": np.array([[0, 2.02344, -2.52581], [0, 1, 0], [0, 0, 1]]),
    "no green": np.array([[1, 0, 0], [0.494207, 0, 1.24827], [0, 0, 1]]),
}


def linear(text):
    channels = np.array([int(text[i : i + 2], 16) for i in (1, 3, 5)]) / 255
    return np.where(channels <= 0.04045, channels / 12.92, ((channels + 0.055) / 1.055) ** 2.4)


def seen(rgb, eyes):
    return np.clip(np.linalg.solve(LMS, BLIND[eyes] @ LMS @ rgb), 0, 1)


def oklab(rgb):
    to_cone = np.array(
        [
            [0.4122214708, 0.5363325363, 0.0514459929],
            [0.2119034982, 0.6806995451, 0.1073969566],
            [0.0883024619, 0.2817188376, 0.6299787005],
        ]
    )
    to_lab = np.array(
        [
            [0.2104542553, 0.7936177850, -0.0040720468],
            [1.9779984951, -2.4285922050, 0.4505937099],
            [0.0259040371, 0.7827717662, -0.8086757660],
        ]
    )
    return to_lab @ np.cbrt(to_cone @ rgb)


def contrast(one, other):
    light = [float(np.array([0.2126, 0.7152, 0.0722]) @ linear(color)) + 0.05 for color in (one, other)]
    return max(light) / min(light)


@pytest.mark.parametrize(("lightness", "chroma", "hue"), [(0.6, 0.1, 30), (0.5, 0.05, 200), (0.8, 0.1, 100)])
def test_a_color_has_the_lightness_chroma_and_hue_it_was_asked_for(lightness, chroma, hue):
    found, a, b = oklab(linear(oklch_hex(lightness, chroma, hue)))
    assert abs(found - lightness) < 0.005
    assert abs(np.hypot(a, b) - chroma) < 0.005
    assert abs((np.degrees(np.arctan2(b, a)) - hue + 180) % 360 - 180) < 4


@pytest.mark.parametrize(("theme", "paper"), THEMES)
@pytest.mark.parametrize(("eyes", "least"), [("full", 0.1), ("no red", 0.05), ("no green", 0.05)])
def test_the_first_twelve_are_told_apart_also_without_red_or_green(theme, paper, eyes, least):
    labs = [oklab(seen(linear(getattr(class_color(code), theme)), eyes)) for code in range(12)]
    assert min(np.linalg.norm(a - b) for a, b in combinations(labs, 2)) > least


@pytest.mark.parametrize(("theme", "paper"), THEMES)
def test_every_color_stands_out_from_the_paper(theme, paper):
    assert min(contrast(getattr(class_color(code), theme), paper) for code in range(-1, 300)) > 1.7


def test_one_class_after_the_other_looks_different():
    labs = [oklab(linear(class_color(code).light)) for code in range(200)]
    assert min(np.linalg.norm(a - b) for a, b in pairwise(labs)) > 0.1


def test_no_class_is_gray():
    lab = oklab(linear(class_color(-1).light))
    assert np.hypot(*lab[1:]) < 0.03
    assert all(np.hypot(*oklab(linear(class_color(code).light))[1:]) > 0.06 for code in range(300))


def test_what_no_screen_can_show_is_made_paler():
    assert oklch_hex(0.9, 0.4, 260) == oklch_hex(0.9, 0.045, 260)
