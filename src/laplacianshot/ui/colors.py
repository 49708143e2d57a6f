"""Colors of classes, distinct on light and on dark pages; the color of a class depends on its number alone.

Colors are chosen in OKLCH (lightness L, chroma, hue in degrees; Ottosson, 2020), where equal steps look equal. The
first twelve come from a search that maximized the smallest distance between any two, on both pages, for full color
vision and for eyes that lack red or green: they differ in lightness as well as in hue. After them hues advance by the
golden angle, which avoids recent hues, and lightness goes through three levels. Gray means no label.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

# Lightness, chroma and hue on a light page.
_FIRST = (
    (0.55, 0.180, 266.0),  # blue
    (0.60, 0.146, 56.0),  # orange
    (0.72, 0.153, 164.0),  # green
    (0.48, 0.191, 9.0),  # red
    (0.40, 0.152, 311.0),  # purple
    (0.78, 0.106, 239.0),  # sky
    (0.68, 0.156, 339.0),  # pink
    (0.38, 0.084, 67.0),  # brown
    (0.78, 0.160, 101.0),  # yellow
    (0.48, 0.081, 199.0),  # teal
    (0.56, 0.142, 143.0),  # leaf
    (0.54, 0.230, 325.0),  # magenta
)
_GOLDEN_ANGLE = 180 * (3 - math.sqrt(5))
_LEVELS = (0.60, 0.48, 0.72)
_CHROMA = 0.14


@dataclass(frozen=True)
class ClassColor:
    """A color for a light page and one for a dark page, each ``#rrggbb``."""

    light: str
    dark: str


# Color of items without a label.
NO_CLASS = ClassColor("#9aa3ad", "#6d7885")


def class_color(code: int) -> ClassColor:
    """Return the color of class number ``code``; -1 is gray.

    Examples
    --------
    >>> class_color(0)
    ClassColor(light='#3f67d9', dark='#6993fc')
    """
    if code < 0:
        return NO_CLASS
    if code < len(_FIRST):
        lightness, chroma, hue = _FIRST[code]
    else:
        lightness, chroma, hue = _LEVELS[code % len(_LEVELS)], _CHROMA, code * _GOLDEN_ANGLE % 360
    # On a dark page all are lighter, and closer to one another.
    return ClassColor(oklch_hex(lightness, chroma, hue), oklch_hex(0.33 + 0.64 * lightness, 0.9 * chroma, hue))


def oklch_hex(lightness: float, chroma: float, hue: float) -> str:
    """Return a color of OKLCH as ``#rrggbb``; chroma is lowered until a screen can show it.

    Examples
    --------
    >>> oklch_hex(1, 0, 0), oklch_hex(0, 0, 0)
    ('#ffffff', '#000000')
    """
    while True:
        channels = _linear_rgb(lightness, chroma * math.cos(math.radians(hue)), chroma * math.sin(math.radians(hue)))
        if chroma <= 0 or all(-1e-4 <= channel <= 1 + 1e-4 for channel in channels):
            return "#" + "".join(f"{round(255 * _gamma(channel)):02x}" for channel in channels)
        chroma = max(0.0, chroma - 0.005)


def _linear_rgb(lightness: float, a: float, b: float) -> tuple[float, float, float]:
    long = (lightness + 0.3963377774 * a + 0.2158037573 * b) ** 3
    middle = (lightness - 0.1055613458 * a - 0.0638541728 * b) ** 3
    short = (lightness - 0.0894841775 * a - 1.2914855480 * b) ** 3
    return (
        4.0767416621 * long - 3.3077115913 * middle + 0.2309699292 * short,
        -1.2684380046 * long + 2.6097574011 * middle - 0.3413193965 * short,
        -0.0041960863 * long - 0.7034186147 * middle + 1.7076147010 * short,
    )


def _gamma(channel: float) -> float:
    channel = min(1.0, max(0.0, channel))
    return 12.92 * channel if channel <= 0.0031308 else 1.055 * channel ** (1 / 2.4) - 0.055
