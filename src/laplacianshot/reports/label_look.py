"""What a label page shows of a single item when it is opened, and which classes are mixed up."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import scipy.sparse as sp

from laplacianshot.labeling.result import GIVEN, PREDICTED, REJECTED, LabelResult, dense
from laplacianshot.neighbors.knn import knn
from laplacianshot.reports.page import Block, block, trusted
from laplacianshot.reports.table import percentage
from laplacianshot.runtime.types import Floats, Ints
from laplacianshot.ui.colors import NO_CLASS, class_color
from laplacianshot.ui.names import line
from laplacianshot.ui.thumbnails import SIDE, data_of

if TYPE_CHECKING:
    from PIL.Image import Image

# Neighbors and classes of an item that are shown.
NEIGHBORS = 8
_CLASSES = 3
# Maximum number of characters of a text that is opened.
_TEXT = 3000
# Bytes that all large pictures of a page may take together, the sides they may have, and what a pixel takes about.
_LARGE_BYTES = 4_500_000
_LARGE_SIDES = (640, 480, 320, 224)
_PIXEL_BYTES = 0.08
# Classes of the table of mixed-up classes, and lines of the list of pairs.
_MIXED, _PAIRS = 12, 15


def neighbors_of(result: LabelResult, items: Ints) -> dict[int, list[int]]:
    """Return the nearest other items of some items, nearest first: by the graph, or else by the vectors."""
    if result.affinity is not None:
        W = result.affinity.tocsr()
        found = {}
        for item in items.tolist():
            first, last = W.indptr[item], W.indptr[item + 1]
            near = W.indices[first:last][np.argsort(-W.data[first:last], kind="stable")]
            found[item] = near[near != item][: 4 * NEIGHBORS]
        if result.vectors is None:
            return {item: near[:NEIGHBORS].tolist() for item, near in found.items()}
        # Edges of many graphs weigh the same: the nearest by the angle come first.
        return {
            item: near[np.argsort(_angles(result, item, near))][:NEIGHBORS].tolist() for item, near in found.items()
        }
    if result.vectors is None or len(result) < 2:
        return {}
    rows = np.asarray(result.vectors)
    rows = rows - rows.mean(axis=0)
    rows = rows / np.maximum(np.linalg.norm(rows, axis=1, keepdims=True), 1e-12)
    near = knn(rows, min(NEIGHBORS, len(result) - 1)).indices[items]
    return {item: row[row >= 0].tolist() for item, row in zip(items.tolist(), near, strict=True)}


def _angles(result: LabelResult, item: int, near: Ints) -> Floats:
    """Return one minus the cosine between an item and others, about the center of the vectors."""
    assert result.vectors is not None
    rows = np.asarray(result.vectors[np.append(near, item)], dtype=np.float64)
    if result.center is not None and result.center.shape == rows.shape[1:]:
        rows = rows - result.center
    rows /= np.maximum(np.linalg.norm(rows, axis=1, keepdims=True), 1e-12)
    angles: Floats = 1 - rows[:-1] @ rows[-1]
    return angles


def large_side(n_pictures: int) -> int:
    """Return the longer side, in pixels, of the large pictures of a page with this number of them."""
    room = _LARGE_BYTES / max(1, n_pictures)
    return next((side for side in _LARGE_SIDES if _PIXEL_BYTES * side * side <= room), _LARGE_SIDES[-1])


def look_block(
    result: LabelResult,
    listed: Sequence[int],
    near: Mapping[int, Sequence[int]],
    large: Mapping[int, Image],
    texts: Mapping[int, str] | None,
    cells: Mapping[int, int],
    positions: Ints | None,
) -> Block:
    """Return the dialog that shows one item, with the data of the listed items and of their neighbors.

    ``large`` has pictures by item, ``cells`` the place of items on the sheet of the map, and ``positions`` the item of
    each point of a map that shows only some.
    """
    shown = sorted({*listed, *(item for some in near.values() for item in some)})
    room = _LARGE_BYTES // max(1, len(large))
    data: dict[str, Any] = {
        "items": {item: _facts(result, item, texts) for item in shown},
        "near": near,
        "large": {item: data_of(picture, room) for item, picture in large.items() if max(picture.size) > SIDE},
        "cells": {item: cells[item] for item in shown if item in cells},
        **({} if positions is None else {"positions": positions.tolist()}),
    }
    inline = json.dumps(data, separators=(",", ":"), ensure_ascii=False).replace("<", "\\u003c")
    return block("look", trusted(inline))


def _facts(result: LabelResult, item: int, texts: Mapping[int, str] | None) -> dict[str, Any]:
    """Return what is said of an item: name, text, origin, and its most probable classes with their colors."""
    origin, code = result.origins[item], int(result.codes[item])
    says: list[tuple[str, str, str, str]] = []
    if origin == GIVEN:
        color = class_color(code)
        says.append((line(result.classes[code]), "given", color.light, color.dark))
    if result.classes and (origin != GIVEN or result.disputes[item] >= 0):
        probabilities = result.probabilities_of(item)
        for best in np.argsort(-probabilities, kind="stable")[:_CLASSES].tolist():
            if probabilities[best] >= 0.005:
                color = class_color(best)
                share = percentage(float(probabilities[best]))
                says.append((line(result.classes[best]), share, color.light, color.dark))
    if origin == REJECTED:
        says.insert(0, ("fits no class", "", NO_CLASS.light, NO_CLASS.dark))
    facts: dict[str, Any] = {"name": line(result.ids[item], 300), "says": says}
    if texts is not None:
        text = texts[item]
        facts["text"] = text if len(text) <= _TEXT else f"{text[:_TEXT]}…"
    return facts


def expected_confusion(result: LabelResult) -> Floats:
    """Return how many predicted items of class a are expected to be of class b, (C, C).

    It is computed from the probabilities::

        M_ab = sum over predicted items i with label a of P_ib
    """
    n_classes = len(result.classes)
    rows = np.flatnonzero((np.asarray(result.origins, dtype=object) == PREDICTED) & (result.codes >= 0))
    ones = np.ones(len(rows), dtype=np.float64)
    members = sp.csr_array((ones, (result.codes[rows], np.arange(len(rows)))), shape=(n_classes, len(rows)))
    return np.asarray(dense(members @ result.probabilities[rows]), dtype=np.float64)


def confusion_blocks(result: LabelResult) -> list[Block]:
    """Return which classes are mixed up, as a table with colors and as a list of pairs; nothing without predictions."""
    if len(result.classes) < 2:
        return []
    M = expected_confusion(result)
    total = float(M.sum())
    wrong = M - np.diag(np.diag(M))
    if not total:
        return []
    if wrong.sum() < 0.95:
        return [block("text", f"Hardly any of the {total:,.0f} predicted labels is expected to be wrong.")]
    text = (
        f"About {wrong.sum():,.0f} of the {total:,.0f} predicted labels are expected to be wrong. This is computed "
        "from their probabilities; nobody has checked it. A row has the items with this label, a column what they are "
        "expected to be."
    )
    # The classes that take part in most errors, on either side.
    mixed = np.sort(np.argsort(-(wrong.sum(axis=0) + wrong.sum(axis=1)), kind="stable")[:_MIXED])
    names = [line(result.classes[c], 40) for c in mixed]
    sums = np.maximum(M.sum(axis=1), 1e-12)
    cells = [
        [(_count(M[a, b]), round(100 * min(1.0, float(M[a, b] / sums[a]))), a == b) for b in mixed.tolist()]
        for a in mixed.tolist()
    ]
    blocks = [block("text", text), block("confusion", list(zip(names, cells, strict=True)), names)]
    if len(result.classes) > len(mixed):
        blocks.append(
            block("text", f"The {len(mixed)} classes of {len(result.classes):,} that are mixed up most.", "quiet")
        )
    order = np.argsort(-wrong, axis=None, kind="stable")[:_PAIRS]
    pairs = []
    for a, b in zip(*np.unravel_index(order, wrong.shape), strict=True):
        if wrong[a, b] >= 0.5:
            colors = class_color(int(a)), class_color(int(b))
            shares = f"about {wrong[a, b]:,.0f} of {sums[a]:,.0f}"
            pairs.append((line(result.classes[a]), colors[0], line(result.classes[b]), colors[1], shares))
    return [*blocks, block("pairs", pairs)] if pairs else blocks


def _count(value: float) -> str:
    return f"{value:,.0f}" if value >= 0.5 else ""
