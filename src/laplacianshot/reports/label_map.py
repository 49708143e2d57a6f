"""The map of a label report: positions, classes and names of all items, as data for the script that draws it."""

from __future__ import annotations

import base64
import json
import re
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from typing import Any, ClassVar

import numpy as np
from numpy.typing import DTypeLike

from laplacianshot.inference.transforms import base_mean, transform_features
from laplacianshot.labeling.result import GIVEN, PREDICTED, REJECTED, LabelResult
from laplacianshot.reports.label_items import ClassItems
from laplacianshot.reports.page import asset, trusted
from laplacianshot.runtime.types import Floats
from laplacianshot.ui.colors import NO_CLASS, ClassColor, class_color
from laplacianshot.ui.map import map_2d
from laplacianshot.ui.names import in_order, line, passage
from laplacianshot.ui.thumbnails import Sheet

# Maximum number of characters of all item names together, and of all class names.
_NAMES = 2_000_000
_CLASS_NAMES = 500_000
# Maximum number of class buttons, and of entries in the list of classes.
_BUTTONS = 24
_CHOICES = 2_000

_ORIGINS = {PREDICTED: 0, GIVEN: 1, REJECTED: 2}

_HELP = (
    "Point at an item to see it. Zoom with Ctrl and the mouse wheel, two fingers, or the buttons; drag to move. "
    "Keyboard: arrow keys go from item to item, + and - zoom, 0 shows all, Escape deselects."
)


def places_of(result: LabelResult) -> Floats | None:
    """Return the position of each item on the map, (n, 2); None without vectors."""
    if result.vectors is None or len(result) == 0:
        return None
    X = np.asarray(result.vectors)
    graph = result.affinity
    if graph is not None:
        return map_2d(X, graph)
    center = base_mean(X) if result.center is None else result.center
    return map_2d(transform_features(X, "cl2", center))


def map_data(result: LabelResult, places: Floats, texts: Sequence[str] | None, sheet: Sheet | None) -> dict[str, Any]:
    """Return what the script draws, as JSON values.

    Parameters
    ----------
    result : LabelResult
    places : array of shape (n, 2)
        In [-1, 1]^2.
    texts : sequence of n str, optional
        The texts of the items; default: their ids.
    sheet : Sheet, optional
        Pictures of some of the items.
    """
    n, n_classes = len(result), len(result.classes)
    colors = [class_color(code) for code in range(n_classes)]
    length = max(8, min(160, _NAMES // max(1, n)))
    width = max(8, min(60, _CLASS_NAMES // max(1, n_classes)))
    grid = np.round(32767.5 * (np.clip(places, -1, 1) + 1))
    data: dict[str, Any] = {
        "places": _bytes(grid, "<u2"),
        "codes": _bytes(result.codes, "<i4"),
        "confidence": _bytes(_steps(np.nan_to_num(result.confidence)), "u1"),
        "origins": _bytes([_ORIGINS.get(origin, 3) for origin in result.origins], "u1"),
        "disputes": [[int(item), int(result.disputes[item])] for item in np.flatnonzero(result.disputes >= 0)[:5000]],
        "suggested": result.suggested[:5000].tolist(),
        "classes": [line(name, width) for name in result.classes],
        "light": [color.light for color in colors] + [NO_CLASS.light],
        "dark": [color.dark for color in colors] + [NO_CLASS.dark],
        "texts": [line(name, length) for name in result.ids]
        if texts is None
        else [passage(text, length) for text in texts],
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


@dataclass(frozen=True)
class ClassChoice:
    """A class that can be shown alone."""

    code: int
    name: str
    color: ClassColor


@dataclass(frozen=True)
class Map:
    """The map, its legend and its data; the script finds them by their ids."""

    data: Any
    n_items: str
    buttons: tuple[ClassChoice, ...]
    choices: tuple[ClassChoice, ...]
    n_more: str
    no_label: ClassColor | None
    has_given: bool
    has_suggested: bool
    has_disputed: bool
    help: str = _HELP

    kind: ClassVar[str] = "map"


def map_block(result: LabelResult, data: dict[str, Any], classes: Sequence[ClassItems]) -> Map:
    """Return the map of a page. A list of classes is added where there are more than fit on buttons."""
    # Without "<" no name can end the script element.
    inline = json.dumps(data, separators=(",", ":"), ensure_ascii=False).replace("<", "\\u003c")
    many = len(classes) > _BUTTONS
    return Map(
        data=trusted(inline),
        n_items=f"{len(result):,}",
        buttons=_choices(result, classes[:_BUTTONS], 40),
        choices=_choices(result, classes[:_CHOICES], 60) if many else (),
        n_more=f"{len(classes) - _BUTTONS:,}" if many else "",
        no_label=NO_CLASS if np.any(result.codes < 0) else None,
        has_given=GIVEN in result.origins,
        has_suggested=len(result.suggested) > 0,
        has_disputed=bool(np.any(result.disputes >= 0)),
    )


@cache
def map_script() -> str:
    """Return the script that draws the map: the shared module and the report's own, as one module."""
    shared = files("laplacianshot.ui").joinpath("page", "js", "plane.js").read_text(encoding="utf-8")
    own = re.sub(r"^import .*?;\n", "", asset("map.js"), flags=re.MULTILINE | re.DOTALL)
    return re.sub(r"^export ", "", shared, flags=re.MULTILINE) + own


def _choices(result: LabelResult, classes: Sequence[ClassItems], width: int) -> tuple[ClassChoice, ...]:
    """Classes in the order of their names."""
    codes = sorted((shown.code for shown in classes), key=lambda code: in_order(result.classes[code]))
    return tuple(ClassChoice(code, line(result.classes[code], width), class_color(code)) for code in codes)


def _steps(shares: Floats) -> Floats:
    """Round shares to 200 steps; only 1 becomes 200, and only 0 becomes 0."""
    steps: Floats = np.clip(np.round(200 * shares), 1.0 * (shares > 0), 200.0 - (shares < 1))
    return steps


def _bytes(values: Any, dtype: DTypeLike) -> str:
    return base64.b64encode(np.asarray(values).astype(dtype).tobytes()).decode("ascii")
