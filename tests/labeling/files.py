"""Files and results made up for the tests of sources and outputs."""

from __future__ import annotations

import csv
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.parquet as pq
from PIL import Image

from laplacianshot.labeling.result import GIVEN, PREDICTED, REJECTED, LabelResult

# Names that shells, spreadsheets and web pages stumble over.
ODD_NAMES = (
    "with space.png",
    "quote\"and'apostrophe.png",
    "new\nline.png",
    "carriage\rreturn.png",
    "comma,semicolon;.png",
    "emoji 🐦‍⬛.png",
    "عربى.png",
    "#hash%20percent?.png",
    "-rf.png",
    "back\\slash.png",
    "UPPER.PNG",
)


def picture(path: Path, seed: int = 0) -> Path:
    """Write a small random picture; gives its path."""
    path.parent.mkdir(parents=True, exist_ok=True)
    pixels = np.random.default_rng(seed).integers(0, 256, (5, 6, 3), dtype=np.uint8)
    Image.fromarray(pixels).save(path)
    return path


def pictures(folder: Path, *names: str) -> Path:
    """Write pictures, all different, of these names; gives the folder."""
    for seed, name in enumerate(names):
        picture(folder / name, seed)
    return folder


def written(path: Path, content: str, encoding: str = "utf-8") -> Path:
    """Write a text as it stands; gives its path."""
    path.write_bytes(content.encode(encoding))
    return path


def read_output(path: Path) -> list[dict[str, Any]]:
    """Read the rows of an output: .csv, .jsonl or .parquet."""
    match path.suffix:
        case ".csv":
            with path.open(newline="", encoding="utf-8") as file:
                return list(csv.DictReader(file))
        case ".jsonl":
            return [json.loads(line) for line in path.read_bytes().splitlines()]
        case _:
            rows: list[dict[str, Any]] = pq.read_table(path).to_pylist()
            return rows


def result_of(ids: Sequence[str], labels: Sequence[str], **changes: Any) -> LabelResult:
    """A result with these labels, the first of each class given, others predicted, ``""`` rejected."""
    classes = tuple(sorted(set(labels) - {""}))
    codes = np.array([classes.index(label) if label else -1 for label in labels], dtype=np.int64)
    first = {label: i for i, label in reversed(list(enumerate(labels)))}
    origins = [REJECTED if not label else GIVEN if first[label] == i else PREDICTED for i, label in enumerate(labels)]
    n = len(labels)
    confidence = np.array([1.0 if origin == GIVEN else 0.25 + 0.5 * i / n for i, origin in enumerate(origins)])
    columns: dict[str, Any] = {
        "ids": tuple(ids),
        "classes": classes,
        "codes": codes,
        "origins": tuple(origins),
        "probabilities": np.full((n, len(classes)), 1 / max(1, len(classes)), dtype=np.float32),
        "confidence": confidence,
        "suggestions": np.zeros(n, dtype=np.int64),
        "disputes": np.full(n, -1),
        "novelty": np.zeros(n),
    }
    return LabelResult(**(columns | changes))
