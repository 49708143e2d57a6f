"""What all figures share: colors and bare axes."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

import numpy as np
from sklearn.isotonic import isotonic_regression

if TYPE_CHECKING:
    from matplotlib.axes import Axes

# Okabe and Ito's palette: told apart by every kind of color vision. Our recipes are blue and green.
INK = "#1F2933"
QUIET = "#7B8794"
FAINT = "#E4E7EB"
BLUE = "#0072B2"
SKY = "#56B4E9"
GREEN = "#009E73"
ORANGE = "#E69F00"
VERMILION = "#D55E00"
RECIPES: Mapping[str, str] = {"default": BLUE, "paper": SKY, "reference": GREEN}
# What each recipe minimizes.
OBJECTIVES: Mapping[str, str] = {"default": "F", "paper": "R", "reference": "E"}


def bare(axes: Axes, *, grid: str = "y") -> None:
    """Leave of the frame only the bottom line, and faint lines across ``grid``."""
    for edge in ("top", "right", "left"):
        axes.spines[edge].set_visible(False)
    axes.spines["bottom"].set_color(QUIET)
    axes.grid(axis=grid, color=FAINT, lw=0.8)  # type: ignore[arg-type]
    axes.set_axisbelow(True)
    axes.tick_params(colors=QUIET, labelsize=9.5, length=0, pad=5)


def spread_out(heights: Mapping[str, float], gap: float, top: float) -> dict[str, float]:
    """Heights for labels: near the given ones, at least ``gap`` apart, in the same order, none above ``top``."""
    names = sorted(heights, key=lambda name: -heights[name])
    steps = gap * np.arange(len(names))
    # At least gap apart, from the top down, is non-increasing once the steps are added.
    wanted = np.array([heights[name] for name in names]) + steps
    placed = isotonic_regression(wanted, increasing=False, y_max=top) - steps
    return dict(zip(names, placed.tolist(), strict=True))
