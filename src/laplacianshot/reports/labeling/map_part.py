"""The map on the page: places, classes and names of all items as data for the script that draws them."""

from __future__ import annotations

import base64
import json
from collections.abc import Sequence
from functools import cache
from html import escape
from importlib.resources import files
from typing import Any

import numpy as np
from numpy.typing import DTypeLike

from laplacianshot.inference.transforms import base_mean, transform_features
from laplacianshot.labeling.result import GIVEN, PREDICTED, REJECTED, LabelResult
from laplacianshot.reports.labeling.choice import ClassItems
from laplacianshot.runtime.types import Floats
from laplacianshot.ui.colors import NO_CLASS, class_color
from laplacianshot.ui.map import map_2d
from laplacianshot.ui.names import in_order, isolated, line, passage
from laplacianshot.ui.thumbnails import Sheet

# Characters that the names of all items, and those of all classes, may have together.
_NAMES = 2_000_000
_CLASS_NAMES = 500_000
# Buttons below the map, and entries of the list beside them.
_BUTTONS = 24
_CHOICES = 2_000

_ORIGINS = {PREDICTED: 0, GIVEN: 1, REJECTED: 2}

_HELP = (
    "Point at an item to see it. Ctrl and the wheel, a pinch or the buttons zoom; dragging moves. With the keyboard: "
    "arrow keys go from item to item, + and - zoom, 0 shows all, Escape lets go."
)


def places_of(result: LabelResult) -> Floats | None:
    """Where each item is on the map, (n, 2); None where there are no vectors."""
    if result.vectors is None or len(result) == 0:
        return None
    X = np.asarray(result.vectors)
    graph = result.affinity
    if graph is not None:
        return map_2d(X, graph)
    center = base_mean(X) if result.center is None else result.center
    return map_2d(transform_features(X, "cl2", center))


