"""What all figures share: colors, bare axes, and SVG in the colors of the page."""

from __future__ import annotations

import io
import re
from collections.abc import Mapping
from html import escape
from pathlib import Path
from typing import TYPE_CHECKING

from laplacianshot.runtime.files import put_file

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

# Formats of a picture, by the ending of its file.
FORMATS = (".png", ".svg", ".pdf")

# Okabe and Ito's palette, which every kind of color vision can distinguish. Our recipes are blue and green.
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


def save_figure(figure: Figure, path: Path) -> None:
    """Write a figure atomically; the ending of the path, one of :data:`FORMATS`, is the format."""
    put_file(path, lambda file: figure.savefig(file, format=path.suffix[1:].lower(), dpi=130))


# Colors of the figures and the page's variables that take their place, in light and in dark.
_VARIABLES: Mapping[str, str] = {
    INK: "--ink",
    QUIET: "--quiet",
    FAINT: "--line",
    BLUE: "--blue",
    SKY: "--sky",
    GREEN: "--green",
    ORANGE: "--orange",
    VERMILION: "--vermilion",
}

# Inches of a figure: small enough to be read on a telephone, several beside one another on a screen.
_WIDTH = 5.2


def new_axes(height: float, x: str, y: str = "", *, grid: str = "y") -> tuple[Figure, Axes]:
    """A figure of the usual width, its height in inches, with bare axes that are named x and y."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(_WIDTH, height), layout="constrained")
    axes = figure.add_subplot()
    bare(axes, grid=grid)
    axes.set_xlabel(x, fontsize=9.5, color=QUIET, loc="right")
    axes.set_ylabel(y, fontsize=9.5, color=QUIET)
    return figure, axes


def svg_text(figure: Figure) -> str:
    """A file of its own: the same bytes for the same figure."""
    import matplotlib as mpl

    buffer = io.StringIO()
    nothing = dict.fromkeys(("Creator", "Date", "Format", "Type"))
    with mpl.rc_context({"svg.fonttype": "none", "svg.hashsalt": "laplacianshot"}):
        figure.savefig(buffer, format="svg", metadata=nothing, transparent=True)
    return buffer.getvalue()


def inline_svg(text: str, name: str, label: str) -> str:
    """The figure of :func:`svg_text`, drawn once for file and page, as an element of a page.

    The name is put before every id, so that several figures can stand on one page; the label says what is to be seen.
    """
    text = text[text.index("<svg") :]
    text = re.sub(r"<metadata>.*?</metadata>", "", text, flags=re.DOTALL)
    width, height = re.findall(r'viewBox="0 0 ([\d.]+) ([\d.]+)"', text)[0]
    opening = f'<svg viewBox="0 0 {width} {height}" role="img" aria-label="{escape(label)}">'
    text = re.sub(r"<svg[^>]*>", lambda _: opening, text, count=1)
    text = re.sub(r'\bid="', f'id="{name}-', text)
    text = re.sub(r"url\(#", f"url(#{name}-", text)
    text = re.sub(r'xlink:href="#', f'href="#{name}-', text)
    for color, variable in _VARIABLES.items():
        text = re.sub(color, f"var({variable})", text, flags=re.IGNORECASE)
    return text.strip()