def map_data(result: LabelResult, places: Floats, texts: Sequence[str] | None, sheet: Sheet | None) -> dict[str, Any]:
    """What the script draws, as JSON values.

    Parameters
    ----------
    result : LabelResult
    places : array of shape (n, 2)
        In [-1, 1]^2.
    texts : sequence of n str, optional
        Beginnings of the texts that the items are; else they are called by their ids.
    sheet : Sheet, optional
        Pictures of some of the items.
    """
    n, n_classes = len(result), len(result.classes)
    colors = [class_color(code) for code in range(n_classes)]
    most = max(8, min(160, _NAMES // max(1, n)))
    width = max(8, min(60, _CLASS_NAMES // max(1, n_classes)))
    grid = np.round(32767.5 * (np.clip(places, -1, 1) + 1))
    data: dict[str, Any] = {
        "places": _bytes(grid, "<u2"),
        "codes": _bytes(result.codes, "<i4"),
        "sure": _bytes(_steps(np.nan_to_num(result.confidence)), "u1"),
        "origins": _bytes([_ORIGINS.get(origin, 3) for origin in result.origins], "u1"),
        "disputes": [[int(item), int(result.disputes[item])] for item in np.flatnonzero(result.disputes >= 0)[:5000]],
        "suggested": result.suggested[:5000].tolist(),
        "classes": [line(name, width) for name in result.classes],
        "light": [color.light for color in colors] + [NO_CLASS.light],
        "dark": [color.dark for color in colors] + [NO_CLASS.dark],
        "texts": [line(name, most) for name in result.ids]
        if texts is None
        else [passage(text, most) for text in texts],
    }
    if sheet is not None:
        data["sheet"] = {
            "src": sheet.src,
            "columns": sheet.columns,
            "cell": sheet.cell,
            "items": list(sheet.items),
            "sizes": [side for size in sheet.sizes for side in size],
        }
    return data


def map_html(result: LabelResult, data: dict[str, Any], classes: Sequence[ClassItems]) -> str:
    """The map, its legend and its data; the script finds them by their names."""
    # "<" cannot end the element, whatever the names are.
    inline = json.dumps(data, separators=(",", ":"), ensure_ascii=False).replace("<", "\\u003c")
    label = f"Map of {len(result):,} items, colored by label. {_HELP}"
    modes = "".join(
        f'<label><input type="radio" name="map-color" value="{value}"{checked}> {text}</label>'
        for value, text, checked in (("label", "label", " checked"), ("sure", "how sure", ""))
    )
    color_by = f'<span role="group" aria-label="Color by">Color by {modes}</span>' if result.classes else ""
    tools = "".join(
        f'<button type="button" id="map-{name}" aria-label="{text}" title="{text}">{sign}</button>'
        for name, text, sign in (("in", "Zoom in", "+"), ("out", "Zoom out", "−"), ("all", "Show all", "⤢"))
    )
    return (
        f'<div class="map" id="map-view">\n<div class="map-bar">{color_by}{_class_list(result, classes)}'
        f'<span class="map-tools">{tools}</span></div>\n'
        f'<div class="map-frame"><canvas id="map-canvas" tabindex="0" role="img" aria-label="{escape(label)}"></canvas>'
        '<div id="map-tip" class="map-tip" hidden><canvas></canvas><div><p class="map-text"></p><p class="map-label">'
        "</p></div></div></div>\n"
        f'<p id="map-said" class="unseen" aria-live="polite"></p>\n{_legend(result, classes)}\n'
        f'<p class="quiet">{escape(_HELP)}</p>\n<noscript><p class="warning">The map is drawn by a script, '
        "and scripts are switched off.</p></noscript>\n"
        f'<script type="application/json" id="map-data">{inline}</script>\n</div>'
    )


@cache
def map_script() -> str:
    """The script that draws the map."""
    return files("laplacianshot.reports.labeling").joinpath("map.js").read_text(encoding="utf-8")


def dot(code: int) -> str:
    """The color of a class as a dot."""
    color = class_color(code)
    return f'<i class="dot" style="--l:{color.light};--d:{color.dark}"></i>'


def _legend(result: LabelResult, classes: Sequence[ClassItems]) -> str:
    # The largest, in the order of their names.
    codes = sorted((shown.code for shown in classes[:_BUTTONS]), key=lambda code: in_order(result.classes[code]))
    buttons = [
        f'<button type="button" data-class="{code}" aria-pressed="false">{dot(code)}'
        f"{isolated(line(result.classes[code], 40))}</button>"
        for code in codes
    ]
    if len(classes) > _BUTTONS:
        buttons.append(f'<span class="quiet">and {len(classes) - _BUTTONS:,} more, in the list above</span>')
    if np.any(result.codes < 0):
        buttons.append(f'<button type="button" data-class="-1" aria-pressed="false">{dot(-1)}no label</button>')
    marks = ['<span class="key"><i class="ring"></i>given</span>'] if GIVEN in result.origins else []
    if len(result.suggested):
        marks.append('<span class="key"><i class="wanted"></i>to label next</span>')
    if np.any(result.disputes >= 0):
        marks.append('<span class="key"><i class="cross">×</i>disputed</span>')
    keys = "".join(buttons + marks)
    return f'<div class="legend" role="group" aria-label="Classes: press one to see it alone">{keys}</div>'


def _class_list(result: LabelResult, classes: Sequence[ClassItems]) -> str:
    if len(classes) <= _BUTTONS:
        return ""
    codes = sorted((shown.code for shown in classes[:_CHOICES]), key=lambda code: in_order(result.classes[code]))
    names = ((code, line(result.classes[code], 60)) for code in codes)
    entries = "".join(f'<option value="{code}">{escape(name)}</option>' for code, name in names)
    return f'<label>Show <select id="map-class"><option value="">all classes</option>{entries}</select></label>'


def _steps(shares: Floats) -> Floats:
    """Shares in 200 steps; only what is 1 has all of them, and only what is 0 none."""
    steps: Floats = np.clip(np.round(200 * shares), 1.0 * (shares > 0), 200.0 - (shares < 1))
    return steps


def _bytes(values: Any, dtype: DTypeLike) -> str:
    return base64.b64encode(np.asarray(values).astype(dtype).tobytes()).decode("ascii")
